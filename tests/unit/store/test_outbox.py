"""The outbox of a leaf keeps batches until the root has them, and tells a restarted leaf how to go on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from telemetry.errors import RunDirectoryError
from telemetry.limits import KIB
from telemetry.store.outbox import DiskOutbox, StoredBatch
from telemetry.testing import builders
from telemetry.wire.events import Mark


def batches(seq: int, roll: int, count: int = 1, size: int = 10, dropped: int = 0) -> list[StoredBatch]:
    """Batches of one mark each: the number of an event is that of its batch."""
    lost = {"buffer_full": dropped} if dropped else {}
    return [
        StoredBatch(
            number,
            roll,
            number,
            1,
            builders.frame("leaf", number, number, records=[Mark("m" * size)], dropped=lost),
        )
        for number in range(seq, seq + count)
    ]


def filled(directory: Path, rolls: int, *, size: int = 10, cap_bytes: int = 256 * KIB) -> DiskOutbox:
    """An outbox with one batch for each interval, all of which may be sent."""
    outbox = DiskOutbox(directory, cap_bytes)
    for roll in range(rolls):
        outbox.append(batches(roll, roll, size=size), {})
    outbox.released = outbox.next_seq
    return outbox


def read_all(outbox: DiskOutbox, seq: int = 0) -> list[int]:
    """Numbers of the batches that may be sent, from `seq` on."""
    found = []
    while (stored := outbox.read(seq)) is not None:
        found.append(stored.seq)
        seq = stored.seq + 1
    return found


def test_batches_come_back_as_they_were(tmp_path: Path) -> None:
    """Number, interval, events and bytes, in order; only those that were released."""
    outbox = DiskOutbox(tmp_path)
    made = [*batches(0, 0, 3), *batches(3, 1)]
    outbox.append(made[:3], {})
    outbox.append(made[3:], {})
    assert outbox.read(0) is None, "nothing was released"
    outbox.released = 3
    assert [outbox.read(seq) for seq in range(3)] == [
        StoredBatch(one.seq, one.roll, one.first, one.events, bytes(one.frame)) for one in made[:3]
    ]
    assert outbox.read(3) is None
    outbox.released = 4
    assert read_all(outbox) == [0, 1, 2, 3]
    assert (outbox.next_seq, outbox.emitted, outbox.rolls, len(outbox)) == (4, 4, 2, 4)


def test_a_restarted_leaf_goes_on(tmp_path: Path) -> None:
    """Numbers, events, dropped events and intervals are those of the newest batch."""
    outbox = DiskOutbox(tmp_path)
    outbox.append(batches(0, 0, 2), {})
    lost = batches(2, 5, dropped=7)
    outbox.append([StoredBatch(2, 5, 9, 1, lost[0].frame)], {"buffer_full": 7}, closing=True)
    outbox.close()
    again = DiskOutbox(tmp_path)
    assert (again.next_seq, again.emitted, again.rolls, again.closing) == (3, 10, 6, True)
    assert again.dropped == {"buffer_full": 7}
    assert again.released == 3
    assert read_all(again) == [0, 1, 2]
    again.append(batches(3, 6), {})
    again.released = 4
    assert read_all(again) == [0, 1, 2, 3]


def test_acknowledged_segments_go(tmp_path: Path) -> None:
    """Files whose batches are all acknowledged are deleted, except the newest two."""
    outbox = filled(tmp_path, 40, size=20_000, cap_bytes=1_024 * KIB)
    before = len(list(tmp_path.iterdir()))
    assert before > 5
    outbox.acknowledge(20)
    assert len(list(tmp_path.iterdir())) < before
    assert read_all(outbox, 20) == list(range(20, 40))
    outbox.acknowledge(40)
    assert len(list(tmp_path.iterdir())) == 2
    assert (len(outbox), outbox.full, outbox.next_seq) == (0, False, 40)
    outbox.close()
    again = DiskOutbox(tmp_path)
    assert (again.next_seq, again.rolls) == (40, 40)


def test_a_full_outbox_says_so_until_there_is_room(tmp_path: Path) -> None:
    """An outbox is full by batches without acknowledgement. A single batch always has room."""
    outbox = filled(tmp_path, 3, size=30_000, cap_bytes=64 * KIB)
    assert outbox.full
    outbox.acknowledge(2)
    assert not outbox.full
    assert outbox.waiting_rolls == 1
    outbox.acknowledge(3)
    assert (outbox.full, outbox.waiting_rolls) == (False, 0)
    outbox.append(batches(3, 3, size=100_000), {})
    outbox.acknowledge(4)
    assert not outbox.full, "one large batch is not in the way of the next"


@pytest.mark.parametrize("left", [1, 20, 40])
def test_a_torn_tail_is_cut_between_intervals(tmp_path: Path, left: int) -> None:
    """Batches of an interval that was not written completely are cut, all of them."""
    outbox = DiskOutbox(tmp_path)
    outbox.append(batches(0, 0), {})
    [path] = tmp_path.iterdir()
    whole = path.stat().st_size
    outbox.append(batches(1, 1, 3), {})
    outbox.close()
    os.truncate(path, path.stat().st_size - left)
    again = DiskOutbox(tmp_path)
    assert (again.next_seq, again.rolls) == (1, 1)
    assert path.stat().st_size == whole
    again.append(batches(1, 1, 3), {})
    again.released = again.next_seq
    assert read_all(again) == [0, 1, 2, 3]


def test_a_tail_without_a_whole_interval_is_cut(tmp_path: Path) -> None:
    """A tail without a whole interval is cut. If no interval is left, the outbox begins anew."""
    outbox = DiskOutbox(tmp_path)
    outbox.append(batches(0, 0), {})
    outbox.close()
    [path] = tmp_path.iterdir()
    os.truncate(path, path.stat().st_size - 1)
    again = DiskOutbox(tmp_path)
    assert (again.next_seq, again.rolls, again.emitted) == (0, 0, 0)
    again.append(batches(0, 0), {})
    again.released = 1
    assert read_all(again) == [0]


def test_intervals_beyond_the_journal_are_cut(tmp_path: Path) -> None:
    """Intervals that were never sent are cut if a power cut left the outbox ahead of the journal."""
    outbox = filled(tmp_path, 5, size=5_000, cap_bytes=64 * KIB)
    outbox.cut(3)
    assert (outbox.next_seq, outbox.emitted, outbox.rolls) == (3, 3, 3)
    outbox.append(batches(3, 3), {})
    outbox.close()
    again = DiskOutbox(tmp_path)
    assert read_all(again) == [0, 1, 2, 3]


def test_a_damaged_batch_is_passed_over(tmp_path: Path) -> None:
    """A changed byte costs its batch; the root asks for it and is told that it is lost."""
    outbox = filled(tmp_path, 4, size=100)
    [path] = tmp_path.iterdir()
    data = bytearray(path.read_bytes())
    data[data.index(b"m" * 100)] ^= 1
    path.write_bytes(data)
    assert read_all(outbox) == [1, 2, 3]


def test_an_unreadable_folder_is_one_error(tmp_path: Path) -> None:
    """A file in the place of the folder is reported in one line."""
    (tmp_path / "upstream").write_text("")
    with pytest.raises(RunDirectoryError, match="outbox for the root"):
        DiskOutbox(tmp_path / "upstream")

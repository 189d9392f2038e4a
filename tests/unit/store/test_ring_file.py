"""Reading the ring of a killed producer: what it holds, and what a damaged or foreign file costs."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from pathlib import Path

import msgspec
import numpy as np
import pytest
from tests.hand_made_ring import CAPACITY, HEADER_BYTES, RECORD_BYTES, HandMadeRing

from telemetry.store.ring_file import (
    BatchEnd,
    RingGone,
    RingInUse,
    RingUnreadable,
    open_ring,
    read_introduction,
)
from telemetry.wire.control import Hello
from telemetry.wire.events import Define, Mark
from telemetry.wire.rings import Introduction

HOLDER = """
import fcntl, sys
file = open(sys.argv[1], "r+b")
fcntl.lockf(file, fcntl.LOCK_EX)
print("locked", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def ring(tmp_path: Path) -> HandMadeRing:
    """The ring of the producer `p`, still in memory."""
    return HandMadeRing(tmp_path / "p.ring", "p")


def refusal(ring: HandMadeRing) -> str:
    """Return why the file of a ring is refused."""
    with pytest.raises(RingUnreadable) as refused, open_ring(ring.write(), ring.producer):
        pass
    return str(refused.value)


def test_a_ring_holds_rows_records_batches_and_definitions(ring: HandMadeRing) -> None:
    """Each number is where the description of the format says."""
    ring.record((1.0, 10, 0.5), (2.0, 11, -1.0))
    ring.keep(Mark("one"))
    ring.pack()
    ring.record((1.0, 12, 2.0))
    ring.keep(Mark("two"), Mark("three"))
    ring.counts = [3, 4, 5, 6, 0, 0, 0, 0]
    ring.defines = [Define(1, "a", "series"), Define(2, "b", "counter")]
    with open_ring(ring.write(), "p") as found:
        head = found.head
        assert (head.pid, head.anchor, head.rows, head.readable_rows) == (os.getpid(), ring.anchor, 3, 0)
        assert head.counts == {"buffer_full": 3, "not_a_number": 4, "block_timeout": 5, "unencodable": 6}
        assert head.emitted == 3 + 3 + 18
        assert found.next_seq == 1
        end = found.end_of(0)
        assert end == BatchEnd(0, 2, 1, len(b"....") + len(bytes(end_bytes(found, 1)[0])), (7_000, 8_000))
        assert found.rows(0, 3).tolist() == [(1.0, 10, 0.5), (2.0, 11, -1.0), (1.0, 12, 2.0)]
        assert found.rows(1, 9).tolist() == [(2.0, 11, -1.0), (1.0, 12, 2.0)]
        assert [b"one" in record for record in end_bytes(found, 3)] == [True, False, False]
        assert len(found.records(end, head.record_bytes, head.records)) == 2
        assert len(found.definitions().records) == 2
        rules = found.definitions().rules
        assert rules is not None
        assert (rules.secrets, rules.personal, rules.patterns) == (True, False, [])


def end_bytes(found, records: int) -> list[bytes]:  # type: ignore[no-untyped-def]
    """Return the first records of a ring."""
    return list(found.records(BatchEnd(), found.head.record_bytes, records))


def test_rows_and_records_continue_at_the_beginning(ring: HandMadeRing) -> None:
    """The newest rows and records are read once the ring has gone round. One slot may be half written."""
    for number in range(100):
        ring.record((1.0, number, float(number)))
    for number in range(200):
        ring.keep(Mark(f"mark {number:03} {'x' * 50}"))
        if number % 10 == 9:
            ring.pack()
    with open_ring(ring.write(), "p") as found:
        assert found.head.readable_rows == 100 - CAPACITY + 1
        rows = found.rows(0, 100)
        assert np.array_equal(rows["value"], np.arange(100 - CAPACITY + 1, 100))
        assert found.head.readable_bytes == ring.record_bytes - RECORD_BYTES
        begin = found.end_of(14)
        assert begin is not None
        kept = found.records(begin, found.head.record_bytes, 200)
        assert [record.split(b" ")[1] for record in kept] == [b"%03d" % number for number in range(150, 200)]
        assert found.records(BatchEnd(), found.head.record_bytes, 200) == [], "its bytes were overwritten"


def test_rows_that_were_being_overwritten_are_not_read(ring: HandMadeRing) -> None:
    """A group of rows that was not committed took the oldest slots; growing left older rows behind."""
    ring.record(*((1.0, number, 0.0) for number in range(CAPACITY)))
    ring.writing = CAPACITY + 10
    with open_ring(ring.write(), "p") as found:
        assert found.head.readable_rows == 10
    ring.floor = 30
    with open_ring(ring.write(), "p") as found:
        assert found.head.readable_rows == 30


def test_a_row_that_is_in_no_batch_is_not_overwritten(ring: HandMadeRing) -> None:
    """A full ring has no room for the next row if the old ones are in no batch."""
    ring.record(*((1.0, number, 0.0) for number in range(CAPACITY)))
    ring.taken = 0
    with open_ring(ring.write(), "p") as found:
        assert found.head.readable_rows == 0
    ring.taken = CAPACITY - 1
    with open_ring(ring.write(), "p") as found:
        assert found.head.readable_rows == 1


def test_a_ring_may_use_fewer_slots_than_there_is_room_for(tmp_path: Path) -> None:
    """Positions follow the slots in use."""
    ring = HandMadeRing(tmp_path / "p.ring", "p", capacity=16, most_slots=256)
    ring.record(*((1.0, number, float(number)) for number in range(40)))
    with open_ring(ring.write(), "p") as found:
        assert found.rows(0, 40)["value"].tolist() == list(range(25, 40))


def test_a_record_that_was_too_large_has_no_bytes(ring: HandMadeRing) -> None:
    """A record that was too large is counted, and the next one is found."""
    ring.keep(Mark("large"), skipped=True)
    ring.keep(Mark("small"))
    with open_ring(ring.write(), "p") as found:
        (record,) = end_bytes(found, 2)
        assert b"small" in record
        assert found.head.records == 2


def test_the_table_holds_the_newest_batches(ring: HandMadeRing) -> None:
    """The entry that the next batch takes may be half overwritten, so it is not read."""
    for _ in range(2_000):
        ring.pack()
    with open_ring(ring.write(), "p") as found:
        assert found.next_seq == 2_000
        assert sorted(found.ends) == list(range(2_000 - 1_023, 2_000))
        assert found.end_of(2_000 - 1_024) is None


def test_a_definition_that_is_cut_off_is_ignored(ring: HandMadeRing) -> None:
    """The others are read. Without readable rules there are none, because they could not be masked."""
    ring.defines = [Define(1, "a", "series"), Define(2, "b", "series")]
    path = ring.write()
    defs = ring.path.with_suffix(".defs")
    defs.write_bytes(ring.definitions()[:-3])
    with open_ring(path, "p") as found:
        assert len(found.definitions().records) == 1
        defs.write_bytes(b"\xff" * 100)
        assert (found.definitions().rules, found.definitions().records) == (None, [])
        defs.unlink()
        assert (found.definitions().rules, found.definitions().records) == (None, [])


def test_the_last_rules_of_redaction_count(ring: HandMadeRing) -> None:
    """The last rules of redaction count, because they may change while a program runs."""
    ring.defines = [Define(1, "a", "series")]
    path = ring.write()
    with ring.path.with_suffix(".defs").open("ab") as defs:
        rules = msgspec.msgpack.encode({"secrets": False, "personal": True, "patterns": ["a=b"]})
        defs.write(struct.pack("<I", len(rules)) + rules)
    with open_ring(path, "p") as found:
        last = found.definitions().rules
        assert last is not None
        assert (last.secrets, last.personal, last.patterns) == (False, True, ["a=b"])
        assert len(found.definitions().records) == 1


def test_the_ring_of_a_living_process_is_left_alone(ring: HandMadeRing) -> None:
    """The lock of a ring is held as long as its process lives. After the death of the process the ring opens."""
    path = ring.write()
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "locked\n"
    with pytest.raises(RingInUse), open_ring(path, "p"):
        pass
    holder.kill()
    holder.communicate()
    with open_ring(path, "p") as found:
        assert found.head.rows == 0


def test_both_files_are_removed(ring: HandMadeRing) -> None:
    """`remove` deletes both files of the ring, but no files that have taken their place."""
    path = ring.write()
    with open_ring(path, "p") as found:
        found.remove()
        assert list(ring.path.parent.iterdir()) == []
        ring.write()
        found.remove()
    assert len(list(ring.path.parent.iterdir())) == 2


def test_files_that_are_no_ring_of_this_user_are_refused(ring: HandMadeRing, tmp_path: Path) -> None:
    """Links, folders, pipes, files that others may read, other producers, and paths that are none."""
    path = Path(ring.write())
    link = tmp_path / "link.ring"
    link.symlink_to(path)
    pipe = tmp_path / "pipe.ring"
    os.mkfifo(pipe, 0o600)
    folder = tmp_path / "folder.ring"
    folder.mkdir(0o700)
    for other in (link, pipe, folder, "p.ring", str(path) + "\0", tmp_path / "p.defs", "", "/dev/zero"):
        with pytest.raises(RingUnreadable), open_ring(str(other), "p"):
            pass
    with pytest.raises(RingUnreadable, match="another producer"), open_ring(str(path), "q"):
        pass
    with pytest.raises(RingGone), open_ring(str(tmp_path / "none.ring"), "p"):
        pass
    path.chmod(0o640)
    with pytest.raises(RingUnreadable, match="this user alone"), open_ring(str(path), "p"):
        pass
    path.chmod(0o600)
    if os.geteuid() == 0:
        os.chown(path, 12_345, -1)
        with pytest.raises(RingUnreadable, match="this user alone"), open_ring(str(path), "p"):
            pass


def test_a_ring_that_was_left_is_refused(ring: HandMadeRing) -> None:
    """The process went on in memory of its own when its tmpfs was full."""
    path = Path(ring.write())
    path.write_bytes(bytes(8) + path.read_bytes()[8:])
    with pytest.raises(RingUnreadable, match="no room for its file to grow"), open_ring(str(path), "p"):
        pass


@pytest.mark.parametrize("cut", [0, 100, 5_000, 70_000, 73_800])
def test_a_file_that_was_cut_short_is_refused(ring: HandMadeRing, cut: int) -> None:
    """A file is refused if its size is not that of its header."""
    path = Path(ring.write())
    os.truncate(path, cut)
    with pytest.raises(RingUnreadable), open_ring(str(path), "p"):
        pass


def test_a_file_that_is_cut_while_it_is_read_is_refused(ring: HandMadeRing) -> None:
    """A read that ends early is an error of the file, and no signal."""
    ring.record((1.0, 1, 1.0))
    with open_ring(ring.write(), "p") as found:
        os.truncate(ring.path, 5_000)
        with pytest.raises(RingUnreadable, match="cut short"):
            found.rows(0, 1)


@pytest.mark.parametrize(
    ("field", "number"),
    [
        ("floor", 6),
        ("taken", 6),
        ("writing", 6 + CAPACITY),
        ("rows", 1 << 60),
        ("capacity", 63),
        ("capacity", 128),
        ("records", 5),
        ("record_bytes", 1 << 60),
        ("record_writing", 1 << 60),
        ("counts", [1 << 60] + [0] * 7),
        ("anchor", (1 << 63, 0)),
    ],
)
def test_numbers_that_contradict_each_other_are_refused(ring: HandMadeRing, field: str, number: object) -> None:
    """Each of them could lead a reader out of the file, or into sums that no run reaches."""
    ring.record(*((1.0, 1, 1.0) for _ in range(5)))
    setattr(ring, field, number)
    assert refusal(ring) == "its numbers contradict each other"


def test_more_waiting_rows_than_slots_are_refused(ring: HandMadeRing) -> None:
    """The writer would have had no room."""
    ring.record(*((1.0, 1, 1.0) for _ in range(CAPACITY + 1)))
    ring.taken = 0
    assert refusal(ring) == "its numbers contradict each other"


def test_a_table_that_contradicts_the_header_is_refused(ring: HandMadeRing) -> None:
    """A batch can't hold rows that were never committed, nor end before the one before it."""
    ring.record(*((1.0, 1, 1.0) for _ in range(5)))
    ring.pack()
    ring.rows = 4
    assert refusal(ring) == "its table of batches contradicts itself"
    ring.pack()
    ring.rows = 5
    assert refusal(ring) == "its table of batches contradicts itself"


@pytest.mark.parametrize("step", [-1, 1, 1 << 63])
@pytest.mark.parametrize("field", range(8))
def test_a_table_with_one_changed_number_is_refused(ring: HandMadeRing, field: int, step: int) -> None:
    """A changed number in the table is refused.

    Otherwise an event could be in two batches or in none, in a run that is called complete.
    """
    for _ in range(2):
        ring.record(*((1.0, 1, 1.0) for _ in range(5)))
        ring.keep(Mark("m"))
        ring.pack()
    at = HEADER_BYTES + 64 + 8 * field
    data = bytearray(Path(ring.write()).read_bytes())
    (number,) = struct.unpack_from("<Q", data, at)
    struct.pack_into("<Q", data, at, (number + step) % (1 << 64))
    ring.path.write_bytes(data)
    with pytest.raises(RingUnreadable, match="its table of batches is damaged"), open_ring(str(ring.path), "p"):
        pass


def test_a_batch_whose_entry_is_half_written_was_not_sent(ring: HandMadeRing) -> None:
    """A batch with a half-written entry was not sent, because its checksum is written last."""
    ring.record((1.0, 1, 1.0))
    ring.pack()
    data = bytearray(ring.bytes())
    struct.pack_into("<2Q", data, HEADER_BYTES + 64, 2, 1)
    ring.write()
    ring.path.write_bytes(data)
    with open_ring(str(ring.path), "p") as found:
        assert found.next_seq == 1


def test_an_introduction_is_before_the_definitions(ring: HandMadeRing) -> None:
    """An introduction is read while the process lives, and is not one of the definitions."""
    ring.defines = [Define(1, "a", "series")]
    assert read_introduction(ring.write()) is None
    ring.introduction = Introduction(Hello(producer="p", pid=7, mono_ns=5), "ipc:///run/ctl", "mnt:[1]")
    path = ring.write()
    assert read_introduction(path) == ring.introduction
    with open_ring(path, "p") as found:
        definitions = found.definitions()
        assert (len(definitions.records), definitions.rules is None) == (1, False)
    Path(path).with_suffix(".defs").chmod(0o644)
    assert read_introduction(path) is None


def test_a_ring_that_was_never_used_is_none(ring: HandMadeRing) -> None:
    """A ring that was never used is gone, since its process was killed while it made the ring.

    A ring that moved to private memory has been in use.
    """
    ring.write()
    data = bytearray(ring.path.read_bytes())
    data[:8] = bytes(8)
    ring.path.write_bytes(data)
    with pytest.raises(RingUnreadable, match="no room") as refused, open_ring(str(ring.path), "p"):
        pass
    assert not isinstance(refused.value, RingGone)
    data[64:72] = bytes(8)
    ring.path.write_bytes(data)
    with pytest.raises(RingGone), open_ring(str(ring.path), "p"):
        pass


@pytest.mark.parametrize(("ended", "logged", "unlogged"), [(0, 0, 0), (9, 4, 5), (4, 9, 0)])
def test_requests_that_no_record_has(ring: HandMadeRing, ended: int, logged: int, unlogged: int) -> None:
    """The difference of two counts."""
    ring.requests_ended, ring.requests_logged = ended, logged
    with open_ring(ring.write(), "p") as found:
        assert (found.head.unlogged, found.head.emitted) == (unlogged, 0)


def test_an_impossible_number_of_requests_is_refused(ring: HandMadeRing) -> None:
    """An impossible number of requests is refused, as any other number."""
    ring.requests_ended = 1 << 63
    assert refusal(ring) == "its numbers contradict each other"

"""The journal keeps every admitted frame, stays below its cap, and never raises into the loop that ingests."""

from __future__ import annotations

import errno
import os
import struct
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import Raw

from telemetry.errors import RunDirectoryError
from telemetry.store.framing import FRAME_HEADER_BYTES, SEGMENT_HEADER_BYTES, frame, segment_header
from telemetry.store.journal import (
    BATCH,
    CHECKPOINT,
    MAGIC,
    NOTE,
    JournalReader,
    JournalWriter,
    append_notes,
    cut_torn_tail,
)
from telemetry.testing import builders
from telemetry.wire.codec import encode_checkpoint, encode_note
from telemetry.wire.control import CannotResend, End, Hello, Watch
from telemetry.wire.journal import BadFrames, Checkpoint, Ending, Rolled, RunState

HEAD = SEGMENT_HEADER_BYTES + FRAME_HEADER_BYTES + 4
"""Bytes of a segment that holds nothing but its checkpoint."""


def begun(directory: Path, **sizes: int) -> JournalWriter:
    """A writer whose checkpoints are four bytes."""
    return JournalWriter(directory, b"cp 0", 0, **sizes)


def write(directory: Path, count: int, each: int = 5, **sizes: int) -> JournalWriter:
    """Batches `0 … count - 1`, stamped and filled with their number; checkpoints hold the next one."""
    writer = begun(directory, **sizes)
    for number in range(count):
        if writer.full:
            writer.begin(b"cp%2d" % number, number)
        writer.append([b"%05d" % number * (each // 5)], number)
    return writer


def read(directory: Path) -> list[tuple[int, int, bytes]]:
    """All frames but the checkpoints."""
    frames = JournalReader(directory).frames()
    return [(item.time_ns, item.kind, bytes(item.data)) for item in frames if item.kind != CHECKPOINT]


def numbers(directory: Path) -> list[int]:
    return [time_ns for time_ns, _, _ in read(directory)]


def whole(reader: JournalReader) -> bool:
    """Return whether the last `frames()` of the reader gave all that was ever appended."""
    return not (reader.torn_bytes or reader.dropped_segments or reader.damaged)


def segment(directory: Path, number: int) -> Path:
    return directory / f"{number:08d}.seg"


def three_segments(directory: Path) -> int:
    """Three segments of ten batches each; returns how many bytes each has."""
    write(directory, 30, each=10, segment_bytes=HEAD + 10 * (FRAME_HEADER_BYTES + 10)).close()
    sizes = {segment(directory, number).stat().st_size for number in range(3)}
    assert len(list(directory.iterdir())) == 3
    assert len(sizes) == 1
    return sizes.pop()


def failing(number: int) -> Callable[..., int]:
    def fail(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    return fail


def open_descriptors(directory: Path) -> list[str]:
    links = [f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd")]
    targets = [os.readlink(link) for link in links if os.path.lexists(link)]
    return [target for target in targets if target.startswith(str(directory))]


def test_round_trip_in_order(tmp_path: Path) -> None:
    """Frames come back in order, with time, kind and segment."""
    writer = JournalWriter(tmp_path / "journal", b"start", 5)
    writer.append([b"one", memoryview(b"two")], 10)
    writer.note([bytearray(b"hello")], 15)
    writer.append([bytearray(b"three")], 20)
    writer.append([], 30)
    writer.begin(b"here", 35)
    writer.note([b"bye", b"end"], 40)
    writer.close()
    frames = [(item.time_ns, item.kind, bytes(item.data), item.segment, item.damaged)
              for item in JournalReader(tmp_path / "journal").frames()]  # fmt: skip
    assert frames == [
        (5, CHECKPOINT, b"start", 0, False),
        (10, BATCH, b"one", 0, False),
        (10, BATCH, b"two", 0, False),
        (15, NOTE, b"hello", 0, False),
        (20, BATCH, b"three", 0, False),
        (35, CHECKPOINT, b"here", 1, False),
        (40, NOTE, b"bye", 1, False),
        (40, NOTE, b"end", 1, False),
    ]
    assert writer.failed == ""
    assert writer.bytes_written == sum(path.stat().st_size for path in (tmp_path / "journal").iterdir())
    assert writer.bytes_written == 2 * SEGMENT_HEADER_BYTES + 8 * FRAME_HEADER_BYTES + 31


@pytest.mark.parametrize("call", ["append", "note", "begin"])
def test_one_call_is_one_writev(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    """All frames of a call go to the kernel at once, and nothing is synced on the way."""
    writer = begun(tmp_path)
    calls: list[int] = []
    real = os.writev
    monkeypatch.setattr(os, "writev", lambda fd, buffers: (calls.append(len(buffers)), real(fd, buffers))[1])
    for sync in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, sync, lambda fd: pytest.fail("synced on the calling thread"))
    if call == "begin":
        writer.begin(b"x", 1)
    else:
        getattr(writer, call)([b"x"] * 256, 1)
    assert calls == [3 if call == "begin" else 512]
    writer.close()


def test_only_begin_ends_a_segment(tmp_path: Path) -> None:
    """A full segment takes more, because what follows it must be a checkpoint; a new one is not full."""
    writer = begun(tmp_path, segment_bytes=200)
    assert not writer.full
    for number in range(50):
        writer.append([bytes(10)], number)
    assert writer.full
    assert [path.name for path in tmp_path.iterdir()] == ["00000000.seg"]
    writer.begin(b"next", 50)
    assert not writer.full
    writer.close()
    assert not writer.full
    assert sorted(path.name for path in tmp_path.iterdir()) == ["00000000.seg", "00000001.seg"]


@pytest.mark.parametrize(("cap_bytes", "times"), [(1 << 30, 8), (10_000, 5), (1_500, 2)])
def test_an_eighth_of_a_segment_at_most_is_its_checkpoint(tmp_path: Path, cap_bytes: int, times: int) -> None:
    """Checkpoints of a large state don't come with every turn; a cap below that makes it half, and never more."""
    writer = JournalWriter(tmp_path, bytes(1_000), 0, segment_bytes=100, cap_bytes=cap_bytes)
    assert not writer.full
    writer.append([bytes((times - 1) * 1_000 - 100)], 1)
    assert not writer.full
    writer.append([bytes(500)], 2)
    assert writer.full
    writer.begin(bytes(1_000), 3)
    assert not writer.full
    writer.close()


def test_segments_are_read_in_order(tmp_path: Path) -> None:
    """The reader passes from one to the next, each begins with its checkpoint, and it may begin at any of them."""
    write(tmp_path, 100, segment_bytes=200).close()
    reader = JournalReader(tmp_path)
    frames = [(item.kind, item.segment, bytes(item.data)) for item in reader.frames()]
    assert whole(reader)
    assert [data for kind, _, data in frames if kind == BATCH] == [b"%05d" % number for number in range(100)]
    heads = [segment for kind, segment, _ in frames if kind == CHECKPOINT]
    assert heads == list(range(len(list(tmp_path.iterdir()))))
    assert len(heads) > 5
    later = [(item.kind, item.segment, bytes(item.data)) for item in reader.frames(4)]
    assert later == [item for item in frames if item[1] >= 4]
    with pytest.raises(RunDirectoryError, match="ends before segment 99"):
        next(reader.frames(99))


def test_the_last_checkpoint_is_found(tmp_path: Path) -> None:
    """The newest segment whose first frame is a whole checkpoint, also where damage has taken the one after it."""
    size = three_segments(tmp_path)
    assert JournalReader(tmp_path).last_checkpoint() == 2
    os.truncate(segment(tmp_path, 2), HEAD - 1)
    assert JournalReader(tmp_path).last_checkpoint() == 1
    data = bytearray(segment(tmp_path, 1).read_bytes())
    data[HEAD - 1] ^= 1
    segment(tmp_path, 1).write_bytes(data)
    assert JournalReader(tmp_path).last_checkpoint() == 0
    os.truncate(segment(tmp_path, 0), size - 1)  # the checkpoint is intact
    assert JournalReader(tmp_path).last_checkpoint() == 0
    segment(tmp_path, 1).write_bytes(segment_header(MAGIC) + b"".join(frame([b"no checkpoint"], 1, NOTE)))
    assert JournalReader(tmp_path).last_checkpoint() == 0
    segment(tmp_path, 0).write_bytes(b"")
    with pytest.raises(RunDirectoryError, match="starts with a readable checkpoint"):
        JournalReader(tmp_path).last_checkpoint()


def test_past_the_cap_the_oldest_segments_go_and_are_counted(tmp_path: Path) -> None:
    """The directory never holds more than the cap, the newest frames are there, and the reader is not complete."""
    writer = begun(tmp_path, segment_bytes=500, cap_bytes=1_600)
    for number in range(200):
        if writer.full:
            writer.begin(bytes(150), number)
            assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 1_600
        writer.append([b"%05d" % number * 10], number)
        assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 1_600
    writer.close()
    reader = JournalReader(tmp_path)
    times = [item.time_ns for item in reader.frames() if item.kind == BATCH]
    assert times == list(range(times[0], 200))
    assert times[0] > 0
    assert writer.dropped_segments == reader.dropped_segments > 0
    assert not whole(reader)
    assert not reader.damaged


def test_a_small_cap_keeps_at_least_half_of_it(tmp_path: Path) -> None:
    """A cap below the segment size makes segments smaller instead of losing everything at once."""
    write(tmp_path, 200, each=30, segment_bytes=1 << 30, cap_bytes=1_000).close()
    assert 400 < sum(path.stat().st_size for path in tmp_path.iterdir()) <= 1_000


def test_one_segment_is_kept_beyond_the_cap(tmp_path: Path) -> None:
    """Data since the last checkpoint is never removed, however large one turn was."""
    writer = begun(tmp_path, cap_bytes=1_000)
    writer.append([bytes(5_000)], 1)
    writer.begin(b"next", 2)
    writer.append([bytes(5_000)], 3)
    writer.close()
    assert [(time_ns, len(data)) for time_ns, _, data in read(tmp_path)] == [(3, 5_000)]
    assert writer.dropped_segments == 1


def test_a_second_writer_goes_on_in_a_new_segment(tmp_path: Path) -> None:
    """The old segments count against the cap, and what went before it as dropped."""
    for round_ in range(3):
        writer = begun(tmp_path, segment_bytes=400, cap_bytes=800)
        writer.append([bytes(200)], round_)
        writer.close()
        assert (writer.cut_bytes, writer.dropped_segments) == (0, 0)
    assert numbers(tmp_path) == [0, 1, 2]
    for round_ in range(3, 5):
        writer = begun(tmp_path, segment_bytes=400, cap_bytes=800)
        assert writer.dropped_segments == round_ - 3
        writer.append([bytes(200)], round_)
        writer.close()
    assert writer.dropped_segments == JournalReader(tmp_path).dropped_segments + 2
    assert numbers(tmp_path) == [2, 3, 4]


def damage(path: Path, shape: str) -> None:
    """Damage a file as a power cut may leave it."""
    size = path.stat().st_size
    if shape == "inside the header":
        os.truncate(path, SEGMENT_HEADER_BYTES - 3)
    elif shape == "header alone":
        os.truncate(path, SEGMENT_HEADER_BYTES)
    elif shape == "inside the checkpoint":
        os.truncate(path, HEAD - 1)
    elif shape == "inside a frame":
        os.truncate(path, size - 2)
    elif shape == "inside a frame's header":
        os.truncate(path, size - 10 - 3)
    elif shape == "zeros":
        os.truncate(path, size - 7)
        os.truncate(path, size + 9_000)
    elif shape == "garbage":
        path.write_bytes(path.read_bytes()[:-7] + os.urandom(9_000))
    elif shape == "empty":
        os.truncate(path, 0)
    else:
        path.unlink()


SHAPES = {
    "inside the header": 20,
    "header alone": 20,
    "inside the checkpoint": 20,
    "inside a frame": 29,
    "inside a frame's header": 29,
    "zeros": 29,
    "garbage": 29,
    "empty": 20,
    "missing": 20,
}
"""What happened to the last of three segments of ten → how many batches are left."""


@pytest.mark.parametrize("shape", SHAPES)
def test_the_end_of_the_journal_may_be_torn(tmp_path: Path, shape: str) -> None:
    """All before the tear is read, the tear is no damage, and a writer that goes on leaves no trace of it."""
    three_segments(tmp_path)
    before = sum(path.stat().st_size for path in tmp_path.iterdir())
    damage(segment(tmp_path, 2), shape)
    torn = sum(path.stat().st_size for path in tmp_path.iterdir())
    reader = JournalReader(tmp_path)
    assert [item.time_ns for item in reader.frames() if item.kind == BATCH] == list(range(SHAPES[shape]))
    assert not reader.damaged
    assert reader.tail_bytes == reader.torn_bytes
    assert reader.tail_damaged == (shape == "garbage")
    assert reader.last_checkpoint() == (1 if SHAPES[shape] == 20 else 2)
    writer = JournalWriter(tmp_path, b"again", 100)
    assert writer.cut_bytes == reader.torn_bytes
    assert torn - writer.cut_bytes <= before
    writer.append([b"more"], 101)
    writer.close()
    assert (writer.failed, writer.dropped_segments) == ("", 0)
    assert list(reader.frames())
    assert whole(reader)
    assert numbers(tmp_path) == [*range(SHAPES[shape]), 101]


@pytest.mark.parametrize("shape", SHAPES)
def test_damage_before_the_end_is_seen(tmp_path: Path, shape: str) -> None:
    """The first frame after it is a checkpoint and says so; the rest is read, and nothing is cut."""
    three_segments(tmp_path)
    damage(segment(tmp_path, 1), shape)
    reader = JournalReader(tmp_path)
    frames = [(item.time_ns, item.kind, item.damaged) for item in reader.frames()]
    kept = [*range(SHAPES[shape] - 10), *range(20, 30)]
    assert [time_ns for time_ns, kind, _ in frames if kind == BATCH] == kept
    assert [item for item in frames if item[2]] == [(20, CHECKPOINT, True)]
    assert reader.damaged
    assert not whole(reader)
    assert reader.tail_bytes == 0
    assert reader.dropped_segments == 0
    assert cut_torn_tail(tmp_path) == 0


def test_several_segments_may_be_torn_at_the_end(tmp_path: Path) -> None:
    """A power cut just after a new segment was begun: nothing intact follows the first tear, so it is the tail."""
    three_segments(tmp_path)
    damage(segment(tmp_path, 1), "inside a frame")
    damage(segment(tmp_path, 2), "inside the checkpoint")
    reader = JournalReader(tmp_path)
    assert [item.time_ns for item in reader.frames() if item.kind == BATCH] == list(range(19))
    assert not reader.damaged
    assert reader.torn_bytes == reader.tail_bytes == cut_torn_tail(tmp_path) > 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["00000000.seg", "00000001.seg"]
    assert cut_torn_tail(tmp_path) == 0
    assert list(reader.frames())
    assert whole(reader)


def test_a_cut_costs_no_frame_of_an_intact_journal(tmp_path: Path) -> None:
    """A cut changes no intact journal. A journal of nothing but damage is removed as a whole."""
    three_segments(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert cut_torn_tail(tmp_path) == 0
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    for path in tmp_path.iterdir():
        path.write_bytes(bytes(100))
    assert cut_torn_tail(tmp_path) == 300
    assert list(tmp_path.iterdir()) == []


def test_a_journal_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    """A journal of a newer version is unchanged, because its frames may mean something else.

    A writer fails and a reader refuses it.
    """
    newer = MAGIC + (99).to_bytes(8, "little") + b"whatever"
    segment(tmp_path, 0).write_bytes(newer)
    writer = begun(tmp_path)
    writer.append([b"ignored"], 1)
    writer.close()
    assert "schema version 99" in writer.failed
    with pytest.raises(RunDirectoryError, match="schema version 99"):
        list(JournalReader(tmp_path).frames())
    assert segment(tmp_path, 0).read_bytes() == newer
    assert [path.name for path in tmp_path.iterdir()] == ["00000000.seg"]


def test_a_full_disk_fails_the_journal_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ENOSPC sets `failed`, raises nothing, later appends are ignored, what was written before is readable."""
    writer = begun(tmp_path)
    writer.append([b"before"], 1)
    with monkeypatch.context() as patch:
        patch.setattr(os, "writev", failing(errno.ENOSPC))
        writer.append([b"lost"], 2)
    assert writer.failed == "No space left on device"
    written = writer.bytes_written
    writer.append([b"ignored"], 3)
    writer.sync()
    writer.close()
    assert writer.bytes_written == written
    assert read(tmp_path) == [(1, BATCH, b"before")]


def test_a_directory_that_can_not_be_made_fails_the_journal(tmp_path: Path) -> None:
    """A file in the way of the directory fails the writer, which goes on as if all were well."""
    (tmp_path / "file").touch()
    writer = begun(tmp_path / "file" / "journal")
    assert "Not a directory" in writer.failed
    writer.append([b"ignored"], 1)
    writer.sync()
    writer.close()


def test_a_segment_that_can_not_be_begun_fails_the_journal(tmp_path: Path) -> None:
    """Appends end if the next segment can't be made, and no descriptor is closed twice."""
    directory = tmp_path / "journal"
    writer = begun(directory)
    (directory / "00000001.seg").mkdir()
    writer.begin(b"next", 1)
    writer.append([b"ignored"], 2)
    writer.begin(b"ignored", 3)
    assert "Is a directory" in writer.failed
    writer.sync()
    writer.close()
    assert not open_descriptors(tmp_path)


def test_a_failing_sync_fails_the_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that can't keep what it took is a failure too."""
    writer = begun(tmp_path)
    monkeypatch.setattr("telemetry.store.journal._sync_data", failing(errno.EIO))
    writer.sync()
    assert writer.failed == os.strerror(errno.EIO)
    writer.close()


def test_sync_beside_appends_loses_no_frame_and_no_descriptor(tmp_path: Path) -> None:
    """A thread that syncs all the time beside rolls and deletions disturbs nothing."""
    writer = begun(tmp_path, segment_bytes=2_000, cap_bytes=20_000)
    over = threading.Event()

    def keep_syncing() -> None:
        while not over.is_set():
            writer.sync()

    thread = threading.Thread(target=keep_syncing)
    thread.start()
    for number in range(3_000):
        if writer.full:
            writer.begin(b"next", number)
        writer.append([b"%08d" % number * 4], number)
    over.set()
    thread.join()
    writer.sync()
    assert len(open_descriptors(tmp_path)) == 1
    writer.close()
    assert not open_descriptors(tmp_path)
    assert writer.failed == ""
    times = numbers(tmp_path)
    assert times == list(range(times[0], 3_000))


def test_the_first_sync_includes_the_segments_of_a_killed_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power cut after it loses nothing that the killed writer had not synced."""
    first = begun(tmp_path)
    first.append([b"not synced"], 1)
    [segment] = tmp_path.glob("*.seg")
    second = begun(tmp_path)
    synced: list[int] = []
    monkeypatch.setattr("telemetry.store.journal._sync_data", lambda fd: synced.append(os.fstat(fd).st_ino))
    second.sync()
    assert segment.stat().st_ino in synced
    synced.clear()
    second.sync()
    assert segment.stat().st_ino not in synced
    first.close()
    second.close()


def test_sync_after_close_does_nothing(tmp_path: Path) -> None:
    """A sync that was queued before the close finds nothing to do."""
    writer = begun(tmp_path)
    writer.append([b"x"], 1)
    writer.close()
    writer.sync()
    writer.append([b"late"], 2)
    writer.begin(b"late", 3)
    writer.close()
    assert writer.failed == ""
    assert len(read(tmp_path)) == 1


def test_without_a_journal_the_reader_says_so(tmp_path: Path) -> None:
    """A missing or empty directory is an error, not an empty journal."""
    with pytest.raises(RunDirectoryError, match="can't read"):
        read(tmp_path / "none")
    with pytest.raises(RunDirectoryError, match="no journal"):
        read(tmp_path)
    with pytest.raises(RunDirectoryError, match="can't read"):
        JournalReader(tmp_path / "none").last_checkpoint()


def fill_up(writer: JournalWriter, monkeypatch: pytest.MonkeyPatch, call: str = "append") -> None:
    """The disk takes no byte from here on; names may still change."""
    with monkeypatch.context() as patch:
        patch.setattr(os, "writev", failing(errno.ENOSPC))
        writer.begin(b"next", 2) if call == "begin" else getattr(writer, call)([b"lost"], 2)
    assert writer.failed


@pytest.mark.parametrize("call", ["append", "note", "begin"])
def test_a_journal_that_failed_says_so_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    """A failed journal has a mark on disk.

    Without it, a reader after a kill could not tell that answered calls are not in it.
    """
    writer = begun(tmp_path)
    writer.append([b"before"], 1)
    assert not JournalReader(tmp_path).failed
    fill_up(writer, monkeypatch, call)
    writer.close()
    assert JournalReader(tmp_path).failed
    assert [path.name for path in tmp_path.iterdir()] == ["00000000-failed.seg"]
    assert read(tmp_path) == [(1, BATCH, b"before")]
    assert JournalReader(tmp_path).last_checkpoint() == 0


def test_a_sync_that_fails_is_marked_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed sync leaves the mark, from another thread or without a descriptor to sync."""
    for number, (name, fault) in enumerate(
        (("telemetry.store.journal._sync_data", errno.EIO), ("os.dup", errno.EMFILE))
    ):
        writer = begun(tmp_path / str(number))
        with monkeypatch.context() as patch:
            patch.setattr(name, failing(fault))
            writer.sync()
        writer.close()
        assert JournalReader(tmp_path / str(number)).failed


def test_who_goes_on_with_a_failed_journal_keeps_the_mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new writer keeps the mark of a failed journal, also if that failed to begin its segment."""
    begun(tmp_path).close()
    with monkeypatch.context() as patch:
        patch.setattr(os, "writev", failing(errno.ENOSPC))
        begun(tmp_path).close()
    assert JournalReader(tmp_path).failed
    writer = JournalWriter(tmp_path, b"again", 3)
    writer.append([b"more"], 4)
    writer.close()
    assert not writer.failed
    assert JournalReader(tmp_path).failed
    assert sorted(path.name for path in tmp_path.iterdir()) == ["00000000-failed.seg", "00000001.seg"]
    assert read(tmp_path) == [(4, BATCH, b"more")]


def test_no_segment_goes_before_the_next_one_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk, or a kill, where the cap has no room for both: there is always a checkpoint to begin with."""
    writer = begun(tmp_path, cap_bytes=1_000)
    writer.append([bytes(900)], 1)
    fill_up(writer, monkeypatch, "begin")
    writer.close()
    assert JournalReader(tmp_path).last_checkpoint() == 0
    assert [(time_ns, len(data)) for time_ns, _, data in read(tmp_path)] == [(1, 900)]
    assert not open_descriptors(tmp_path)

    unlink = Path.unlink
    writer = begun(tmp_path, cap_bytes=1_000)
    heads: list[int] = []

    def look_then_unlink(path: Path) -> None:
        heads.append(JournalReader(tmp_path).last_checkpoint())
        unlink(path)

    monkeypatch.setattr(Path, "unlink", look_then_unlink)
    writer.append([bytes(960)], 4)
    writer.begin(b"next", 5)
    writer.close()
    assert heads == [1, 2], "of the newest segment, when an older one went"


def test_the_first_number_says_how_many_passed_the_cap(tmp_path: Path) -> None:
    """A number that is missing further on is no segment that the cap took."""
    three_segments(tmp_path)
    reader = JournalReader(tmp_path)
    segment(tmp_path, 1).unlink()
    assert len(list(reader.frames())) == 22
    assert (reader.dropped_segments, reader.damaged) == (0, True)
    assert begun(tmp_path).dropped_segments == 0
    segment(tmp_path, 0).unlink()
    list(reader.frames())
    assert (reader.dropped_segments, reader.damaged) == (2, False)
    assert begun(tmp_path).dropped_segments == 2


@pytest.mark.parametrize("at", [0, SEGMENT_HEADER_BYTES + 5, HEAD, -100, -1])
def test_damage_in_the_last_segment_is_no_tear(tmp_path: Path, at: int) -> None:
    """Something that was whole can't read, up to the last frame of all: it is the tail, and damaged."""
    size = three_segments(tmp_path)
    path = segment(tmp_path, 2)
    data = bytearray(path.read_bytes())
    data[at] ^= 4
    path.write_bytes(data)
    reader = JournalReader(tmp_path)
    times = [item.time_ns for item in reader.frames() if item.kind == BATCH]
    assert 20 <= len(times) < 30
    assert (reader.tail_damaged, reader.damaged) == (True, False)
    assert 0 < reader.tail_bytes <= size


def test_damage_that_is_followed_by_a_good_frame_is_no_tail(tmp_path: Path) -> None:
    """Damage in the middle is shown by `damaged` and not by `tail_damaged`."""
    three_segments(tmp_path)
    damage(segment(tmp_path, 1), "garbage")
    reader = JournalReader(tmp_path)
    list(reader.frames())
    assert (reader.tail_damaged, reader.damaged, reader.tail_bytes) == (False, True, 0)


def test_a_hole_is_no_tail_where_the_next_checkpoint_is_read(tmp_path: Path) -> None:
    """A hole before a readable checkpoint is no damaged tail.

    A reader that goes on from that checkpoint has all counts.
    """
    three_segments(tmp_path)
    damage(segment(tmp_path, 1), "garbage")
    reader = JournalReader(tmp_path)
    tails = [(reader.tail_damaged, reader.tail_bytes) for item in reader.frames() if item.damaged]
    assert tails == [(False, 0)]


STATE = RunState(run_id="r", name="n", started_ns=1, started_mono_ns=1, rolled_wall_ns=1, rolled_mono_ns=1)
CHECKPOINT_OF_A_RUN = encode_checkpoint(Checkpoint(run=STATE, numbers=Raw(b"\xc0")))


@pytest.mark.parametrize(
    "what",
    [
        (BATCH, bytes(builders.frame(rows=[(1, 2, 3.0)]))),
        (CHECKPOINT, CHECKPOINT_OF_A_RUN),
        (NOTE, encode_note(Hello(id=1, producer="p"))),
        (NOTE, encode_note(End(id=1, producer="p", batches=1, emitted=1, dropped={}))),
        (NOTE, encode_note(CannotResend(producer="p", first=1, last=2))),
        (NOTE, encode_note(Watch(id=1, pid=2))),
        (NOTE, encode_note(Rolled(start_wall_ns=1, end_wall_ns=2, elapsed_ns=1))),
        (NOTE, encode_note(BadFrames(counts={"x": 1}))),
        (NOTE, encode_note(Ending(reason="x"))),
    ],
    ids=lambda what: f"{what[0]}-{len(what[1])}",
)
def test_a_good_frame_of_any_kind_tells_damage_before_it(tmp_path: Path, what: tuple[int, bytes]) -> None:
    """A good frame of any kind shows that the bytes before it are damaged.

    The length of the unreadable frame may point beyond the end, as that of half a frame does.
    """
    kind, payload = what
    begun(tmp_path).close()
    path = segment(tmp_path, 0)
    rest = b"".join([*frame([b"x" * 3_000], 1, BATCH)])[:100] + b"".join(frame([payload], 2, kind))
    path.write_bytes(path.read_bytes() + rest)
    reader = JournalReader(tmp_path)
    list(reader.frames())
    assert (reader.tail_damaged, reader.tail_bytes) == (True, len(rest))


def test_half_a_large_checkpoint_is_no_damage(tmp_path: Path) -> None:
    """However much in it looks like small frames: its writer was killed, and the segment before it has all."""
    three_segments(tmp_path)
    lookalikes = struct.pack("<IIQB", 100_000, 0, 0, NOTE) * 20_000
    path = segment(tmp_path, 2)
    path.write_bytes(segment_header(MAGIC) + b"".join(frame([lookalikes], 1, CHECKPOINT))[:-1])
    reader = JournalReader(tmp_path)
    list(reader.frames())
    assert not reader.tail_damaged
    assert reader.tail_bytes == path.stat().st_size - SEGMENT_HEADER_BYTES


def test_notes_are_added_to_a_journal_that_nobody_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Notes follow the last frame, in its segment. A disk that refuses the write leaves the journal unchanged."""
    write(tmp_path, 3).close()
    append_notes(tmp_path, [b"note a", b"note b"], 9)
    assert read(tmp_path)[2:] == [(2, BATCH, b"00002"), (9, NOTE, b"note a"), (9, NOTE, b"note b")]
    assert len(list(tmp_path.iterdir())) == 1
    before = segment(tmp_path, 0).read_bytes()
    monkeypatch.setattr(os, "writev", failing(errno.ENOSPC))
    with pytest.raises(OSError, match="No space"):
        append_notes(tmp_path, [b"note c"], 10)
    assert segment(tmp_path, 0).read_bytes() == before


def test_a_writer_that_needs_no_old_segments_keeps_two(tmp_path: Path) -> None:
    """The current one and the one before it, which a restart begins with. A reader knows how many there were."""
    writer = begun(tmp_path, segment_bytes=HEAD + 30)
    for number in range(90):
        if writer.full:
            following = writer.next_segment
            writer.begin(b"cp%2d" % number, number)
            writer.forget()
            assert writer.next_segment == following + 1
        writer.append([b"%05d" % number], number)
    writer.sync()
    writer.close()
    segments = sorted(int(path.stem) for path in tmp_path.iterdir())
    assert segments == [following - 1, following]
    assert writer.dropped_segments == following - 1 > 0
    reader = JournalReader(tmp_path)
    assert [*reader.frames()]
    assert reader.dropped_segments == following - 1


def test_a_segment_that_can_not_be_forgotten_fails_the_journal(tmp_path: Path) -> None:
    """A segment that can't be removed fails the journal, as any failure of the disk. The run goes on."""
    writer = begun(tmp_path)
    for number in range(3):
        writer.begin(b"cp%2d" % number, number)
    (tmp_path / "00000000.seg").unlink()
    writer.forget()
    assert writer.failed
    writer.forget()
    writer.close()

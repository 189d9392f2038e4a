"""The journal keeps every admitted frame, stays below its cap, and never raises into the loop that ingests."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from telemetry.errors import RunDirectoryError
from telemetry.store.framing import FRAME_HEADER_BYTES, SEGMENT_HEADER_BYTES
from telemetry.store.journal import BATCH, JournalReader, JournalWriter


def read(directory: Path) -> list[tuple[int, int, bytes]]:
    return [(time_ns, kind, bytes(data)) for time_ns, kind, data in JournalReader(directory).frames()]


def failing(number: int) -> Callable[..., int]:
    def fail(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    return fail


def open_descriptors(directory: Path) -> list[str]:
    links = [f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd")]
    targets = [os.readlink(link) for link in links if os.path.lexists(link)]
    return [target for target in targets if target.startswith(str(directory))]


def test_round_trip_in_order(tmp_path: Path) -> None:
    """Frames come back in order, with time and kind."""
    writer = JournalWriter(tmp_path / "journal")
    writer.append([b"one", memoryview(b"two")], 10)
    writer.append([bytearray(b"three")], 20)
    writer.append([], 30)
    writer.close()
    assert read(tmp_path / "journal") == [(10, BATCH, b"one"), (10, BATCH, b"two"), (20, BATCH, b"three")]
    assert writer.failed == ""
    assert writer.bytes_written == SEGMENT_HEADER_BYTES + 3 * FRAME_HEADER_BYTES + 11


def test_one_append_is_one_writev(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All frames of an append go to the kernel in one call, and nothing is synced on the way."""
    writer = JournalWriter(tmp_path)
    calls: list[int] = []
    real = os.writev
    monkeypatch.setattr(os, "writev", lambda fd, buffers: (calls.append(len(buffers)), real(fd, buffers))[1])
    for sync in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, sync, lambda fd: pytest.fail("synced on the calling thread"))
    writer.append([b"x"] * 256, 1)
    assert calls == [512]
    writer.close()


def test_segments_roll_and_are_read_in_order(tmp_path: Path) -> None:
    """Past `segment_bytes` a new file begins; the reader does not notice."""
    writer = JournalWriter(tmp_path, segment_bytes=200)
    for number in range(50):
        writer.append([b"%05d" % number], number)
    writer.close()
    sizes = [path.stat().st_size for path in sorted(tmp_path.iterdir())]
    assert len(sizes) > 5
    assert max(sizes) <= 200
    reader = JournalReader(tmp_path)
    assert [bytes(item.data) for item in reader.frames()] == [b"%05d" % number for number in range(50)]
    assert reader.complete


def test_a_frame_larger_than_a_segment_is_kept_whole(tmp_path: Path) -> None:
    """A segment holds at least one append, however large."""
    writer = JournalWriter(tmp_path, segment_bytes=100)
    writer.append([bytes(1_000)], 1)
    writer.append([bytes(1_000)], 2)
    writer.close()
    assert [len(data) for _, _, data in read(tmp_path)] == [1_000, 1_000]


def test_past_the_cap_the_oldest_segments_go_and_are_counted(tmp_path: Path) -> None:
    """The directory never holds more than the cap, the newest frames are there, and the reader is not complete."""
    writer = JournalWriter(tmp_path, segment_bytes=500, cap_bytes=2_000)
    for number in range(200):
        writer.append([b"%05d" % number * 10], number)
        assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 2_000
    writer.close()
    reader = JournalReader(tmp_path)
    numbers = [item.time_ns for item in reader.frames()]
    assert numbers == list(range(numbers[0], 200))
    assert numbers[0] > 0
    assert writer.dropped_segments == reader.missing_segments > 0
    assert not reader.complete


def test_a_small_cap_keeps_at_least_half_of_it(tmp_path: Path) -> None:
    """A cap below the segment size makes segments smaller instead of losing everything at a roll."""
    writer = JournalWriter(tmp_path, segment_bytes=1 << 30, cap_bytes=1_000)
    for number in range(200):
        writer.append([bytes(33)], number)
    writer.close()
    assert 400 < sum(path.stat().st_size for path in tmp_path.iterdir()) <= 1_000


def test_reopening_goes_on_in_a_new_segment(tmp_path: Path) -> None:
    """A second writer adds a segment, and counts the old ones against the cap."""
    for round_ in range(3):
        writer = JournalWriter(tmp_path, segment_bytes=400, cap_bytes=800)
        writer.append([bytes(200)], round_)
        writer.close()
    assert [time_ns for time_ns, _, _ in read(tmp_path)] == [0, 1, 2]
    writer = JournalWriter(tmp_path, segment_bytes=400, cap_bytes=800)
    writer.append([bytes(200)], 3)
    writer.close()
    assert [time_ns for time_ns, _, _ in read(tmp_path)] == [1, 2, 3]


def test_a_torn_tail_is_cut_and_the_next_segment_goes_on(tmp_path: Path) -> None:
    """A killed writer's half frame is counted; what a later writer added is read."""
    for number, name in enumerate(("killed", "restarted")):
        writer = JournalWriter(tmp_path)
        writer.append([name.encode(), b"second"], number)
        writer.close()
    first = min(tmp_path.iterdir())
    os.truncate(first, first.stat().st_size - 2)
    reader = JournalReader(tmp_path)
    assert [bytes(item.data) for item in reader.frames()] == [b"killed", b"restarted", b"second"]
    assert reader.torn_bytes == FRAME_HEADER_BYTES + 4
    assert not reader.complete


def test_a_full_disk_fails_the_journal_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ENOSPC sets `failed`, raises nothing, later appends are ignored, what was written before is readable."""
    writer = JournalWriter(tmp_path)
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
    """Where a file is in the way the writer says so and goes on as if nothing were wrong."""
    (tmp_path / "file").touch()
    writer = JournalWriter(tmp_path / "file" / "journal")
    assert "Not a directory" in writer.failed
    writer.append([b"ignored"], 1)
    writer.sync()
    writer.close()


def test_a_segment_that_can_not_be_begun_fails_the_journal(tmp_path: Path) -> None:
    """When the next segment can't be made, appends end and no descriptor is closed twice."""
    directory = tmp_path / "journal"
    writer = JournalWriter(directory, segment_bytes=100)
    writer.append([bytes(60)], 1)
    (directory / "00000001.seg").mkdir()
    writer.append([bytes(60)], 2)
    assert "Is a directory" in writer.failed
    writer.sync()
    writer.close()
    assert not open_descriptors(tmp_path)


def test_a_failing_sync_fails_the_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that can't keep what it took is a failure too."""
    writer = JournalWriter(tmp_path)
    monkeypatch.setattr("telemetry.store.journal._sync_data", failing(errno.EIO))
    writer.sync()
    assert writer.failed == os.strerror(errno.EIO)
    writer.close()


def test_sync_beside_appends_loses_no_frame_and_no_descriptor(tmp_path: Path) -> None:
    """A thread that syncs all the time beside rolls and deletions disturbs nothing."""
    writer = JournalWriter(tmp_path, segment_bytes=2_000, cap_bytes=20_000)
    over = threading.Event()

    def keep_syncing() -> None:
        while not over.is_set():
            writer.sync()

    thread = threading.Thread(target=keep_syncing)
    thread.start()
    for number in range(3_000):
        writer.append([b"%08d" % number * 4], number)
    over.set()
    thread.join()
    writer.sync()
    assert len(open_descriptors(tmp_path)) == 1
    writer.close()
    assert not open_descriptors(tmp_path)
    assert writer.failed == ""
    numbers = [time_ns for time_ns, _, _ in read(tmp_path)]
    assert numbers == list(range(numbers[0], 3_000))


def test_sync_after_close_does_nothing(tmp_path: Path) -> None:
    """A sync that was queued before the close finds nothing to do."""
    writer = JournalWriter(tmp_path)
    writer.append([b"x"], 1)
    writer.close()
    writer.sync()
    writer.append([b"late"], 2)
    writer.close()
    assert writer.failed == ""
    assert len(read(tmp_path)) == 1


def test_without_a_journal_the_reader_says_so(tmp_path: Path) -> None:
    """A missing or empty directory is an error, not an empty journal."""
    with pytest.raises(RunDirectoryError, match="can't be read"):
        read(tmp_path / "none")
    with pytest.raises(RunDirectoryError, match="no journal"):
        read(tmp_path)


def test_a_reader_that_has_not_finished_is_not_complete(tmp_path: Path) -> None:
    """Only the end of `frames()` tells that everything was read."""
    writer = JournalWriter(tmp_path)
    writer.append([b"a", b"b"], 1)
    writer.close()
    reader = JournalReader(tmp_path)
    next(reader.frames())
    assert not reader.complete
    assert len(list(reader.frames())) == 2
    assert reader.complete

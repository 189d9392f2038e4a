"""The file of the request log: whole frames, gone on with after a death, cut where the journal ends."""

from __future__ import annotations

import os
import resource
import signal
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from telemetry.errors import RunDirectoryError
from telemetry.store.append_file import AppendFile
from telemetry.store.framing import frame, segment_header
from telemetry.store.request_log import FILE_NAME, MAGIC, RECORDS, RequestLogReader, RequestLogWriter
from telemetry.wire.request_log import LoggedRecords


def frames(*numbers: int) -> list[LoggedRecords]:
    return [LoggedRecords(f"p{number}", number, -number, []) for number in numbers]


def read(folder: Path) -> list[LoggedRecords]:
    return list(RequestLogReader(folder).frames())


def written(folder: Path, count: int) -> Path:
    log = RequestLogWriter(folder)
    log.append(frames(*range(count)), 0)
    log.close()
    return folder / FILE_NAME


def test_frames_come_back_in_order(tmp_path: Path) -> None:
    """Frames of several appends read back in order, with their numbers. A log that gets no frames makes no file."""
    log = RequestLogWriter(tmp_path / "requests")
    log.append([], 0)
    assert not (tmp_path / "requests").exists()
    log.append(frames(0, 1), 0)
    log.append(frames(2), 2)
    assert read(tmp_path / "requests") == frames(0, 1, 2)
    assert [number for number, _ in RequestLogReader(tmp_path / "requests").places()] == [0, 1, 2]
    assert (log.next_number, log.failed) == (3, "")
    log.close()
    assert read(tmp_path / "none") == []


def test_a_frame_that_is_there_is_not_written_twice(tmp_path: Path) -> None:
    """A journal that is read again has frames of before; a gap in the numbers stays one."""
    log = RequestLogWriter(tmp_path)
    log.append(frames(0, 1, 2), 0)
    log.append(frames(1, 2, 3), 1)
    log.append(frames(0, 1), 0)
    log.append(frames(9), 9)
    assert read(tmp_path) == frames(0, 1, 2, 3, 9)
    assert log.next_number == 10


@pytest.mark.parametrize("cut", [1, 5, 20])
def test_a_torn_end_is_cut_and_written_again(tmp_path: Path, cut: int) -> None:
    """A killed writer leaves half a frame; the next one begins where that began."""
    path = written(tmp_path, 3)
    os.truncate(path, path.stat().st_size - cut)
    reader = RequestLogReader(tmp_path)
    assert (list(reader.frames()), reader.damaged_bytes) == (frames(0, 1), 0)
    log = RequestLogWriter(tmp_path, resume=True)
    assert log.next_number == 2
    log.append(frames(2, 3), 2)
    assert read(tmp_path) == frames(0, 1, 2, 3)


def test_a_damaged_end_is_told_and_made_again(tmp_path: Path) -> None:
    """Everything from the first damaged frame on is unreadable, and what the journal has of it is written again."""
    path = written(tmp_path, 4)
    ends = [end for _, end in RequestLogReader(tmp_path).places()]
    data = bytearray(path.read_bytes())
    data[ends[0] + 20] ^= 1
    path.write_bytes(data)
    reader = RequestLogReader(tmp_path)
    assert list(reader.frames()) == frames(0)
    assert (reader.damaged_bytes, reader.good_bytes) == (len(data) - ends[0], ends[0])
    log = RequestLogWriter(tmp_path, resume=True)
    log.append(frames(1, 2, 3), 1)
    assert read(tmp_path) == frames(0, 1, 2, 3)


def test_frames_beyond_the_journal_are_cut(tmp_path: Path) -> None:
    """A power cut may cost the journal its end, and not this file: the requests come again."""
    written(tmp_path, 4)
    log = RequestLogWriter(tmp_path, resume=True)
    log.cut(4)
    assert log.next_number == 4
    log.cut(2)
    assert log.next_number == 2
    log.append(frames(7), 2)
    assert read(tmp_path) == frames(0, 1, 7)
    log.close()


def test_a_frame_of_a_newer_version_is_passed_over(tmp_path: Path) -> None:
    """A frame of a newer version is intact, so the others are read. A file of a newer version is refused."""
    path = written(tmp_path, 1)
    file = AppendFile(path)
    file.append(frame([b"\x94\xc0"], 1, RECORDS))
    file.append(frame([b"anything"], 2, RECORDS + 1))
    file.close()
    reader = RequestLogReader(tmp_path)
    assert (list(reader.frames()), reader.unreadable, reader.damaged_bytes) == (frames(0), 1, 0)
    path.write_bytes(MAGIC + struct.pack("<Q", 99))
    with pytest.raises(RunDirectoryError, match="has schema version 99"):
        read(tmp_path)
    assert RequestLogWriter(tmp_path, resume=True).failed.startswith(f"{path} has schema version 99")


def test_a_file_that_can_not_be_read_is_named(tmp_path: Path) -> None:
    """A reader raises; a writer fails, and later appends have no effect."""
    (tmp_path / FILE_NAME).mkdir()
    with pytest.raises(RunDirectoryError, match=r"can't read .*requests\.log: Is a directory"):
        read(tmp_path)
    log = RequestLogWriter(tmp_path)
    log.append(frames(0), 0)
    assert log.failed.startswith("Is a directory")
    log.append(frames(0), 0)
    assert log.next_number == 0


@pytest.fixture
def small_disk() -> Iterator[int]:
    """Files of this process may have this size; the kernel refuses more."""
    before, ignored = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    size = 3_000
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    yield size
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, ignored)


def test_a_disk_without_room_ends_the_log_at_a_frame(tmp_path: Path, small_disk: int) -> None:
    """All frames of an append or none; the reason is kept, and nothing is raised."""
    log = RequestLogWriter(tmp_path)
    number = 0
    while not log.failed:
        log.append(frames(number, number + 1), number)
        number += 2
    assert log.failed == "File too large"
    found = read(tmp_path)
    assert found == frames(*range(len(found)))
    assert len(found) == log.next_number
    assert (tmp_path / FILE_NAME).stat().st_size <= small_disk


def test_a_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    """The file is for its owner alone, as all files of a run. It begins with its name and version."""
    path = written(tmp_path, 1)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_bytes().startswith(segment_header(MAGIC))

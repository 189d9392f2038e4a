"""The lock of a folder: one owner, any number of those who ask."""

from __future__ import annotations

import errno
import fcntl
import os
import threading
from pathlib import Path

import pytest

from telemetry.common.file_lock import is_locked, lock_file, lock_path


def test_one_owner(tmp_path: Path) -> None:
    """A second one does not get it, also in the same process, until it is released."""
    lock = lock_path(tmp_path, os.O_DIRECTORY)
    assert lock is not None
    assert is_locked(tmp_path)
    assert lock_path(tmp_path, os.O_DIRECTORY) is None
    lock.release()
    assert not is_locked(tmp_path)
    again = lock_path(tmp_path, os.O_DIRECTORY)
    assert again is not None
    again.release()


def test_who_only_asks_is_nobody(tmp_path: Path) -> None:
    """Two that look at the same moment don't take each other for an owner, and an owner outwaits them."""
    fd = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_SH)  # as `is_locked` does for a moment
    assert not is_locked(tmp_path)
    done = threading.Event()

    def let_go() -> None:
        done.wait(10.0)
        os.close(fd)

    thread = threading.Thread(target=let_go)
    thread.start()
    done.set()
    lock = lock_path(tmp_path, os.O_DIRECTORY, 1.0)
    thread.join()
    assert lock is not None
    lock.release()


def test_no_descriptor_is_left(tmp_path: Path) -> None:
    """`is_locked` leaves no descriptor open, however often it is called."""
    lock = lock_path(tmp_path, os.O_DIRECTORY)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        assert is_locked(tmp_path)
    assert len(os.listdir("/proc/self/fd")) == before
    assert lock is not None
    lock.release()
    assert len(os.listdir("/proc/self/fd")) == before - 1


@pytest.mark.parametrize("of_process", [False, True])
def test_only_a_lock_of_another_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, of_process: bool
) -> None:
    """POSIX lets `lockf` refuse with EACCES. From `flock` that is an error, as of a file system without locks."""
    number = errno.EACCES

    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "lockf" if of_process else "flock", fail)
    with open(tmp_path / "file", "wb") as file:
        if of_process:
            assert not lock_file(file.fileno(), of_process=True)
            number = errno.ENOLCK
        with pytest.raises(OSError, match=os.strerror(number)):
            lock_file(file.fileno(), of_process=of_process)


def test_a_removed_folder_is_not_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next owner of the lock would hold a folder that nobody finds."""
    folder = tmp_path / "folder"
    folder.mkdir()
    real = fcntl.flock

    def remove_first(fd: int, kind: int) -> None:
        folder.rmdir()
        real(fd, kind)

    monkeypatch.setattr(fcntl, "flock", remove_first)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(FileNotFoundError):
        lock_path(folder, os.O_DIRECTORY)
    assert len(os.listdir("/proc/self/fd")) == before

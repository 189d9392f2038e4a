"""The lock of a run directory: one owner, any number of those who ask."""

from __future__ import annotations

import errno
import fcntl
import os
import threading
from pathlib import Path

import pytest

from telemetry.store import run_lock
from telemetry.store.run_lock import Unsupported, take, taken


def test_one_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second one does not get it, also in the same process, until it is released."""
    monkeypatch.setattr(run_lock, "_PATIENCE_S", 0.0)
    lock = take(tmp_path)
    assert lock is not None
    assert taken(tmp_path)
    assert take(tmp_path) is None
    lock.release()
    assert not taken(tmp_path)
    again = take(tmp_path)
    assert again is not None
    again.release()


def test_who_only_asks_is_nobody(tmp_path: Path) -> None:
    """Two that look at the same moment don't take each other for an owner, and an owner outwaits them."""
    fd = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_SH)  # as `taken` does for a moment
    assert not taken(tmp_path)
    done = threading.Event()

    def let_go() -> None:
        done.wait(10.0)
        os.close(fd)

    thread = threading.Thread(target=let_go)
    thread.start()
    done.set()
    lock = take(tmp_path)
    thread.join()
    assert lock is not None
    lock.release()


def test_no_descriptor_is_left(tmp_path: Path) -> None:
    """Whoever asks often leaves nothing open."""
    lock = take(tmp_path)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        assert taken(tmp_path)
    assert len(os.listdir("/proc/self/fd")) == before
    assert lock is not None
    lock.release()
    assert len(os.listdir("/proc/self/fd")) == before - 1


def test_errors_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system without locks is one thing, a disk that fails another."""
    number = errno.EOPNOTSUPP

    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", fail)
    with pytest.raises(Unsupported):
        take(tmp_path)
    number = errno.EIO
    with pytest.raises(OSError, match="Input/output error"):
        taken(tmp_path)

"""The lock of the keeper of a run: the process that starts another aggregator if the run's aggregator dies.

It is one file beside the run's sockets, visible to all processes of this user on this host and locked by the
keeper. The kernel releases the lock when the process ends for any reason.
"""

from __future__ import annotations

import os
import threading
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Final

from telemetry.common.file_lock import FileLock, lock_file
from telemetry.errors import EndpointError
from telemetry.transport.endpoints import runtime_directory

_NAME: Final = "keeper.lock"
_PID_BYTES: Final = 20
_PATIENCE_S: Final = 0.1  # a process that looks up the keeper holds the lock for a moment; no other use exists


class KeeperLock:
    """The lock that marks this process as the keeper of a run, until `end`.

    A forked child does not become a keeper. If the file can't be made, other processes don't see the keeper.
    """

    def __init__(self, run_id: str) -> None:
        self._path: Path | None = None
        self._lock = FileLock()
        with suppress(OSError, EndpointError), _FORKING:
            _WILLING.add(self)
            path = _path(run_id)
            path.parent.mkdir(mode=0o700, exist_ok=True)
            self._lock = FileLock(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            if lock_file(self._lock.fd, _PATIENCE_S):
                os.ftruncate(self._lock.fd, 0)
                os.pwrite(self._lock.fd, b"%d" % os.getpid(), 0)
                self._path = path

    def end(self) -> None:
        """Release the lock. Can be called twice and from any thread."""
        path, self._path = self._path, None
        if path is not None:
            with suppress(OSError):
                path.unlink()
                path.parent.rmdir()
        self.let_go()

    def let_go(self) -> None:
        """Close the descriptor copied by a fork; the parent keeps the lock."""
        self._lock.release()


def keeper_of(run_id: str) -> int:
    """Return the process id of the keeper; 0 if there is none. Never raises."""
    try:
        fd = os.open(_path(run_id), os.O_RDONLY | os.O_CLOEXEC)
    except (OSError, ValueError, EndpointError):
        return 0
    try:
        text = b"" if lock_file(fd, shared=True) else os.pread(fd, _PID_BYTES, 0)
    except OSError:
        return 0
    finally:
        os.close(fd)
    return int(text) if text.isdigit() else 0


def clear(run_id: str) -> None:
    """Remove the file of a keeper that was killed. Never raises."""
    if not keeper_of(run_id):
        with suppress(OSError, ValueError, EndpointError):
            _path(run_id).unlink()


def _path(run_id: str) -> Path:
    return runtime_directory() / run_id / _NAME


_WILLING: Final[weakref.WeakSet[KeeperLock]] = weakref.WeakSet()
_FORKING: Final = threading.RLock()
"""Lock held during a fork, and while a descriptor is made but not stored yet: a child would never close it."""


def _let_go_in_child() -> None:
    for keeping in list(_WILLING):
        keeping.let_go()
        keeping._path = None
    _end_fork()


def _end_fork() -> None:
    with suppress(RuntimeError):  # not held: another thread imported this module after the fork had begun
        _FORKING.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_FORKING.acquire, after_in_parent=_end_fork, after_in_child=_let_go_in_child)

"""The lock of the keeper of a run: the process that starts another aggregator if the run's aggregator dies.

It is one file beside the run's sockets, visible to all processes of this user on this host and locked by the
keeper. The kernel releases the lock when the process ends for any reason.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Final

from telemetry.errors import EndpointError
from telemetry.transport.endpoints import runtime_directory

_NAME: Final = "keeper.lock"
_PID_BYTES: Final = 20
_TRIES: Final = 20  # a process that looks up the keeper holds the lock for a moment; no other use exists
_TRY_AGAIN_S: Final = 0.005


class KeeperLock:
    """The lock that marks this process as the keeper of a run, until `end`.

    A forked child does not become a keeper. If the file can't be made, other processes don't see the keeper.
    """

    def __init__(self, run_id: str) -> None:
        self._path: Path | None = None
        self._fd = -1
        with suppress(OSError, EndpointError), _FORKING:
            _WILLING.add(self)
            path = _path(run_id)
            path.parent.mkdir(mode=0o700, exist_ok=True)
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            _lock(self._fd)
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, b"%d" % os.getpid(), 0)
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
        fd, self._fd = self._fd, -1
        if fd >= 0:
            with suppress(OSError):  # a program that becomes a daemon closes unknown descriptors
                os.close(fd)


def keeper_of(run_id: str) -> int:
    """Return the process id of the keeper; 0 if there is none. Never raises."""
    try:
        fd = os.open(_path(run_id), os.O_RDONLY | os.O_CLOEXEC)
    except (OSError, ValueError, EndpointError):
        return 0
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        text = os.pread(fd, _PID_BYTES, 0)
        return int(text) if text.isdigit() else 0
    except OSError:
        return 0
    finally:
        os.close(fd)
    return 0


def clear(run_id: str) -> None:
    """Remove the file of a keeper that was killed. Never raises."""
    if not keeper_of(run_id):
        with suppress(OSError, ValueError, EndpointError):
            _path(run_id).unlink()


def _path(run_id: str) -> Path:
    return runtime_directory() / run_id / _NAME


def _lock(fd: int) -> None:
    """Lock the file. Raises OSError if another process holds it longer than a look-up takes."""
    for _ in range(_TRIES):
        with suppress(BlockingIOError):
            return fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        time.sleep(_TRY_AGAIN_S)
    raise BlockingIOError


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

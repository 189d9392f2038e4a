"""Who starts another aggregator for a run whose aggregator dies, told to all processes of this user on this host.

One file beside the run's sockets, locked by that process while it is willing. The kernel frees the lock when the
process ends, however that happens.
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
_TRIES: Final = 20  # whoever looks who it is holds the lock for a moment; nobody else ever wants it
_TRY_AGAIN_S: Final = 0.005


class KeeperLock:
    """This process is willing, from now on until `end`. A forked child is not. Where the file can't be made, nobody
    hears of it."""

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
        """May be called twice, by any thread."""
        path, self._path = self._path, None
        if path is not None:
            with suppress(OSError):
                path.unlink()
                path.parent.rmdir()
        self.let_go()

    def let_go(self) -> None:
        """Of a descriptor that a fork has copied: the lock stays where it was taken."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            with suppress(OSError):  # a program that becomes a daemon closes what it finds
                os.close(fd)


def keeper_of(run_id: str) -> int:
    """The process that is willing; 0 if there is none. Never raises."""
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
    """Removes what one that was killed has left. Never raises."""
    if not keeper_of(run_id):
        with suppress(OSError, ValueError, EndpointError):
            _path(run_id).unlink()


def _path(run_id: str) -> Path:
    return runtime_directory() / run_id / _NAME


def _lock(fd: int) -> None:
    """Raises OSError if it is another's for longer than a look takes."""
    for _ in range(_TRIES):
        with suppress(BlockingIOError):
            return fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        time.sleep(_TRY_AGAIN_S)
    raise BlockingIOError


_WILLING: Final[weakref.WeakSet[KeeperLock]] = weakref.WeakSet()
_FORKING: Final = threading.RLock()
"""Held by a fork, and while a descriptor is made that nobody knows of yet: a child would keep it for life."""


def _let_go_in_child() -> None:
    for keeping in list(_WILLING):
        keeping.let_go()
        keeping._path = None
    _FORKING.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_FORKING.acquire, after_in_parent=_FORKING.release, after_in_child=_let_go_in_child)

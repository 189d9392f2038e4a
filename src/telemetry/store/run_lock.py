"""The lock of a run directory. The kernel releases it when its process ends for any reason."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from pathlib import Path
from typing import Final

_UNSUPPORTED: Final = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK, errno.EBADF, errno.EINVAL)
"""Errors of file systems without such locks, or without locks on directories: some network file systems."""
_PATIENCE_S: Final = 1.0  # a process that only checks holds the lock for microseconds
_AGAIN_S: Final = 0.01


class Unsupported(Exception):
    """The file system does not support locks."""


class RunLock:
    """A lock held from `RunDirectory.lock` until `release`, or the end of the process."""

    def __init__(self, fd: int = -1) -> None:
        self._fd = fd

    def release(self) -> None:
        """Release the lock. Can be called twice."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def take(directory: Path) -> RunLock | None:
    """Lock the directory; return None after a second if another process or another `RunLock` holds it.

    Raises Unsupported, or OSError if the directory can't be opened.
    """
    deadline = time.monotonic() + _PATIENCE_S
    while (fd := _lock(directory, fcntl.LOCK_EX)) is None:
        if time.monotonic() > deadline:
            return None
        time.sleep(_AGAIN_S)
    return RunLock(fd)


def taken(directory: Path) -> bool:
    """Return whether a process holds the lock. Concurrent checks don't affect each other. Raises as `take`."""
    fd = _lock(directory, fcntl.LOCK_SH)
    if fd is None:
        return True
    os.close(fd)
    return False


def _lock(directory: Path, kind: int) -> int | None:
    """Return the descriptor that holds the lock; None if it is taken."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    except OSError as error:
        os.close(fd)
        if error.errno in _UNSUPPORTED:
            raise Unsupported from error
        raise
    return fd

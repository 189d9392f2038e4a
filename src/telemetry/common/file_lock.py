"""Locks of files and folders, which the kernel releases when their process ends for any reason.

A lock belongs to the open file, so a forked child has it too. With `of_process` it belongs to the process: no child
has it, but the process loses it when it closes any descriptor of the file.
"""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

_AGAIN_S: Final = 0.01


class FileLock:
    """A lock held until `release`, or the end of the process."""

    def __init__(self, fd: int = -1) -> None:
        self.fd = fd

    def release(self) -> None:
        """Release the lock. Can be called twice."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            with suppress(OSError):  # a program that becomes a daemon closes unknown descriptors
                os.close(fd)


def lock_file(fd: int, patience_s: float = 0.0, *, shared: bool = False, of_process: bool = False) -> bool:
    """Lock an open file; return False if it stays locked for `patience_s`.

    Raises OSError, also if the file system has no locks.
    """
    lock = fcntl.lockf if of_process else fcntl.flock
    held = (BlockingIOError, PermissionError) if of_process else (BlockingIOError,)  # POSIX allows EACCES for lockf
    kind = (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB
    for attempt in range(1 + round(patience_s / _AGAIN_S)):
        if attempt:
            time.sleep(_AGAIN_S)
        with suppress(*held):
            lock(fd, kind)
            return True
    return False


def lock_path(path: Path, flags: int, patience_s: float = 0.0, *, shared: bool = False) -> FileLock | None:
    """Open and lock a file; return None if it stays locked for `patience_s`.

    If its holder removes the file before it releases the lock, the file that replaces it is opened. Raises OSError,
    also if the file system has no locks.
    """
    while True:
        with ExitStack() as stack:
            lock = FileLock(os.open(path, flags | os.O_CLOEXEC, 0o600))
            stack.callback(lock.release)
            if not lock_file(lock.fd, patience_s, shared=shared):
                return None
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(lock.fd), os.stat(path)):
                    stack.pop_all()
                    return lock


def is_locked(path: Path, flags: int = os.O_RDONLY) -> bool:
    """Return whether a process holds the lock of a file. Concurrent checks don't affect each other.

    Raises OSError.
    """
    if lock := lock_path(path, flags, shared=True):
        lock.release()
    return lock is None

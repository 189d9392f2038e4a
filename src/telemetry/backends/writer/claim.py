"""The lock of a writer's folder, which allows one writer at a time and can end a hung one."""

from __future__ import annotations

import fcntl
import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from telemetry import limits
from telemetry.backends.backend import NotConfigured
from telemetry.errors import RunDirectoryError
from telemetry.files import open_file
from telemetry.store.append_file import describe
from telemetry.store.backends import WriterFolder

PATIENCE_S: Final = 10.0
_AGAIN_S: Final = 0.05
_KILLED_S: Final = 5.0
_STOPPED: Final = (b"T", b"t")


class Claim:
    """A lock held until `release` or the end of this process. Forked children don't inherit it."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def release(self) -> None:
        """Release the lock. May be called twice."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def claim(folder: WriterFolder, patience_s: float = PATIENCE_S) -> Claim:
    """Lock the folder.

    Waits up to `patience_s` for another writer, then kills that writer if it is stopped or hangs.

    Raises NotConfigured if the other writer works or can't be killed, and RunDirectoryError. On file systems
    without locks, it always succeeds.
    """
    try:
        fd = open_file(folder.lock, os.O_RDWR | os.O_CREAT, depth=3)
    except OSError as error:
        raise RunDirectoryError(f"can't lock the writer's folder: {describe(error)}") from error
    if not _take(fd, patience_s):
        pid = _holder(fd)
        if not _may_be_killed(pid, folder):
            os.close(fd)
            raise NotConfigured(
                f"another writer, process {pid}, is using {folder.path}", hint="wait for its end, or end it"
            )
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
        if not _take(fd, _KILLED_S):
            os.close(fd)
            raise NotConfigured(
                f"process {pid} still uses {folder.path}, although it was killed",
                hint=f"wait until it has ended (`ps -p {pid}`), then try again",
            )
    with suppress(OSError):
        os.ftruncate(fd, 0)
        os.pwrite(fd, b"%d\n" % os.getpid(), 0)
    return Claim(fd)


def _take(fd: int, patience_s: float) -> bool:
    deadline_s = time.monotonic() + patience_s
    while True:
        try:
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except (BlockingIOError, PermissionError):
            if time.monotonic() > deadline_s:
                return False
            time.sleep(_AGAIN_S)
        except OSError:
            return True


def _holder(fd: int) -> int:
    """Return the process id of the lock's holder, or 0 if unknown."""
    with suppress(OSError, ValueError):
        return int(os.pread(fd, 20, 0))
    return 0


def _may_be_killed(pid: int, folder: WriterFolder) -> bool:
    """Check whether a process is a writer of this run that is stopped or hangs. Works on Linux only."""
    if pid <= 0:
        return False
    proc = Path(f"/proc/{pid}")
    try:
        words = proc.joinpath("cmdline").read_bytes().split(b"\0")
        state = proc.joinpath("stat").read_bytes().rpartition(b") ")[2][:1]
    except OSError:
        return False
    run = os.fsencode(folder.path.parent.parent.name)
    if b"--writer" not in words or not any(run in word for word in words):
        return False
    return state in _STOPPED or _silent(folder, pid)


def _silent(folder: WriterFolder, pid: int) -> bool:
    with suppress(RunDirectoryError):
        stat = folder.read_status()
        return (
            stat is not None and stat.pid == pid and time.time_ns() - stat.time_ns > limits.BACKEND_SILENT_S * 1e9
        )
    return False

"""One writer a folder: the lock, and what becomes of one that does not live and does not die."""

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
from telemetry.store.append_file import describe
from telemetry.store.backends import WriterFolder

PATIENCE_S: Final = 10.0
_AGAIN_S: Final = 0.05
_KILLED_S: Final = 5.0
_STOPPED: Final = (b"T", b"t")


class Claim:
    """Held until `release`, or the end of this process: children that are forked don't have it."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def release(self) -> None:
        """May be called twice."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def claim(folder: WriterFolder, patience_s: float = PATIENCE_S) -> Claim:
    """Blocks for `patience_s` while another writer has the folder; then one that is stopped or hangs is killed.

    Raises NotConfigured if the other one is well, or can't be killed, and RunDirectoryError. Where the file system
    has no locks, nobody is kept out.
    """
    try:
        fd = os.open(folder.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise RunDirectoryError(f"the writer's folder can't be locked: {describe(error)}") from error
    if not _take(fd, patience_s):
        pid = _holder(fd)
        if not _may_be_killed(pid, folder):
            os.close(fd)
            raise NotConfigured(
                f"another writer, process {pid}, has {folder.path}", hint="wait for its end, or end it"
            )
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
        if not _take(fd, _KILLED_S):
            os.close(fd)
            raise NotConfigured(f"process {pid} still has {folder.path}, although it was killed")
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
    """0 if it does not say."""
    with suppress(OSError, ValueError):
        return int(os.pread(fd, 20, 0))
    return 0


def _may_be_killed(pid: int, folder: WriterFolder) -> bool:
    """Whether that process is a writer of this very run and does nothing any more. Only Linux can tell."""
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

"""The place of ring files: a tmpfs directory of this user alone, so that recording never waits for a disk."""

from __future__ import annotations

import fcntl
import os
import stat
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from telemetry.errors import EndpointError
from telemetry.transport.endpoints import runtime_directory

RING_SUFFIX: Final = ".ring"
DEFINITIONS_SUFFIX: Final = ".defs"
_SHARED_MEMORY: Final = Path("/dev/shm")
_MOUNTS: Final = Path("/proc/self/mountinfo")
_OLD_S: Final = 86_400


def ring_directory() -> Path | None:
    """Return the directory for ring files; create it if missing. None if no tmpfs has room for one."""
    with suppress(EndpointError):
        runtime = runtime_directory()
        if _is_tmpfs(runtime):
            return runtime
    if not _is_tmpfs(_SHARED_MEMORY):
        return None
    path = _SHARED_MEMORY / f"telemetry-{os.getuid()}"
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        facts = path.lstat()
    except OSError:
        return None
    private = stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.getuid() and not facts.st_mode & 0o077
    return path if private else None


def _is_tmpfs(path: Path) -> bool:
    """Check the kind of the file system that a path is on. False where the system does not tell."""
    try:
        device = os.stat(path).st_dev
        mounts = _MOUNTS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return False
    wanted = f"{os.major(device)}:{os.minor(device)}"
    return any(_kind(words) == "tmpfs" for words in map(str.split, mounts) if words[2:3] == [wanted])


def _kind(words: list[str]) -> str:
    """Return the file system of a line of mountinfo: the word after a lone hyphen."""
    return words[words.index("-") + 1] if "-" in words[:-1] else ""


def remove_old(directory: Path) -> None:
    """Remove files of processes that ended more than a day ago, and that no aggregator came for."""
    before = time.time() - _OLD_S
    with os.scandir(directory) as entries:
        old = [
            Path(entry.path)
            for entry in entries
            if entry.name.endswith(RING_SUFFIX) and entry.stat(follow_symlinks=False).st_mtime < before
        ]
    for path in old:
        with suppress(OSError):
            if _has_ended(path):
                path.unlink()
                path.with_suffix(DEFINITIONS_SUFFIX).unlink(missing_ok=True)


def _has_ended(path: Path) -> bool:
    """Check that no process holds the lock of a ring file."""
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True

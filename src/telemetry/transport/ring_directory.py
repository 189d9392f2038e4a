"""The place of ring files: a tmpfs directory of this user alone, so that recording never waits for a disk."""

from __future__ import annotations

import os
import stat
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from telemetry import limits
from telemetry.common.file_lock import lock_file
from telemetry.errors import EndpointError
from telemetry.transport.endpoints import IPC, ipc_path, is_loopback, runtime_directory
from telemetry.wire.rings import DEFINITIONS_SUFFIX, RING_SUFFIX

_SHARED_MEMORY: Final = Path("/dev/shm")
_MOUNTS: Final = Path("/proc/self/mountinfo")
_NAMESPACES: Final = "/proc/self/ns"


def ring_directory() -> Path | None:
    """Return the directory for ring files; create it if missing. None if no tmpfs has room for one."""
    with suppress(EndpointError):
        runtime = runtime_directory()
        if _is_tmpfs(runtime) and str(runtime).isprintable():  # a message can't name it otherwise
            return runtime
    if not _is_tmpfs(_SHARED_MEMORY):
        return None
    path = _in_shared_memory()
    with suppress(OSError):
        path.mkdir(mode=0o700, exist_ok=True)
    return path if _is_private(path) else None


def list_rings() -> set[str]:
    """Return the paths of all ring files where producers with the environment of this process put them."""
    paths: set[str] = set()
    directories = [_in_shared_memory()]
    with suppress(EndpointError):
        directories.append(runtime_directory())
    for directory in filter(_is_private, directories):
        with suppress(OSError):
            names = os.listdir(directory)
            paths.update(os.path.join(directory, name) for name in names if name.endswith(RING_SUFFIX))
    return paths


def is_on_this_host(endpoint: str) -> bool:
    """Return whether an aggregator is here, so that it can read a ring. An address of a network may be anywhere."""
    try:
        return endpoint.startswith(IPC) or is_loopback(endpoint)
    except EndpointError:
        return False


def namespaces(endpoint: str) -> str:
    """Return the namespaces of this process in which an address and a monotonic time have their meaning.

    The same address in another container is another one. Empty if the system does not tell.
    """
    namespace = "net" if ipc_path(endpoint) is None else "mnt"
    try:
        links = [os.readlink(f"{_NAMESPACES}/{namespace}")]
    except OSError:
        return ""
    with suppress(OSError):  # a kernel without namespaces of time
        links.append(os.readlink(f"{_NAMESPACES}/time"))
    return " ".join(links)


def _in_shared_memory() -> Path:
    return _SHARED_MEMORY / f"telemetry-{os.getuid()}"


def _is_private(path: Path) -> bool:
    """Check that a directory belongs to this user alone."""
    try:
        facts = path.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.getuid() and not facts.st_mode & 0o077


def _is_tmpfs(path: Path) -> bool:
    """Check the kind of the file system that a path is on. False where the system does not tell."""
    try:
        device = os.stat(path).st_dev
        mounts = _MOUNTS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return False
    wanted = f"{os.major(device)}:{os.minor(device)}"
    return any(_kind(fields) == "tmpfs" for fields in map(str.split, mounts) if fields[2:3] == [wanted])


def _kind(fields: list[str]) -> str:
    """Return the file system of a line of mountinfo: the word after a lone hyphen."""
    return fields[fields.index("-") + 1] if "-" in fields[:-1] else ""


def remove_old(directory: Path) -> None:
    """Remove old ring files: their process ended more than an hour ago, and no aggregator has read them."""
    before = time.time() - limits.RING_OLD_S
    for name in os.listdir(directory):
        path = directory / name
        with suppress(OSError):  # another process may have removed it
            if path.suffix not in (RING_SUFFIX, DEFINITIONS_SUFFIX) or path.lstat().st_mtime >= before:
                continue
            if path.suffix == RING_SUFFIX and _has_ended(path):
                path.unlink()
                path.with_suffix(DEFINITIONS_SUFFIX).unlink(missing_ok=True)
            elif not path.with_suffix(RING_SUFFIX).exists():  # its process was killed before it made a ring
                path.unlink()


def _has_ended(path: Path) -> bool:
    """Check that no process holds the lock of a ring file. A process that checks its own ring loses its lock."""
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        return lock_file(descriptor, of_process=True)
    finally:
        os.close(descriptor)

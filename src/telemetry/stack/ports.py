"""Ports of this machine: which are taken, by whom, and which are free."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

_LISTEN: Final = "0A"
"""State of a listening socket in /proc/net/tcp."""
_NEARBY: Final = 200
_HIGHEST: Final = 65_535


def is_taken(host: str, port: int) -> bool:
    """Return whether a process listens at this address. Raises OSError for an address that can't be used."""
    addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    with socket.socket(addresses[0][0], socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(addresses[0][4])
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return True
            raise
    return False


def free_port(host: str, wanted: int, chosen: Collection[int]) -> int:
    """Return the next free port after `wanted` that is not `chosen`. Raises OSError if there is none nearby."""
    for port in range(wanted + 1, min(wanted + _NEARBY, _HIGHEST) + 1):
        if port not in chosen and not is_taken(host, port):
            return port
    raise OSError(errno.EADDRINUSE, f"no port from {wanted} to {wanted + _NEARBY} is free")


def holder(port: int) -> str:
    """Return the process that listens at a port, as `prometheus, pid 812`; empty if the system does not tell."""
    wanted = {f"socket:[{inode}]" for inode in _listening(port)}
    for folder in Path("/proc").glob("[0-9]*/fd") if wanted else ():
        with suppress(OSError):  # processes of other users
            if any(os.readlink(entry) in wanted for entry in folder.iterdir()):
                name = (folder.parent / "comm").read_text().strip()
                return f"{name}, pid {folder.parent.name}"
    return ""


def is_taken_by(session: int, port: int) -> bool:
    """Return whether a process of a session listens at a port. True if the system does not tell."""
    wanted = {f"socket:[{inode}]" for inode in _listening(port)}
    if not wanted:
        return True
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if _session(folder) == session and any(os.readlink(fd) in wanted for fd in (folder / "fd").iterdir()):
                return True
        except PermissionError:  # a program with capabilities hides its files from its own user
            return True
        except (OSError, ValueError, IndexError):
            continue  # it has ended
    return False


def _session(folder: Path) -> int:
    return int((folder / "stat").read_text().rpartition(")")[2].split()[3])


def _listening(port: int) -> Iterator[str]:
    """Yield the inodes of sockets that listen at a port."""
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with suppress(OSError):
            for line in Path(table).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == _LISTEN and int(fields[1].rpartition(":")[2], 16) == port:
                    yield fields[9]

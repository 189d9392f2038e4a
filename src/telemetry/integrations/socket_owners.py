"""The owner of a local socket: the process that listens there, and whether it belongs to a command."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_PEER: Final = struct.Struct("3i")
"""Process, user and group id of a peer, in the kernel's layout."""
_PARENT, _SESSION = 1, 3
"""Indexes in /proc/PID/stat, after the name of the program."""
_GENERATIONS: Final = 1_000  # a process table that changes while it is read may contain a cycle


def listener(path: str) -> int | None:
    """Find the process that listens at a path. Returns 0 if the system does not tell, None without a listener."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
            if not hasattr(socket, "SO_PEERCRED"):
                return 0
            return int(_PEER.unpack(probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))[0])
        except BlockingIOError:
            return 0  # its backlog is full, so there is a listener
        except OSError:
            return None


class CommandProcesses:
    """The processes of a command: all descendants of a process, and all with a variable in their environment.

    A process adopted by another parent keeps its environment. A process with a cleared environment still has its
    parents, or their session.
    """

    def __init__(self, ancestor: int, variable: str, value: str, proc: Path = Path("/proc")) -> None:
        self._ancestor = ancestor
        self._wanted = f"{variable}={value}".encode()
        self._proc = proc

    @property
    def known(self) -> bool:
        """True if the system tells which process owns a socket."""
        return (self._proc / "self" / "stat").exists()

    def own(self, pid: int) -> bool:
        """Check whether a process belongs to the command. Returns False for a process that has ended."""
        if pid <= 0:
            return False
        _, session = self._parent_and_session(pid)
        return self._descends(pid) or self._descends(session) or self._wanted in self._environment(pid)

    def _descends(self, pid: int) -> bool:
        return any(parent == self._ancestor for parent in self._ancestors(pid))

    def _ancestors(self, pid: int) -> Iterator[int]:
        for _ in range(_GENERATIONS):
            pid, _ = self._parent_and_session(pid)
            if pid <= 1:
                return
            yield pid

    def _parent_and_session(self, pid: int) -> tuple[int, int]:
        """Return the ids of parent and session, or 0 for a process that has ended or is hidden."""
        try:
            stat = (self._proc / str(pid) / "stat").read_bytes()
        except OSError:
            return 0, 0
        fields = stat.rpartition(b")")[2].split()
        return int(fields[_PARENT]), int(fields[_SESSION])

    def _environment(self, pid: int) -> list[bytes]:
        """Return the environment, or an empty list for a process of another user."""
        try:
            return (self._proc / str(pid) / "environ").read_bytes().split(b"\0")
        except OSError:
            return []

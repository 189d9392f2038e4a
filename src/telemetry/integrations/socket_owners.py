"""Whose a local socket is: the process that listens there, and whether it is one of a command's."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_PEER: Final = struct.Struct("3i")
"""Process, user and group, as the kernel has them of a peer."""
_PARENT, _SESSION = 1, 3
"""Places in /proc/PID/stat behind the name of the program."""
_GENERATIONS: Final = 1_000  # a process table that changes while it is read may have a circle in it


def listener(path: str) -> int | None:
    """Return the id of the process that listens at a path; 0 if the system does not say, None if nobody does."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
            if not hasattr(socket, "SO_PEERCRED"):
                return 0
            return int(_PEER.unpack(probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))[0])
        except BlockingIOError:
            return 0  # its backlog is full: somebody listens
        except OSError:
            return None


class CommandProcesses:
    """The processes of a command: all descendants of a process, and all that have a variable of its environment.

    A process that was adopted by another keeps its environment; one that cleared that still has its parents, or the
    session of one of them.
    """

    def __init__(self, ancestor: int, variable: str, value: str, proc: Path = Path("/proc")) -> None:
        self._ancestor = ancestor
        self._wanted = f"{variable}={value}".encode()
        self._proc = proc

    @property
    def known(self) -> bool:
        """Whether the system tells whose a process is."""
        return (self._proc / "self" / "stat").exists()

    def own(self, pid: int) -> bool:
        """Whether a process is one of the command's. False for one that is gone."""
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
        """0 for what is gone or not to be seen."""
        try:
            stat = (self._proc / str(pid) / "stat").read_bytes()
        except OSError:
            return 0, 0
        fields = stat.rpartition(b")")[2].split()
        return int(fields[_PARENT]), int(fields[_SESSION])

    def _environment(self, pid: int) -> list[bytes]:
        """Empty for a process of another user."""
        try:
            return (self._proc / str(pid) / "environ").read_bytes().split(b"\0")
        except OSError:
            return []

"""The search for a sender's address by a pattern of socket files, and the process that listens there."""

from __future__ import annotations

import glob
import math
import os
import socket
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from telemetry import limits
from telemetry.errors import EndpointError
from telemetry.transport.endpoints import IPC, refuses

_PATIENCE_S: Final = 30.0


def is_pattern(address: str) -> bool:
    return address.startswith(IPC) and glob.has_magic(address)


def listening(patterns: Sequence[str]) -> list[str]:
    """Return the matching ipc addresses with a listener, newest first. Tests only the newest few."""
    newest = [address for address, _ in _matching(patterns)]
    return [address for address in newest[: limits.FEED_PLACES] if not refuses(address)]


def await_listening(
    patterns: Sequence[str], over: Callable[[], bool], say: Callable[[str], object], look_s: float = 0.1
) -> str:
    """Wait for a matching address with a listener and return the newest one, or an empty string once `over`."""
    patient_until_s = time.monotonic() + _PATIENCE_S
    while not (addresses := listening(patterns)):
        if over():
            return ""
        if time.monotonic() >= patient_until_s:
            patient_until_s = math.inf
            say(f"no sender listens at {' or '.join(patterns)} yet; still waiting")
        time.sleep(look_s)
    if len(addresses) > 1:
        say(f"found {len(addresses):,} senders and using the newest; the others are {', '.join(addresses[1:])}")
    return addresses[0]


class SendersOfCommand:
    """The addresses at which processes of a command listen; each is found once.

    If the system does not tell which process owns a socket, an address that appeared after the command's start
    counts as the command's. Two of them at once are an error.
    """

    def __init__(
        self,
        patterns: Sequence[str],
        processes: CommandProcesses,
        started_ns: int,
        say: Callable[[str], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare the search. `started_ns`: wall-clock time just before the command's start."""
        self._patterns = patterns
        self._processes = processes
        self._started_ns = started_ns
        self._say = say
        self._clock = clock
        self._judged: dict[_SocketFile, bool] = {}
        """Existing sockets → True if the command owns them."""
        self._patient_until_s = clock() + _PATIENCE_S

    def new(self) -> list[str]:
        """Return addresses of the command that are new since the last call.

        Raises EndpointError if the command's address is ambiguous.
        """
        addresses = self._owned() if self._processes.known else self._appeared()
        if addresses:
            self._patient_until_s = math.inf
        elif self._clock() >= self._patient_until_s:
            self._patient_until_s = math.inf
            others = ", ".join(f"{IPC}{file.path}" for file, ours in self._judged.items() if not ours)
            where = " or ".join(self._patterns)
            listen = f"; others listen at {others}" if others else ""
            self._say(f"no process of the command listens at {where} yet{listen}; still waiting")
        return addresses

    def _owned(self) -> list[str]:
        """Find new sockets of the command.

        A socket with a known owner is not probed again, to leave listeners undisturbed.
        """
        there = _matching(self._patterns)
        self._judged = {file: self._judged[file] for _, file in there if file in self._judged}
        unknown = [(address, file) for address, file in there if file not in self._judged]
        addresses = []
        for address, file in unknown[: limits.FEED_PLACES]:
            if not (pid := listener(address.removeprefix(IPC))):
                continue  # no listener, or an unknown one that the next look may identify
            self._judged[file] = self._processes.own(pid)
            if self._judged[file]:
                addresses.append(address)
        return addresses

    def _appeared(self) -> list[str]:
        recent = [
            (address, file) for address, file in _matching(self._patterns) if file.time_ns >= self._started_ns
        ]
        there = [(address, file) for address, file in recent[: limits.FEED_PLACES] if not refuses(address)]
        if len(there) > 1:
            names = ", ".join(address for address, _ in there)
            raise EndpointError(
                f"{len(there)} senders appeared since the command started, and this system can't "
                f"tell which one belongs to it: {names}",
                hint="write the address of the right one after the name of the feed",
            )
        new = [address for address, file in there if file not in self._judged]
        self._judged = {file: True for _, file in there}
        return new


class _SocketFile(NamedTuple):
    """The identity of a socket, to detect a new one at the same path."""

    path: str
    number: int
    time_ns: int


def _matching(patterns: Sequence[str]) -> list[tuple[str, _SocketFile]]:
    """Return matching addresses and their files, newest first, with or without a listener."""
    files: dict[str, _SocketFile] = {}
    for pattern in patterns:
        for path in glob.iglob(pattern.removeprefix(IPC)):
            try:
                stat = os.stat(path)
            except OSError:  # it was just removed
                continue
            files[f"{IPC}{path}"] = _SocketFile(path, stat.st_ino, stat.st_mtime_ns)
    return sorted(files.items(), key=lambda item: (item[1].time_ns, item[0]), reverse=True)


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

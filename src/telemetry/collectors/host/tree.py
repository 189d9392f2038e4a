"""The processes of a command: itself, its descendants, and descendants whose parent has ended."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from telemetry.common.formatting import printable

_RESCAN_EVERY: Final = 30
"""Samples until other processes are looked at again: a new process may have the id of one that has ended."""
_STAT_BYTES: Final = 1_024
_IO_BYTES: Final = 256
_ENVIRON_BYTES: Final = 1 << 17
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
_EARLIER_TICKS: Final = 2
"""Ticks by which the kernel's rounding can make a start look earlier than it was."""


@dataclass(slots=True)
class _Process:
    """One process at one reading."""

    name: str
    parent: int
    group: int
    session: int
    started: int
    """Start in clock ticks since boot. With the pid, it identifies a process."""
    own_ticks: int
    """CPU time of the process."""
    all_ticks: int
    """CPU time of the process and of its ended children."""
    threads: int
    memory: int
    is_zombie: bool = False
    """True if it has ended and its parent has not waited for it. It keeps its CPU time until then."""
    read: int = 0
    written: int = 0


@dataclass(slots=True)
class Use:
    """CPU of some processes, in percent of a core, and their memory, in bytes."""

    cpu: float = 0.0
    memory: int = 0


@dataclass(slots=True)
class Tree:
    """Use of all processes of a command together, and by the name of their program."""

    processes: int = 0
    threads: int = 0
    memory: int = 0
    cpu: float | None = None
    """None at the first reading, which has nothing to compare with. So are the rates."""
    read: float | None = None
    """Bytes per second that were read from storage."""
    written: float | None = None
    by_name: dict[str, Use] = field(default_factory=dict)


class CommandTree:
    """The tree of a command. A reading looks at each of its processes, and at each new process of the machine."""

    def __init__(self, pid: int, root: Path = Path("/"), variable: str = "") -> None:
        """Prepare to observe the process `pid` and its descendants. `root` is the folder of `proc`.

        `variable` is an environment variable with its value that only they have, `NAME=VALUE`. It tells a process
        whose parent ended before the first reading that could have seen both.
        """
        self._variable = b"\0%b\0" % variable.encode() if variable else b""
        self._proc = f"{root}/proc"
        self._pid = pid
        self._members: dict[int, _Process] = {}
        self._groups = {pid}
        """Ids of members, and of process groups and sessions of theirs that outlive their first process."""
        self._others: set[int] = set()
        self._readings = 0
        self._read_at_ticks: float | None = None

    def read(self, seconds: float, now_ticks: float | None = None) -> Tree:
        """Read the tree. Rates are over the `seconds` since the last call. `now_ticks` is the time since boot."""
        before = self._members
        if self._readings % _RESCAN_EVERY == 0:
            self._others.clear()
        self._readings += 1
        self._members = self._present()
        tree = self._sums()
        last_ticks = self._read_at_ticks
        self._read_at_ticks = _ticks_since_boot() if now_ticks is None else now_ticks
        if last_ticks is not None and seconds > 0:
            self._add_rates(tree, before, last_ticks - _EARLIER_TICKS, seconds)
        return tree

    def open_files(self) -> int:
        """Return the number of open files of all processes of the last reading that may be looked at."""
        return sum(_open_files(f"{self._proc}/{pid}/fd") for pid in self._members)

    # --- who belongs to it -----------------------------------------------------------------------

    def _present(self) -> dict[int, _Process]:
        """Return the members that exist, and remember all other processes."""
        pids = [int(name) for name in os.listdir(self._proc) if name.isdecimal()]
        self._others.intersection_update(pids)
        members: dict[int, _Process] = {}
        unknown: dict[int, _Process] = {}
        for pid in pids:
            if pid in self._others or (process := self._stat(pid)) is None:
                continue
            old = self._members.get(pid)
            if pid == self._pid or (old is not None and old.started == process.started):
                members[pid] = process
            else:
                unknown[pid] = process
        while joined := [pid for pid, process in unknown.items() if self._is_member(process, members)] or [
            pid for pid in unknown if self._has_variable(pid)
        ]:
            for pid in joined:
                members[pid] = unknown.pop(pid)
                self._groups.add(pid)
        self._others.update(unknown)
        # forget ids of groups that have ended: the system gives them to other processes
        of_members = {number for process in members.values() for number in (process.group, process.session)}
        self._groups = {self._pid, *members, *(self._groups & of_members)}
        for pid, process in members.items():
            self._read_io(pid, process)
        return members

    def _is_member(self, process: _Process, members: dict[int, _Process]) -> bool:
        """Return whether a process descends from a member.

        If its parent has ended, its process group or its session tells, unless that is the one the command was
        started in.
        """
        return process.parent in members or process.group in self._groups or process.session in self._groups

    def _has_variable(self, pid: int) -> bool:
        if not self._variable:
            return False
        try:
            return self._variable in b"\0%b" % _read(f"{self._proc}/{pid}/environ", _ENVIRON_BYTES)
        except OSError:  # it has ended, or belongs to another user
            return False

    def _stat(self, pid: int) -> _Process | None:
        """Return a process, also one whose parent has not waited for it yet; None if it is gone."""
        try:
            text = _read(f"{self._proc}/{pid}/stat", _STAT_BYTES)
        except OSError:
            return None
        head, _, tail = text.rpartition(b")")
        fields = tail.split(None, 22)
        if len(fields) < 22 or fields[0] == b"X":
            return None
        own = int(fields[11]) + int(fields[12])
        return _Process(
            name=head.partition(b"(")[2].decode(errors="replace"),
            parent=int(fields[1]),
            group=int(fields[2]),
            session=int(fields[3]),
            own_ticks=own,
            all_ticks=own + int(fields[13]) + int(fields[14]),
            threads=int(fields[17]),
            started=int(fields[19]),
            memory=int(fields[21]) * _PAGE_BYTES,
            is_zombie=fields[0] == b"Z",
        )

    def _read_io(self, pid: int, process: _Process) -> None:
        """Add the bytes of storage. Those of another user's process can't be read."""
        try:
            text = _read(f"{self._proc}/{pid}/io", _IO_BYTES)
        except OSError:
            return
        fields = dict(line.split(b": ") for line in text.splitlines() if b": " in line)
        process.read, process.written = int(fields.get(b"read_bytes", 0)), int(fields.get(b"write_bytes", 0))

    # --- sums ------------------------------------------------------------------------------------

    def _sums(self) -> Tree:
        tree = Tree()
        for process in self._members.values():
            if process.is_zombie:
                continue
            tree.processes += 1
            tree.threads += process.threads
            tree.memory += process.memory
            tree.by_name.setdefault(printable(process.name), Use()).memory += process.memory
        return tree

    def _add_rates(self, tree: Tree, before: dict[int, _Process], since: float, seconds: float) -> None:
        """Add the rates since the last reading.

        The kernel adds the CPU time of an ended child to that of its parent, once the parent has waited for it.
        Earlier readings have counted a part of it, so that part is subtracted.
        """
        own = in_all = read = written = 0
        for pid, process in self._members.items():
            old = before.get(pid)
            if old is None or old.started != process.started:
                old = _unborn(process) if process.started >= since else process  # else it was overlooked until now
            ticks = process.own_ticks - old.own_ticks
            own += ticks
            in_all += process.all_ticks - old.all_ticks
            read += process.read - old.read
            written += process.written - old.written
            if (
                use := tree.by_name.get(printable(process.name))
            ) is not None:  # a zombie may be the last of its name
                use.cpu += 100.0 * ticks / _TICKS_PER_S / seconds
        for old in _ended(before, self._members):
            in_all -= old.all_ticks
            read -= old.read
            written -= old.written
        tree.cpu = 100.0 * max(own, in_all, 0) / _TICKS_PER_S / seconds
        tree.read, tree.written = max(0, read) / seconds, max(0, written) / seconds


def _ended(before: dict[int, _Process], now: dict[int, _Process]) -> Iterator[_Process]:
    for pid, old in before.items():
        process = now.get(pid)
        if process is None or process.started != old.started:
            yield old


def _unborn(process: _Process) -> _Process:
    return _Process(process.name, process.parent, process.group, process.session, process.started, 0, 0, 0, 0)


def _read(path: str, size: int) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, size)
    finally:
        os.close(fd)


def _open_files(folder: str) -> int:
    """Return the number of entries of a folder. Linux has it as the size of the folder from 6.2 on."""
    try:
        return os.stat(folder).st_size or len(os.listdir(folder))
    except OSError:
        return 0


def _ticks_since_boot() -> float:
    import time

    return time.clock_gettime(time.CLOCK_BOOTTIME) * _TICKS_PER_S

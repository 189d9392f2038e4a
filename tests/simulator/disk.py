"""The simulated disk: real files in memory, and what a kill, a full disk or a failing one does to calls on them."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from tests.simulator.world import Killed, Process, World

_CALLS: Final = ("writev", "pwrite", "fsync", "ftruncate", "replace", "rename", "unlink")
"""Calls that change a disk."""
_SHORT: Final = 0.02
"""Share of writes that write only a part of their bytes."""


class SimulatedDisks:
    """The disks of all machines: what happens at each call of a simulated process that changes the disk."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.kill_at: dict[Process, int] = {}
        """Process → number of calls until one of them does not return."""
        self._synced: dict[int, int] = {}
        """Number of a file → its size when it was last synced."""

    def sync(self, fd: int) -> None:
        """Sync a file. A power cut keeps what it has now."""
        os.fsync(fd)
        facts = os.fstat(fd)
        self._synced[facts.st_ino] = facts.st_size

    def cut_power(self, folder: Path) -> None:
        """Let each log in a folder lose any number of the bytes that are not synced."""
        for path in sorted([*folder.rglob("*.seg"), *folder.rglob("*.log")]):
            facts = path.stat()
            synced = min(self._synced.get(facts.st_ino, 0), facts.st_size)
            os.truncate(path, self._world.random.randint(synced, facts.st_size))

    def call(self, name: str, function: Callable[..., Any], arguments: Sequence[Any]) -> Any:
        """Make a call of the process that runs. It may fail, or kill its process before or after its effect."""
        thread = self._world.thread
        if thread is None:
            return function(*arguments)
        process = thread.process
        process.check()
        left = self.kill_at.get(process)
        if left is not None:
            self.kill_at[process] = left - 1
            if left <= 0:
                del self.kill_at[process]
                self._world.tell(process.name, f"is in {name}()")
                self._cut_off(name, function, arguments)
                process.kill()
                raise Killed
        now_ns = self._world.now_ns
        if name in ("writev", "pwrite") and now_ns < process.machine.disk_full_until_ns:
            if name == "writev" and self._world.random.random() < 0.5:
                self._short(function, arguments)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if name == "fsync" and now_ns < process.machine.disk_fails_until_ns:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        if name == "writev" and self._world.random.random() < _SHORT:
            return self._short(function, arguments)
        return function(*arguments)

    def _cut_off(self, name: str, function: Callable[..., Any], arguments: Sequence[Any]) -> None:
        """Let a call have no effect, its whole effect, or that of a part of its bytes."""
        choice = self._world.random.randrange(3)
        if choice == 0:
            function(*arguments)
        elif choice == 1 and name == "writev":
            self._short(function, arguments)

    def _short(self, function: Callable[..., Any], arguments: Sequence[Any]) -> int:
        """Write a part of the bytes. Return how many."""
        fd, buffers = arguments[:2]
        data = b"".join(buffers)
        size = self._world.random.randrange(1, len(data)) if len(data) > 1 else len(data)
        function(fd, [data[:size]])
        return size


class _System:
    """The module `os`, with calls that go through the simulated disk."""

    def __init__(self, disk: SimulatedDisks) -> None:
        for name in _CALLS:
            setattr(self, name, self._through(disk, name, disk.sync if name == "fsync" else getattr(os, name)))

    @staticmethod
    def _through(disk: SimulatedDisks, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *arguments: disk.call(name, function, arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)


@contextmanager
def simulated_disks(disk: SimulatedDisks, world: World) -> Iterator[None]:
    """Let the modules of `store` call the simulated disk inside the block. A dead process closes its files."""
    from telemetry.common import file_lock
    from telemetry.daemon import worker_thread
    from telemetry.store import append_file, atomic, backends, journal, outbox

    system = _System(disk)
    with ExitStack() as undo:
        for module in (append_file, atomic, backends):
            _replace(undo, module, "os", system)
        for module in (journal, outbox):
            _replace(undo, module, "_sync_data", lambda fd: disk.call("fsync", disk.sync, (fd,)))
        _close_at_death(undo, world, append_file.AppendFile, _close_file)
        _close_at_death(undo, world, file_lock.FileLock, lambda lock: lock.release())
        _close_at_death(undo, world, journal.JournalWriter, _close_journal)
        _close_at_death(undo, world, worker_thread.Worker, _close_worker)
        yield


def _replace(undo: ExitStack, owner: Any, name: str, value: object) -> None:
    undo.callback(setattr, owner, name, getattr(owner, name))
    setattr(owner, name, value)


def _close_at_death(undo: ExitStack, world: World, kind: Any, close: Callable[[Any], object]) -> None:
    """Close each object of this class when the process that made it dies."""
    original = kind.__init__

    def initialize(self: Any, *arguments: Any, **options: Any) -> None:
        original(self, *arguments, **options)
        if world.thread is not None:
            world.thread.process.at_death.append(lambda: _quietly(close, self))

    undo.callback(setattr, kind, "__init__", original)
    kind.__init__ = initialize


def _quietly(close: Callable[[Any], object], item: Any) -> None:
    with suppress(OSError):
        close(item)


def _close_file(file: Any) -> None:
    """Close a file, unless another one has its descriptor by now. A journal closes those of ended segments."""
    if file.fd >= 0 and os.path.samestat(os.fstat(file.fd), os.stat(file.path)):
        file.close()


def _close_journal(writer: Any) -> None:
    for fd in (*writer._unsynced, *writer._unlinked):
        os.close(fd)
    writer._unsynced, writer._unlinked = [], []


def _close_worker(worker: Any) -> None:
    os.close(worker.fd)
    os.close(worker._wake_fd)

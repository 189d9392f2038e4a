"""The simulated machine: a virtual clock, and processes whose threads take turns in an order that a seed decides.

Threads are greenlets. Exactly one runs at any time, until it waits or ends. So a story has no race of its own: the
same seed makes the same story, and what would be a race is a choice of the seed.
"""

from __future__ import annotations

import heapq
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from random import Random
from typing import Any, Final

from greenlet import greenlet

SECOND_NS: Final = 1_000_000_000
_BOOT_NS: Final = 1_000 * SECOND_NS
_EPOCH_NS: Final = 1_800_000_000 * SECOND_NS
_READING_NS: Final = 1_000  # each look at the clock takes a microsecond, so that a loop that waits for it ends


class Killed(BaseException):
    """The end of a simulated process by SIGKILL: raised in each of its threads, and by each of its later calls."""


class StuckError(Exception):
    """A story did not end within its virtual time."""


class Machine:
    """A simulated machine: its clocks, its disk and the number of its starts."""

    def __init__(self, name: str, monotonic_offset_ns: int) -> None:
        self.name = name
        self.boots = 0
        """Number of times that it was started again."""
        self.monotonic_offset_ns = monotonic_offset_ns
        self.wall_offset_ns = 0
        self.disk_full_until_ns = 0
        """Until this time its disk has no room."""
        self.disk_fails_until_ns = 0
        """Until this time syncing fails."""


class Process:
    """A simulated process: its threads, on a machine."""

    def __init__(self, world: World, name: str, pid: int, machine: Machine) -> None:
        self.world = world
        self.name = name
        self.pid = pid
        self.machine = machine
        self.is_dead = False
        self.died_ns = 0
        self.paused_until_ns = 0
        """Until this time none of its threads runs."""
        self.threads: list[Thread] = []
        self.at_death: list[Callable[[], object]] = []
        """What the system does when the process ends: it closes connections and files, and releases locks."""

    def start(self, function: Callable[[], object], name: str = "main") -> Thread:
        """Start a thread, which gets its first turn soon."""
        thread = Thread(self, function, name)
        self.threads.append(thread)
        self.world.after(self.world.delay(), thread.resume)
        return thread

    def kill(self) -> None:
        """End the process. A thread of it that calls this gets Killed at its next wait or call of the system."""
        if self.is_dead:
            return
        self.world.tell(self.name, "is killed")
        self.end()
        for thread in self.threads:
            self.world.after(0, thread.unwind)

    def end(self) -> None:
        """Do what the system does at the end of a process."""
        if not self.is_dead:
            self.is_dead = True
            self.died_ns = self.world.now_ns
            for function in self.at_death:
                function()

    def check(self) -> None:
        """Raise Killed in a process that is dead."""
        if self.is_dead:
            raise Killed


class Thread:
    """A thread of a process."""

    def __init__(self, process: Process, function: Callable[[], object], name: str) -> None:
        self.process = process
        self.name = name
        self.is_over = False
        self._function = function
        self._fiber = greenlet(self._run, process.world.hub)
        self._waits = 0
        """Number of the wait that goes on, or of the next one."""
        self._is_woken = False

    def _run(self) -> None:
        try:
            self._function()
        except Killed:
            pass
        except BaseException as error:  # noqa: BLE001 – the story reports it
            self.process.world.errors.append(error)
        finally:
            self.is_over = True

    def resume(self) -> None:
        """Let the thread run until it waits or ends. Only for the loop of the world."""
        world, process = self.process.world, self.process
        if self.is_over or process.is_dead:
            return
        if process.paused_until_ns > world.now_ns:
            world.after(process.paused_until_ns - world.now_ns, self.resume)
            return
        world.thread = self
        self._fiber.switch()
        world.thread = None

    def wait(self, seconds: float | None) -> bool:
        """Wait until `wake`, at most this time. Return False if the time is over. Only for the thread itself."""
        self.process.check()
        number, world = self._waits, self.process.world
        if seconds is not None:
            world.after(max(0, round(seconds * SECOND_NS)), lambda: self._go_on(number, woken=False))
        world.hub.switch()
        self.process.check()
        return self._is_woken

    def wake(self) -> None:
        """End the wait that goes on, soon."""
        number, world = self._waits, self.process.world
        world.after(world.delay(), lambda: self._go_on(number, woken=True))

    def _go_on(self, number: int, *, woken: bool) -> None:
        if number == self._waits:
            self._waits += 1
            self._is_woken = woken
            self.resume()

    def unwind(self) -> None:
        """Raise Killed in the thread of a dead process. Only for the loop of the world."""
        if self._fiber and not self.is_over:
            self.process.world.thread = self
            self._fiber.throw(Killed)
            self.process.world.thread = None


class World:
    """Clock, events to come, and the story so far."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.now_ns = _BOOT_NS
        self.hub = greenlet.getcurrent()
        self.thread: Thread | None = None
        """The thread that runs now; None between two of them."""
        self.errors: list[BaseException] = []
        """Exceptions that ended threads."""
        self.story: list[str] = []
        self._events: list[tuple[int, int, Callable[[], object]]] = []
        self._numbers = count()
        self._pids = count(5_000)
        self.processes: list[Process] = []

    def machine(self, name: str) -> Machine:
        """Return a new machine. Its monotonic clock began at any time."""
        return Machine(name, self.random.randrange(1_000_000) * SECOND_NS)

    def process(self, name: str, machine: Machine | None = None) -> Process:
        """Return a new process, on a machine of its own unless one is given."""
        made = Process(self, name, next(self._pids), machine or self.machine(name))
        self.processes.append(made)
        return made

    def tell(self, who: str, what: str) -> None:
        """Add a line to the story."""
        self.story.append(f"{(self.now_ns - _BOOT_NS) / 1e9:12.6f}  {who:<14} {what}")

    def after(self, ns: int, function: Callable[[], object]) -> None:
        """Call a function after this time."""
        heapq.heappush(self._events, (self.now_ns + ns, next(self._numbers), function))

    def delay(self) -> int:
        """Return a short time by which the order of two things is not decided, in ns."""
        return int(self.random.expovariate(1 / 200_000))

    def run(self, is_over: Callable[[], bool], seconds: float) -> None:
        """Let time pass until the story is over. Raises StuckError after this virtual time."""
        end_ns = self.now_ns + round(seconds * SECOND_NS)
        while not is_over():
            if not self._events or self._events[0][0] > end_ns:
                raise StuckError(f"nothing ends the story within {seconds:g} s of virtual time")
            at_ns, _, function = heapq.heappop(self._events)
            self.now_ns = max(self.now_ns, at_ns)
            function()

    def end(self) -> None:
        """End all processes, and unwind their threads. A thread that waits would hold its memory for ever."""
        for process in self.processes:
            process.end()
        for process in self.processes:
            for thread in process.threads:
                thread.unwind()

    # --- the clocks of the thread that runs ----------------------------------------------------------

    def monotonic_ns(self) -> int:
        self.now_ns += _READING_NS
        return self.now_ns + (self.thread.process.machine.monotonic_offset_ns if self.thread is not None else 0)

    def wall_ns(self) -> int:
        self.now_ns += _READING_NS
        offset_ns = self.thread.process.machine.wall_offset_ns if self.thread is not None else 0
        return _EPOCH_NS + self.now_ns - _BOOT_NS + offset_ns

    def boot_id(self) -> str:
        machine = self.current.process.machine
        return f"{machine.name}, boot {machine.boots}"

    def sleep(self, seconds: float) -> None:
        self.current.wait(seconds)

    @property
    def current(self) -> Thread:
        assert self.thread is not None, "no simulated thread runs"
        return self.thread


@contextmanager
def virtual_time(world: World) -> Iterator[None]:
    """Let everything in this process read the virtual clock inside the block."""
    from telemetry.client import recorders
    from telemetry.common import clock
    from telemetry.daemon import run_opening
    from telemetry.daemon.recovery import resume

    replaced: dict[str, Any] = {
        "monotonic": lambda: world.monotonic_ns() / 1e9,
        "monotonic_ns": world.monotonic_ns,
        "perf_counter": lambda: world.monotonic_ns() / 1e9,
        "perf_counter_ns": world.monotonic_ns,
        "process_time_ns": lambda: world.now_ns // 10,
        "time": lambda: world.wall_ns() / 1e9,
        "time_ns": world.wall_ns,
        "sleep": world.sleep,
    }
    before = {name: getattr(time, name) for name in replaced}
    system: Any = clock.SYSTEM_CLOCK
    for name, function in replaced.items():
        setattr(time, name, function)
    system.monotonic_ns, system.wall_ns = world.monotonic_ns, world.wall_ns
    defaults: list[tuple[Any, dict[str, Any]]] = [
        (recorders.blocking_extend, {"now": time.monotonic, "sleep": time.sleep}),
    ]
    originals = [(function, dict(function.__kwdefaults__)) for function, _ in defaults]
    for function, virtual in defaults:
        function.__kwdefaults__ = {**function.__kwdefaults__, **virtual}
    modules: list[Any] = [run_opening, resume]
    boot_id, getpid, gethostname = clock.boot_id, os.getpid, socket.gethostname
    socket.gethostname = lambda: "machine"
    os.getpid = lambda: world.thread.process.pid if world.thread is not None else getpid()
    for module in modules:
        module.boot_id = world.boot_id
    try:
        yield
    finally:
        for module in modules:
            module.boot_id = boot_id
        os.getpid = getpid
        socket.gethostname = gethostname
        for name, function in before.items():
            setattr(time, name, function)
        del system.monotonic_ns, system.wall_ns
        for function, original in originals:
            function.__kwdefaults__ = original

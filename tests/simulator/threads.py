"""Threads, events, conditions and queues of simulated processes, in place of those of `threading` and `queue`."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import Empty, Full
from typing import Any, Final

from tests.simulator.world import Thread, World

_USERS: Final = (
    "telemetry.backends.writer.reader",
    "telemetry.backends.writer.tally",
    "telemetry.client.sending.flusher",
    "telemetry.daemon.exact_percentiles",
    "telemetry.daemon.node_search",
    "telemetry.daemon.recovery.recover",
    "telemetry.daemon.upstream.leaf",
    "telemetry.daemon.upstream.search",
    "telemetry.daemon.upstream.uplink",
    "telemetry.daemon.worker_thread",
    "telemetry.gateway.run_link",
)
"""Modules that start threads or wait for them."""


class SimulatedThreading:
    """The functions of `threading` that the modules use."""

    RLock = staticmethod(threading.RLock)  # no thread waits while it holds one, so all of them may share it
    get_ident = staticmethod(threading.get_ident)

    def __init__(self, world: World) -> None:
        self._world = world

    def Thread(self, *, target: Callable[[], object], name: str = "", daemon: bool = False) -> SimulatedThread:
        return SimulatedThread(self._world, target, name)

    def Event(self) -> SimulatedEvent:
        return SimulatedEvent(self._world)

    def Lock(self) -> SimulatedLock:
        return SimulatedLock(self._world)

    def Condition(self, _lock: object = None) -> SimulatedCondition:
        return SimulatedCondition(self._world)


class Waiters:
    """The threads that wait for something."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._threads: list[Thread] = []

    def wait(self, seconds: float | None) -> bool:
        thread = self._world.current
        self._threads.append(thread)
        try:
            return thread.wait(seconds)
        finally:
            self._threads.remove(thread)

    def wake(self) -> None:
        for thread in self._threads:
            thread.wake()


class SimulatedThread:
    def __init__(self, world: World, target: Callable[[], object], name: str) -> None:
        self._world = world
        self._target = target
        self._name = name
        self._ended = Waiters(world)
        self._thread: Thread | None = None

    def start(self) -> None:
        def run() -> None:
            try:
                self._target()
            finally:
                self._ended.wake()

        self._thread = self._world.current.process.start(run, self._name)

    @property
    def ident(self) -> int | None:
        return None if self._thread is None else id(self._thread)

    def is_alive(self) -> bool:
        return self._thread is not None and not self._thread.is_over

    def join(self, timeout: float | None = None) -> None:
        if self.is_alive():
            self._ended.wait(timeout)


class SimulatedEvent:
    def __init__(self, world: World) -> None:
        self._waiters = Waiters(world)
        self._is_set = False

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True
        self._waiters.wake()

    def clear(self) -> None:
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        if not self._is_set:
            self._waiters.wait(timeout)
        return self._is_set


class SimulatedCondition:
    def __init__(self, world: World) -> None:
        self._world = world
        self._waiters = Waiters(world)

    def __enter__(self) -> bool:
        return True

    def __exit__(self, *_: object) -> None: ...

    def wait(self, timeout: float | None = None) -> bool:
        return self._waiters.wait(timeout)

    def wait_for(self, predicate: Callable[[], Any], timeout: float | None = None) -> Any:
        end_ns = None if timeout is None else self._world.monotonic_ns() + round(timeout * 1e9)
        while not (outcome := predicate()):
            left_s = None if end_ns is None else (end_ns - self._world.monotonic_ns()) / 1e9
            if left_s is not None and left_s <= 0:
                break
            self._waiters.wait(left_s)
        return outcome

    def notify(self, _count: int = 1) -> None:
        self._waiters.wake()

    notify_all = notify


class SimulatedLock:
    def __init__(self, world: World) -> None:
        self._freed = SimulatedCondition(world)
        self._is_held = False

    def acquire(self, timeout: float | None = None) -> bool:
        if not self._freed.wait_for(lambda: not self._is_held, timeout):
            return False
        self._is_held = True
        return True

    def release(self) -> None:
        self._is_held = False
        self._freed.notify()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class SimulatedQueue:
    """A queue as of `queue.Queue`."""

    def __init__(self, world: World, maxsize: int) -> None:
        self._changed = SimulatedCondition(world)
        self._items: deque[Any] = deque()
        self._most = maxsize

    def put(self, item: Any, timeout: float | None = None) -> None:
        if not self._changed.wait_for(lambda: len(self._items) < self._most, timeout):
            raise Full
        self._items.append(item)
        self._changed.notify()

    def put_nowait(self, item: Any) -> None:
        if len(self._items) >= self._most:
            raise Full
        self.put(item)

    def get(self, timeout: float | None = None) -> Any:
        if not self._changed.wait_for(lambda: self._items, timeout):
            raise Empty
        item = self._items.popleft()
        self._changed.notify()
        return item


@contextmanager
def simulated_threads(world: World) -> Iterator[None]:
    """Let the modules that use threads have those of the world inside the block."""
    from importlib import import_module

    from telemetry.daemon import worker_thread

    modules: list[Any] = [import_module(name) for name in _USERS]
    place: Any = worker_thread
    simulated, queue = SimulatedThreading(world), place.Queue
    for module in modules:
        module.threading = simulated
    place.Queue = lambda maxsize: SimulatedQueue(world, maxsize)
    try:
        yield
    finally:
        for module in modules:
            module.threading = threading
        place.Queue = queue

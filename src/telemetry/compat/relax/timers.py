"""Named timers of the process, and their forms as blocks and decorators."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, TypeVar, overload

from telemetry.client.instruments import BlockTimer as Block
from telemetry.client.signal_safe import Locked
from telemetry.client.user_warnings import warn_once
from telemetry.compat.relax.timeline import HeldEvents, TimelineEvent

_Function = TypeVar("_Function", bound=Callable[..., Any])


class _Start(NamedTuple):
    """The beginning of a timed block."""

    thread: int
    start_ns: int
    labels: Mapping[str, object]


class Timer(Locked):
    """The named timers of this process. `Timer()` is always the same object. Thread-safe.

    Threads may use the same name at the same time, and blocks of one name may be nested. Each block becomes an
    event, and `log_record_and_clear` records the events as spans of a step.
    """

    _only: Timer | None = None

    def __new__(cls) -> Timer:
        """Return the timers of this process."""
        if Timer._only is None:
            Timer._only = super().__new__(cls)
            Timer._only._set_up()
        return Timer._only

    def __init__(self) -> None:  # each call of `Timer()` comes here
        pass

    def _set_up(self) -> None:
        Locked.__init__(self)
        self._totals: dict[str, float] = {}
        self._started: dict[str, list[_Start]] = {}
        self._held = HeldEvents()

    def start(self, name: str, **labels: object) -> None:
        """Start a timer. `labels` become labels of the span, such as its `step`."""
        self._begin(name, labels)

    def end(self, name: str, keep: bool = True, **labels: object) -> float:
        """End a timer, and return its seconds. Without `keep`, `log_dict` forgets the name.

        The newest block of this name in this thread ends, else the newest one of another thread. A name that was
        not started is reported once, and takes 0 seconds.
        """
        return self._end(name, None, keep, labels)

    def reset(self, name: str | None = None) -> None:
        """Forget the seconds of a name, or of all names."""
        with self._lock:
            if name is None:
                self._totals.clear()
            else:
                self._totals.pop(name, None)

    def add(self, name: str, elapsed_time: float) -> None:
        """Add seconds to a name, without an event."""
        with self._lock:
            self._totals[name] = self._totals.get(name, 0.0) + elapsed_time

    def log_dict(self) -> dict[str, float]:
        """Return the seconds of each name since the last `reset`."""
        with self._lock:
            return dict(self._totals)

    def log_record_and_clear(self, step: int) -> list[TimelineEvent]:
        """Record the events since the last call as spans of a step, and return them."""
        return self._held.record_all(step)

    def context(self, name: str, **kwargs: Any) -> Block:
        """Return a `with` block or decorator that starts and ends a timer.

        `keep` has the meaning that it has for `end`; the others become labels.
        """
        return _TimedBlock(self, name, bool(kwargs.pop("keep", True)), kwargs)

    def _begin(self, name: str, labels: Mapping[str, object]) -> _Start:
        with self._lock:
            start = _Start(threading.get_ident(), time.monotonic_ns(), labels)
            self._started.setdefault(name, []).append(start)
        return start

    def _end(self, name: str, start: _Start | None, keep: bool, labels: Mapping[str, object]) -> float:
        end_ns = time.monotonic_ns()
        with self._lock:
            start = self._take(name, start)
            if start is None:
                warn_once(
                    f"timer {name}",
                    f"timer {name!r} was ended but not started, so it took 0 s. This warning appears once",
                )
                return 0.0
            elapsed_s = (end_ns - start.start_ns) / 1e9
            if keep:
                self._totals[name] = self._totals.get(name, 0.0) + elapsed_s
            else:
                self._totals.pop(name, None)
        self._held.add(TimelineEvent.measured(name, (start.start_ns, end_ns), {**start.labels, **labels}))
        return elapsed_s

    def _take(self, name: str, wanted: _Start | None) -> _Start | None:
        """Remove and return the wanted start if it is there, else the newest one of this thread, else of any."""
        started = self._started.get(name)
        if not started:
            return None
        index = len(started) - 1
        if started[index] is not wanted:  # the usual block ends before another one of its name begins
            here = threading.get_ident()
            places = range(index, -1, -1)
            index = next((at for at in places if started[at].thread == here), index)
            index = next((at for at in places if started[at] is wanted), index)
        start = started.pop(index)
        if not started:
            del self._started[name]
        return start


class _TimedBlock(Block):
    """A block or decorated function that starts and ends a timer. Any kind of function may be decorated."""

    __slots__ = ("_keep", "_labels", "_name", "_timers")

    def __init__(self, timers: Timer, name: str, keep: bool, labels: Mapping[str, object]) -> None:
        super().__init__(_no_record, 1)
        self._timers = timers
        self._name = name
        self._keep = keep
        self._labels = labels

    def _begin(self) -> _Start:
        return self._timers._begin(self._name, self._labels)

    def _stop(self, begun: _Start) -> None:
        self._timers._end(self._name, begun, self._keep, {})


class _Deferred(Block):
    """A decorator that calls a function after the decorated one."""

    __slots__ = ("_function",)

    def __init__(self, function: Callable[[], object]) -> None:
        super().__init__(_no_record, 1)
        self._function = function

    def _begin(self) -> None:
        """Do nothing: there is no time to measure."""

    def _stop(self, begun: None) -> None:
        self._function()


@overload
def timer(name_or_func: str, **kwargs: Any) -> Block: ...
@overload
def timer(name_or_func: _Function, **kwargs: Any) -> _Function: ...
def timer(name_or_func: Any, **kwargs: Any) -> Any:
    """Time a block, or each call of a function under its name.

    Example:
        with timer("rollout"):
            rollout()

        @timer
        def update(): ...
    """
    if isinstance(name_or_func, str):
        return Timer().context(name_or_func, **kwargs)
    return Timer().context(name_or_func.__name__, **kwargs)(name_or_func)


@contextmanager
def inverse_timer(name: str) -> Generator[None]:
    """End a timer for the duration of a block, and start it again after it.

    Example:
        Timer().start("wait")
        with inverse_timer("wait"):
            work()
    """
    Timer().end(name)
    try:
        yield
    finally:
        Timer().start(name)


def with_defer(deferred_func: Callable[[], object]) -> Callable[[_Function], _Function]:
    """Return a decorator that calls `deferred_func` after the function, also if it raises.

    Example:
        @with_defer(lambda: Timer().start("wait"))
        def train(): ...
    """
    return _Deferred(deferred_func)  # type: ignore[return-value]  # its call keeps the signature


def _no_record(value: Any, at_ns: int | None = None) -> None:
    """Do nothing: the timers record themselves."""


_TIMER: Final = Timer()
"""The timers of this process, made at the import, before there are threads."""

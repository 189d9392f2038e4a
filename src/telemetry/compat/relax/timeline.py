"""Timers and events in the Chrome trace format, which become spans of the run."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain
from operator import index
from typing import Any, Final, NamedTuple, TypeVar, overload

from telemetry.client import module_level as telemetry
from telemetry.client.instruments import BlockTimer
from telemetry.client.process import PROCESS
from telemetry.client.signal_safe import LivingObjects, Locked
from telemetry.client.user_warnings import warn_once
from telemetry.errors import error_text

HELD: Final = 10_000
"""Events that wait for their step. The oldest ones beyond that are recorded without a step."""
MARKS: Final = 1_000
"""Marks about begins and ends that don't match. Further ones are counted in the last mark."""
_US: Final = 1_000_000
_BEGIN: Final = "a begin without an end"
_END: Final = "an end without a begin"

_Function = TypeVar("_Function", bound=Callable[..., Any])
Times = tuple[int, int]
"""Start and end by the monotonic clock, in ns."""


class TraceEvent(dict[str, Any]):
    """The dictionary of an event that is a span of the run already, so that it does not become a second one."""


@dataclass(eq=False)
class TimelineEvent:
    """A complete event of a trace: a name with Unix times in seconds, and the process, thread and step of it."""

    name: str
    start_ts: float
    end_ts: float
    pid: int | None = None
    tid: int | None = None
    step: int | None = None
    call_stack: str | None = None

    def __post_init__(self) -> None:
        self.pid = os.getpid() if self.pid is None else self.pid
        self.tid = threading.get_ident() if self.tid is None else self.tid
        self._track = ""
        """Track of an event of this process. Events of others get theirs when they are recorded."""
        self._labels: Mapping[str, object] = {}
        self._times: Times | None = None
        self._is_recorded = False

    @classmethod
    def measured(cls, name: str, times: Times, labels: Mapping[str, object]) -> TimelineEvent:
        """Return an event of this thread by monotonic times. Labels may have its step."""
        end_s = (times[1] - time.monotonic_ns() + time.time_ns()) / 1e9
        event = cls(name, end_s - (times[1] - times[0]) / 1e9, end_s)
        event._times, event._labels, event._track = times, labels, _track(event.pid, event.tid)
        with suppress(KeyError, TypeError):
            event.step = index(labels["step"])  # type: ignore[arg-type]  # an error says that it is none
        return event

    def to_trace_event(self) -> dict[str, Any]:
        """Return the event in the Chrome trace format, with Unix times in microseconds."""
        event: dict[str, Any] = TraceEvent() if self._is_recorded else {}
        event |= {"name": self.name, "ph": "X", "ts": round(self.start_ts * _US)}
        event |= {"dur": round((self.end_ts - self.start_ts) * _US), "pid": self.pid, "tid": self.tid}
        args = {"step": self.step, "call_stack": self.call_stack or None}
        if args := {key: value for key, value in args.items() if value is not None}:
            event["args"] = args
        return event

    def record(self, step: int | None) -> None:
        """Record the event as a span, once. `step` counts if the event has no step itself."""
        if not self._is_recorded:
            self._is_recorded = True
            self.step = step if self.step is None else self.step
            times = self._times or _monotonic(self.start_ts * _US, self.end_ts * _US)
            track = self._track if self._times else _track(self.pid, self.tid)
            _put_span(self.name, times, track, self.step, self._labels)


class TimelineTraceAdapter(Locked):
    """A collector of events, which `dump` records as spans. Thread-safe.

    `telemetry run --timeline-dir DIR` writes the files. `dump_dir` only says whether events are collected: an empty
    one means no. `max_dump` has no effect. Events that are left when the producer ends are recorded without a step.
    A forked child begins without events.
    """

    def __init__(self, dump_dir: str | None, max_dump: int = 20) -> None:
        super().__init__()
        self.dump_dir = dump_dir
        self.enabled = bool(dump_dir and dump_dir.strip())
        self._events: list[Any] = []
        _ADAPTERS.add(self)

    def renew_lock(self) -> None:
        """Replace the lock, and forget the events of the parent."""
        super().renew_lock()
        self._events = []

    def is_enabled(self) -> bool:
        """Return whether events are collected."""
        return self.enabled

    def add_events(self, events: Iterable[TimelineEvent]) -> None:
        """Collect events. Those of `Timer.log_record_and_clear` are spans already and do not become second ones."""
        self.add_event_dicts(each if isinstance(each, TimelineEvent) else each.to_trace_event() for each in events)

    def add_event_dicts(self, event_dicts: Iterable[Any]) -> None:
        """Collect events in the Chrome trace format."""
        added = list(event_dicts) if self.enabled else []
        with self._lock:
            self._events += added
            excess = len(self._events) - HELD
            oldest = self._events[: max(excess, HELD // 2)] if excess > 0 else []
            del self._events[: len(oldest)]
        record_timeline(None, oldest)

    def dump(self, step: int) -> None:
        """Record all collected events as spans and forget them. `step` counts for those without a step."""
        record_timeline(step, self.take())

    dump_all = dump

    def clear(self) -> None:
        """Forget all collected events without recording them."""
        self.take()

    def take(self) -> list[Any]:
        """Return all collected events, and forget them."""
        with self._lock:
            events, self._events = self._events, []
        return events

    def get_event_count(self) -> int:
        """Return the number of events collected since the last `dump` or `clear`."""
        return len(self._events)


_ADAPTERS: Final[LivingObjects[TimelineTraceAdapter]] = LivingObjects()


class _Event(NamedTuple):
    """The parts of an event. `ts_us` is a Unix time in microseconds."""

    line: tuple[object, object, str]
    """Process, thread and name, which a begin and its end have in common."""
    ts_us: float
    step: int | None
    args: Mapping[str, Any]


class _Timeline(Locked):
    """Begins that wait for their ends. Thread-safe."""

    def __init__(self) -> None:
        super().__init__()
        self._marks = 0
        self.renew_lock()

    def renew_lock(self) -> None:
        """Replace the lock, and forget the begins of the parent."""
        super().renew_lock()
        self._begins: dict[tuple[object, object, str], list[_Event]] = {}
        self._count = 0

    def add(self, step: int | None, given: Mapping[str, Any]) -> None:
        """Record an event, or hold a begin for its end. Raise an error if the event is invalid."""
        kind, name, ts_us, args = given["ph"], str(given["name"]), float(given["ts"]), given.get("args") or {}
        if not math.isfinite(ts_us):
            raise ValueError(f"the time {ts_us} is not finite")
        line = (given.get("pid", os.getpid()), given.get("tid", threading.get_ident()), name)
        event = _Event(line, ts_us, args.get("step", step), args)
        if kind == "X":
            _record(event, ts_us + float(given.get("dur", 0.0)))
        elif kind in ("i", "I"):
            _mark(name, event)
        elif kind not in ("B", "E"):
            _refuse(f"events of the phase {kind!r} are neither spans nor marks")
        elif begin := self._pair(event, is_end=kind == "E"):
            step = begin.step if event.step is None else event.step
            _record(_Event(line, begin.ts_us, step, {**begin.args, **args}), ts_us)

    def end(self) -> None:
        """Report all begins that have no end, and forget them."""
        with self._lock:
            begins, self._begins, self._count = self._begins, {}, 0
        for begin in chain.from_iterable(begins.values()):
            self._report(_BEGIN, begin)

    def _pair(self, event: _Event, *, is_end: bool) -> _Event | None:
        """Hold a begin, or return the begin of an end. Report a begin without room, and an end without a begin."""
        with self._lock:
            begins = self._begins.setdefault(event.line, [])
            begin = begins.pop() if is_end and begins else None
            is_held = not is_end and self._count < HELD
            if is_held:
                begins.append(event)
            self._count += is_held - (begin is not None)
            if not begins:
                del self._begins[event.line]
        if begin is None and not is_held:
            self._report(_END if is_end else _BEGIN, event)
        return begin

    def _report(self, what: str, event: _Event) -> None:
        _, tid, name = event.line
        with self._lock:
            self._marks += 1
            marks = self._marks
        if marks < MARKS:
            _mark(f"{what}: {name}", event)
        elif marks == MARKS:
            telemetry.mark("more begins and ends without each other are not marked")
        warn_once(
            what,
            f"{what}: {name!r} of thread {tid} is no span. Send both with the same name, pid and tid. "
            "Further ones are marks in the report",
        )


_TIMELINE: Final = _Timeline()


def _record_rest() -> None:
    """Record the events that wait when the producer ends."""
    for adapter in _ADAPTERS.living():
        record_timeline(None, adapter.take())
    _TIMELINE.end()


PROCESS.before_finish.append(_record_rest)


def record_timeline(
    step: int | None, events: Mapping[str, Any] | Iterable[Mapping[str, Any] | TimelineEvent]
) -> None:
    """Record events in the Chrome trace format as spans of a step. Never raises.

    Example:
        ts = time.time_ns() // 1_000
        record_timeline(100, [{"name": "rollout", "ph": "B", "ts": ts, "pid": 1, "tid": 1}])

    `ts` is a Unix time in microseconds. An end may come in a later call than its begin; the span then belongs to
    the step of the end. Begins without an end are reported when the run ends, and ends without a begin at once.
    """
    try:
        listed = [events] if isinstance(events, Mapping) else list(events)
    except TypeError:
        _refuse(f"{type(events).__name__} is no list of events")
        return
    for event in listed:
        try:
            if isinstance(event, TimelineEvent):
                event.record(step)
            elif not isinstance(event, TraceEvent):
                _TIMELINE.add(step, event)
        except KeyError as error:
            _refuse(f"it has no {error}")
        except Exception as error:  # noqa: BLE001 – an event may hold anything, which must not reach the program
            _refuse(error_text(error))


def _record(begin: _Event, end_us: float) -> None:
    pid, tid, name = begin.line
    _put_span(name, _monotonic(begin.ts_us, end_us), _track(pid, tid), begin.step, begin.args)


def _put_span(name: str, times: Times, track: str, step: int | None, labels: Mapping[str, object]) -> None:
    """Record a span with its step as the first label."""
    more = {key: value for key, value in labels.items() if key not in ("step", "call_stack")}
    telemetry.span_at(name, *times, track, labels=more if step is None else {"step": step, **more})


def _mark(text: str, event: _Event) -> None:
    """Record a mark at the time of an event, with its step, process and thread as labels."""
    labels: dict[str, object] = {} if event.step is None else {"step": event.step}
    labels |= {"pid": event.line[0], "tid": event.line[1]}
    telemetry.mark(text, at_ns=_monotonic(event.ts_us, event.ts_us)[0], labels=labels)


def _refuse(why: str) -> None:
    warn_once(why, f"an event of the timeline is not recorded: {why}. This warning appears once")


def _monotonic(*unix_us: float) -> Times:
    """Return times of the monotonic clock, in ns, for a start and an end in Unix microseconds."""
    shift_ns = time.monotonic_ns() - time.time_ns()
    start_ns, end_ns = (round(each * 1_000) + shift_ns for each in unix_us)
    return start_ns, end_ns


def _track(pid: object, tid: object) -> str:
    """Return the track of a thread: empty for the main thread, else its name, or its number if it has no name."""
    if pid != os.getpid():
        return f"{pid}/{tid}"
    if tid == threading.main_thread().ident:
        return ""
    if tid == threading.get_ident():
        return threading.current_thread().name
    return next((each.name for each in threading.enumerate() if each.ident == tid), f"{tid}")


# --- timers ------------------------------------------------------------------------------------------


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
        return Timer._only

    def __init__(self) -> None:
        if not hasattr(self, "_totals"):  # each call of `Timer()` comes here
            super().__init__()
            self._started: dict[str, list[_Start]] = {}
            self._held = TimelineTraceAdapter("timers")
            self._totals: dict[str, float] = {}

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
            for each in list(self._totals) if name is None else [name]:
                self._totals.pop(each, None)

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
        events = self._held.take()
        record_timeline(step, events)
        return events

    def context(self, name: str, **kwargs: Any) -> BlockTimer:
        """Return a `with` block or decorator that starts and ends a timer.

        `keep` has the meaning that it has for `end`; the others become labels.
        """
        return _TimedBlock(self, name, bool(kwargs.pop("keep", True)), kwargs)

    def _begin(self, name: str, labels: Mapping[str, object]) -> _Start:
        start = _Start(threading.get_ident(), time.monotonic_ns(), labels)
        with self._lock:
            self._started.setdefault(name, []).append(start)
        return start

    def _end(self, name: str, wanted: _Start | None, keep: bool, labels: Mapping[str, object]) -> float:
        """End the wanted start if it is there, else the newest one of this thread, else of any."""
        end_ns, here = time.monotonic_ns(), threading.get_ident()
        with self._lock:
            started = self._started.get(name)
            if not started:
                warn_once(
                    f"timer {name}",
                    f"timer {name!r} was ended but not started, so it took 0 s. This warning appears once",
                )
                return 0.0
            ranks = [(start is wanted, start.thread == here, at) for at, start in enumerate(started)]
            start = started.pop(max(ranks)[-1])
            if not started:
                del self._started[name]
            elapsed_s = (end_ns - start.start_ns) / 1e9
            if keep:
                self.add(name, elapsed_s)
            else:
                self.reset(name)
        self._held.add_events([TimelineEvent.measured(name, (start.start_ns, end_ns), {**start.labels, **labels})])
        return elapsed_s


class _TimedBlock(BlockTimer):
    """A block or decorated function that starts and ends a timer. Any kind of function may be decorated."""

    __slots__ = ("_keep", "_labels", "_name", "_timers")

    def __init__(self, timers: Timer, name: str, keep: bool, labels: Mapping[str, object]) -> None:
        super().__init__(lambda *_: None, 1)
        self._timers, self._name, self._keep, self._labels = timers, name, keep, labels

    def _begin(self) -> _Start:
        return self._timers._begin(self._name, self._labels)

    def _stop(self, begun: _Start) -> None:
        self._timers._end(self._name, begun, self._keep, {})


@overload
def timer(name_or_func: str, **kwargs: Any) -> BlockTimer: ...
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
    return BlockTimer(lambda *_: deferred_func(), 1)  # type: ignore[arg-type,return-value]  # a call keeps the signature


_TIMER: Final = Timer()
"""The timers of this process, made at the import, before there are threads."""

"""Complete events, their spans, and events that wait for the number of their step."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Mapping
from operator import index
from typing import Any, Final, Generic, Protocol, TypeVar

from telemetry.client import module_level as telemetry
from telemetry.client import notice
from telemetry.client.locked import Locked
from telemetry.client.process import PROCESS

HELD: Final = 10_000
"""Events that wait for their step. The oldest ones beyond that are recorded without a step."""
STEP: Final = "step"
CALL_STACK: Final = "call_stack"
_US: Final = 1_000_000

Times = tuple[int, int]
"""Start and end by the monotonic clock, in ns."""


class TraceEvent(dict[str, Any]):
    """The dictionary of an event that is a span of the run already, so that it does not become a second one."""


class TimelineEvent:
    """A complete event of a trace: a name with Unix times in seconds, and the process, thread and step of it."""

    def __init__(  # noqa: PLR0917 – the signature of Relax
        self,
        name: str,
        start_ts: float,
        end_ts: float,
        pid: int | None = None,
        tid: int | None = None,
        step: int | None = None,
        call_stack: str | None = None,
    ) -> None:
        self.name = name
        self.start_ts = start_ts
        self.end_ts = end_ts
        self.pid = os.getpid() if pid is None else pid
        self.tid = threading.get_ident() if tid is None else tid
        self.step = step
        self.call_stack = call_stack
        self._labels: Mapping[str, object] = {}
        self._times: Times | None = None
        self._track: str | None = None
        self._is_recorded = False

    def __repr__(self) -> str:
        return f"TimelineEvent({self.name!r}, {self.end_ts - self.start_ts:.6f} s, step={self.step})"

    @classmethod
    def measured(cls, name: str, times: Times, labels: Mapping[str, object]) -> TimelineEvent:
        """Return an event of this thread by monotonic times. Labels may have its step."""
        end_s = (times[1] - time.monotonic_ns() + time.time_ns()) / 1e9
        more = dict(labels)
        made = cls(name, end_s - (times[1] - times[0]) / 1e9, end_s, step=_step_or_none(more.pop(STEP, None)))
        made._times, made._labels, made._track = times, more, track(made.pid, made.tid)
        return made

    def to_trace_event(self) -> dict[str, Any]:
        """Return the event in the Chrome trace format, with Unix times in microseconds."""
        args: dict[str, Any] = {} if self.step is None else {STEP: self.step}
        if self.call_stack:
            args[CALL_STACK] = self.call_stack
        event: dict[str, Any] = TraceEvent() if self._is_recorded else {}
        event |= {"name": self.name, "ph": "X", "ts": round(self.start_ts * _US)}
        event |= {"dur": round((self.end_ts - self.start_ts) * _US), "pid": self.pid, "tid": self.tid}
        if args:
            event["args"] = args
        return event

    def record(self, step: int | None) -> None:
        """Record the event as a span, once. `step` counts if the event has no step itself."""
        if self._is_recorded:
            return
        self._is_recorded = True
        self.step = step if self.step is None else self.step
        times = self._times or monotonic(self.start_ts * _US, self.end_ts * _US)
        line = track(self.pid, self.tid) if self._track is None else self._track
        put_span(self.name, times, line, self.step, self._labels)


class Recordable(Protocol):
    """An event that can be recorded."""

    def record(self, step: int | None) -> None:
        """Record the event. `step` counts if the event has no step itself."""


_Event = TypeVar("_Event", bound=Recordable)


class HeldEvents(Locked, Generic[_Event]):
    """A queue of events that wait for the number of their step. Thread-safe.

    Events that still wait when the producer ends are recorded without a step. A forked child begins without events.
    """

    def __init__(self) -> None:
        super().__init__()
        self._events: list[_Event] = []
        _ALL.append(weakref.ref(self, _ALL.remove))

    def __len__(self) -> int:
        return len(self._events)

    def renew_lock(self) -> None:
        """Replace the lock, and forget the events of the parent."""
        super().renew_lock()
        self._events = []

    def add(self, event: _Event) -> None:
        """Add an event."""
        with self._lock:
            self._events.append(event)
            oldest = self._events[: HELD // 2] if len(self._events) > HELD else []
            del self._events[: len(oldest)]
        for each in oldest:
            _record(each, None)

    def take(self) -> list[_Event]:
        """Return all events and forget them."""
        with self._lock:
            events, self._events = self._events, []
        return events

    def record_all(self, step: int | None) -> list[_Event]:
        """Record all events as spans of a step, and return them."""
        events = self.take()
        for event in events:
            _record(event, step)
        return events


_ALL: Final[list[weakref.ref[HeldEvents[Any]]]] = []
"""All queues that exist. A copy of a list is safe while other threads add to it."""


_warned: Final[set[str]] = set()
"""Types of errors that have been reported."""


def _record(event: Recordable, step: int | None) -> None:
    """Record an event. Report an error of it once, so that the others are recorded and the program goes on."""
    try:
        event.record(step)
    except Exception as error:  # noqa: BLE001 – an event may hold anything, such as times that are no numbers
        kind = type(error).__name__
        if kind not in _warned:
            _warned.add(kind)
            notice.warn(f"event {getattr(event, 'name', event)!r} is not recorded: {kind}: {error}")


def _record_rest() -> None:
    for reference in list(_ALL):
        held = reference()
        if held is not None:
            held.record_all(None)


PROCESS.before_finish.append(_record_rest)


def put_span(name: str, times: Times, line: str, step: int | None, labels: Mapping[str, object]) -> None:
    """Record a span with its step as the first label."""
    more = {key: value for key, value in labels.items() if key not in (STEP, CALL_STACK)}
    telemetry.span_at(name, *times, line, labels=more if step is None else {STEP: step, **more})


def monotonic(*unix_us: float) -> Times:
    """Return times of the monotonic clock, in ns, for a start and an end in Unix microseconds."""
    shift_ns = time.monotonic_ns() - time.time_ns()
    start_ns, end_ns = (round(each * 1_000) + shift_ns for each in unix_us)
    return start_ns, end_ns


def track(pid: object, tid: object) -> str:
    """Return the track of a thread: empty for the main thread, else its name, or its number if it has no name."""
    if pid != os.getpid():
        return f"{pid}/{tid}"
    if tid == threading.main_thread().ident:
        return ""
    if tid == threading.get_ident():
        return threading.current_thread().name
    return next((each.name for each in threading.enumerate() if each.ident == tid), f"{tid}")


def _step_or_none(step: Any) -> int | None:
    try:
        return index(step)
    except TypeError:
        return None

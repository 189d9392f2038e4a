"""Events in the Chrome trace format as spans: complete ones, and begins with their ends."""

from __future__ import annotations

import math
import os
import threading
import time
import weakref
from collections.abc import Iterable, Mapping, Sequence
from operator import index
from typing import Any, Final

from telemetry.client import module_level as telemetry
from telemetry.client.process import PROCESS
from telemetry.client.signal_safe import Locked
from telemetry.client.user_warnings import warn_once
from telemetry.errors import error_text

HELD: Final = 10_000
"""Events that wait for their step. The oldest ones beyond that are recorded without a step."""
MARKS: Final = 1_000
"""Marks about begins and ends that don't match. Further ones are counted in the last mark."""
_STEP: Final = "step"
_CALL_STACK: Final = "call_stack"
_US: Final = 1_000_000
_BEGIN: Final = "a begin without an end"
_END: Final = "an end without a begin"

Times = tuple[int, int]
"""Start and end by the monotonic clock, in ns."""
Line = tuple[object, object, str]
"""Process, thread and name of a begin, which its end has, too."""
Begin = tuple[float, int | None, Mapping[str, Any]]
"""Unix time in microseconds, step and arguments."""


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
        event = cls(name, end_s - (times[1] - times[0]) / 1e9, end_s, step=_step_or_none(more.pop(_STEP, None)))
        event._times, event._labels, event._track = times, more, _track(event.pid, event.tid)
        return event

    def to_trace_event(self) -> dict[str, Any]:
        """Return the event in the Chrome trace format, with Unix times in microseconds."""
        args: dict[str, Any] = {} if self.step is None else {_STEP: self.step}
        if self.call_stack:
            args[_CALL_STACK] = self.call_stack
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
        times = self._times or _monotonic(self.start_ts * _US, self.end_ts * _US)
        track = _track(self.pid, self.tid) if self._track is None else self._track
        _put_span(self.name, times, track, self.step, self._labels)


class HeldEvents(Locked):
    """A queue of events that wait for the number of their step. Thread-safe.

    Events that still wait when the producer ends are recorded without a step. A forked child begins without events.
    """

    def __init__(self) -> None:
        super().__init__()
        self._events: list[Any] = []
        _ALL.append(weakref.ref(self, _ALL.remove))

    def __len__(self) -> int:
        return len(self._events)

    def renew_lock(self) -> None:
        """Replace the lock, and forget the events of the parent."""
        super().renew_lock()
        self._events = []

    def add(self, event: TimelineEvent | Mapping[str, Any]) -> None:
        """Add an event."""
        with self._lock:
            self._events.append(event)
            oldest = self._events[: HELD // 2] if len(self._events) > HELD else []
            del self._events[: len(oldest)]
        _record_all(oldest, None)

    def take(self) -> list[Any]:
        """Return all events and forget them."""
        with self._lock:
            events, self._events = self._events, []
        return events

    def record_all(self, step: int | None) -> list[Any]:
        """Record all events as spans of a step, and return them."""
        events = self.take()
        _record_all(events, step)
        return events


_ALL: Final[list[weakref.ref[HeldEvents]]] = []
"""All queues that exist. A copy of a list is safe while other threads add to it."""


def _record_all(events: Iterable[Any], step: int | None) -> None:
    """Record events. Report an error once, so that the others are recorded and the program goes on."""
    for event in events:
        if not isinstance(event, TimelineEvent):
            _TIMELINE.add(step, [event])
            continue
        try:
            event.record(step)
        except Exception as error:  # noqa: BLE001 – an event may hold anything, such as times that are no numbers
            warn_once(f"event {type(error).__name__}", f"event {event.name!r} is not recorded: {error_text(error)}")


def _record_rest() -> None:
    for reference in list(_ALL):
        if (held := reference()) is not None:
            held.record_all(None)


class _Timeline(Locked):
    """Begins that wait for their ends. Thread-safe. Its methods never raise."""

    def __init__(self) -> None:
        super().__init__()
        self._open: dict[Line, list[Begin]] = {}
        self._count = 0
        self._marks = 0

    def renew_lock(self) -> None:
        """Replace the lock, and forget the begins of the parent."""
        super().renew_lock()
        self._open, self._count = {}, 0

    def add(self, step: int | None, events: Iterable[Mapping[str, Any]]) -> None:
        """Record events. One that can't be recorded is reported, and the others are kept."""
        try:
            listed = list(events)
        except TypeError:
            _refuse(f"{type(events).__name__} is no list of events")
            return
        for event in listed:
            try:
                if not isinstance(event, TraceEvent):
                    self._add(step, event)
            except KeyError as error:
                _refuse(f"it has no {error}")
            except Exception as error:  # noqa: BLE001 – an event may hold anything, which must not reach the program
                _refuse(error_text(error))

    def end(self) -> None:
        """Report all begins that have no end, and forget them."""
        with self._lock:
            open_begins, self._open, self._count = self._open, {}, 0
        for line, begins in open_begins.items():
            for begin in begins:
                self._report(_BEGIN, line, begin)

    def _add(self, step: int | None, event: Mapping[str, Any]) -> None:
        kind, name, ts_us = event["ph"], str(event["name"]), float(event["ts"])
        line = (event.get("pid", os.getpid()), event.get("tid", threading.get_ident()), name)
        args = event.get("args") or {}
        if not math.isfinite(ts_us):
            raise ValueError(f"the time {ts_us} is not finite")
        begin = (ts_us, args.get(_STEP, step), args)
        if kind == "X":
            _record(line, begin, ts_us + float(event.get("dur", 0.0)))
        elif kind == "B":
            self._begin(line, begin)
        elif kind == "E":
            self._end(line, begin)
        elif kind in ("i", "I"):
            telemetry.mark(name, at_ns=_monotonic(ts_us, ts_us)[0], labels=_labels(line, begin))
        else:
            _refuse(f"events of the phase {kind!r} are neither spans nor marks")

    def _begin(self, line: Line, begin: Begin) -> None:
        with self._lock:
            has_room = self._count < HELD
            if has_room:
                self._open.setdefault(line, []).append(begin)
                self._count += 1
        if not has_room:
            self._report(_BEGIN, line, begin)

    def _end(self, line: Line, end: Begin) -> None:
        with self._lock:
            begins = self._open.get(line)
            begin = begins.pop() if begins else None
            self._count -= begin is not None
            if not begins:
                self._open.pop(line, None)
        if begin is None:
            self._report(_END, line, end)
        else:
            ts_us, step, args = begin
            _record(line, (ts_us, step if end[1] is None else end[1], {**args, **end[2]}), end[0])

    def _report(self, what: str, line: Line, event: Begin) -> None:
        with self._lock:
            self._marks += 1
            marks = self._marks
        if marks < MARKS:
            at_ns, _ = _monotonic(event[0], event[0])
            telemetry.mark(f"{what}: {line[2]}", at_ns=at_ns, labels=_labels(line, event))
        elif marks == MARKS:
            telemetry.mark("more begins and ends without each other are not marked")
        warn_once(
            what,
            f"{what}: {line[2]!r} of thread {line[1]} is no span. Send both with the same name, pid and tid. "
            "Further ones are marks in the report",
        )


_TIMELINE: Final = _Timeline()
PROCESS.before_finish += [_record_rest, _TIMELINE.end]


def record_timeline(step: int, events: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
    """Record events in the Chrome trace format as spans of a step. Never raises.

    Example:
        ts = time.time_ns() // 1_000
        record_timeline(100, [{"name": "rollout", "ph": "B", "ts": ts, "pid": 1, "tid": 1}])

    `ts` is a Unix time in microseconds. An end may come in a later call than its begin; the span then belongs to
    the step of the end. Begins without an end are reported when the run ends, and ends without a begin at once.
    """
    _TIMELINE.add(step, [events] if isinstance(events, Mapping) else events)


class TimelineTraceAdapter:
    """A collector of events, which `dump` records as spans. Thread-safe.

    `telemetry run --timeline-dir DIR` writes the files. `dump_dir` only says whether events are collected: an empty
    one means no. `max_dump` has no effect.
    """

    def __init__(self, dump_dir: str | None, max_dump: int = 20) -> None:
        self.dump_dir = dump_dir
        self.enabled = bool(dump_dir and dump_dir.strip())
        self._held = HeldEvents()

    def is_enabled(self) -> bool:
        """Return whether events are collected."""
        return self.enabled

    def add_events(self, events: Iterable[TimelineEvent]) -> None:
        """Collect events. Those of `Timer.log_record_and_clear` are spans already and do not become second ones."""
        for event in events if self.enabled else ():
            self._held.add(event if isinstance(event, TimelineEvent) else event.to_trace_event())

    def add_event_dicts(self, event_dicts: Iterable[Mapping[str, Any]]) -> None:
        """Collect events in the Chrome trace format."""
        for event in event_dicts if self.enabled else ():
            self._held.add(event)

    def dump(self, step: int) -> None:
        """Record all collected events as spans and forget them. `step` counts for those without a step."""
        self._held.record_all(step)

    dump_all = dump

    def clear(self) -> None:
        """Forget all collected events without recording them."""
        self._held.take()

    def get_event_count(self) -> int:
        """Return the number of events collected since the last `dump` or `clear`."""
        return len(self._held)


def _record(line: Line, begin: Begin, end_us: float) -> None:
    pid, tid, name = line
    _put_span(name, _monotonic(begin[0], end_us), _track(pid, tid), begin[1], begin[2])


def _put_span(name: str, times: Times, track: str, step: int | None, labels: Mapping[str, object]) -> None:
    """Record a span with its step as the first label."""
    more = {key: value for key, value in labels.items() if key not in (_STEP, _CALL_STACK)}
    telemetry.span_at(name, *times, track, labels=more if step is None else {_STEP: step, **more})


def _labels(line: Line, event: Begin) -> dict[str, object]:
    """Return where an event comes from, as labels of a mark."""
    labels: dict[str, object] = {} if event[1] is None else {_STEP: event[1]}
    return labels | {"pid": line[0], "tid": line[1]}


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


def _step_or_none(step: Any) -> int | None:
    try:
        return index(step)
    except TypeError:
        return None

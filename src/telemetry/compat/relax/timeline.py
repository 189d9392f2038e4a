"""Events in the Chrome trace format as spans: complete ones, and begins with their ends."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from telemetry import limits
from telemetry.client import module_level as telemetry
from telemetry.client import notice
from telemetry.client.locked import Locked
from telemetry.client.process import PROCESS
from telemetry.compat.relax.events import (
    HELD,
    STEP,
    HeldEvents,
    TimelineEvent,
    TraceEvent,
    monotonic,
    put_span,
    track,
)

MARKS: Final = 1_000
"""Marks about begins and ends that don't match. Further ones are counted in the last mark."""
_BEGIN: Final = "a begin without an end"
_END: Final = "an end without a begin"

Place = tuple[object, object, str]
"""Process, thread and name of a begin, which its end has, too."""
Begin = tuple[float, int | None, Mapping[str, Any]]
"""Unix time in microseconds, step and arguments."""


class _Timeline(Locked):
    """Begins that wait for their ends. Thread-safe. Its methods never raise."""

    def __init__(self) -> None:
        super().__init__()
        self._open: dict[Place, list[Begin]] = {}
        self._count = 0
        self._marks = 0
        self._warned: set[str] = set()

    def renew_lock(self) -> None:
        """Replace the lock, and forget the begins of the parent."""
        super().renew_lock()
        self._open, self._count = {}, 0

    def add(self, step: int | None, events: Iterable[Mapping[str, Any]]) -> None:
        """Record events. One that can't be recorded is reported, and the others are kept."""
        try:
            listed = list(events)
        except TypeError:
            self._refuse(f"{type(events).__name__} is no list of events")
            return
        for event in listed:
            try:
                if not isinstance(event, TraceEvent):
                    self._add(step, event)
            except KeyError as error:
                self._refuse(f"it has no {error}")
            except Exception as error:  # noqa: BLE001 – an event may hold anything, which must not reach the program
                self._refuse(f"{type(error).__name__}: {error}")

    def end(self) -> None:
        """Report all begins that have no end, and forget them."""
        with self._lock:
            begins, self._open, self._count = self._open, {}, 0
        for place, found in begins.items():
            for begin in found:
                self._report(_BEGIN, place, begin)

    def _add(self, step: int | None, event: Mapping[str, Any]) -> None:
        kind, name, ts_us = event["ph"], str(event["name"]), float(event["ts"])
        place = (event.get("pid", os.getpid()), event.get("tid", threading.get_ident()), name)
        args = event.get("args") or {}
        if not math.isfinite(ts_us):
            raise ValueError(f"the time {ts_us} is not finite")
        begin = (ts_us, args.get("step", step), args)
        if kind == "X":
            self._record(place, begin, ts_us + float(event.get("dur", 0.0)))
        elif kind == "B":
            self._begin(place, begin)
        elif kind == "E":
            self._end(place, begin)
        elif kind in ("i", "I"):
            telemetry.mark(name, at_ns=monotonic(ts_us, ts_us)[0], labels=_labels(place, begin))
        else:
            self._refuse(f"events of the phase {kind!r} are neither spans nor marks")

    def _begin(self, place: Place, begin: Begin) -> None:
        with self._lock:
            has_room = self._count < HELD
            if has_room:
                self._open.setdefault(place, []).append(begin)
                self._count += 1
        if not has_room:
            self._report(_BEGIN, place, begin)

    def _end(self, place: Place, end: Begin) -> None:
        with self._lock:
            begins = self._open.get(place)
            begin = begins.pop() if begins else None
            self._count -= begin is not None
            if not begins:
                self._open.pop(place, None)
        if begin is None:
            self._report(_END, place, end)
        else:
            ts_us, step, args = begin
            self._record(place, (ts_us, step if end[1] is None else end[1], {**args, **end[2]}), end[0])

    def _record(self, place: Place, begin: Begin, end_us: float) -> None:
        pid, tid, name = place
        put_span(name, monotonic(begin[0], end_us), track(pid, tid), begin[1], begin[2])

    def _report(self, what: str, place: Place, event: Begin) -> None:
        with self._lock:
            self._marks += 1
            number = self._marks
        if number < MARKS:
            telemetry.mark(
                f"{what}: {place[2]}", at_ns=monotonic(event[0], event[0])[0], labels=_labels(place, event)
            )
        elif number == MARKS:
            telemetry.mark("more begins and ends without each other are not marked")
        self._warn(
            what,
            f"{what}: {place[2]!r} of thread {place[1]} is no span. Send both with the same name, pid and tid. "
            "Further ones are marks in the report",
        )

    def _refuse(self, why: str) -> None:
        self._warn(why, f"an event of the timeline is not recorded: {why}. This warning appears once")

    def _warn(self, key: str, words: str) -> None:
        if key not in self._warned and len(self._warned) < limits.WARNINGS_KEPT:
            self._warned.add(key)
            notice.warn(words)


def _labels(place: Place, event: Begin) -> dict[str, object]:
    """Return where an event comes from, as labels of a mark."""
    labels: dict[str, object] = {} if event[1] is None else {STEP: event[1]}
    return labels | {"pid": place[0], "tid": place[1]}


_TIMELINE: Final = _Timeline()
PROCESS.before_finish.append(_TIMELINE.end)


def record_timeline(step: int, events: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
    """Record events in the Chrome trace format as spans of a step. Never raises.

    Example:
        ts = time.time_ns() // 1_000
        record_timeline(100, [{"name": "rollout", "ph": "B", "ts": ts, "pid": 1, "tid": 1}])

    `ts` is a Unix time in microseconds. An end may come in a later call than its begin; the span then belongs to
    the step of the end. Begins without an end are reported when the run ends, and ends without a begin at once.
    """
    _TIMELINE.add(step, [events] if isinstance(events, Mapping) else events)


class _DictEvent:
    """An event in the Chrome trace format that waits for the number of its step."""

    __slots__ = ("_event",)

    def __init__(self, event: Mapping[str, Any]) -> None:
        self._event = event

    def record(self, step: int | None) -> None:
        """Record the event."""
        _TIMELINE.add(step, [self._event])


class TimelineTraceAdapter:
    """A collector of events, which `dump` records as spans. Thread-safe.

    `telemetry run --timeline-dir DIR` writes the files. `dump_dir` only says whether events are collected: an empty
    one means no. `max_dump` has no effect.
    """

    def __init__(self, dump_dir: str | None, max_dump: int = 20) -> None:
        self.dump_dir = dump_dir
        self.enabled = bool(dump_dir and dump_dir.strip())
        self._held: HeldEvents[TimelineEvent | _DictEvent] = HeldEvents()

    def is_enabled(self) -> bool:
        """Return whether events are collected."""
        return self.enabled

    def add_events(self, events: Iterable[TimelineEvent]) -> None:
        """Collect events. Those of `Timer.log_record_and_clear` are spans already and do not become second ones."""
        for event in events if self.enabled else ():
            known = isinstance(event, TimelineEvent)
            self._held.add(event if known else _DictEvent(event.to_trace_event()))

    def add_event_dicts(self, event_dicts: Iterable[Mapping[str, Any]]) -> None:
        """Collect events in the Chrome trace format."""
        for event in event_dicts if self.enabled else ():
            self._held.add(_DictEvent(event))

    def dump(self, step: int) -> None:
        """Record all collected events as spans and forget them. `step` counts for those without a step."""
        self._held.record_all(step)

    def dump_all(self, step: int) -> None:
        """Do the same as `dump`."""
        self.dump(step)

    def clear(self) -> None:
        """Forget all collected events without recording them."""
        self._held.take()

    def get_event_count(self) -> int:
        """Return the number of events collected since the last `dump` or `clear`."""
        return len(self._held)

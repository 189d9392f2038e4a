"""Spans, marks and steps as a document in the Chrome trace format, which trace viewers read. Pure.

A process of the document is a producer, a thread is a track of it. Times are microseconds since the start of the
run.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from telemetry.backends.items import Mark, Reading, Span
from telemetry.wire.snapshot import ProducerStat

FLOW_OUT: Final = "flow_out"
"""Label of a span that sends something. An arrow leads to the span whose label `flow_in` has the same text."""
FLOW_IN: Final = "flow_in"
STEP: Final = "step"
"""Label of a span that names its step."""
_RUN_PID: Final = 0
_PERCENTILES: Final = ("50", "99")
_MAIN: Final = "main"
_NS_PER_US: Final = 1_000
_ENCODE: Final = msgspec.json.Encoder().encode

Event = dict[str, Any]


@dataclass(frozen=True, slots=True)
class StepRange:
    """The time range of one step of an axis, in Unix nanoseconds."""

    axis: str
    step: int
    start_ns: int
    end_ns: int


@dataclass
class TraceIds:
    """Process and thread numbers of a run, which stay the same in all of its files."""

    producers: dict[str, ProducerStat] = field(default_factory=dict)
    """What is known about each producer."""
    pids: dict[str, int] = field(default_factory=dict)
    tids: dict[tuple[str, str, int], int] = field(default_factory=dict)
    """Thread numbers by producer, track and lane."""

    def pid(self, producer: str) -> int:
        """Return the process number of a producer, from 1."""
        return self.pids.setdefault(producer, len(self.pids) + 1)

    def tid(self, producer: str, track: str, lane: int) -> int:
        """Return the thread number of a lane of a track, from 1."""
        return self.tids.setdefault((producer, track, lane), len(self.tids) + 1)


def document(
    names: TraceIds,
    origin_ns: int,
    *,
    spans: Sequence[Span] = (),
    marks: Iterable[Mark] = (),
    steps: Iterable[StepRange] = (),
    others: Iterable[Event] = (),
    facts: Mapping[str, Any] | None = None,
) -> bytes:
    """Return a complete document. `others` are finished events, and `facts` become its `otherData`."""
    events = [*_step_events(steps, origin_ns), *_span_events(spans, names, origin_ns)]
    events += _mark_events(marks, names, origin_ns)
    lanes = {(event["pid"], event["tid"]) for event in events}
    events += others
    used = {event["pid"] for event in events}
    events.sort(key=lambda event: (event.get("ts", -1.0), -event.get("dur", 0.0)))
    whole = {
        "traceEvents": [*_name_events(names, used, lanes), *events],
        "displayTimeUnit": "ms",
        "otherData": {"start_unix_ns": origin_ns, **(facts or {})},
    }
    return _ENCODE(whole)


def _span_events(spans: Sequence[Span], names: TraceIds, origin_ns: int) -> Iterator[Event]:
    for span, lane in _with_lanes(spans):
        where = {"pid": names.pid(span.producer), "tid": names.tid(span.producer, span.track, lane)}
        times = _times(span.time_ns - origin_ns, span.end_ns - origin_ns)
        labels = dict(span.labels)
        sent, received = labels.pop(FLOW_OUT, ""), labels.pop(FLOW_IN, "")
        yield {"ph": "X", "name": span.name, "cat": "span"} | times | where | _args(labels)
        flow = {"name": "flow", "cat": "flow"} | where
        if sent:
            yield {"ph": "s", "id": sent, "ts": times["ts"] + times["dur"]} | flow
        if received:
            yield {"ph": "f", "bp": "e", "id": received, "ts": times["ts"]} | flow


def _with_lanes(spans: Sequence[Span]) -> Iterator[tuple[Span, int]]:
    """Yield spans with their lane. In a lane, spans are nested or follow each other, as viewers require."""
    open_ends: dict[tuple[str, str], list[list[int]]] = {}
    for span in sorted(spans, key=lambda item: (item.time_ns, -item.end_ns)):
        lanes = open_ends.setdefault((span.producer, span.track), [])
        for number, ends in enumerate(lanes):
            while ends and ends[-1] <= span.time_ns:
                ends.pop()
            if not ends or ends[-1] >= span.end_ns:
                ends.append(span.end_ns)
                yield span, number
                break
        else:
            lanes.append([span.end_ns])
            yield span, len(lanes) - 1


def _mark_events(marks: Iterable[Mark], names: TraceIds, origin_ns: int) -> Iterator[Event]:
    for mark in marks:
        where = {"pid": names.pid(mark.producer), "tid": names.tid(mark.producer, "", 0)}
        yield {"ph": "i", "s": "p", "name": mark.text, "cat": "mark", "ts": _us(mark.time_ns - origin_ns)} | (
            where | _args(mark.labels)
        )


def _step_events(steps: Iterable[StepRange], origin_ns: int) -> Iterator[Event]:
    for step in steps:
        start_ns = max(step.start_ns, origin_ns)
        times = _times(start_ns - origin_ns, max(step.end_ns, start_ns) - origin_ns)
        head = {"ph": "X", "name": f"{step.axis} {step.step}", "cat": "step", "pid": _RUN_PID, "tid": 0}
        yield head | times | {"args": {"axis": step.axis, "step": step.step}}


def reading_events(reading: Reading, origin_ns: int) -> Iterator[Event]:
    """Yield values of counter tracks: gauges, rates of counters, and percentiles of series."""
    head = {"ph": "C", "pid": _RUN_PID, "tid": 0, "ts": _us(reading.time_ns - origin_ns)}
    for gauge in reading.gauges:
        yield head | {
            "name": instrument_track(gauge.name, gauge.labels, gauge.unit),
            "args": {"value": gauge.value},
        }
    for counter in reading.counters:
        name = instrument_track(counter.name, counter.labels, f"{counter.unit}/s" if counter.unit else "per s")
        yield head | {"name": name, "args": {"rate": counter.rate}}
    for series in reading.series:
        percentiles = {f"p{key}": series.percentiles[key] for key in _PERCENTILES if key in series.percentiles}
        if percentiles:
            yield head | {"name": instrument_track(series.name, series.labels, series.unit), "args": percentiles}


def value_event(time_ns: int, origin_ns: int, *, pid: int, track: str, part: str, value: float) -> Event:
    """Return one value on a counter track of a process. `part` names it within the track."""
    return {"ph": "C", "pid": pid, "tid": 0, "ts": _us(time_ns - origin_ns), "name": track, "args": {part: value}}


def instrument_track(name: str, labels: Mapping[str, str], unit: str) -> str:
    """Return the name of an instrument's counter track."""
    label_text = ",".join(f"{key}={value}" for key, value in labels.items())
    return f"{name}{f'{{{label_text}}}' if label_text else ''}{f' ({unit})' if unit else ''}"


def _name_events(names: TraceIds, used: set[int], lanes: set[tuple[int, int]]) -> Iterator[Event]:
    yield _metadata("process_name", _RUN_PID, 0, name="run")
    yield _metadata("process_sort_index", _RUN_PID, 0, sort_index=-1)
    for producer, pid in names.pids.items():
        if pid in used:
            stat = names.producers.get(producer)
            yield _metadata("process_name", pid, 0, name=_process_name(producer, stat))
            rank = stat.rank if stat is not None and stat.rank is not None else pid
            yield _metadata("process_sort_index", pid, 0, sort_index=rank)
    for (producer, track, lane), tid in names.tids.items():
        pid = names.pids[producer]
        if (pid, tid) in lanes:
            number = f" {lane + 1}" if lane else ""
            yield _metadata("thread_name", pid, tid, name=f"{track or _MAIN}{number}")
            yield _metadata("thread_sort_index", pid, tid, sort_index=tid)


def _process_name(producer: str, stat: ProducerStat | None) -> str:
    if stat is None:
        return producer or "aggregator"
    rank = "" if stat.rank is None else f"rank {stat.rank} · "
    return f"{rank}{stat.name or producer} ({stat.pid} on {stat.host})"


def _metadata(kind: str, pid: int, tid: int, **args: Any) -> Event:
    return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": args}


def _args(labels: Mapping[str, Any]) -> Event:
    return {"args": labels} if labels else {}


def _times(start_ns: int, end_ns: int) -> dict[str, float]:
    """Return the time and the duration of a slice. Their sum is not past the end, which may begin another slice."""
    start, end = _us(start_ns), _us(end_ns)
    duration = end - start
    while start + duration > end:
        duration = math.nextafter(duration, 0.0)
    return {"ts": start, "dur": duration}


def _us(ns: int) -> float:
    return ns / _NS_PER_US

"""Spans, marks and steps as a Chrome trace, also of a whole run with the traces of profilers beside it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final

import msgspec
from msgspec.structs import astuple

from telemetry.backends.items import Item, Mark, Reading, Span, Step
from telemetry.backends.sources.records import item_of
from telemetry.store.records import RecordLog
from telemetry.store.run_directory import RunDirectory
from telemetry.wire.pictures import RequestSlots
from telemetry.wire.snapshot import MetricsSnapshot, ProducerStat

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
        if span.source is not None and span.producer not in names.producers:  # a root has no row of it
            _, name, host, pid, rank = astuple(span.source)
            names.producers[span.producer] = ProducerStat(
                producer=span.producer, name=name, host=host, pid=pid, rank=rank
            )
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


_REQUESTS: Final = 20_000
"""Largest number of requests in a trace."""
_OF_REQUESTS: Final = "requests"
"""Name of the process of the trace that has the requests."""


def whole_document(
    names: TraceIds, origin_ns: int, items: Iterable[Item], facts: Mapping[str, Any], others: Iterable[Event] = ()
) -> bytes:
    """Return the trace of all spans, marks and steps among the items."""
    spans: list[Span] = []
    marks: list[Mark] = []
    ends: list[Step] = []
    others = list(others)
    for item in items:
        if isinstance(item, Reading):
            others += reading_events(item, origin_ns)
        elif isinstance(item, Span):
            spans.append(item)
        elif isinstance(item, Mark):
            marks.append(item)
        elif isinstance(item, Step) and not item.revision:
            ends.append(item)
    return document(names, origin_ns, spans=spans, marks=marks, steps=_ranges(ends), others=others, facts=facts)


def recorded_trace(directory: RunDirectory, snapshot: MetricsSnapshot, others: Iterable[Event] = ()) -> bytes:
    """Return the trace of a run on disk, live or finished, with its requests on a track for each slot.

    Raises RunDirectoryError for unreadable records.
    """
    from telemetry.history import request_log
    from telemetry.history.concurrency import slots_of

    names = TraceIds(producers={stat.producer: stat for stat in snapshot.producers})
    requests = slots_of(request_log.read(directory), snapshot.started_ns, _REQUESTS)
    items = chain(_items(directory), _phases(requests, snapshot.started_ns) if requests is not None else ())
    facts = {"run_id": snapshot.run_id, "run": snapshot.name}
    if requests is not None and len(requests.slots) < requests.total:
        facts["requests"] = f"{len(requests.slots):,} of {requests.total:,}, around the most in flight"
    return whole_document(names, snapshot.started_ns, items, facts, others)


def where_spans_are(*, has_nodes: bool) -> str:
    """Return how to get the spans that a run lacks."""
    if has_nodes:
        return "spans stay on their nodes: set upstream.spans = true on the leaves to send them to the root"
    return "a program records spans with run.span(…)"


def _phases(requests: RequestSlots, started_ns: int) -> Iterator[Span]:
    """Yield the phases of each request, on a track for each slot: queue, to the first output, the rest."""
    for at, slot in enumerate(requests.slots):
        begin, issued, first, end = (
            None if seconds is None else started_ns + round(seconds * 1e9)
            for seconds in (requests.begin_s[at], requests.issued_s[at], requests.first_s[at], requests.end_s[at])
        )
        assert begin is not None
        assert issued is not None
        assert end is not None
        reason = requests.reasons[at]
        pieces = [("queue", begin, issued)] if issued > begin else []
        if first is None or reason:
            pieces.append(("failed" if reason else "request", issued, end))
        else:
            pieces += [("first output", issued, first), ("receiving", first, end)]
        for number, (name, start_ns, end_ns) in enumerate(pieces):
            yield Span(
                key=f"request.{at}.{number}",
                time_ns=start_ns,
                name=name,
                end_ns=end_ns,
                track=f"slot {slot + 1}",
                labels={"reason": reason} if reason else {},
                producer=_OF_REQUESTS,
            )


def spans_of(directory: RunDirectory) -> Iterator[Span]:
    """Yield the spans of a run. Raises RunDirectoryError for unreadable records."""
    return (item for item in _items(directory) if isinstance(item, Span))


def has_slices(directory: RunDirectory) -> bool:
    """Return whether a run has a span or a request. Raises RunDirectoryError for unreadable records."""
    from telemetry.history import request_log

    return any(True for _ in spans_of(directory)) or any(True for _ in request_log.read(directory))


def _items(directory: RunDirectory) -> Iterator[Item]:
    for record in RecordLog(directory.records).readable():
        item = item_of(record)
        if item is not None:
            yield item


def _ranges(ends: Sequence[Step]) -> Iterator[StepRange]:
    """Yield time ranges of steps: each begins where the one before it on its axis ended."""
    before: dict[str, int] = {}
    for end in ends:
        start_ns = before.get(end.axis, 0)
        if end.time_ns > start_ns:
            yield StepRange(end.axis, end.step, start_ns, end.time_ns)
            before[end.axis] = end.time_ns

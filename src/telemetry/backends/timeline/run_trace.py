"""The trace of a whole run: from its items, or from its directory, with traces of profilers beside it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final

from telemetry.backends.items import Item, Mark, Reading, Span, Step
from telemetry.backends.sources.convert import item_of
from telemetry.backends.timeline.trace import Event, StepRange, TraceIds, document, reading_events
from telemetry.store.records import RecordLog
from telemetry.store.run_directory import RunDirectory
from telemetry.wire.pictures import RequestSlots
from telemetry.wire.snapshot import MetricsSnapshot

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
    from telemetry.history.request_slots import slots_of

    names = TraceIds(producers={stat.producer: stat for stat in snapshot.producers})
    requests = slots_of(request_log.read(directory), snapshot.started_ns, _REQUESTS)
    items = chain(_items(directory), _phases(requests, snapshot.started_ns) if requests is not None else ())
    facts = {"run_id": snapshot.run_id, "run": snapshot.name}
    if requests is not None and len(requests.slots) < requests.total:
        facts["requests"] = f"{len(requests.slots):,} of {requests.total:,}, around the most in flight"
    return whole_document(names, snapshot.started_ns, items, facts, others)


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


def has_slices(directory: RunDirectory) -> bool:
    """Return whether a run has a span or a request. Raises RunDirectoryError for unreadable records."""
    from telemetry.history import request_log

    return any(isinstance(item, Span) for item in _items(directory)) or any(
        True for _ in request_log.read(directory)
    )


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

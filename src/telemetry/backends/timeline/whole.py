"""The trace of a whole run: from its items, or from its directory, with traces of profilers beside it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from telemetry.backends.items import Item, Mark, Reading, Span, Step
from telemetry.backends.sources.convert import item_of
from telemetry.backends.timeline.trace import Event, Names, StepRange, document, reading_events
from telemetry.store.records import RecordLog
from telemetry.store.run_directory import RunDirectory
from telemetry.wire.snapshot import MetricsSnapshot


def whole_document(
    names: Names, origin_ns: int, items: Iterable[Item], facts: Mapping[str, Any], others: Iterable[Event] = ()
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
    """Return the trace of a run on disk, live or finished. Raises RunDirectoryError for unreadable records."""
    names = Names(producers={stat.producer: stat for stat in snapshot.producers})
    facts = {"run_id": snapshot.run_id, "run": snapshot.name}
    return whole_document(names, snapshot.started_ns, _items(directory), facts, others)


def _items(directory: RunDirectory) -> Iterator[Item]:
    for record in RecordLog(directory.records).readable():
        item = item_of(record)
        if item is not None:
            yield item


def _ranges(ends: Sequence[Step]) -> Iterator[StepRange]:
    """Yield time ranges of steps: each begins where the one before it on its axis ended."""
    before: dict[str, int] = {}
    for one in ends:
        start_ns = before.get(one.axis, 0)
        if one.time_ns > start_ns:
            yield StepRange(one.axis, one.step, start_ns, one.time_ns)
            before[one.axis] = one.time_ns

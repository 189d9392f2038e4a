"""Spans by producer, from the record log."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from telemetry.errors import RunDirectoryError
from telemetry.limits import MIB
from telemetry.store.records import FILE_NAME, RecordLog
from telemetry.store.run_directory import RunDirectory
from telemetry.wire.events import Span
from telemetry.wire.report import SpanSpread

_MOST_BYTES: Final = 256 * MIB
"""Size of a record log that a report still reads: a few seconds."""
_NS_PER_MS: Final = 1e6


def span_spreads(directory: RunDirectory) -> list[SpanSpread]:
    """Return the spread of spans that several producers recorded. Return nothing for a large or unreadable log."""
    totals: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    try:
        if (directory.records / FILE_NAME).stat().st_size > _MOST_BYTES:
            return []
        for record in RecordLog(directory.records).readable():
            if isinstance(record.record, Span):
                duration_ns = record.record.end_ns - record.record.start_ns
                totals[record.record.name][record.producer] += max(duration_ns, 0)
    except (OSError, RunDirectoryError):
        return []
    return [_spread(name, by_producer) for name, by_producer in totals.items() if len(by_producer) > 1]


def _spread(name: str, by_producer: dict[str, int]) -> SpanSpread:
    least, most = min(by_producer, key=by_producer.__getitem__), max(by_producer, key=by_producer.__getitem__)
    return SpanSpread(
        name=name,
        producers=len(by_producer),
        mean_ms=sum(by_producer.values()) / len(by_producer) / _NS_PER_MS,
        least_ms=by_producer[least] / _NS_PER_MS,
        most_ms=by_producer[most] / _NS_PER_MS,
        least=least,
        most=most,
    )

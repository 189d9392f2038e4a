"""The conversion of stream records to items. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from telemetry.backends.items import Artifact, Histogram, Item, Mark, Params, Span, Step, Table, Text
from telemetry.wire import events
from telemetry.wire.events import StreamRecord


def item_of(record: StreamRecord) -> Item | None:
    """Convert a record, or return None for a record that trackers can't use, such as the declaration of an axis.

    The item's key is `r` and the number of the record.
    """
    make = _MAKERS.get(type(record.record))
    return make(record, record.record) if make is not None else None


def record_number(key: str) -> int | None:
    """Return the record number of an item, or None for a reading or a snapshot."""
    return int(key[1:]) if key.startswith("r") else None


def _step(of: StreamRecord, step: events.ClosedStep) -> Step:
    return Step(
        key=_key(of),
        time_ns=of.wall_ns,
        axis=step.axis,
        step=step.step,
        values={name: math.nan if value is None else value for name, value in step.values.items()},
        spread=step.spread,
        closed=step.closed,
        revision=step.revision,
        ranks=step.ranks,
    )


def _params(of: StreamRecord, params: events.Params) -> Params:
    return Params(key=_key(of), time_ns=of.wall_ns, values=params.values)


def _mark(of: StreamRecord, mark: events.Mark) -> Mark:
    return Mark(key=_key(of), time_ns=of.wall_ns, text=mark.text, labels=mark.labels, producer=of.producer)


def _text(of: StreamRecord, note: events.Note) -> Text:
    return Text(**_head(of, note), text=note.text)


def _table(of: StreamRecord, table: events.Table) -> Table:
    return Table(**_head(of, table), columns=table.columns, rows=table.rows)


def _histogram(of: StreamRecord, bins: events.Bins) -> Histogram:
    return Histogram(**_head(of, bins), edges=bins.edges, counts=bins.counts)


def _artifact(of: StreamRecord, artifact: events.Artifact) -> Artifact:
    return Artifact(**_head(of, artifact), uri=artifact.uri, kind=artifact.kind)


def _head(of: StreamRecord, record: events.Note | events.Table | events.Bins | events.Artifact) -> dict[str, Any]:
    """Return the fields of items that may belong to a step."""
    return {
        "key": _key(of),
        "time_ns": of.wall_ns,
        "name": record.name,
        "axis": record.axis,
        "step": record.step,
    }


def _span(of: StreamRecord, span: events.Span) -> Span:
    """Convert a span.

    The record has its start as wall-clock time; the span's own times are on the producer's clock.
    """
    return Span(
        key=_key(of),
        time_ns=of.wall_ns,
        name=span.name,
        end_ns=of.wall_ns + max(span.end_ns - span.start_ns, 0),
        track=span.track,
        labels=span.labels,
        producer=of.producer,
    )


def _key(of: StreamRecord) -> str:
    return f"r{of.seq}"


_MAKERS: Final[dict[type, Callable[[StreamRecord, Any], Item]]] = {
    events.ClosedStep: _step,
    events.Params: _params,
    events.Mark: _mark,
    events.Note: _text,
    events.Table: _table,
    events.Bins: _histogram,
    events.Artifact: _artifact,
    events.Span: _span,
}

"""A run's records as one sequence of items, from its record log and from the stream for what the log lacks."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from telemetry.backends.items import Artifact, Histogram, Item, Mark, Params, Span, Step, Table, Text
from telemetry.limits import MIB
from telemetry.store.records import DamagedRecord, RecordLog
from telemetry.store.run_directory import RunDirectory
from telemetry.wire import events
from telemetry.wire.events import StreamRecord

_PAGE: Final = 500
_PAGE_BYTES: Final = MIB


class Records:
    """The records in order, each once.

    Not thread-safe, except for `known`. Records in the log are read from there.
    """

    def __init__(self, directory: RunDirectory | None, next_seq: int) -> None:
        """Open the log.

        Without a directory, only offered records exist. Raises RunDirectoryError if it can't be read.
        """
        self.missed = 0
        """Records that are lost everywhere."""
        self.trouble = ""
        """Message to the user about damage in the log."""
        self._log = RecordLog(directory.records) if directory is not None else None
        self._next = next_seq
        self._known = next_seq
        self._page: deque[StreamRecord] = deque()

    @property
    def next_seq(self) -> int:
        """Number of the next record."""
        return self._next

    @property
    def known(self) -> int:
        """Number after the newest known record. Readable from any thread."""
        return max(self._known, self._log.next_seq if self._log is not None else 0)

    def peek(self) -> StreamRecord | None:
        """Return the next record, if any. Skips damaged lines. Blocks on the disk.

        Raises RunDirectoryError if the log can't be read now.
        """
        if not self._page:
            self._page.extend(self._read())
        return self._page[0] if self._page else None

    def pop(self) -> None:
        """Mark the next record as taken."""
        taken = self._page.popleft()
        self.missed += max(taken.seq - self._next, 0)
        self._next = taken.seq + 1

    def offer(self, record: StreamRecord) -> None:
        """Offer a record from the stream, in order.

        It is used if the log lacks it, for example after a full disk. Raises like `peek`.
        """
        self._known = max(self._known, record.seq + 1)
        if not self._page:
            self._page.extend(self._read())
        following = self._page[-1].seq + 1 if self._page else self._next
        gap_is_logged = record.seq > following and self._log is not None and self._log.read(following, 1)
        if record.seq >= following and not gap_is_logged:
            self._page.append(record)

    def again(self, number: int) -> StreamRecord | None:
        """Return a record that was taken before, if the log has it. Raises RunDirectoryError."""
        records = self._log.read(number, 1) if self._log is not None else []
        return records[0] if records else None

    def _read(self) -> list[StreamRecord]:
        if self._log is None:
            return []
        try:
            return self._log.read(self._next, _PAGE, _PAGE_BYTES)
        except DamagedRecord as error:
            if self._next >= self._log.next_seq:  # the last line of the log
                self.trouble = f"a record is lost: {error.message}"
                return []
            return self._read_singly(self._log)

    def _read_singly(self, log: RecordLog) -> list[StreamRecord]:
        """Return the first readable record. Damaged records before it count as missed."""
        while self._next < log.next_seq:
            try:
                return log.read(self._next, 1)
            except DamagedRecord as error:
                self._next += 1
                self.missed += 1
                self.trouble = f"a record is lost: {error.message}"
        return []


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
        source=span.source,
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

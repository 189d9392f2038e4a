"""Intervals of a leaf with all that the root gets of them, made alike by a run and by the fold of its journal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from telemetry.aggregator import StreamedRecord
from telemetry.aggregator.nodes.outgoing import OutgoingInterval, add_up
from telemetry.daemon.numbers import Numbers
from telemetry.wire.events import ClosedStep, Span
from telemetry.wire.history import Interval
from telemetry.wire.nodes import Member, NodeAccount, StepPart


@dataclass(frozen=True)
class LeafInterval:
    """An interval of a leaf: sums, records, producers and the account at its end."""

    roll: int
    start_ns: int
    end_ns: int
    anchor: tuple[int, int]
    """Monotonic and wall clock at its end."""
    account: NodeAccount
    sums: OutgoingInterval | None = None
    records: tuple[StreamedRecord, ...] = ()
    parts: tuple[StepPart, ...] = ()
    """What the root gets to know about steps besides `records`."""
    members: tuple[Member, ...] = ()
    closing: bool = False
    """True if it was made when the books were closed."""


def joined(earlier: LeafInterval, later: LeafInterval) -> LeafInterval:
    """Return one interval that means the same as two."""
    return replace(
        later,
        start_ns=earlier.start_ns,
        sums=added(earlier.sums, later.sums),
        records=earlier.records + later.records,
        parts=earlier.parts + later.parts,
        members=earlier.members + later.members,
    )


def added(earlier: OutgoingInterval | None, later: OutgoingInterval | None) -> OutgoingInterval | None:
    """Return the sums of two intervals together."""
    if earlier is None or later is None:
        return earlier or later
    return add_up([earlier, later])


class IntervalCollector:
    """A collector of the records of an interval, until its end. For one thread."""

    def __init__(self, *, spans: bool) -> None:
        """Prepare the collector. With `spans`, spans go to the root like other records."""
        self._spans = spans
        self._records: list[StreamedRecord] = []

    def add(self, streamed: Sequence[StreamedRecord]) -> None:
        """Add records of the record stream. Steps go to the root as parts, never as closed steps."""
        self._records += [item for item in streamed if self._is_wanted(item)]

    def end(self, numbers: Numbers, interval: Interval, roll: int, account: NodeAccount) -> LeafInterval:
        """End an interval that the numbers have just ended."""
        aggregator = numbers.aggregator
        return LeafInterval(
            roll=roll,
            start_ns=interval.start_ns,
            end_ns=interval.end_ns,
            anchor=anchor_of(numbers),
            account=account,
            sums=aggregator.leaf.take_interval(),
            records=self._take(),
            parts=tuple(aggregator.steps.take_parts()),
            members=tuple(aggregator.leaf.new_members()),
        )

    def skip(self, numbers: Numbers) -> None:
        """End an interval that is on disk already."""
        numbers.aggregator.leaf.take_interval()
        numbers.aggregator.steps.take_parts()
        numbers.aggregator.leaf.new_members()
        self._take()

    def close(self, numbers: Numbers, account: NodeAccount) -> LeafInterval:
        """Return what follows the last interval once the books are closed: open steps and the last account."""
        run = numbers.run
        return LeafInterval(
            roll=max(0, run.rolls - 1),
            start_ns=run.rolled_wall_ns,
            end_ns=run.rolled_wall_ns,
            anchor=anchor_of(numbers),
            account=account,
            records=self._take(),
            parts=tuple(numbers.aggregator.steps.take_parts()),
            closing=True,
        )

    def _take(self) -> tuple[StreamedRecord, ...]:
        records, self._records = tuple(self._records), []
        return records

    def _is_wanted(self, item: StreamedRecord) -> bool:
        if isinstance(item.record, ClosedStep):
            return item.part is not None
        return self._spans or not isinstance(item.record, Span)


def anchor_of(numbers: Numbers) -> tuple[int, int]:
    """Return the clocks at the end of the last interval. The wall clock is the one that dates records."""
    run = numbers.run
    return run.rolled_mono_ns, numbers.aggregator.clock.wall_at(run.rolled_mono_ns, run.rolled_wall_ns)

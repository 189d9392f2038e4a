"""One producer of a run: its account, sequence, id table and waiting rows."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final

from msgspec import Meta

from telemetry import limits
from telemetry.aggregator.budgets import Budget
from telemetry.aggregator.checkpoint import PART
from telemetry.aggregator.config import AggregatorConfig
from telemetry.aggregator.nodes.state import NodeState
from telemetry.aggregator.producers.account import Account, ReasonWords, plausible
from telemetry.aggregator.producers.ids import IdTable, WaitingRows
from telemetry.aggregator.run_clock import RunClock
from telemetry.common.formatting import number_of
from telemetry.wire.collectors import COLLECTORS
from telemetry.wire.control import End, Ended, Hello
from telemetry.wire.drop_reasons import Count, Reason
from telemetry.wire.events import EventBatch, Natural
from telemetry.wire.sequence import SequenceTracker
from telemetry.wire.snapshot import ProducerCompleteness, ProducerStat, ProducerStatus

_LATEST_NS: Final = (1 << 63) - 1


class Budgets:
    """Budgets that all producers of a book share."""

    __slots__ = ("ids", "producers", "reasons", "waiting", "window_rolls")

    STATE: ClassVar[Mapping[str, Any]] = {"reasons": PART}
    DERIVED: ClassVar[tuple[str, ...]] = ("ids", "producers", "waiting", "window_rolls")

    def __init__(self, window_rolls: int) -> None:
        self.ids = Budget(limits.ID_SLOTS)
        self.waiting = Budget(limits.UNKNOWN_ROWS)
        self.reasons = ReasonWords()
        self.window_rolls = window_rolls
        self.producers = 0

    def gaps(self) -> int:
        """Return the maximum number of ranges of missing batches per producer."""
        return min(limits.SEQUENCE_GAPS, max(limits.GAPS_SHOWN, limits.GAPS_OF_ALL // max(1, self.producers)))


class Producer:
    """State of one producer. `received = applied + dropped + waiting` always holds.

    A batch that is admitted but not yet applied counts as waiting.
    """

    STATE: ClassVar[Mapping[str, Any]] = {
        "name": str,
        "host": str,
        "pid": int,
        "rank": int | None,
        "greeted": bool,
        "last_seen_ns": Natural,
        "last_event_ns": Natural,
        "lag_s": float | None,
        "_offset_ns": Annotated[int, Meta(ge=-_LATEST_NS, le=_LATEST_NS)],
        "sequence": PART,
        "account": PART,
        "ids": PART,
        "waiting": PART,
        "applied_batches": Natural,
        "end": End | None,
        "closed_at": Natural | None,
        "_unapplied": dict[int, Count],
        "_rolls": list[Count],
        "_received_at_roll": Count,
        "node": NodeState | None,
        "ring": str,
        "is_salvaged": bool,
        "salvaged": Count,
    }
    ADDED: ClassVar[tuple[str, ...]] = ("node", "ring", "is_salvaged", "salvaged")
    DERIVED: ClassVar[tuple[str, ...]] = ("key", "newly_bound", "acknowledged_batches")

    def __init__(self, key: str, budgets: Budgets, now_ns: int) -> None:
        self.key = key
        self.name = ""
        self.host = ""
        self.pid = 0
        self.rank: int | None = None
        self.greeted = False
        """True if it sent hello, so that an end is expected."""
        self.last_seen_ns = now_ns
        """Time of its last message on the aggregator's monotonic clock."""
        self.last_event_ns = 0
        """Time of its newest event on the run's clock. 0 before the first."""
        self.lag_s: float | None = None
        self._offset_ns = 0
        """Difference from its monotonic clock to the run's clock. 0 while unknown."""
        self.sequence = SequenceTracker(budgets.gaps)
        self.account = Account(budgets.reasons)
        self.ids = IdTable(budgets.ids)
        self.waiting = WaitingRows(budgets.waiting)
        self.newly_bound = False
        """True if an id was bound since the waiting rows were last checked."""
        self.applied_batches = 0
        """Number below which all batches were applied or given up."""
        self.acknowledged_batches = 0
        """Value of `applied_batches` that was last sent to it. 0 after a restart."""
        self.end: End | None = None
        self.closed_at: int | None = None
        """Batch number from which batches are too late.

        Set once it has ended and all earlier batches arrived or were given up.
        """
        self._unapplied: dict[int, int] = {}
        """Batch number → number of events, of admitted batches that are not yet applied."""
        self._rolls: deque[int] = deque(maxlen=budgets.window_rolls)
        self._received_at_roll = 0
        self.node: NodeState | None = None
        """Node whose leaf this producer is. None for any other producer."""
        self.ring = ""
        """Path of its ring, if it has one that outlives its process."""
        self.is_salvaged = False
        """True once its process is dead, and what follows was read from its ring."""
        self.salvaged = 0
        """Number of events that were read from its ring."""

    def restored(self) -> None:
        if self._received_at_roll > self._received:
            raise ValueError("more events at the last roll than ever came")

    def hello(self, hello: Hello, now_ns: int) -> None:
        """Introduce the producer. The first hello decides whether it is a leaf.

        A producer whose rows are in the numbers is none: its account would lack them.
        """
        if hello.node and not (self.greeted or self.account.ledger.applied or self.waiting.count):
            self.node = NodeState(name=hello.node)
            self._received_at_roll = 0
        if self.node is not None:
            self.node.hear(hello, now_ns)
        self.name, self.host, self.pid, self.rank = hello.name, hello.host, hello.pid, hello.rank
        self.ring = hello.ring
        self.greeted = True
        self.last_seen_ns = now_ns

    @property
    def reconciled(self) -> bool:
        """True if it ended, and all of its batches arrived or were given up."""
        return self.closed_at is not None

    @property
    def is_collector(self) -> bool:
        """True for the collectors of the run. They are no part of the job, so its result does not wait for them."""
        return self.key.startswith(COLLECTORS)

    @property
    def foldable(self) -> bool:
        """True if no message of it can change a number: it ended by itself, and all its events are applied.

        A leaf keeps its row, because the row is that of its node. So do collectors, which are counted apart.
        """
        if self.node is not None or self.is_collector:
            return False
        return self.completeness() == "complete" and not self.unsettled and not self.sequence.unrepairable

    def admit(self, batch: EventBatch, events: int, now_ns: int) -> bool:
        """Check whether a batch is new.

        Its events then count as received, and `applied` or `refuse` must follow.
        """
        self.last_seen_ns = now_ns
        if not self.sequence.admit(batch.seq):
            return False
        self.account.receive(batch.first, events, batch.dropped)
        self.salvaged += events if self.is_salvaged else 0
        self._unapplied[batch.seq] = events
        return True

    def applied(self, seq: int) -> None:
        """Register that an admitted batch is applied, dropped or waiting. Raise KeyError for any other batch."""
        del self._unapplied[seq]
        self._move_on()

    def refuse(self, seq: int) -> None:
        """Drop the events of an admitted batch that arrived after the reconciled end."""
        self.account.ledger.drop(Reason.AFTER_END, self._unapplied.pop(seq))
        self._move_on()

    def belongs(self, seq: int) -> bool:
        """Return False for batches that arrived after the reconciled end."""
        return self.closed_at is None or seq < self.closed_at

    def steady(self, anchor: tuple[int, int], clock: RunClock) -> tuple[int, int]:
        """Return the anchor of a batch that has just arrived, with the run's clock in place of the wall clock.

        The offset between the two clocks stays the same, so that distances between events are those of the
        producer's monotonic clock. It is lowered if the batch would otherwise be in the future. That of a leaf
        comes from its hellos.
        """
        if anchor == (0, 0):  # without a monotonic clock, its times are wall clock times
            return clock.shift_ns, 0
        mono_ns, _ = anchor
        offset_ns = self._offset_ns or clock.offset_of(anchor)
        if self.node is not None and self.node.offset_ns is not None:
            heard_ns = clock.offset_by(self.node.offset_ns)  # its wall clock may be any
            offset_ns = min(self._offset_ns, heard_ns) if self._offset_ns else heard_ns
        self._offset_ns = max(min(offset_ns, clock.now_ns - mono_ns), -_LATEST_NS)
        return mono_ns, max(0, mono_ns + self._offset_ns)

    def heard_event(self, time_ns: int, now_ns: int) -> None:
        """Register the time of an event on the run's clock. A time in the future is lowered to now."""
        self.last_event_ns = max(self.last_event_ns, min(time_ns, now_ns))

    def heard_row(self, time_ns: int, now_ns: int) -> None:
        """Register the time of the newest row of a batch on the run's clock, and its age on arrival."""
        lag_ns = now_ns - time_ns
        if lag_ns < 0:
            lag_ns, time_ns = 0, now_ns
        self.lag_s = lag_ns / 1e9
        self.last_event_ns = max(self.last_event_ns, time_ns)

    def cannot_resend(self, first: int, last: int, now_ns: int) -> None:
        """Give up the missing ones of these batches, because the producer no longer has them."""
        self.last_seen_ns = now_ns
        self.sequence.give_up(first, last)
        self._move_on()

    def _move_on(self) -> None:
        if not self._unapplied:
            self.applied_batches = self.sequence.contiguous

    def finish(self, end: End, now_ns: int) -> list[str]:
        """Apply its end; only the first one counts. Return contradictions to earlier data."""
        self.last_seen_ns = now_ns
        if self.end is not None:
            return [] if _totals(end) == _totals(self.end) else ["ended twice, with different totals"]
        self.end = end
        if not (self.sequence.believable(end.batches) and plausible(end.emitted, end.dropped)):
            self.account.close(min(end.emitted, limits.EVENT_NUMBERS), {})
            total = f"{number_of(end.batches, 'batch', 'batches')} of {number_of(end.emitted, 'event')}"
            return [f"reports an impossible total of {total}"]
        complaints = []
        if end.batches < self.sequence.next_seq:
            batches = number_of(end.batches, "batch", "batches")
            complaints.append(f"reports {batches} but numbered {self.sequence.next_seq:,}")
        self.sequence.expect(end.batches)
        return complaints + self.account.close(end.emitted, end.dropped)

    def reconcile(self) -> None:
        """Reconcile the producer if it has ended and no batch is missing.

        Then no definition can arrive any more, so rows that wait for one are dropped.
        """
        if self.end is None or self.reconciled or self.sequence.gaps or self._unapplied:
            return
        self.closed_at = self.sequence.next_seq
        self.sequence.close()
        self._move_on()
        self.give_up_waiting()

    def give_up_waiting(self) -> None:
        self.account.ledger.drop(Reason.UNKNOWN_ID, self.waiting.discard())

    @property
    def unsettled(self) -> int:
        """Number of received events that are neither applied nor dropped."""
        return self.waiting.count + sum(self._unapplied.values())

    def ended(self) -> Ended:
        account = self.account
        return Ended(emitted=account.emitted, received=account.ledger.received, missing=account.missing)

    @property
    def counted_events(self) -> int:
        """Number of its events in the numbers or the record stream; for a leaf, of values in its intervals."""
        return self.account.ledger.applied if self.node is None else self.node.values

    @property
    def _received(self) -> int:
        """Number of its events; for a leaf, the number of values in its intervals."""
        return self.account.ledger.received if self.node is None else self.node.values

    def roll(self) -> None:
        received = self._received
        self._rolls.append(received - self._received_at_roll)
        self._received_at_roll = received

    def events_per_s(self, window_s: float) -> float:
        """Return the rate of its events over the window."""
        return sum(self._rolls) / window_s if window_s else 0.0

    def stat(
        self, now_ns: int, wall_ns: int, window_s: float, config: AggregatorConfig, shift_ns: int = 0
    ) -> ProducerStat:
        """Return its state for a snapshot. `shift_ns` converts the run's clock to the wall clock."""
        account = self.account
        return ProducerStat(
            producer=self.key,
            name=self.name,
            host=self.host,
            pid=self.pid,
            rank=self.rank,
            status=self.status(now_ns, config),
            completeness=self.completeness(),
            emitted=account.emitted,
            received=account.ledger.received,
            applied=account.ledger.applied,
            dropped=account.ledger.by_reason(),
            dropped_by_producer=account.dropped_by_producer,
            missing=account.missing,
            missing_batches=self.sequence.gaps[: limits.GAPS_SHOWN],
            unrepairable_batches=self.sequence.given_up,
            repaired=self.sequence.repaired,
            unrepairable=self.sequence.unrepairable,
            duplicates=self.sequence.duplicates,
            waiting=self.unsettled,
            events_per_s=self.events_per_s(window_s),
            lag_s=self.lag_s,
            last_seen_ns=max(0, wall_ns - (now_ns - self.last_seen_ns)),
            last_event_ns=max(0, self.last_event_ns + shift_ns) if self.last_event_ns else 0,
            unfinished=self.unfinished,
            salvaged=self.salvaged,
        )

    def status(self, now_ns: int, config: AggregatorConfig) -> ProducerStatus:
        if self.reconciled:
            return "ended"
        silent_s = (now_ns - self.last_seen_ns) / 1e9
        if silent_s > config.lost_after_s:
            return "lost"
        return "late" if silent_s > config.late_after_s else "live"

    def is_gone(self, now_ns: int, config: AggregatorConfig) -> bool:
        """Return whether it ended, or has been silent for long. A killed process may get a successor."""
        status = self.status(now_ns, config)
        silent_s = (now_ns - self.last_seen_ns) / 1e9
        return status == "lost" or (status == "ended" and (not self.is_salvaged or silent_s > config.lost_after_s))

    @property
    def unfinished(self) -> bool:
        """True if the end of the run forced its end, so that it may have recorded more."""
        return self.end is not None and self.end.unfinished

    def completeness(self) -> ProducerCompleteness:
        if self.reconciled and not self.unfinished:
            return "complete" if self.account.lossless else "lossy"
        return "incomplete" if self.greeted or self.end is not None else "unknown"


def _totals(end: End) -> tuple[int, int, dict[str, int]]:
    return end.batches, end.emitted, end.dropped

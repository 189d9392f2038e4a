"""Producers of a run: one account, sequence, id table and set of waiting rows for each."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Final

from msgspec import Meta

from telemetry import limits
from telemetry.aggregator.config import AggregatorConfig
from telemetry.aggregator.producers.account import Account, ReasonWords, plausible
from telemetry.aggregator.producers.budget import Budget
from telemetry.aggregator.producers.folded import Folded, RememberedProducer
from telemetry.aggregator.producers.ids import IdTable
from telemetry.aggregator.producers.waiting import WaitingRows
from telemetry.aggregator.run_clock import RunClock
from telemetry.aggregator.state import PART, PARTS
from telemetry.drop_reasons import Count, Reason
from telemetry.formatting import number_of
from telemetry.wire.control import End, Ended, Hello
from telemetry.wire.events import EventBatch, Natural
from telemetry.wire.sequence import SequenceTracker
from telemetry.wire.snapshot import FoldedProducers, ProducerCompleteness, ProducerStat, ProducerStatus

_LATEST_NS: Final = (1 << 63) - 1
_FOLD_EVERY: Final = 128  # in rows, because a search for foldable producers scans the whole table


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
    }
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

    def restored(self) -> None:
        if self._received_at_roll > self.account.ledger.received:
            raise ValueError("more events at the last roll than ever came")

    def hello(self, hello: Hello, now_ns: int) -> None:
        self.name, self.host, self.pid, self.rank = hello.name, hello.host, hello.pid, hello.rank
        self.greeted = True
        self.last_seen_ns = now_ns

    @property
    def reconciled(self) -> bool:
        """True if it ended, and all of its batches arrived or were given up."""
        return self.closed_at is not None

    @property
    def foldable(self) -> bool:
        """True if no message of it can change a number: it ended by itself, and all its events are applied."""
        return self.completeness() == "complete" and not self.unsettled and not self.sequence.unrepairable

    def admit(self, batch: EventBatch, events: int, now_ns: int) -> bool:
        """Check whether a batch is new.

        Its events then count as received, and `applied` or `refuse` must follow.
        """
        self.last_seen_ns = now_ns
        if not self.sequence.admit(batch.seq):
            return False
        self.account.receive(batch.first, events, batch.dropped)
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
        producer's monotonic clock. It is lowered if the batch would otherwise be in the future.
        """
        if anchor == (0, 0):  # without a monotonic clock, its times are wall clock times
            return clock.shift_ns, 0
        mono_ns, _ = anchor
        offset_ns = self._offset_ns or clock.offset_of(anchor)
        self._offset_ns = max(min(offset_ns, clock.now_ns - mono_ns), -_LATEST_NS)
        return mono_ns, max(0, mono_ns + self._offset_ns)

    def heard_event(self, time_ns: int, now_ns: int) -> None:
        """Register the time of an event on the run's clock. A time in the future is lowered to now."""
        self.last_event_ns = max(self.last_event_ns, min(time_ns, now_ns))

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
            said = f"{number_of(end.batches, 'batch', 'batches')} of {number_of(end.emitted, 'event')}"
            return [f"reports an impossible total of {said}"]
        complaints = []
        if end.batches < self.sequence.next_seq:
            made = number_of(end.batches, "batch", "batches")
            complaints.append(f"reports {made} but numbered {self.sequence.next_seq:,}")
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

    def roll(self) -> None:
        received = self.account.ledger.received
        self._rolls.append(received - self._received_at_roll)
        self._received_at_roll = received

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
            events_per_s=sum(self._rolls) / window_s if window_s else 0.0,
            lag_s=self.lag_s,
            last_seen_ns=max(0, wall_ns - (now_ns - self.last_seen_ns)),
            last_event_ns=max(0, self.last_event_ns + shift_ns) if self.last_event_ns else 0,
            unfinished=self.unfinished,
        )

    def status(self, now_ns: int, config: AggregatorConfig) -> ProducerStatus:
        if self.reconciled:
            return "ended"
        silent_s = (now_ns - self.last_seen_ns) / 1e9
        if silent_s > config.lost_after_s:
            return "lost"
        return "late" if silent_s > config.late_after_s else "live"

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


class ProducerBook:
    """Producers of the run by id, in order of appearance.

    It has at most `limits.PRODUCERS` rows, and one account for those that ended completely and gave up their row.
    """

    STATE: ClassVar[Mapping[str, Any]] = {
        "_budgets": PART,
        "folded": PART,
        "known": list[str],
        "_producers": PARTS,
        "_rolls_s": list[float],
    }
    ADDED: ClassVar[tuple[str, ...]] = ("folded",)
    DERIVED: ClassVar[tuple[str, ...]] = ("_config",)

    def __init__(self, config: AggregatorConfig) -> None:
        self._config = config
        self._budgets = Budgets(config.window_rolls)
        self._producers: dict[str, Producer] = {}
        self.folded = Folded()
        self._rolls_s: deque[float] = deque(maxlen=config.window_rolls)

    def __iter__(self) -> Iterator[Producer]:
        return iter(self._producers.values())

    def __len__(self) -> int:
        return len(self._producers)

    @property
    def known(self) -> list[str]:
        """The ids of all producers. A new book can be assigned these once, and adds each."""
        return list(self._producers)

    @known.setter
    def known(self, keys: list[str]) -> None:
        for key in keys:
            self.meet(key, 0)
        if self.known != keys:
            raise ValueError("producers that are too many, or the same")

    def __getitem__(self, key: str) -> Producer:
        """Return a producer. Raise KeyError for an unknown one."""
        return self._producers[key]

    def get(self, key: str) -> Producer | None:
        return self._producers.get(key)

    def meet(self, key: str, now_ns: int) -> Producer | None:
        """Return the producer of this id, new or known. Return None if the book is full."""
        producer = self._producers.get(key)
        if producer is None:
            self._fold()
        if producer is None and len(self._producers) < limits.PRODUCERS:
            producer = self._producers[key] = Producer(key, self._budgets, now_ns)
            self._budgets.producers = len(self._producers)
        return producer

    def _fold(self) -> None:
        """Fold the oldest producers that ended completely, once there are more rows than a snapshot should list."""
        rows = len(self._producers)
        if rows < limits.PRODUCERS_LISTED or rows % _FOLD_EVERY:
            return
        left = rows - (limits.PRODUCERS_LISTED - _FOLD_EVERY)
        for producer in [producer for producer in self if producer.foldable][:left]:
            account = FoldedProducers(
                events=producer.account.emitted,
                repaired=producer.sequence.repaired,
                duplicates=producer.sequence.duplicates,
            )
            assert producer.closed_at is not None
            self.folded.add(producer.key, account, producer.closed_at, producer.ids)
            producer.ids.release()
            del self._producers[producer.key]
        self._budgets.producers = len(self._producers)

    def replayed(self, key: str) -> Producer | RememberedProducer | None:
        """Return the producer of a batch in the journal."""
        return self._producers.get(key) or self.folded.remembered(key)

    def roll(self, seconds: float) -> None:
        self._rolls_s.append(seconds)
        for producer in self:
            producer.roll()

    def stats(self, now_ns: int, wall_ns: int, shift_ns: int = 0) -> list[ProducerStat]:
        window_s = sum(self._rolls_s)
        return [producer.stat(now_ns, wall_ns, window_s, self._config, shift_ns) for producer in self]

    def waiting_for(self) -> list[str]:
        """Return producers whose end is expected: they sent hello and are not reconciled."""
        return [producer.key for producer in self if producer.greeted and not producer.reconciled]

    def anyone_left(self, now_ns: int, besides: str = "") -> bool:
        """Return False once there were producers other than `besides` and each has ended or is lost."""
        others = [producer for producer in self if producer.key != besides]
        if not others:
            return not self.folded.producers
        return any(producer.status(now_ns, self._config) not in ("ended", "lost") for producer in others)

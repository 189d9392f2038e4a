"""Who sends: one account, sequence, id table and waiting room for each producer."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from telemetry import limits
from telemetry.aggregator.account import Account, ReasonWords, plausible
from telemetry.aggregator.budget import Budget
from telemetry.aggregator.config import AggregatorConfig
from telemetry.aggregator.ids import IdTable
from telemetry.aggregator.waiting import WaitingRows
from telemetry.ledger import Reason
from telemetry.wire.control import End, Ended, Hello
from telemetry.wire.events import EventBatch
from telemetry.wire.sequence import SequenceTracker
from telemetry.wire.snapshot import ProducerCompleteness, ProducerStat, ProducerStatus


class Budgets:
    """What all producers of a book share."""

    __slots__ = ("ids", "reasons", "waiting", "window_rolls")

    def __init__(self, window_rolls: int) -> None:
        self.ids = Budget(limits.ID_SLOTS)
        self.waiting = Budget(limits.UNKNOWN_ROWS)
        self.reasons = ReasonWords()
        self.window_rolls = window_rolls


class Producer:
    """`received = applied + dropped + waiting` holds at any time: what is admitted and not yet applied waits."""

    def __init__(self, key: str, budgets: Budgets, now_ns: int) -> None:
        self.key = key
        self.name = ""
        self.host = ""
        self.pid = 0
        self.rank: int | None = None
        self.greeted = False
        """It said hello, so it will say end."""
        self.last_seen_ns = now_ns
        """The aggregator's monotonic clock."""
        self.lag_s: float | None = None
        self.sequence = SequenceTracker()
        self.account = Account(budgets.reasons)
        self.ids = IdTable(budgets.ids)
        self.waiting = WaitingRows(budgets.waiting)
        self.newly_bound = False
        """An id was bound since the waiting rows were last looked at."""
        self.applied_batches = 0
        """All batches below this number are in the numbers, or were given up."""
        self.acknowledged_batches = 0
        self.end: End | None = None
        self.reconciled = False
        """It ended, and all of its batches came or were given up."""
        self._unapplied: dict[int, int] = {}
        """Events of each admitted batch that is not applied yet, by batch number."""
        self._rolls: deque[int] = deque(maxlen=budgets.window_rolls)
        self._received_at_roll = 0

    def hello(self, hello: Hello, now_ns: int) -> None:
        self.name, self.host, self.pid, self.rank = hello.name, hello.host, hello.pid, hello.rank
        self.greeted = True
        self.last_seen_ns = now_ns

    def admit(self, batch: EventBatch, events: int, now_ns: int) -> bool:
        """Whether the batch is to be applied. What comes after a reconciled end counts as dropped."""
        self.last_seen_ns = now_ns
        if not self.sequence.admit(batch.seq):
            return False
        self.account.receive(batch.first, events, batch.dropped)
        if self.reconciled:
            self.account.ledger.drop(Reason.AFTER_END, events)
            return False
        self._unapplied[batch.seq] = events
        return True

    def applied(self, seq: int) -> None:
        """An admitted batch is in the numbers now, dropped, or waiting. Raises KeyError for any other batch."""
        del self._unapplied[seq]
        if not self._unapplied:
            self.applied_batches = self.sequence.contiguous

    def finish(self, end: End, now_ns: int) -> list[str]:
        """Its last word; only the first counts. Returns what in it contradicts what was seen."""
        self.last_seen_ns = now_ns
        if self.end is not None:
            return [] if _totals(end) == _totals(self.end) else ["ended twice, with other totals"]
        self.end = end
        if not (self.sequence.believable(end.batches) and plausible(end.emitted, end.dropped)):
            self.account.close(min(end.emitted, limits.EVENT_NUMBERS), {})
            return [f"says it made {end.batches:,} batches of {end.emitted:,} events, which can't be"]
        complaints = []
        if end.batches < self.sequence.next_seq:
            complaints.append(f"says it made {end.batches:,} batches but numbered {self.sequence.next_seq:,}")
        self.sequence.expect(end.batches)
        return complaints + self.account.close(end.emitted, end.dropped)

    def reconcile(self) -> None:
        """Once it has ended and nothing is missing, no definition can come any more: what waits for one is lost."""
        if self.end is None or self.reconciled or self.sequence.gaps or self._unapplied:
            return
        self.reconciled = True
        self.applied_batches = self.sequence.contiguous
        self.give_up_waiting()

    def give_up_waiting(self) -> None:
        self.account.ledger.drop(Reason.UNKNOWN_ID, self.waiting.discard())

    @property
    def unsettled(self) -> int:
        """Received events that are neither applied nor dropped."""
        return self.waiting.count + sum(self._unapplied.values())

    def ended(self) -> Ended:
        account = self.account
        return Ended(emitted=account.emitted, received=account.ledger.received, missing=account.missing)

    def roll(self) -> None:
        received = self.account.ledger.received
        self._rolls.append(received - self._received_at_roll)
        self._received_at_roll = received

    def stat(self, now_ns: int, wall_ns: int, window_s: float, config: AggregatorConfig) -> ProducerStat:
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
            duplicates=self.sequence.duplicates,
            waiting=self.unsettled,
            events_per_s=sum(self._rolls) / window_s if window_s else 0.0,
            lag_s=self.lag_s,
            last_seen_ns=max(0, wall_ns - (now_ns - self.last_seen_ns)),
        )

    def status(self, now_ns: int, config: AggregatorConfig) -> ProducerStatus:
        if self.reconciled:
            return "ended"
        silent_s = (now_ns - self.last_seen_ns) / 1e9
        if silent_s > config.lost_after_s:
            return "lost"
        return "late" if silent_s > config.late_after_s else "live"

    def completeness(self) -> ProducerCompleteness:
        if self.reconciled:
            return "complete" if self.account.lossless else "lossy"
        return "incomplete" if self.greeted or self.end is not None else "unknown"


def _totals(end: End) -> tuple[int, int, dict[str, int]]:
    return end.batches, end.emitted, end.dropped


class ProducerBook:
    """All producers of the run, by id, in order of appearance; at most `limits.PRODUCERS`."""

    def __init__(self, config: AggregatorConfig) -> None:
        self._config = config
        self._budgets = Budgets(config.window_rolls)
        self._producers: dict[str, Producer] = {}
        self._rolls_s: deque[float] = deque(maxlen=config.window_rolls)

    def __iter__(self) -> Iterator[Producer]:
        return iter(self._producers.values())

    def __len__(self) -> int:
        return len(self._producers)

    def __getitem__(self, key: str) -> Producer:
        """Raises KeyError for a producer never heard of."""
        return self._producers[key]

    def get(self, key: str) -> Producer | None:
        return self._producers.get(key)

    def meet(self, key: str, now_ns: int) -> Producer | None:
        """The producer of this id, new or known; None if the book is full."""
        producer = self._producers.get(key)
        if producer is None and len(self._producers) < limits.PRODUCERS:
            producer = self._producers[key] = Producer(key, self._budgets, now_ns)
        return producer

    def roll(self, seconds: float) -> None:
        self._rolls_s.append(seconds)
        for producer in self:
            producer.roll()

    def stats(self, now_ns: int, wall_ns: int) -> list[ProducerStat]:
        window_s = sum(self._rolls_s)
        return [producer.stat(now_ns, wall_ns, window_s, self._config) for producer in self]

    def waiting_for(self) -> list[str]:
        """Producers that owe an end: they said hello and are not reconciled."""
        return [producer.key for producer in self if producer.greeted and not producer.reconciled]

    def anyone_left(self, now_ns: int) -> bool:
        """False once there were producers and each has ended or is lost."""
        if not self._producers:
            return True
        return any(producer.status(now_ns, self._config) not in ("ended", "lost") for producer in self)

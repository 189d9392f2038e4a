"""Producers of a run: one account, sequence, id table and set of waiting rows for each."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

from telemetry import limits
from telemetry.aggregator.config import AggregatorConfig
from telemetry.aggregator.producers.account import ReasonWords
from telemetry.aggregator.producers.folded import Folded, RememberedProducer
from telemetry.aggregator.producers.producer import Budgets, Producer
from telemetry.aggregator.state import PART, PARTS
from telemetry.wire.control import Ended
from telemetry.wire.drop_reasons import merge_reasons
from telemetry.wire.snapshot import FoldedProducers, ProducerStat

_FOLD_EVERY: Final = 128  # in rows, because a search for foldable producers scans the whole table


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
                salvaged=producer.salvaged,
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

    @property
    def window_s(self) -> float:
        """Length of the window in seconds."""
        return sum(self._rolls_s)

    @property
    def reasons(self) -> ReasonWords:
        """Drop reasons that are kept apart, for all producers together."""
        return self._budgets.reasons

    def stats(self, now_ns: int, wall_ns: int, shift_ns: int = 0) -> list[ProducerStat]:
        """Return the rows of all producers except leaves."""
        window_s = self.window_s
        return [
            producer.stat(now_ns, wall_ns, window_s, self._config, shift_ns)
            for producer in self
            if producer.node is None
        ]

    def leaves(self) -> list[Producer]:
        return [producer for producer in self if producer.node is not None]

    def names_of(self, keys: Iterable[str]) -> list[str]:
        """Return these producers for a snapshot: leaves by the name of their node, others by id."""
        nodes = ((key, self._producers[key].node) for key in keys)
        return [key if node is None else node.name for key, node in nodes]

    def rank_of(self, key: str) -> int | None:
        producer = self._producers.get(key)
        return producer.rank if producer is not None else None

    def ended(self, key: str) -> Ended | None:
        """Return the account of a reconciled producer. Return None before its end or while batches are missing."""
        producer = self._producers.get(key)
        if producer is None:
            return self.folded.ended(key)
        return producer.ended() if producer.reconciled else None

    def account(self, key: str) -> Ended:
        """Return the current account of a producer, or an empty account for an unknown one."""
        producer = self._producers.get(key)
        return producer.ended() if producer is not None else Ended(emitted=0, received=0, missing=0)

    def losses(self, key: str) -> tuple[dict[str, int], int]:
        """Return a producer's dropped events by reason, and the number of its batches that were given up."""
        producer = self._producers.get(key)
        if producer is None:
            return {}, 0
        account = producer.account
        dropped = merge_reasons(account.ledger.by_reason(), account.dropped_by_producer)
        return dropped, producer.sequence.unrepairable

    def applied_batches(self, key: str) -> int:
        """Return the number below which all batches of a producer were applied or given up."""
        producer = self._producers.get(key)
        return producer.applied_batches if producer is not None else 0

    def gaps(self, key: str) -> list[tuple[int, int]]:
        """Return ranges `[first, last]` of missing batches."""
        producer = self._producers.get(key)
        return producer.sequence.gaps if producer is not None else []

    @property
    def counted_events(self) -> int:
        """Number of events of all producers in the numbers or the record stream. Of leaves, their values."""
        return self.folded.events + sum(producer.counted_events for producer in self)

    def fits(self, instruments: Sequence[int]) -> bool:
        """Return whether all ids lead to existing instruments. `instruments` has their number by kind."""
        return self.folded.fits(instruments) and all(producer.ids.fits(instruments) for producer in self)

    def acknowledgements(self) -> list[tuple[str, int]]:
        """Return the producers whose `applied_batches` changed since the last call, with the new values."""
        moved = []
        for producer in self:
            if producer.acknowledged_batches != producer.applied_batches:
                producer.acknowledged_batches = producer.applied_batches
                moved.append((producer.key, producer.applied_batches))
        return moved

    def waiting_for(self) -> list[str]:
        """Return producers whose end is expected: they sent hello and are not reconciled. Without collectors."""
        return [
            producer.key
            for producer in self
            if producer.greeted and not producer.reconciled and not producer.is_collector
        ]

    def anyone_left(self, now_ns: int, besides: str = "") -> bool:
        """Return False once there were producers other than `besides` and each has ended or is lost.

        Collectors don't keep a run alive.
        """
        others = [producer for producer in self if producer.key != besides and not producer.is_collector]
        if not others:
            return not self.folded.producers
        return not all(producer.is_gone(now_ns, self._config) for producer in others)

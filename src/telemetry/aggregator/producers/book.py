"""Producers of a run: account, sequence, ids and waiting rows of each, and one account for all ended ones."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

import numpy as np

from telemetry import limits
from telemetry.aggregator.budgets import Budget
from telemetry.aggregator.checkpoint import PART, PARTS
from telemetry.aggregator.config import AggregatorConfig
from telemetry.aggregator.producers.account import ReasonWords
from telemetry.aggregator.producers.ids import IdTable
from telemetry.aggregator.producers.producer import Budgets, Producer
from telemetry.wire.control import Ended
from telemetry.wire.drop_reasons import Count, merge_reasons
from telemetry.wire.events import Natural
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


class RememberedProducer:
    """A producer without a row: the part of its state that is needed to read its batches in the journal again."""

    __slots__ = ("closed_at", "ids")

    node: ClassVar[None] = None
    """None, because leaves keep their row."""

    def __init__(self, closed_at: int, ids: IdTable) -> None:
        self.closed_at = closed_at
        self.ids = ids

    def belongs(self, seq: int) -> bool:
        """Return False for a batch that arrived after the end."""
        return seq < self.closed_at


class Folded:
    """Sum of all folded producers, and the ids of the last `limits.FOLDED_IDS` of them.

    An id is remembered so that a late copy of a batch, a repeated hello or a repeated end makes no new producer.
    The row ids of a producer are kept for the exact pass, which reads its batches again. Processes of one program
    mostly have the same row ids, so equal tables are stored once.
    """

    STATE: ClassVar[Mapping[str, Any]] = {
        "producers": Natural,
        "events": Count,
        "repaired": Natural,
        "duplicates": Natural,
        "salvaged": Count,
        "_tables": list[bytes],
        "_known": dict[str, tuple[Count, Natural, Natural]],
    }
    ADDED: ClassVar[tuple[str, ...]] = ("salvaged",)
    DERIVED: ClassVar[tuple[str, ...]] = ("_free", "_places", "_uses")

    def __init__(self) -> None:
        self.producers = 0
        self.events = 0
        self.repaired = 0
        self.duplicates = 0
        self.salvaged = 0
        self._tables: list[bytes] = []
        """Row ids as bytes. Empty for a table that no producer uses any more."""
        self._known: dict[str, tuple[int, int, int]] = {}
        """Id → number of events, first batch after the end, position of the table. Oldest first."""
        self._uses: Counter[int] = Counter()
        self._places: dict[bytes, int] = {}
        self._free: list[int] = []
        """Positions of tables that no producer uses any more."""

    def restored(self) -> None:
        self._uses = Counter(table for _, _, table in self._known.values())
        self._places = {table: index for index, table in enumerate(self._tables) if self._uses[index]}
        self._free = [index for index in range(len(self._tables)) if not self._uses[index]]
        if len(self._known) > limits.FOLDED_IDS or not all(table < len(self._tables) for table in self._uses):
            raise ValueError("folded producers that can't have been saved")

    def __contains__(self, key: str) -> bool:
        return key in self._known

    def add(self, key: str, account: FoldedProducers, closed_at: int, ids: IdTable) -> None:
        """Add the account of a producer that ended completely."""
        self.producers += 1
        self.events += account.events
        self.repaired += account.repaired
        self.duplicates += account.duplicates
        self.salvaged += account.salvaged
        table = self._place_of(ids.bound.tobytes())
        self._known[key] = account.events, closed_at, table
        self._uses[table] += 1
        if len(self._known) > limits.FOLDED_IDS:
            self._forget(next(iter(self._known)))

    def ended(self, key: str) -> Ended | None:
        """Return the account of a folded producer, or None for any other producer."""
        entry = self._known.get(key)
        return None if entry is None else Ended(emitted=entry[0], received=entry[0], missing=0)

    def remembered(self, key: str) -> RememberedProducer | None:
        entry = self._known.get(key)
        if entry is None:
            return None
        return RememberedProducer(entry[1], _table(self._tables[entry[2]]))

    def fits(self, instruments: Sequence[int]) -> bool:
        """Check that every row id leads to an existing instrument. `instruments` has their number by kind."""
        return all(_is_table(table) and _table(table).fits(instruments) for table in self._tables)

    def stat(self) -> FoldedProducers | None:
        if not self.producers:
            return None
        return FoldedProducers(
            producers=self.producers,
            events=self.events,
            repaired=self.repaired,
            duplicates=self.duplicates,
            salvaged=self.salvaged,
        )

    def _place_of(self, table: bytes) -> int:
        index = self._places.get(table)
        if index is None:
            index = self._places[table] = self._free.pop() if self._free else len(self._tables)
            self._tables[index : index + 1] = [table]
        return index

    def _forget(self, key: str) -> None:
        table = self._known.pop(key)[2]
        self._uses[table] -= 1
        if not self._uses[table]:
            del self._places[self._tables[table]]
            self._tables[table] = b""
            self._free.append(table)


def _is_table(table: bytes) -> bool:
    return len(table) % 4 == 0 and len(table) // 4 <= limits.PRODUCER_IDS


def _table(table: bytes) -> IdTable:
    ids = IdTable(Budget(limits.ID_SLOTS))
    ids.bound = np.frombuffer(table, np.int32)
    return ids

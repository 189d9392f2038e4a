"""One producer's account: every event it emitted is received, dropped by itself, or missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from telemetry import limits
from telemetry.aggregator.state import PART
from telemetry.drop_reasons import PRODUCER_REASONS, Count, Ledger
from telemetry.formatting import number_of

_OTHER: Final = "other"
_USUAL: Final = frozenset(reason.value for reason in PRODUCER_REASONS)


class ReasonWords:
    """Reasons that are told apart, those of all producers together: every snapshot repeats them."""

    STATE: ClassVar[Mapping[str, Any]] = {"_unusual": dict[str, None]}
    DERIVED: ClassVar[tuple[str, ...]] = ()

    def __init__(self) -> None:
        self._unusual: dict[str, None] = {}
        """Those of no producer of this version."""

    def word(self, reason: str) -> str:
        """The reason itself while there is room for it: a newer producer's has a place, noise has none."""
        if reason not in _USUAL and reason not in self._unusual:
            if len(self._unusual) >= limits.DROP_REASONS:
                return _OTHER
            self._unusual[reason] = None
        return reason


class Account:
    """`emitted = received + dropped by the producer + missing` holds by construction, whatever it claims."""

    __slots__ = ("_dropped", "_horizon", "_words", "ledger")

    STATE: ClassVar[Mapping[str, Any]] = {"ledger": PART, "_dropped": dict[str, Count], "_horizon": Count}
    DERIVED: ClassVar[tuple[str, ...]] = ("_words",)

    def __init__(self, words: ReasonWords | None = None) -> None:
        self.ledger = Ledger()
        self._words = words or ReasonWords()
        self._dropped: Counter[str] = Counter()
        self._horizon = 0
        """One above the highest event number known to have been given."""

    def receive(self, first: int, events: int, dropped: Mapping[str, int]) -> None:
        """A new batch: number of its first event, its events, and the producer's drops so far."""
        self.ledger.receive(events)
        self._horizon = max(self._horizon, first + events)
        self._raise_drops(dropped)

    def close(self, emitted: int, dropped: Mapping[str, int]) -> list[str]:
        """The producer's last word. Returns what in it contradicts what was seen; the larger numbers stay."""
        self._raise_drops(dropped)
        complaints = []
        if emitted < self._horizon:
            complaints.append(f"says it emitted {number_of(emitted, 'event')} but numbered {self._horizon:,}")
        elif emitted < self.ledger.received + self.dropped_by_producer_total:
            complaints.append(
                f"says it emitted {number_of(emitted, 'event')}, fewer than the {self.ledger.received:,} received "
                f"and {self.dropped_by_producer_total:,} it dropped"
            )
        self._horizon = max(self._horizon, emitted)
        return complaints

    @property
    def dropped_by_producer(self) -> dict[str, int]:
        return dict(sorted(self._dropped.items()))

    @property
    def dropped_by_producer_total(self) -> int:
        return self._dropped.total()

    @property
    def emitted(self) -> int:
        return max(self._horizon, self.ledger.received + self.dropped_by_producer_total)

    @property
    def missing(self) -> int:
        """Events that were numbered, not dropped by the producer, and have not come."""
        return self.emitted - self.ledger.received - self.dropped_by_producer_total

    @property
    def lossless(self) -> bool:
        return not (self.missing or self.ledger.dropped_total or self.dropped_by_producer_total)

    def _raise_drops(self, dropped: Mapping[str, int]) -> None:
        """Totals only grow: batches that come late report older ones. More than can have been emitted is a lie."""
        if not dropped:
            return
        totals: Counter[str] = Counter()
        for reason, count in dropped.items():
            if count:
                totals[self._words.word(reason)] += count
        raised = self._dropped | totals
        if raised.total() <= limits.EVENT_NUMBERS:
            self._dropped = raised


def plausible(events: int, dropped: Mapping[str, int]) -> bool:
    """Whether numbers like these can come from a producer that counts."""
    return events <= limits.EVENT_NUMBERS and sum(dropped.values()) <= limits.EVENT_NUMBERS

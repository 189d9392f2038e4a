"""Account of one producer: every event it emitted is received, dropped by the producer, or missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from telemetry import limits
from telemetry.aggregator.checkpoint import PART
from telemetry.common.formatting import number_of
from telemetry.wire.drop_reasons import PRODUCER_REASONS, Count, Ledger

_OTHER: Final = "other"
_USUAL: Final = frozenset(reason.value for reason in PRODUCER_REASONS)


class ReasonWords:
    """Drop reasons that are kept apart. Bounded for all producers together, because every snapshot repeats them."""

    STATE: ClassVar[Mapping[str, Any]] = {"_unusual": dict[str, None]}
    DERIVED: ClassVar[tuple[str, ...]] = ()

    def __init__(self) -> None:
        self._unusual: dict[str, None] = {}
        """Reasons that no producer of this version uses."""

    def word(self, reason: str) -> str:
        """Return the reason itself while there is room for it, else `other`.

        The room suffices for reasons of newer producers, but not for random text.
        """
        if reason not in _USUAL and reason not in self._unusual:
            if len(self._unusual) >= limits.DROP_REASONS:
                return _OTHER
            self._unusual[reason] = None
        return reason


class Account:
    """Account of a producer.

    `emitted = received + dropped by the producer + missing` always holds, whatever the producer claims.
    """

    __slots__ = ("_dropped", "_horizon", "_words", "ledger")

    STATE: ClassVar[Mapping[str, Any]] = {"ledger": PART, "_dropped": dict[str, Count], "_horizon": Count}
    DERIVED: ClassVar[tuple[str, ...]] = ("_words",)

    def __init__(self, reasons: ReasonWords | None = None) -> None:
        self.ledger = Ledger()
        self._words = reasons or ReasonWords()
        self._dropped: Counter[str] = Counter()
        self._horizon = 0
        """Upper bound, exclusive, of the event numbers known to be assigned."""

    def receive(self, first: int, events: int, dropped: Mapping[str, int]) -> None:
        """Add a new batch: number of its first event, number of events, and the producer's drops so far."""
        self.ledger.receive(events)
        self._horizon = max(self._horizon, first + events)
        self._raise_drops(dropped)

    def close(self, emitted: int, dropped: Mapping[str, int]) -> list[str]:
        """Apply the producer's final totals. Return contradictions to earlier data; the larger numbers stay."""
        self._raise_drops(dropped)
        complaints = []
        if emitted < self._horizon:
            complaints.append(f"reports {number_of(emitted, 'event')} emitted but numbered {self._horizon:,}")
        elif emitted < self.ledger.received + self.dropped_by_producer_total:
            complaints.append(
                f"reports {number_of(emitted, 'event')} emitted, fewer than "
                f"{self.ledger.received:,} received plus {self.dropped_by_producer_total:,} "
                "dropped by it"
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
        """Number of events that were numbered, were not dropped by the producer, and have not arrived."""
        return self.emitted - self.ledger.received - self.dropped_by_producer_total

    @property
    def lossless(self) -> bool:
        return not (self.missing or self.ledger.dropped_total or self.dropped_by_producer_total)

    def _raise_drops(self, dropped: Mapping[str, int]) -> None:
        """Raise drop totals, which only grow: late batches report older totals.

        Ignores more drops than possible events.
        """
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
    """Check that such numbers can come from a producer that counts correctly."""
    return events <= limits.EVENT_NUMBERS and sum(dropped.values()) <= limits.EVENT_NUMBERS

"""Reasons for which an event did not become a number, and the counters that prove that no event vanished.

Property tests check this rule:

    emitted  = received + dropped by the producer + missing on the way
    received = applied  + dropped by the aggregator
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, ClassVar, TypeAlias

from msgspec import Meta

Count: TypeAlias = Annotated[int, Meta(ge=0, le=1 << 50)]
"""Number of events in a saved state: no run reaches more, and the sum over all producers fits into 64 bits."""


class Reason(StrEnum):
    """A reason for a drop. The value is the word on the wire, in reports and in docs/METRICS.md."""

    # dropped by the producer
    BUFFER_FULL = "buffer_full"
    BLOCK_TIMEOUT = "block_timeout"
    NOT_A_NUMBER = "not_a_number"
    UNENCODABLE = "unencodable"
    AFTER_FINISH = "after_finish"
    UNSENT_AT_EXIT = "unsent_at_exit"

    # dropped by the aggregator, event by event
    NOT_FINITE = "not_finite"
    NEGATIVE = "negative"
    UNKNOWN_ID = "unknown_id"
    DEFINITION_CONFLICT = "definition_conflict"
    DEFINITION_INVALID = "definition_invalid"
    MALFORMED_RECORD = "malformed_record"
    MALFORMED_ROWS = "malformed_rows"
    AFTER_END = "after_end"
    TEXTS_FULL = "texts_full"
    RECORDS_FULL = "records_full"
    STEPS_FULL = "steps_full"
    STEP_TOO_LATE = "step_too_late"

    # whole frames that the aggregator could not read: their events appear as missing
    FRAME_TOO_LARGE = "frame_too_large"
    FRAME_UNREADABLE = "frame_unreadable"
    WRONG_TOPIC = "wrong_topic"
    WRONG_VERSION = "wrong_version"
    IMPLAUSIBLE = "implausible"
    TOO_MANY_PRODUCERS = "too_many_producers"


PRODUCER_REASONS = frozenset(
    {
        Reason.BUFFER_FULL,
        Reason.BLOCK_TIMEOUT,
        Reason.NOT_A_NUMBER,
        Reason.UNENCODABLE,
        Reason.AFTER_FINISH,
        Reason.UNSENT_AT_EXIT,
    }
)
FRAME_REASONS = frozenset(
    {
        Reason.FRAME_TOO_LARGE,
        Reason.FRAME_UNREADABLE,
        Reason.WRONG_TOPIC,
        Reason.WRONG_VERSION,
        Reason.IMPLAUSIBLE,
        Reason.TOO_MANY_PRODUCERS,
    }
)
EVENT_REASONS = frozenset(Reason) - PRODUCER_REASONS - FRAME_REASONS


class Ledger:
    """The counts of one side of the flow. Not thread-safe: one owner."""

    __slots__ = ("applied", "dropped", "received")

    STATE: ClassVar[Mapping[str, Any]] = {"received": Count, "applied": Count, "dropped": dict[str, Count]}
    DERIVED: ClassVar[tuple[str, ...]] = ()

    def __init__(self) -> None:
        self.received = 0
        self.applied = 0
        self.dropped: Counter[str] = Counter()

    def receive(self, count: int) -> None:
        self.received += count

    def apply(self, count: int) -> None:
        self.applied += count

    def drop(self, reason: Reason, count: int = 1) -> None:
        if count:
            self.dropped[reason.value] += count

    @property
    def dropped_total(self) -> int:
        return self.dropped.total()

    def balanced(self) -> bool:
        return self.received == self.applied + self.dropped_total

    def by_reason(self) -> dict[str, int]:
        return dict(sorted(self.dropped.items()))


def merge_reasons(*sources: Mapping[str, int]) -> dict[str, int]:
    """Return the sum of several reason maps, sorted by reason."""
    total: Counter[str] = Counter()
    for source in sources:
        total.update(source)
    return dict(sorted(total.items()))

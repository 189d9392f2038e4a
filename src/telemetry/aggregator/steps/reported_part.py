"""The parts that a leaf reported for one step."""

from __future__ import annotations

import math
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from telemetry import limits
from telemetry.aggregator.steps.partial_values import MOST_COUNTED, is_possible
from telemetry.wire.events import Closing, Name, Natural, Rank
from telemetry.wire.nodes import PartialValue, StepPart

_LATEST_NS: Final = (1 << 63) - 1


class ReportedPart(Struct, array_like=True):
    """Newest partial values of a leaf. Parts may arrive in any order; their numbers tell which is newer."""

    values: dict[Name, PartialValue | None] = {}
    ranks: dict[Name, list[tuple[Rank, float]]] = {}
    number: Natural = 0
    """Number of the part that said the values, except those in `numbers`."""
    numbers: dict[Name, Natural] = {}
    newest: Natural = 0
    """Highest number of a part."""
    producers: Natural = 0
    closed: Closing = "ended"
    """Reason why the leaf closed the step; `timeout` if one of its producers was missing."""
    not_finite: dict[Name, None] = {}
    """Names that a producer of the leaf reported without a finite number."""

    def add(self, part: StepPart, shift_ns: int) -> None:
        """Add a part, and move its times by `shift_ns`. Values from parts with higher numbers stay."""
        if not self.values:
            self.number = part.number
        not_finite = {*part.not_finite}
        for name, value in part.values.items():
            if name in self.values and self._number_of(name) > part.number:
                continue
            self.values[name] = value if value is None else _moved(value, shift_ns)
            if part.number != self.number or name in self.numbers:
                self.numbers[name] = part.number
            if name in part.ranks:
                self.ranks[name] = part.ranks[name]
            else:
                self.ranks.pop(name, None)
            if value is None or name in not_finite:
                self.not_finite[name] = None
            else:
                self.not_finite.pop(name, None)
        if part.number >= self.newest:
            self.newest, self.producers = part.number, part.producers
        if part.closed in ("timeout", "run_end"):
            self.closed = part.closed

    def forget_before(self, number: int) -> None:
        """Forget the values from parts with lower numbers."""
        for name in [name for name in self.values if self._number_of(name) < number]:
            del self.values[name]
            self.numbers.pop(name, None)
            self.ranks.pop(name, None)
            self.not_finite.pop(name, None)

    def _number_of(self, name: str) -> int:
        return self.numbers.get(name, self.number)

    @property
    def can_be(self) -> bool:
        """True if the numbers can be those of a leaf."""
        return self.not_finite.keys() <= self.values.keys() and _numbers_can_be(
            self.values, self.ranks, self.producers
        )

    @property
    def units(self) -> int:
        """Number of budget units used."""
        return limits.STEP_UNITS + len(self.values) + len(self.numbers) + sum(map(len, self.ranks.values()))


def size_of(part: StepPart) -> int:
    """Return the number of values in a part."""
    return len(part.values) + sum(map(len, part.ranks.values()))


def moved_ns(time_ns: int, shift_ns: int) -> int:
    """Return a time on another clock, within the range of times."""
    return min(max(0, time_ns + shift_ns), _LATEST_NS)


def can_be(part: StepPart) -> bool:
    """Check that the numbers of a part can be those of a leaf."""
    return len(part.ranks) <= limits.RANKED_NAMES and _numbers_can_be(part.values, part.ranks, part.producers)


def _numbers_can_be(
    values: dict[Name, PartialValue | None], ranks: dict[Name, list[tuple[Rank, float]]], producers: int
) -> bool:
    return (
        producers <= MOST_COUNTED
        and ranks.keys() <= values.keys()
        and all(value is None or is_possible(value) for value in values.values())
        and all(_ranks_can_be(of_name) for of_name in ranks.values())
    )


def _ranks_can_be(values: list[tuple[Rank, float]]) -> bool:
    return len(values) <= limits.STEP_RANKS and all(
        math.isfinite(value) and (isinstance(rank, int) or len(rank) <= limits.PRODUCER_ID_CHARS)
        for rank, value in values
    )


def _moved(value: PartialValue, shift_ns: int) -> PartialValue:
    return replace(value, last_ns=moved_ns(value.last_ns, shift_ns)) if shift_ns else value

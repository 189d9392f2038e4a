"""The parts of a step that a leaf reports: values of many producers that add up in any order to the same result."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from telemetry import limits
from telemetry.wire.events import Closing, Name, Natural, ProducerId, Rank, Reduction, Spread
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


MOST_COUNTED: Final = 1 << 40
"""Upper bound of a count that can be true: far more producers than all levels of leaves can have."""


def partial_value(
    producers: Sequence[ProducerId], numbers: Sequence[float], time_of: Callable[[str], int]
) -> PartialValue:
    """Return the partial value of one number per producer. The producers are in order of their ids."""
    low, high = min(numbers), max(numbers)
    newest = max(range(len(numbers)), key=lambda at: (time_of(producers[at]), at))
    total, rest = _total(numbers) or _huge(math.fsum(number / len(numbers) for number in numbers))
    return PartialValue(
        count=len(numbers),
        sum=total,
        rest=rest,
        min=low,
        max=high,
        lowest=producers[numbers.index(low)],
        highest=producers[numbers.index(high)],
        last=numbers[newest],
        last_ns=time_of(producers[newest]),
        last_producer=producers[newest],
    )


def joined(partials: Sequence[PartialValue]) -> PartialValue:
    """Return the partial value of all producers in several partial values."""
    if len(partials) == 1:
        return partials[0]
    count = sum(partial.count for partial in partials)
    terms = [partial.sum for partial in partials] + [partial.rest for partial in partials]
    total, rest = _total(terms) or _huge(_scaled_mean(partials, count))
    lowest = min(partials, key=lambda partial: (partial.min, partial.lowest))
    highest = min(partials, key=lambda partial: (-partial.max, partial.highest))
    newest = max(partials, key=lambda partial: (partial.last_ns, partial.last_producer))
    return PartialValue(
        count=count,
        sum=total,
        rest=rest,
        min=lowest.min,
        max=highest.max,
        lowest=lowest.lowest,
        highest=highest.highest,
        last=newest.last,
        last_ns=newest.last_ns,
        last_producer=newest.last_producer,
    )


def value_of(partial: PartialValue, reduction: Reduction) -> float | None:
    """Return the value of a step. None: a sum that does not fit in a float."""
    match reduction:
        case "min":
            return partial.min
        case "max":
            return partial.max
        case "last":
            return partial.last
        case "sum":
            return partial.sum if math.isfinite(partial.sum) else None
    return mean_of(partial)


def mean_of(partial: PartialValue) -> float:
    """Return the mean. It lies between the minimum and the maximum, also where the sum was rounded."""
    mean = partial.sum / partial.count if math.isfinite(partial.sum) else partial.rest
    return min(max(partial.min, mean), partial.max)


def spread_of(partial: PartialValue) -> Spread | None:
    """Return the spread, or None for the value of a single producer."""
    if partial.count < 2:
        return None
    return Spread(partial.count, partial.min, partial.max, mean_of(partial), partial.lowest, partial.highest)


def is_possible(partial: PartialValue) -> bool:
    """Check that the numbers can be those of some producers. A leaf of any origin may have sent them."""
    numbers = (partial.rest, partial.min, partial.max, partial.last)
    return (
        0 < partial.count <= MOST_COUNTED
        and not math.isnan(partial.sum)
        and all(map(math.isfinite, numbers))
        and partial.min <= partial.last <= partial.max
    )


def _total(terms: Sequence[float]) -> tuple[float, float] | None:
    """Return the sum of finite numbers and its rounding error, or None if it does not fit in a float."""
    try:
        total = math.fsum(terms)
        return (total, math.fsum([*terms, -total])) if math.isfinite(total) else None
    except (OverflowError, ValueError):  # ValueError: infinite sums of opposite signs
        return None


def _huge(mean: float) -> tuple[float, float]:
    """Return `sum` and `rest` for a sum that does not fit in a float."""
    return math.copysign(math.inf, mean), mean


def _scaled_mean(partials: Sequence[PartialValue], count: int) -> float:
    """Return the mean without the sum. Each term is divided first, so that all of them fit in a float."""
    terms = []
    for partial in partials:
        if math.isfinite(partial.sum):
            terms += [partial.sum / count, partial.rest / count]
        else:
            terms.append(partial.rest * (partial.count / count))
    return _within_float(terms)


def _within_float(terms: Sequence[float]) -> float:
    try:
        return math.fsum(terms)
    except OverflowError:  # rounded up at the largest float, or made up by a hostile leaf
        return math.copysign(1.7976931348623157e308, max(terms, key=abs))

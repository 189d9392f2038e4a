"""Values of many producers as one partial value, which adds up in any order to the same result.

A sum is kept as two floats, `sum` and the rounding error `rest`. So the mean over several leaves is that of all
their producers, and not a mean of means.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

from telemetry.wire.events import ProducerId, Reduction, Spread
from telemetry.wire.nodes import PartialValue

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

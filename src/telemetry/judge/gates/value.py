"""A value with its known uncertainty, and arithmetic that carries the uncertainty along."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, TypedDict

from telemetry.judge.gates.units import PLAIN, Unit, converted

CONFIDENCE: Final = 0.95
"""Confidence level of all intervals in gates."""


class Unknown(Exception):
    """The error for a value that can't be determined; its `str` is the reason in one line."""


class Unfit(Unknown):
    """The error for a value that no limit holds for, such as NaN. The gate fails."""


class Range(NamedTuple):
    """A closed range. An infinite end means that side has no bound."""

    low: float
    high: float

    def __neg__(self) -> Range:
        return Range(-self.high, -self.low)

    def plus(self, other: Range) -> Range:
        return Range(self.low + other.low, self.high + other.high)

    def times(self, other: Range) -> Range:
        products = [_product(end, two) for end in self for two in other]
        return Range(min(products), max(products))

    def inverse(self) -> Range:
        """Return the range of 1/x. The inverse of 0 alone is everything.

        A side without a bound stays without one, because an end at 0 would be a bound.
        """
        if self.low < 0 < self.high or self.low == self.high == 0:
            return EVERYTHING
        low = -math.inf if self.high in (0, math.inf) else 1 / self.high
        return Range(low, math.inf if self.low in (0, -math.inf) else 1 / self.low)

    def scaled(self, has: Unit, wants: Unit) -> Range:
        return Range(converted(self.low, has, wants), converted(self.high, has, wants))

    @property
    def point(self) -> bool:
        return self.low == self.high


EVERYTHING: Final = Range(-math.inf, math.inf)


@dataclass(frozen=True, kw_only=True)
class Value:
    """A value with its uncertainty. All numbers are in `unit`."""

    value: float
    unit: Unit = PLAIN
    possible: Range
    """Range of the value if no event had been lost or rounded."""
    likely: Range
    """Confidence interval; for counted values the value alone."""
    samples: int | None = None
    """Number of samples in the term with the fewest."""
    bare: bool = False
    """True for a number without a unit: it takes the unit of the other operand."""
    estimate: bool = False
    """True for a percentile or a share: too few samples give no bound."""
    reach: Range | None = None
    """For a share: the upper bound if no sample counted, and the lower bound if all did.

    A limit beyond it can't be shown to hold by so few samples, whatever their values.
    """
    doubt: str = ""
    """Reason why `possible` is wider than the value, apart from lost events."""

    def negated(self) -> Value:
        return self._with(-self.value, -self.possible, -self.likely)

    def times(self, other: Value) -> Value:
        return self._product(
            other,
            self.unit.times(other.unit),
            self.value * other.value,
            self.possible.times(other.possible),
            self.likely.times(other.likely),
        )

    def over(self, other: Value) -> Value:
        """Divide. A quotient of two plain units has no unit name. Raises Unknown for a division by zero."""
        if other.value == 0:
            raise Unknown("it is a division by zero")
        unit = self.unit.times(other.unit, -1)
        return self._product(
            other,
            Unit(scale=unit.scale) if unit.plain and not other.bare else unit,
            self.value / other.value,
            self.possible.times(other.possible.inverse()),
            self.likely.times(other.likely.inverse()),
        )

    def plus(self, other: Value) -> Value:
        """Add two values with units that fit each other."""
        first, second = beside(self, other)
        return Value(
            value=first.value + second.value,
            unit=first.unit,
            possible=first.possible.plus(second.possible),
            likely=first.likely.plus(second.likely),
            **_both(self, other),
        )

    def within(self, unit: Unit) -> Value:
        """Convert to another unit that fits. A bare number gets the unit without conversion."""
        if self.bare:
            return self._with(self.value, self.possible, self.likely, unit)
        value = converted(self.value, self.unit, unit)
        result = self._with(value, self.possible.scaled(self.unit, unit), self.likely.scaled(self.unit, unit), unit)
        return replace(result, reach=self.reach and self.reach.scaled(self.unit, unit))

    def _product(self, other: Value, unit: Unit, value: float, possible: Range, likely: Range) -> Value:
        product = Value(value=value, unit=unit, possible=possible, likely=likely, **_both(self, other))
        return product.within(PLAIN) if unit.plain and not unit.name and not product.bare else product

    def _with(self, value: float, possible: Range, likely: Range, unit: Unit | None = None) -> Value:
        return Value(
            value=value,
            unit=self.unit if unit is None else unit,
            possible=possible,
            likely=likely,
            samples=self.samples,
            bare=self.bare and unit is None,
            estimate=self.estimate,
            doubt=self.doubt,
        )


class _Shared(TypedDict):
    samples: int | None
    bare: bool
    estimate: bool
    doubt: str


def exactly(value: float, unit: Unit = PLAIN, *, samples: int | None = None, bare: bool = False) -> Value:
    """Return a value without uncertainty."""
    alone = Range(value, value)
    return Value(value=value, unit=unit, possible=alone, likely=alone, samples=samples, bare=bare)


def fits(first: Value, second: Value) -> bool:
    """Check whether two values can be added or compared."""
    return first.bare or second.bare or first.unit.fits(second.unit)


def beside(first: Value, second: Value) -> tuple[Value, Value]:
    """Convert both to the first one's unit, or to the second one's if the first is a bare number."""
    if first.bare and second.bare:
        return first, second
    unit = second.unit if first.bare else first.unit
    return first.within(unit), second.within(unit)


def _both(first: Value, second: Value) -> _Shared:
    counts = [value.samples for value in (first, second) if value.samples is not None]
    return {
        "samples": min(counts, default=None),
        "bare": first.bare and second.bare,
        "estimate": first.estimate or second.estimate,
        "doubt": first.doubt or second.doubt,
    }


def _product(factor: float, two: float) -> float:
    """Multiply two range ends.

    Zero times infinity is zero, because an infinite end is a bound that is never reached.
    """
    return 0.0 if factor == 0 or two == 0 else factor * two

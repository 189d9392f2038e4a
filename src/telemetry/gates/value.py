"""A figure with all that is known of how far it may be off, and arithmetic that carries that along."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, NamedTuple, TypedDict

from telemetry.gates.units import PLAIN, Unit, converted

CONFIDENCE: Final = 0.95
"""Of all intervals of gates."""


class Unknown(Exception):
    """Nothing can be said; `str` of it is the reason in one line."""


class Range(NamedTuple):
    """Both ends belong to it. An end may be infinite: on that side nothing is known."""

    low: float
    high: float

    def __neg__(self) -> Range:
        return Range(-self.high, -self.low)

    def plus(self, other: Range) -> Range:
        return Range(self.low + other.low, self.high + other.high)

    def times(self, other: Range) -> Range:
        products = [_product(one, two) for one in self for two in other]
        return Range(min(products), max(products))

    def inverse(self) -> Range:
        """Of 0 alone it is everything. What is unknown on one side stays so: an end at 0 would be a bound."""
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
    """Numbers are in `unit`."""

    value: float
    unit: Unit = PLAIN
    possible: Range
    """Where it would lie if nothing had been lost or rounded."""
    likely: Range
    """Its confidence interval; of what is counted and not estimated it is the value alone."""
    samples: int | None = None
    """Of the term that rests on the fewest."""
    bare: bool = False
    """A number without a unit: beside others, it is in theirs."""
    estimate: bool = False
    """Whether it is a percentile, of which few values say nothing."""

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
        """What counts things has no unit beside what it is a share of. Raises Unknown for a division by zero."""
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
        """Both are of units that fit."""
        first, second = beside(self, other)
        return Value(
            value=first.value + second.value,
            unit=first.unit,
            possible=first.possible.plus(second.possible),
            likely=first.likely.plus(second.likely),
            **_both(self, other),
        )

    def within(self, unit: Unit) -> Value:
        """The same in another unit that fits, or, of a bare number, the number in that unit."""
        if self.bare:
            return self._with(self.value, self.possible, self.likely, unit)
        value = converted(self.value, self.unit, unit)
        return self._with(value, self.possible.scaled(self.unit, unit), self.likely.scaled(self.unit, unit), unit)

    def _product(self, other: Value, unit: Unit, value: float, possible: Range, likely: Range) -> Value:
        made = Value(value=value, unit=unit, possible=possible, likely=likely, **_both(self, other))
        return made.within(PLAIN) if unit.plain and not unit.name and not made.bare else made

    def _with(self, value: float, possible: Range, likely: Range, unit: Unit | None = None) -> Value:
        return Value(
            value=value,
            unit=self.unit if unit is None else unit,
            possible=possible,
            likely=likely,
            samples=self.samples,
            bare=self.bare and unit is None,
            estimate=self.estimate,
        )


class _Shared(TypedDict):
    samples: int | None
    bare: bool
    estimate: bool


def exactly(value: float, unit: Unit = PLAIN, *, samples: int | None = None, bare: bool = False) -> Value:
    """Nothing about it is uncertain."""
    alone = Range(value, value)
    return Value(value=value, unit=unit, possible=alone, likely=alone, samples=samples, bare=bare)


def fits(first: Value, second: Value) -> bool:
    """Whether they can be added or compared."""
    return first.bare or second.bare or first.unit.fits(second.unit)


def beside(first: Value, second: Value) -> tuple[Value, Value]:
    """Both in one unit: the first one's, or, if that is a bare number, the other's."""
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
    }


def _product(one: float, two: float) -> float:
    """An end that is nothing times an end that is unknown is nothing: it is a bound and never reached."""
    return 0.0 if one == 0 or two == 0 else one * two

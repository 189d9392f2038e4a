"""Units of literals and instruments: which of them are comparable, and the conversion factors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from telemetry.common import formatting
from telemetry.wire.units import BYTES, TIME_NS

_ONE: Final = Fraction(1)
_S: Final = Fraction(TIME_NS["s"])
_PERCENT: Final = Fraction(1, 100)
_SIZES: Final = {"B": 1, "bytes": 1, **BYTES}
_PLAIN: Final = ("", "1")
_DECIMALS: Final = 13
"""Largest number of decimals; floats round any further ones."""
PER_SECOND: Final = "/s"
MULTIPLES: Final = {"k": 1_000, "M": 1_000_000}
"""Suffixes that multiply a number without giving it a unit."""
TIMES: Final[dict[str, int]] = {"ns": 1, "us": 1_000, "µs": 1_000, "ms": 1_000_000, "s": TIME_NS["s"]} | {
    "m": TIME_NS["min"],
    "min": TIME_NS["min"],
    "h": TIME_NS["h"],
}
_TIME_NAMES: Final = {Fraction(TIMES[name]): name for name in ("ns", "µs", "ms", "s", "min", "h")}
LITERALS: Final = frozenset({*TIMES, *BYTES, "B", "%", *MULTIPLES})
"""Suffixes of a number; `/s` may follow each."""


@dataclass(frozen=True)
class Unit:
    """A unit: powers of time and size, and its worth in nanoseconds and bytes (or ones).

    Units of counted things are plain: tokens, requests, and all unknown units.
    """

    name: str = ""
    """The unit as it is displayed."""
    time: int = 0
    size: int = 0
    scale: Fraction = _ONE

    @property
    def plain(self) -> bool:
        return not self.time and not self.size

    def fits(self, other: Unit) -> bool:
        return (self.time, self.size) == (other.time, other.size)

    def kind(self) -> str:
        """Describe the unit for errors: `a time (ms)`."""
        names = {(1, 0): "a time", (0, 1): "a size", (0, 0): "a plain number", (-1, 0): "a rate"}
        what = names.get((self.time, self.size), "a size per time" if (self.time, self.size) == (-1, 1) else "")
        what = what or "a product of units"
        return f"{what} ({self.name})" if self.name else what

    def per_second(self) -> Unit:
        return Unit(f"{self.name}{PER_SECOND}", self.time - 1, self.size, self.scale / _S)

    def times(self, other: Unit, power: int = 1) -> Unit:
        """Return the product, or the quotient for power -1. `PLAIN` leaves the other unit as it is."""
        if other == PLAIN:
            return self
        time, size = self.time + power * other.time, self.size + power * other.size
        scale = self.scale * other.scale**power
        if not time and not size:
            return Unit("", 0, 0, scale)
        if self.plain and power == 1 and self.scale == 1:
            return other
        if (time, size) == (1, 0) and scale in _TIME_NAMES:
            return Unit(_TIME_NAMES[scale], time=1, scale=scale)
        return Unit(f"{self.name or '1'}{'·' if power == 1 else '/'}{other.name}", time, size, scale)


PLAIN: Final = Unit()


def unit_of(name: str) -> Unit:
    """Return the unit of an instrument."""
    if name in TIME_NS:
        return Unit(name, time=1, scale=Fraction(TIME_NS[name]))
    if name in _SIZES:
        return Unit("B" if name == "bytes" else name, size=1, scale=Fraction(_SIZES[name]))
    if name in ("%", "percent"):
        return Unit("%", scale=_PERCENT)
    return PLAIN if name in _PLAIN else Unit(formatting.printable(name))


def literal(text: str) -> tuple[Unit, int]:
    """Return the unit of a literal and the factor for its number."""
    name = text.removesuffix(PER_SECOND)
    if name in MULTIPLES:
        unit, factor = PLAIN, MULTIPLES[name]
    elif name in TIMES:
        unit, factor = Unit("min" if name == "m" else name, time=1, scale=Fraction(TIMES[name])), 1
    else:
        unit, factor = unit_of(name), 1
    return (unit.per_second() if text.endswith(PER_SECOND) else unit), factor


def converted(value: float, has: Unit, wants: Unit) -> float:
    """Convert a value between units that fit each other. A value too large for a float becomes infinite."""
    return multiplied(value, has.scale / wants.scale)


def multiplied(value: float, factor: Fraction) -> float:
    """Return the float nearest to the product of the decimal text of `value` and the factor: 0.07 × 100 is 7."""
    if factor == 1 or not math.isfinite(value):
        return value
    try:
        return float(Fraction(repr(float(value))) * factor)
    except OverflowError:
        return math.copysign(math.inf, value)


def shown(value: float | None, unit: Unit | str) -> str:
    """Format a value for people."""
    name = unit if isinstance(unit, str) else unit.name
    if value is None:
        return formatting.NOTHING
    if name == "%":
        return f"{formatting.scaled(value)} %"
    if name.endswith(PER_SECOND):
        return formatting.rate(value, name.removesuffix(PER_SECOND))
    if formatting.carries_unit(name):
        return formatting.quantity(value, name)
    text = formatting.count(value) if float(value).is_integer() else formatting.scaled(value)
    return f"{text} {name}" if name else text


def told_apart(value: float, other: float, unit: Unit | str) -> tuple[str, str]:
    """Format two values so that a reader sees which is larger.

    If both round to the same text, they get one decimal more than needed to differ, as far as floats have decimals.
    With just enough decimals, a tenth of a step could look like a whole step.
    """
    texts = shown(value, unit), shown(other, unit)
    alike = float(value).is_integer() == float(other).is_integer()  # or only one of them is rounded
    if value == other or (texts[0] != texts[1] and (alike or f"{value:.3g}" != f"{other:.3g}")):
        return texts
    name = unit if isinstance(unit, str) else unit.name
    what = name.removesuffix(PER_SECOND)
    behind = PER_SECOND if what != name else "" if not name or formatting.carries_unit(name) else f" {name}"
    for decimals in range(_DECIMALS):
        if formatting.with_decimals(value, what, decimals) != formatting.with_decimals(other, what, decimals):
            fine, beside = (formatting.with_decimals(number, what, decimals + 1) for number in (value, other))
            return f"{fine}{behind}", f"{beside}{behind}"
    return texts

"""Units of literals and of instruments: what can be compared with what, and by which factor."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from telemetry import formatting
from telemetry.wire.units import BYTES, TIME_NS

_ONE: Final = Fraction(1)
_S: Final = Fraction(TIME_NS["s"])
_PERCENT: Final = Fraction(1, 100)
_SIZES: Final = {"B": 1, "bytes": 1, **BYTES}
_PLAIN: Final = ("", "1")
_DECIMALS: Final = 13
"""Further ones are what floats round."""
PER_SECOND: Final = "/s"
MULTIPLES: Final = {"k": 1_000, "M": 1_000_000}
"""They make a number larger, and give it no unit."""
TIMES: Final[dict[str, int]] = {"ns": 1, "us": 1_000, "µs": 1_000, "ms": 1_000_000, "s": TIME_NS["s"]} | {
    "m": TIME_NS["min"],
    "min": TIME_NS["min"],
    "h": TIME_NS["h"],
}
_TIME_NAMES: Final = {Fraction(TIMES[name]): name for name in ("ns", "µs", "ms", "s", "min", "h")}
LITERALS: Final = frozenset({*TIMES, *BYTES, "B", "%", *MULTIPLES})
"""What may follow a number, and then `/s` may follow that."""


@dataclass(frozen=True)
class Unit:
    """Powers of time and size, and how many nanoseconds and bytes (or ones) it is worth. What counts things –
    tokens, requests, a unit nobody knows – is plain."""

    name: str = ""
    """As it is shown."""
    time: int = 0
    size: int = 0
    scale: Fraction = _ONE

    @property
    def plain(self) -> bool:
        return not self.time and not self.size

    def fits(self, other: Unit) -> bool:
        return (self.time, self.size) == (other.time, other.size)

    def kind(self) -> str:
        """For errors: `a time (ms)`."""
        names = {(1, 0): "a time", (0, 1): "a size", (0, 0): "a plain number", (-1, 0): "a rate"}
        what = names.get((self.time, self.size), "a size per time" if (self.time, self.size) == (-1, 1) else "")
        what = what or "a product of units"
        return f"{what} ({self.name})" if self.name else what

    def per_second(self) -> Unit:
        return Unit(f"{self.name}{PER_SECOND}", self.time - 1, self.size, self.scale / _S)

    def times(self, other: Unit, power: int = 1) -> Unit:
        """The product, or with power -1 the quotient. A plain one without a name leaves the other as it is."""
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
    """Of an instrument."""
    if name in TIME_NS:
        return Unit(name, time=1, scale=Fraction(TIME_NS[name]))
    if name in _SIZES:
        return Unit("B" if name == "bytes" else name, size=1, scale=Fraction(_SIZES[name]))
    if name in ("%", "percent"):
        return Unit("%", scale=_PERCENT)
    return PLAIN if name in _PLAIN else Unit(formatting.printable(name))


def literal(text: str) -> tuple[Unit, int]:
    """Of a number's unit as it was written, and what the number is to be multiplied by."""
    name = text.removesuffix(PER_SECOND)
    if name in MULTIPLES:
        unit, factor = PLAIN, MULTIPLES[name]
    elif name in TIMES:
        unit, factor = Unit("min" if name == "m" else name, time=1, scale=Fraction(TIMES[name])), 1
    else:
        unit, factor = unit_of(name), 1
    return (unit.per_second() if text.endswith(PER_SECOND) else unit), factor


def converted(value: float, has: Unit, wants: Unit) -> float:
    """Both fit each other. What is too large for a float is infinite."""
    return multiplied(value, has.scale / wants.scale)


def multiplied(value: float, factor: Fraction) -> float:
    """The float nearest to the product of the decimal that `value` is written as: 0.07 times 100 is 7."""
    if factor == 1 or not math.isfinite(value):
        return value
    try:
        return float(Fraction(repr(float(value))) * factor)
    except OverflowError:
        return math.copysign(math.inf, value)


def shown(value: float | None, unit: Unit | str) -> str:
    """A value as people read it."""
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
    """Both as people read them. What rounds to the same has a decimal more than it takes to see which is larger, as
    far as floats tell: with just enough of them, a tenth of a step may look like a whole one."""
    texts = shown(value, unit), shown(other, unit)
    alike = float(value).is_integer() == float(other).is_integer()  # or one is written out and the other rounded
    if value == other or (texts[0] != texts[1] and (alike or f"{value:.3g}" != f"{other:.3g}")):
        return texts
    name = unit if isinstance(unit, str) else unit.name
    what = name.removesuffix(PER_SECOND)
    behind = PER_SECOND if what != name else "" if not name or formatting.carries_unit(name) else f" {name}"
    for decimals in range(_DECIMALS):
        if formatting.with_decimals(value, what, decimals) != formatting.with_decimals(other, what, decimals):
            fine, beside = (formatting.with_decimals(one, what, decimals + 1) for one in (value, other))
            return f"{fine}{behind}", f"{beside}{behind}"
    return texts

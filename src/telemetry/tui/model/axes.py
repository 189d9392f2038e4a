"""Axes with marks at round values."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from telemetry import formatting
from telemetry.tui.model import numbers
from telemetry.tui.model.plot import Tick
from telemetry.tui.model.scene import Units

Write = Callable[[float], str]

LOG_FROM: Final = 3.0
"""Values that are this many times apart share an axis only if it is logarithmic: below it, the two look alike."""
MOST_TICKS: Final = 6
_LARGEST: Final = 1e300
_LEAST_STEP: Final = 1e-300
"""Beyond these, round marks would not be finite, or be zero."""
_DECADES: Final[tuple[tuple[float, ...], ...]] = ((1, 1.5, 2, 3, 5, 7), (1, 2, 5), (1, 3), (1,))
"""Marks in each decade, the densest choice first."""
_BINARY: Final = frozenset({"B", "bytes", "KiB", "MiB", "GiB"})
_TIME_STEPS_S: Final = (
    *(1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800),
    *(3_600, 7_200, 10_800, 21_600, 43_200, 86_400),
)
_TIME_COLUMNS: Final = 12
"""Of a mark `12:00:00`, with room around it."""


@dataclass(frozen=True, slots=True)
class Axis:
    """`at` of a value is where it is drawn. On a logarithmic axis, which holds no zero, smaller values than `floor`
    are drawn there."""

    low: float
    high: float
    """In drawn coordinates."""
    ticks: tuple[Tick, ...]
    log: bool = False
    floor: float = 0.0

    def at(self, value: float) -> float:
        return math.log10(max(value, self.floor)) if self.log else value


def axis_of(values: Iterable[float], write: Write, *, binary: bool = False, most: int = MOST_TICKS) -> Axis:
    """An axis for these values, finite and at least one: linear, or logarithmic where they are all above zero and
    LOG_FROM times apart. `binary` marks powers of two."""
    known = list(values)
    low, high = min(*known, _LARGEST), min(max(known), _LARGEST)
    if low > 0 and high / low >= LOG_FROM:
        marks = _log_marks(low, high, binary=binary, most=most)
        ticks = tuple((math.log10(mark), tick_words(write(mark))) for mark in marks)
        return Axis(math.log10(low), math.log10(high), ticks, log=True, floor=low)
    step = _step((high - low) or abs(high) or 1.0, binary=binary, most=most)
    first, last = math.floor(low / step), math.ceil(high / step)
    if first == last:
        first, last = first - (low > 0), last + 1
    ticks = tuple((mark * step, tick_words(write(mark * step))) for mark in range(first, last + 1))
    return Axis(first * step, last * step, ticks)


def value_axis(values: Iterable[float], unit: str, units: Units) -> Axis:
    """Of values in a unit."""
    binary = units == "readable" and unit in _BINARY
    return axis_of(values, lambda value: numbers.value(value, unit, units), binary=binary)


def tick_words(text: str) -> str:
    """`2.00 ms` → `2 ms`, `1.50 k/s` → `1.5 k/s`: marks are round."""
    number, space, unit = text.partition(" ")
    number, slash, per = number.partition("/")
    if "." in number and "e" not in number:
        number = number.rstrip("0").rstrip(".")
    return f"{number}{slash}{per}{space}{unit}"


def spaced(ticks: Sequence[Tick], low: float, high: float, width: int) -> tuple[Tick, ...]:
    """Those whose words have room beside each other on an axis of `width` columns, from the left."""
    kept: list[Tick] = []
    free = -math.inf
    scale = width / (high - low) if high > low else 0.0
    for place, words in ticks:
        middle, half = (place - low) * scale, formatting.columns(words) / 2
        if middle - half >= free:
            kept.append((place, words))
            free = middle + half + 1
    return tuple(kept)


def time_ticks(start_ns: int, end_ns: int, origin_ns: int, width: int) -> tuple[Tick, ...]:
    """Round times of day, UTC, at seconds from `origin_ns`."""
    most = max(1, width // _TIME_COLUMNS)
    span_s = (end_ns - start_ns) / 1e9
    step_s = next((step for step in _TIME_STEPS_S if span_s / step <= most), _TIME_STEPS_S[-1])
    step_s *= max(1, math.ceil(span_s / step_s / most))
    step_ns = step_s * 1_000_000_000
    ticks = []
    for mark_ns in range(-(-start_ns // step_ns) * step_ns, end_ns + 1, step_ns):
        words = (
            formatting.timestamp(mark_ns)[5:16]
            if step_s >= _TIME_STEPS_S[-1]
            else formatting.clock_time(mark_ns)[:8]
        )
        ticks.append(((mark_ns - origin_ns) / 1e9, words))
    return tuple(ticks)


def _log_marks(low: float, high: float, *, binary: bool, most: int) -> list[float]:
    """The densest marks of which there are no more than `most`."""
    if binary:
        first, last = math.ceil(math.log2(low)), math.floor(math.log2(high))
        step = next(step for step in (1, 2, 5, *range(10, 2_000, 10)) if (last - first) // step < most)
        return [2.0**power for power in range(-(-first // step) * step, last + 1, step)]
    for mantissas in _DECADES:
        marks = list(_decade_marks(low, high, mantissas, 1))
        if len(marks) <= most:
            return marks
    every = math.ceil((math.log10(high) - math.log10(low)) / (most - 1))
    return list(_decade_marks(low, high, (1,), every))


def _decade_marks(low: float, high: float, mantissas: Sequence[float], every: int) -> Iterator[float]:
    first, last = math.floor(math.log10(low)), math.floor(math.log10(high))
    for exponent in range(-(-first // every) * every, last + 1, every):
        for mantissa in mantissas:
            mark = float(f"{mantissa}e{exponent}")
            if low <= mark <= high:
                yield mark


def _step(span: float, *, binary: bool, most: int) -> float:
    """A round one, with which at most `most` marks lie in the span and at its ends."""
    rough = max(span / max(1, most - 2), _LEAST_STEP)
    if binary:
        return 2.0 ** math.ceil(math.log2(rough))
    power = float(f"1e{math.floor(math.log10(rough))}")
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * (1 - 1e-9))

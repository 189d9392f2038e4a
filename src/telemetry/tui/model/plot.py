"""The content of a plot: named traces, and axes with ticks at round values."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from telemetry.common import formatting
from telemetry.tui.model import numbers
from telemetry.tui.model.grid import Tone
from telemetry.tui.model.scene import Units

Tick = tuple[float, str]


@dataclass(frozen=True, slots=True)
class Trace:
    """A line of a plot. `xs` ascend. `xs` and `ys` are finite and equally long; the line has a gap at a None."""

    name: str
    xs: tuple[float, ...]
    ys: tuple[float | None, ...]
    tone: Tone = "plain"


@dataclass(frozen=True, slots=True)
class Plot:
    title: str = ""
    traces: tuple[Trace, ...] = ()
    kind: Literal["lines", "bars"] = "lines"
    x_ticks: tuple[Tick, ...] = ()
    y_ticks: tuple[Tick, ...] = ()
    x_range: tuple[float, float] | None = None
    y_range: tuple[float, float] | None = None
    cursor: float | None = None
    """A marked moment on the x axis."""
    empty: str = "no values yet"
    """Text shown in place of an empty plot."""


Write = Callable[[float], str]

LOG_FROM: Final = 3.0
"""Ratio of values from which an axis is logarithmic. Below it, logarithmic and linear axes look alike."""
MOST_TICKS: Final = 6
_LARGEST: Final = 1e300
_LEAST_STEP: Final = 1e-300
"""Limits beyond which round ticks would be infinite or zero."""
_DECADES: Final[tuple[tuple[float, ...], ...]] = ((1, 1.5, 2, 3, 5, 7), (1, 2, 5), (1, 3), (1,))
"""Ticks in each decade, the densest set first."""
_HUNDRED: Final = 100.0
_BINARY: Final = frozenset({"B", "bytes", "KiB", "MiB", "GiB"})
_TIME_STEPS_S: Final = (
    *(1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800),
    *(3_600, 7_200, 10_800, 21_600, 43_200, 86_400),
)
_TIME_COLUMNS: Final = 12
"""Columns of a tick `12:00:00` with space around it."""


@dataclass(frozen=True, slots=True)
class PlotAxis:
    """An axis. `at` returns the coordinate at which a value is drawn.

    A logarithmic axis has no zero: it draws values below `floor` at `floor`.
    """

    low: float
    high: float
    """The upper end; like `low`, a drawn coordinate."""
    ticks: tuple[Tick, ...]
    log: bool = False
    floor: float = 0.0

    def at(self, value: float) -> float:
        return math.log10(max(value, self.floor)) if self.log else value


def axis_of(
    values: Iterable[float],
    write: Write,
    *,
    binary: bool = False,
    linear: bool = False,
    whole: bool = False,
    most: int = MOST_TICKS,
) -> PlotAxis:
    """Return an axis for these values, which must be finite and at least one.

    The axis is logarithmic if all values are above zero and the largest is LOG_FROM times the smallest, and never
    if `linear`. `binary` puts ticks at powers of two, `whole` at whole numbers. An axis of values that are not
    negative has no negative part.
    """
    samples = list(values)
    low, high = min(*samples, _LARGEST), min(max(samples), _LARGEST)
    if low > 0 and high / low >= LOG_FROM and not linear:
        marks = _log_marks(low, high, binary=binary, most=most)
        ticks = tuple((math.log10(mark), tick_words(write(mark))) for mark in marks)
        return PlotAxis(math.log10(low), math.log10(high), ticks, log=True, floor=low)
    step = _step((high - low) or abs(high) or 1.0, binary=binary, most=most)
    if whole:
        step = max(step, 1.0)
    first, last = math.floor(low / step), math.ceil(high / step)
    if first == last:
        first, last = first - (low > 0), last + 1
    ticks = tuple((mark * step, tick_words(write(mark * step))) for mark in range(first, last + 1))
    return PlotAxis(first * step, last * step, ticks)


def value_axis(values: Iterable[float], unit: str, units: Units) -> PlotAxis:
    """Return an axis for values in a unit."""
    binary = units == "readable" and unit in _BINARY
    return axis_of(values, lambda value: numbers.value(value, unit, units), binary=binary)


def linear_axis(values: Iterable[float], unit: str, units: Units) -> PlotAxis:
    """Return a linear axis: of percentages from 0 to 100, and of whole numbers without fractions."""
    samples = list(values)
    if numbers.is_percent(unit) and min(samples) >= 0.0 and max(samples) <= _HUNDRED:
        ticks = tuple((float(mark), f"{mark} %") for mark in range(0, 101, 25))
        return PlotAxis(0.0, _HUNDRED, ticks)
    whole = all(value.is_integer() for value in samples) and not formatting.carries_unit(unit)
    binary = units == "readable" and unit in _BINARY
    return axis_of(
        samples, lambda value: numbers.value(value, unit, units), binary=binary, linear=True, whole=whole
    )


def rate_axis(rates: Iterable[float], unit: str, units: Units) -> PlotAxis:
    """Return an axis for amounts per second, from zero: a stall must look like one."""
    binary = units == "readable" and unit in _BINARY
    return axis_of((0.0, *rates), lambda rate: numbers.rate(rate, unit, units), binary=binary, linear=True)


def tick_words(text: str) -> str:
    """Shorten the text of a tick, which is a round number: `2.00 ms` → `2 ms`, `1.50 k/s` → `1.5 k/s`."""
    number, space, unit = text.partition(" ")
    number, slash, per = number.partition("/")
    if "." in number and "e" not in number:
        number = number.rstrip("0").rstrip(".")
    return f"{number}{slash}{per}{space}{unit}"


def spaced(ticks: Sequence[Tick], low: float, high: float, width: int) -> tuple[Tick, ...]:
    """Return, from left to right, the ticks whose labels fit beside each other on an axis of `width` columns."""
    kept: list[Tick] = []
    free = -math.inf
    scale = width / (high - low) if high > low else 0.0
    for position, label in ticks:
        middle, half = (position - low) * scale, formatting.columns(label) / 2
        if middle - half >= free:
            kept.append((position, label))
            free = middle + half + 1
    return tuple(kept)


def time_ticks(start_ns: int, end_ns: int, origin_ns: int, width: int) -> tuple[Tick, ...]:
    """Return ticks at round times of day, in UTC. Their places are seconds from `origin_ns`."""
    most = max(1, width // _TIME_COLUMNS)
    span_s = (end_ns - start_ns) / 1e9
    step_s = next((step for step in _TIME_STEPS_S if span_s / step <= most), _TIME_STEPS_S[-1])
    step_s *= max(1, math.ceil(span_s / step_s / most))
    step_ns = step_s * 1_000_000_000
    ticks = []
    for mark_ns in range(-(-start_ns // step_ns) * step_ns, end_ns + 1, step_ns):
        label = (
            formatting.timestamp(mark_ns)[5:16]
            if step_s >= _TIME_STEPS_S[-1]
            else formatting.clock_time(mark_ns)[:8]
        )
        ticks.append(((mark_ns - origin_ns) / 1e9, label))
    return tuple(ticks)


def _log_marks(low: float, high: float, *, binary: bool, most: int) -> list[float]:
    """Return the densest set of at most `most` ticks."""
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
    """Return a round step that gives at most `most` ticks in the span, including its ends."""
    rough = max(span / max(1, most - 2), _LEAST_STEP)
    if binary:
        return 2.0 ** math.ceil(math.log2(rough))
    power = float(f"1e{math.floor(math.log10(rough))}")
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * (1 - 1e-9))

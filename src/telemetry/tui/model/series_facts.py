"""The figures of one series: a small table of time ranges, and warnings about them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from telemetry.common import formatting, wording
from telemetry.common.formatting import NOTHING, number_of
from telemetry.history.intervals.figures import Figures
from telemetry.tui.model import numbers
from telemetry.tui.model.grid import Cell, Line, Tone
from telemetry.tui.model.lines import cut, width_of
from telemetry.tui.model.scene import Units
from telemetry.tui.model.visible_series import beyond, few_beyond
from telemetry.wire.snapshot import SeriesStat

_GAP: Final = 2
_IN_FULL_BELOW: Final = 10_000_000
"""Count above which numbers are scaled: up to nine columns, the width of other figures."""
_MOMENTS: Final = ("mean", "stddev", "min")


@dataclass(frozen=True, slots=True)
class FactColumn:
    """Figures under a title. `stddev` is known for whole runs only."""

    title: str
    figures: Figures
    stddev: float | None = None
    chosen: bool = False
    """True for the time range that tables show."""


def table(
    time_ranges: Sequence[FactColumn], base: FactColumn | None, unit: str, units: Units, width: int
) -> list[Line]:
    """Lay out a line for each time range if `width` has room for all figures, else a line for each figure.

    The difference between the chosen time range and the baseline is below the baseline, or beside it.
    """
    keys = sorted({key for each in time_ranges for key in each.figures.percentiles}, key=wording.by_number)
    names = ["count", "rate", *_MOMENTS, *(f"p{formatting.printable(key)}" for key in keys), "max"]
    columns: list[list[Cell]] = [[Cell(""), *(Cell(name, "dim") for name in names)]]
    for each in [*time_ranges, *([base] if base else [])]:
        tone: Tone = "strong" if each.chosen else "dim"
        columns.append([Cell(each.title, tone), *_cells(each, keys, unit, units)])
    chosen = next((each for each in time_ranges if each.chosen), None)
    if base and chosen:
        columns.append([Cell("Δ", "dim"), *_changes(chosen, base, keys, unit)])
    sideways = _aligned(columns)
    if all(width_of(line) <= width for line in sideways):
        return sideways
    standing = _aligned([list(line) for line in zip(*columns, strict=True)])
    return [cut(line, width) for line in standing]


def warnings(stat: SeriesStat, chosen: Figures, window_words: str) -> Iterator[str]:
    """Yield warnings about the figures, in plain words."""
    if not chosen.count:
        yield f"no values in the {window_words}"
    few = [key for key in sorted(chosen.percentiles, key=wording.by_number) if few_beyond(key, chosen.count)]
    if few:
        yield _few(few, chosen.count)
    if outside := wording.outside(stat):
        lost = "; percentiles have no error bound" if stat.above else ""
        yield f"{outside}{lost}"


def _few(percentiles: Sequence[str], count: int) -> str:
    """Return the warning for these percentiles, ascending: fewer than FEW values lie beyond each."""
    name, above = f"p{formatting.printable(percentiles[0])}", beyond(percentiles[0], count)
    of = number_of(count, "value")
    if not above:
        return f"{name} is the greatest of {of}"
    subject = f"{name} and higher rest" if len(percentiles) > 1 else f"{name} rests"
    return f"{subject} on few values: {above} of {of} {'lie' if above > 1 else 'lies'} beyond {name}"


def _cells(time_range: FactColumn, keys: Sequence[str], unit: str, units: Units) -> Iterator[Cell]:
    figures = time_range.figures
    full = units == "raw" or figures.count < _IN_FULL_BELOW
    yield Cell(formatting.count(figures.count) if full else formatting.scaled(figures.count))
    yield Cell(numbers.rate(figures.rate, "", units))
    mean = figures.total / figures.count if figures.count and figures.max is not None else None
    for value in (mean, time_range.stddev, figures.min):
        yield _value(value, unit, units)
    for key in keys:
        yield _value(figures.percentiles.get(key), unit, units, few=few_beyond(key, figures.count))
    yield _value(figures.max, unit, units)


def _value(value: float | None, unit: str, units: Units, *, few: bool = False) -> Cell:
    text = numbers.value(value, unit, units)
    return Cell(text, "dim" if few or text == NOTHING else "plain")


def _changes(now: FactColumn, base: FactColumn, keys: Sequence[str], unit: str) -> Iterator[Cell]:
    """Yield the differences. Counts and extremes grow with the length of a run, so they are not compared."""
    yield Cell("")
    yield _change(now.figures.rate, base.figures.rate, "")
    for _ in _MOMENTS:
        yield Cell("")
    for key in keys:
        yield _change(now.figures.percentiles.get(key), base.figures.percentiles.get(key), unit)
    yield Cell("")


def _change(now: float | None, before: float | None, unit: str) -> Cell:
    difference = numbers.change(now, before)
    return Cell(numbers.change_words(difference), numbers.change_tone(difference, unit))


def _aligned(lines: Sequence[Sequence[Cell]]) -> list[Line]:
    """Align the first column to the left, all others to the right."""
    widths = [max(formatting.columns(line[index].text) for line in lines) for index in range(len(lines[0]))]
    return [tuple(_padded(line, widths)) for line in lines]


def _padded(line: Sequence[Cell], widths: Sequence[int]) -> Iterator[Cell]:
    for index, (cell, width) in enumerate(zip(line, widths, strict=True)):
        space = " " * (width - formatting.columns(cell.text))
        text = f"{' ' * _GAP}{space}{cell.text}" if index else f"{cell.text}{space}"
        yield Cell(text, cell.tone)

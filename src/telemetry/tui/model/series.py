"""The screen of one series: its figures and warnings, its distribution, and its values over time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from telemetry.common import formatting, wording
from telemetry.common.formatting import NOTHING, number_of, printable
from telemetry.history.intervals.figures import Figures
from telemetry.history.intervals.histograms import Digest
from telemetry.history.intervals.timeline import Point, Timeline
from telemetry.history.rates import Activity, Paces
from telemetry.tui.model import numbers, series_plots
from telemetry.tui.model.grid import Cell, Line, Piece, Tone, cut, fitted, taken, width_of, wrapped
from telemetry.tui.model.plot import Plot
from telemetry.tui.model.scene import Scene, SeriesId, Units, View, series_id
from telemetry.tui.model.visible_series import (
    WHOLE_RUN,
    beyond,
    few_beyond,
    figures_of,
    is_over,
    is_read,
    run_figures,
    time_range_words,
)
from telemetry.wire.snapshot import TERMINAL, MetricsSnapshot, SeriesStat

_SLACK_S: Final = 0.5
"""Half an interval: ticks jitter, so the interval that begins with the window may begin a little earlier."""


@dataclass(frozen=True, slots=True)
class Detail:
    """The content of a series screen. `rate` and `over_time` share their x axis, so events line up."""

    facts: tuple[Line, ...]
    curve: Plot
    histogram: Plot
    over_time: Plot
    rate: Plot


@dataclass(frozen=True, slots=True)
class _Subject:
    """The shared input of all parts of the screen."""

    scene: Scene
    view: View
    snapshot: MetricsSnapshot
    stat: SeriesStat
    base: SeriesStat | None
    digest: Digest | None
    """Values of the time range named by `words`; None without history."""

    @property
    def words(self) -> str:
        return time_range_words(self.scene, self.view)

    @property
    def baseline(self) -> str:
        baseline = self.scene.baseline
        return printable(f"{baseline.name} {baseline.run_id}") if baseline else ""


def detail(
    scene: Scene, view: View, series: SeriesId, timeline: Timeline | None, width: int, *, plot_width: int = 0
) -> Detail:
    """Return the content. `width` is the width of the facts, and of plots unless `plot_width` is given, in columns.

    Curve and histogram cover the chosen time range if the history has it, else the whole run.
    """
    plot_width = plot_width or width
    stat = stat_of(scene.snapshot, series)
    if scene.snapshot is None or stat is None:
        nothing = Plot(empty="the run has no such series")
        return Detail(((Cell("the run has no such series", "dim"),),), nothing, nothing, nothing, nothing)
    base = stat_of(scene.baseline, series) if view.compare else None
    base = base if base is not None and base.unit == stat.unit else None
    subject = _Subject(scene, view, scene.snapshot, stat, base, digest_of(scene, view, timeline))
    over_time, rate = _courses(subject, timeline, plot_width)
    return Detail(
        _facts(subject, width), _curve(subject, plot_width), _histogram(subject, plot_width), over_time, rate
    )


@lru_cache(maxsize=4)
def _between(timeline: Timeline, start_ns: int, end_ns: int) -> Digest:
    """Return the values of a time range, cached: the same timeline is drawn several times.

    A timeline never changes. Adding up two hours of it takes 0.1 s.
    """
    return timeline.between(start_ns, end_ns)


@lru_cache(maxsize=4)
def points_of(timeline: Timeline, start_ns: int, end_ns: int, most: int) -> tuple[Point, ...]:
    """Return the points of the plots over time, cached as in `_between`."""
    return tuple(timeline.points(start_ns, end_ns, most, series_plots.OVER_TIME_PERCENTILES))


def stat_of(snapshot: MetricsSnapshot | None, series: SeriesId) -> SeriesStat | None:
    for stat in snapshot.series if snapshot else ():
        if stat.name == series[0] and series_id(stat.name, stat.labels) == series:
            return stat
    return None


def digest_of(scene: Scene, view: View, timeline: Timeline | None) -> Digest | None:
    """Return all values of the time range that `time_range_words` names; None without history."""
    if timeline is None or not len(timeline):
        return None
    start_ns, end_ns = timeline.start_ns, timeline.end_ns
    if scene.moment:
        start_ns, end_ns = scene.moment.start_ns, scene.moment.end_ns
    elif view.figures == "window" and scene.snapshot:
        start_ns = end_ns - round(max(scene.snapshot.window_s - _SLACK_S, scene.snapshot.window_s / 2) * 1e9)
    return _between(timeline, start_ns, end_ns)


def figures_shown(scene: Scene, view: View, stat: SeriesStat, digest: Digest | None) -> Figures:
    """Return the figures of the chosen time range. For a window the history has more figures than a snapshot."""
    if view.figures == "run" or scene.moment or digest is None or not digest.count:
        return figures_of(stat, scene, view)
    return digest.figures([key for key in stat.percentiles if beyond(key, 1) is not None])


def _facts(subject: _Subject, width: int) -> tuple[Line, ...]:
    stat, snapshot, base = subject.stat, subject.snapshot, subject.base
    whole = subject.scene.moment is None and subject.view.figures == "run"
    time_ranges = [FactColumn("run", run_figures(stat, snapshot), stat.stddev, chosen=whole)]
    if not whole:
        figures = figures_shown(subject.scene, subject.view, stat, subject.digest)
        time_ranges.insert(0, FactColumn(subject.words.removesuffix(" UTC"), figures, chosen=True))
    before = None
    if base is not None and subject.scene.baseline is not None:
        before = FactColumn("baseline", run_figures(base, subject.scene.baseline), base.stddev)
    lines = [*_title(subject, width), *table(time_ranges, before, stat.unit, subject.view.units, width)]
    for warning in warnings(stat, time_ranges[0].figures, subject.words):
        lines += wrapped(f"! {warning}", "warn", width)
    if snapshot.state in TERMINAL and snapshot.exact_reason and not stat.exact:
        lines += wrapped(f"not exact: {printable(snapshot.exact_reason)}", "dim", width)
    return tuple(lines)


def _title(subject: _Subject, width: int) -> Iterator[Line]:
    """Yield the name, the error bound of percentiles, and the baseline, on one line if they fit."""
    stat = subject.stat
    name = Piece(numbers.instrument(stat.name, stat.labels, stat.unit, subject.view.units), "strong")
    others = [
        Piece(f"percentiles {_bound(subject)}" if stat.count else ""),
        Piece(f"Δ to all of {subject.baseline}" if subject.base else "", "accent"),
    ]
    pieces = [name, *(piece for piece in others if piece.text)]
    if taken(pieces) <= width:
        yield fitted(pieces, width)
    else:
        yield from (fitted([piece], width) for piece in pieces)


def _bound(subject: _Subject) -> str:
    """Return the error bound of percentiles. Only percentiles of whole runs can be exact."""
    whole = subject.scene.moment is None and subject.view.figures == "run"
    if subject.stat.exact and not whole:
        return f"±{formatting.percent(10.0**-subject.stat.digits)}"
    return wording.error_bound(subject.stat)


def _curve(subject: _Subject, width: int) -> Plot:
    digest, stat = subject.digest, subject.stat
    if digest is None:
        now = series_plots.curve_of(stat, WHOLE_RUN, "accent")
    else:
        now = series_plots.curve_of_digest(digest, subject.words, "accent")
    before = [series_plots.curve_of(subject.base, "baseline", "dim")] if subject.base else []
    plot = series_plots.curve_plot(
        f"by percentile, {now.name}", [now, *before], stat.unit, subject.view.units, width
    )
    return replace(plot, empty=_empty(subject))


def _histogram(subject: _Subject, width: int) -> Plot:
    digest, stat = subject.digest, subject.stat
    cells, range_text = series_plots.Cells(stat.histogram, stat.cell_unit), WHOLE_RUN
    if digest is not None:
        cells, range_text = series_plots.Cells(digest.cells(), digest.cell_unit), subject.words
    plot = series_plots.histogram_plot(f"histogram, {range_text}", cells, stat.unit, subject.view.units, width)
    return replace(plot, empty=_empty(subject))


def _empty(subject: _Subject) -> str:
    """Return the text shown in place of an empty distribution."""
    if not subject.stat.count:
        return "no values yet" if subject.scene.live else "no values"
    return series_plots.READING if subject.words == WHOLE_RUN else f"no values in the time range {subject.words}"


def _courses(subject: _Subject, timeline: Timeline | None, width: int) -> tuple[Plot, Plot]:
    """Return the plots of figures and of the rate over time, with at most one point per column."""
    stat, scene, units = subject.stat, subject.scene, subject.view.units
    if timeline is None or not len(timeline):
        empty = series_plots.NO_HISTORY if is_read(scene) else series_plots.READING
        trend = series_plots.trend_plot(scene, series_id(stat.name, stat.labels), stat.unit, units)
        return trend, Plot(title="rate", empty=empty)
    start_ns, end_ns = series_plots.time_range_of(timeline, subject.view)
    cursor_ns = scene.moment.end_ns if scene.moment else None
    times = series_plots.Times(start_ns, end_ns, subject.snapshot.started_ns or timeline.start_ns, cursor_ns, width)
    points = points_of(timeline, start_ns, end_ns, max(1, width))
    activity = Activity.of(Paces(subject.snapshot), [stat], times.origin_ns, is_over=is_over(scene))
    return (
        series_plots.over_time_plot(points, times, stat.unit, units),
        series_plots.rate_plot(points, times, units, activity),
    )


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

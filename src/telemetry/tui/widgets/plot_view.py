"""A Plot drawn by plotext: lines of braille dots, bars of blocks, and the model's ticks."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any, Final, cast

from rich.cells import cell_len, set_cell_size
from rich.style import Style
from rich.text import Span, Text
from textual_plotext import Plot as Figure
from textual_plotext import PlotextPlot

from telemetry.common.formatting import MORE
from telemetry.tui.model.plot import Plot, Tick, Trace
from telemetry.tui.theme import Palette, palette
from telemetry.tui.widgets.strips import fitted

_MARKERS: Final = ("braille", "hd", "•", "x")
_BARS: Final = "hd"
_LINE: Final = "━━"
_SAMPLES: Final = {"braille": "⣀⡠", "hd": "▄▀", "•": "••", "x": "xx"}
"""Samples in the legend. `_LINE` is used if colours tell the lines apart, `_SAMPLES` if markers do."""
_LEAST_WIDTH: Final = 16
_LEAST_HEIGHT: Final = 3
"""Smallest size of a useful plot."""
_LEAST_TITLE: Final = 14
"""Columns of a title that stay beside the names of lines."""
_EVEN: Final = 1.01
"""Largest ratio of gaps that count as equal; it allows for rounding."""
_NEXT_TO: Final = 1.5
"""Distance in bar widths below which bars are neighbours, without an empty place between them."""

Points = list[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class _Axes:
    left: float
    right: float
    low: float
    high: float

    def inside(self, trace: Trace) -> list[Points]:
        """Return the points to draw: the parts of a line between its gaps.

        Drops points left and right of the picture; moves points far above or below closer.

        plotext walks along every line dot by dot, and would walk forever.
        """
        tall = self.high - self.low
        parts: list[Points] = [[]]
        for x, y in zip(trace.xs, trace.ys, strict=True):
            if y is None:
                parts.append([])
            elif self.left <= x <= self.right:
                parts[-1].append((x, min(max(y, self.low - tall), self.high + tall)))
        return parts


class PlotView(PlotextPlot):
    """A widget that shows one Plot after another. Drawing one takes 5 to 20 ms, so show at most one per second."""

    ALLOW_SELECT = False

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._shown = Plot(empty="")

    def show(self, plot: Plot) -> None:
        """Show a plot. Draws nothing if it is unchanged. App thread only."""
        if plot != self._shown:
            self._shown = plot
            self.refresh()

    def render(self) -> Text:
        plot, paint = self._shown, palette(self)
        width, height = self.size
        traces = [trace for trace in plot.traces if trace.xs]
        caption = _caption(plot, traces, width, paint)
        room = height - (1 if caption else 0)
        if not traces or width < _LEAST_WIDTH or room < _LEAST_HEIGHT:
            body = _words("" if traces else plot.empty, width, room, paint)
        else:
            body = self._drawn(plot, traces, room, paint)
        return Text("\n", no_wrap=True).join([caption, body]) if caption else body

    def _drawn(self, plot: Plot, traces: list[Trace], height: int, paint: Palette) -> Text:
        figure, width = self.plt, self.size.width
        figure.clear_figure()
        figure.plotsize(width, height)
        # plotsize alone is limited to the size of the terminal that plotext detects.
        figure._set_size(width, height)
        figure.canvas_color("default")
        figure.axes_color("default")
        figure.ticks_color(_number(0))
        figure.xaxes(True, False)
        figure.yaxes(True, False)
        axes = _axes(plot, traces)
        figure.xlim(axes.left, axes.right)
        figure.ylim(axes.low, axes.high)
        _mark_axes(figure, plot, axes, height)
        if plot.cursor is not None and axes.left <= plot.cursor <= axes.right:
            figure.vline(plot.cursor, _number(1))
        for at, trace in enumerate(traces):
            parts = axes.inside(trace)
            for points in _bars([*chain(*parts)], axes.low) if plot.kind == "bars" else parts:
                if points:
                    xs, ys = zip(*points, strict=True)
                    marker = _BARS if plot.kind == "bars" else _marker(at, paint)
                    fill = plot.kind == "bars"
                    figure.plot(list(xs), list(ys), marker=marker, color=_number(at + 2), fillx=fill)
        styles = [
            paint.text["dim"],
            paint.text["accent"],
            *(_style(at, trace, paint) for at, trace in enumerate(traces)),
        ]
        return _restyled(figure.build(), styles, paint)


def _axes(plot: Plot, traces: list[Trace]) -> _Axes:
    """Return the axes of the model, else axes around all points; never of length zero."""
    xs = [x for trace in traces for x in trace.xs]
    ys = [y for trace in traces for y in trace.ys if y is not None]
    half = _bar_width(xs) / 2 if plot.kind == "bars" else 0.0
    left, right = plot.x_range or (min(xs) - half, max(xs) + half)
    floor = 0.0 if plot.kind == "bars" else min(ys)
    low, high = plot.y_range or (floor, max(ys))
    return _Axes(*_apart(left, right), *_apart(low, high))


def _apart(low: float, high: float) -> tuple[float, float]:
    if high > low:
        return low, high
    half = abs(low) / 2 or 0.5
    return low - half, low + half


def _mark_axes(figure: Figure, plot: Plot, axes: _Axes, height: int) -> None:
    across = [(at, text) for at, text in plot.x_ticks if axes.left <= at <= axes.right]
    up = _with_room([tick for tick in plot.y_ticks if axes.low <= tick[0] <= axes.high], axes, height - 2)
    figure.xticks([at for at, _ in across], [text for _, text in across])
    figure.yticks([at for at, _ in up], [text for _, text in up])
    # plotext passes ticks through a set, whose order differs between processes. Of two texts that touch each other,
    # it draws the first.
    monitor = cast(Any, figure).monitor  # missing in textual-plotext's types
    monitor.xticks[0], monitor.xlabels[0] = [at for at, _ in across], [text for _, text in across]
    monitor.yticks[0], monitor.ylabels[0] = [at for at, _ in up], [text for _, text in up]


def _with_room(ticks: list[Tick], axes: _Axes, rows: int) -> list[Tick]:
    """Return the ticks of the y axis that fit in `rows`.

    Evenly spaced ticks stay evenly spaced, with at least one row between two of them. A single row gets the tick of
    the upper end: the tick of the lower end would mislabel its content.
    """
    if rows < 2 or len(ticks) < 2:
        return ticks[-1:] if rows < 2 else ticks
    row_of = {at: round((at - axes.low) / (axes.high - axes.low) * (rows - 1)) for at, _ in ticks}
    gaps = [after - before for (before, _), (after, _) in pairwise(ticks)]
    if max(gaps) > min(gaps) * _EVEN:
        return list({row_of[at]: (at, text) for at, text in reversed(ticks)}.values())[::-1]
    for step in range(1, len(ticks)):
        kept = ticks[::step]
        if all(row_of[after[0]] - row_of[before[0]] > 1 for before, after in pairwise(kept)):
            return kept
    return [ticks[0], ticks[-1]]


def _bar_width(xs: list[float]) -> float:
    """Return the width of bars: the distance of the nearest two."""
    ordered = sorted(set(xs))
    return min((b - a for a, b in pairwise(ordered)), default=1.0)


def _bars(points: Points, floor: float) -> list[Points]:
    """Return the outlines of bars around these points, one for each group of neighbours.

    A line across a gap would look like a value.
    """
    width = _bar_width([x for x, _ in points])
    groups: list[Points] = []
    last = None
    for x, y in points:
        if y <= floor:
            continue
        if last is None or x - last > width * _NEXT_TO:
            groups.append([])
        groups[-1] += [(x - width / 2, y), (x + width / 2, y)]
        last = x
    return groups


def _caption(plot: Plot, traces: list[Trace], width: int, paint: Palette) -> Text | None:
    """Return the title and, with several lines, their names; None if there is neither."""
    # A trace without a name belongs to the one before it.
    legend = [(at, trace) for at, trace in enumerate(traces) if trace.name] if len(traces) > 1 else []
    if not plot.title and not legend:
        return None
    text = Text(no_wrap=True)
    samples = (cell_len(_SAMPLES[_marker(at, paint)] if paint.colourless else _LINE) for at, _ in legend)
    names = (cell_len(trace.name) for _, trace in legend)
    legend_width = sum(3 + sample + 1 + name for sample, name in zip(samples, names, strict=True))
    # Names of lines appear only here, so the title is cut first.
    room = max(width - legend_width, min(_LEAST_TITLE, width))
    text.append(
        plot.title if cell_len(plot.title) <= room else set_cell_size(plot.title, room - 1) + MORE,
        paint.text["strong"],
    )
    for at, trace in legend:
        sample = _SAMPLES[_marker(at, paint)] if paint.colourless else _LINE
        text.append("   " if text.plain else "", paint.text["plain"])
        text.append(sample, _style(at, trace, paint))
        text.append(" " + trace.name, paint.text["plain"])
    text.truncate(width, overflow="ellipsis")
    return text


def _words(message: str, width: int, height: int, paint: Palette) -> Text:
    """Center a text."""
    before = max(0, (height - 1) // 2)
    left = max(0, (width - cell_len(message)) // 2)
    text = fitted(message, width) if cell_len(message) > width else " " * left + message
    return Text("\n" * before + text, paint.text["dim"], no_wrap=True)


def _style(at: int, trace: Trace, paint: Palette) -> Style:
    if paint.colourless:
        return paint.text["plain"]  # traces differ by their markers, and an underlined one can't be read
    return paint.traces[at % len(paint.traces)] if trace.tone == "plain" else paint.text[trace.tone]


def _marker(at: int, paint: Palette) -> str:
    return _MARKERS[at % len(_MARKERS)] if paint.colourless else _MARKERS[0]


def _number(which: int) -> tuple[int, int, int]:
    """Return a colour that encodes a number.

    plotext has colours but no styles, so styles replace the numbers afterwards.
    """
    return 0, 0, which


def _restyled(drawn: str, styles: list[Style], paint: Palette) -> Text:
    text = Text.from_ansi(drawn, no_wrap=True)
    text.rstrip()
    text.style = paint.text["plain"]
    spans = []
    for span in text.spans:
        colour = span.style.color if isinstance(span.style, Style) else None
        if colour is not None and colour.triplet is not None:
            spans.append(Span(span.start, span.end, styles[colour.triplet.blue]))
    text.spans = spans
    return text

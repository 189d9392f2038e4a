"""A Plot through plotext: lines of braille dots, bars of blocks, ticks that the model has written."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, cast

from rich.cells import cell_len, set_cell_size
from rich.style import Style
from rich.text import Span, Text
from textual_plotext import Plot as Figure
from textual_plotext import PlotextPlot

from telemetry.shortening import MORE
from telemetry.tui.model.plot import Plot, Tick, Trace
from telemetry.tui.theme import Palette, palette
from telemetry.tui.widgets.strips import fitted

_MARKERS: Final = ("braille", "hd", "•", "x")
_BARS: Final = "hd"
_LINE: Final = "━━"
_SAMPLES: Final = {"braille": "⣀⡠", "hd": "▄▀", "•": "••", "x": "xx"}
"""In the legend: where colour tells the lines apart, and where the markers do."""
_LEAST_WIDTH: Final = 16
_LEAST_HEIGHT: Final = 3
"""With less room for it, a plot says nothing."""
_LEAST_TITLE: Final = 14
"""Columns of a title that stay beside the names of lines."""
_EVEN: Final = 1.01
"""Gaps that differ by no more than this factor are equal but for rounding."""
_NEXT_TO: Final = 1.5
"""Bars nearer than this many widths are neighbours, with no empty place between them."""

Points = list[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class _Axes:
    left: float
    right: float
    low: float
    high: float

    def inside(self, trace: Trace) -> Points:
        """What is left and right of the picture is left out; what is far above or below comes nearer. plotext walks
        along every line dot by dot, and would walk for ever."""
        tall = self.high - self.low
        return [
            (x, min(max(y, self.low - tall), self.high + tall))
            for x, y in zip(trace.xs, trace.ys, strict=True)
            if self.left <= x <= self.right
        ]


class PlotView(PlotextPlot):
    """Shows one Plot after another. Drawing one takes 5 to 20 ms, so hand over no more than one a second."""

    ALLOW_SELECT = False

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._shown = Plot(empty="")

    def show(self, plot: Plot) -> None:
        """From the app's thread; nothing is drawn if it is the same as before."""
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
        # plotsize alone is limited to the size of the terminal that plotext believes to be in.
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
            for points in _bars(axes.inside(trace), axes.low) if plot.kind == "bars" else [axes.inside(trace)]:
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
    """As the model says, else around all points; never empty."""
    xs = [x for trace in traces for x in trace.xs]
    ys = [y for trace in traces for y in trace.ys]
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
    # plotext sends them through a set, whose order is another one in each process; and of two words that touch each
    # other, it draws the first.
    monitor = cast(Any, figure).monitor  # textual-plotext does not tell of it
    monitor.xticks[0], monitor.xlabels[0] = [at for at, _ in across], [text for _, text in across]
    monitor.yticks[0], monitor.ylabels[0] = [at for at, _ in up], [text for _, text in up]


def _with_room(ticks: list[Tick], axes: _Axes, rows: int) -> list[Tick]:
    """Marks of the y axis that `rows` have room for. Of evenly spaced ones those left are so too, with a row
    between two of them; where there is one row only, it is marked with the upper end: the lower one would lie
    about whatever is drawn there."""
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
    """Bars are as wide as the nearest two are apart."""
    ordered = sorted(set(xs))
    return min((b - a for a, b in pairwise(ordered)), default=1.0)


def _bars(points: Points, floor: float) -> list[Points]:
    """The outlines of bars around these points, one for each group that stands together: a line across a gap would
    say that something is there."""
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
    """The title and, where there is more than one line, what they are called. None if there is nothing to say."""
    legend = traces if len(traces) > 1 else []
    if not plot.title and not legend:
        return None
    text = Text(no_wrap=True)
    samples = (cell_len(_SAMPLES[_marker(at, paint)] if paint.colourless else _LINE) for at in range(len(legend)))
    legend_width = sum(3 + sample + 1 + cell_len(trace.name) for sample, trace in zip(samples, legend, strict=True))
    # What lines are called can be read nowhere else; of a title that is cut, enough is left.
    room = max(width - legend_width, min(_LEAST_TITLE, width))
    text.append(
        plot.title if cell_len(plot.title) <= room else set_cell_size(plot.title, room - 1) + MORE,
        paint.text["strong"],
    )
    for at, trace in enumerate(legend):
        sample = _SAMPLES[_marker(at, paint)] if paint.colourless else _LINE
        text.append("   " if text.plain else "", paint.text["plain"])
        text.append(sample, _style(at, trace, paint))
        text.append(" " + trace.name, paint.text["plain"])
    text.truncate(width, overflow="ellipsis")
    return text


def _words(words: str, width: int, height: int, paint: Palette) -> Text:
    """In the middle."""
    before = max(0, (height - 1) // 2)
    left = max(0, (width - cell_len(words)) // 2)
    text = fitted(words, width) if cell_len(words) > width else " " * left + words
    return Text("\n" * before + text, paint.text["dim"], no_wrap=True)


def _style(at: int, trace: Trace, paint: Palette) -> Style:
    if paint.colourless:
        return paint.text["plain"]  # traces differ by their markers, and an underlined one can't be read
    return paint.traces[at % len(paint.traces)] if trace.tone == "plain" else paint.text[trace.tone]


def _marker(at: int, paint: Palette) -> str:
    return _MARKERS[at % len(_MARKERS)] if paint.colourless else _MARKERS[0]


def _number(which: int) -> tuple[int, int, int]:
    """plotext knows colours, not styles: each thing gets a colour that is a number, and its style afterwards."""
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

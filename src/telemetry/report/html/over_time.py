"""Charts of a run over time, for one time axis: rates, percentiles, concurrency, tokens, and a heat map."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Final

from telemetry.common import formatting, wording
from telemetry.common.formatting import printable
from telemetry.history.headlines import Figure
from telemetry.history.rates import Pace, Paces
from telemetry.history.request_model import request_counts
from telemetry.report.content import headlines
from telemetry.report.html import overview
from telemetry.report.html.data import Column, column, readable, rounded
from telemetry.report.html.help import explanation
from telemetry.report.html.main_series import LINES, NameGroup
from telemetry.wire.pictures import CounterOverTime, Distribution, HeatMap, Pictures, RequestsOverTime
from telemetry.wire.report import Report, SeriesOverTime, SeriesPoint
from telemetry.wire.snapshot import SeriesStat

MEAN: Final = "mean"
PERCENTILES: Final = ("50", "90", "99")
LEAST_STEPS: Final = 3
"""Smallest number of time steps that make a picture."""
_MARKS: Final = 200
_OF_WINDOW: Final = "tracking "
"""Start of the marks of tracking windows, left out where space is short."""
_HEAT_MAPS: Final = 2
_PER_S: Final = "per s"
_SPEED_STEPS: Final = 60
"""Largest number of steps of the chart of steps per second."""
_HUES: Final = (1, 3, 6)
"""Colours of percentiles beside rates, apart from the tones of good and bad."""
_IN_FLIGHT: Final = "Requests in flight"
_PER_TILE: Final = "requests/s"
_TILES: Final = {"Completed requests per second": _PER_TILE, "Output tokens per second": "output tokens/s"}
"""Titles of charts whose means are figures of tiles."""
Chart = dict[str, Any]
_Read = Callable[[RequestsOverTime], list[float | None]]
Times = tuple[list[float], list[float]]
"""Starts and ends of time steps."""


class TimeCharts:
    """A collector of charts that share their time steps where these are equal."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._heads = headlines(report)
        self._over = {identity(series): series for series in report.over_time if series.points}
        self._times: list[tuple[Any, Any]] = []
        self._charts: list[Chart] = []

    def data(self, groups: Sequence[NameGroup]) -> dict[str, Any] | None:
        """Return the data for the browser; None if the run is too short to have a course."""
        pictures = self._report.pictures or Pictures()
        edges = pictures.edges_s
        has_overview = self._overview(groups, pictures)
        if not pictures.requests:
            self._rates(groups, pictures, has_overview=has_overview)
        self._speed()
        for group in groups:
            self._percentiles(group)
        for group in groups:
            self._side_by_side(group)
        self._levels(pictures.requests, edges)
        for title, heat_map in _heat_maps(pictures, groups):
            self._heat_map(title, heat_map, edges)
        if not self._charts:
            return None
        return {
            "charts": self._charts,
            "times": self._times,
            "marks": marks(self._report),
            "domain": self._domain(),
        }

    def _domain(self) -> tuple[float, float]:
        """Return the ends of the time axis: the whole run with all that is drawn, or its time range."""
        shown = self._report.time_range
        ends = [point.end_s for series in self._report.over_time for point in series.points[-1:]]
        drawn = [last for _, end in self._times for last in end[-1:]]  # steps are logged after the last window
        end = max([*ends, *(self._report.pictures or Pictures()).edges_s[-1:], *drawn], default=0.0)
        if shown is not None and shown.found:
            return shown.start_s, max(min(end, shown.end_s), shown.start_s)
        return 0.0, end or self._report.snapshot.elapsed_s

    def _add(
        self, title: str, unit: str, times: Times, lines: Sequence[Chart], whole: str = MEAN, *, counted: str = ""
    ) -> None:
        """Add a chart. `counted` is the title of an axis that has no unit, such as `requests`."""
        drawn = [line for line in lines if any(value is not None for value in line["values"])]
        if drawn and len(times[0]) >= LEAST_STEPS:
            if whole == MEAN:
                drawn, whole = with_means(drawn, times)
            drawn_lines = [{**line, "values": column(line["values"])} for line in drawn]
            terms = " ".join([title, *(line["name"] for line in drawn)])
            chart = {"title": title, "unit": printable(unit), "lines": drawn_lines, "whole": whole}
            chart |= {"help": text} if (text := explanation(terms)) else {}
            scale = {"log": False} if whole.startswith(MEAN) else {}
            axes = {"axes": [counted]} if counted else {}
            self._charts.append({**chart, **scale, **axes, "times": self._times_of(times)})

    def _times_of(self, times: Times) -> int:
        start, end = times
        stored = column(start), column(end)
        if stored not in self._times:
            self._times.append(stored)
        return self._times.index(stored)

    def _overview(self, groups: Sequence[NameGroup], pictures: Pictures) -> bool:
        """Add the chart of rates, failures and p99. Return False if the run has nothing for it."""
        what = "requests" if any(head.flavour == "load" for head in self._heads) else "values"
        chart = (
            overview.of_requests(self._report, pictures, groups, self._over, self._seconds())
            if pictures.requests
            else overview.of_series(self._report, pictures, groups, self._over, what)
        )
        if chart is None or len(chart.times[0]) < LEAST_STEPS:
            return False
        rates = [
            _line(rate.name, rate.values, rate.tone) | (_whole(rate.whole) if rate.whole else {})
            for rate in chart.rates
        ]
        tile = self._figure(chart.rates[0].name)
        lines, mean = with_means(rates, chart.times, tile)
        for line, rate in zip(lines, chart.rates, strict=True):
            line.update(values=column(rate.values), **({"drawn": rate.drawn} if rate.drawn else {}))
            if rate.whole and rate.whole.seconds and tile is not None and tile.seconds:
                other = formatting.duration_s(rate.whole.seconds)
                if other != formatting.duration_s(tile.seconds):
                    mean += f", {rate.name} over {other}"
        rights = [
            {
                "name": slow.name,
                "values": column(slow.values),
                "whole": readable(slow.stat.percentiles.get(slow.key)),
                "right": True,
                "hue": hue,
                "unit": printable(slow.stat.unit),
                "times": self._times_of(_ends(slow.points)),
            }
            for slow, hue in zip(chart.slow, _HUES, strict=False)
        ]
        # Rates come first in the legend, and percentiles have the next colours: those of the tones are their own.
        plain = [line for line in lines if "tone" not in line]
        toned = [line for line in lines if "tone" in line]
        whole = f"{mean}; p{chart.slow[0].key} of the whole run" if chart.slow else mean
        terms = " ".join(line["name"] for line in (*plain, *rights, *toned))
        self._charts.append(
            {
                "title": chart.title,
                "unit": "",
                "lines": [*plain, *rights, *toned],
                "whole": whole,
                "wide": True,
                "axes": [_PER_S, *([f"p{chart.slow[0].key}"] if chart.slow else [])],
                "help": explanation(terms),
                "times": self._times_of(chart.times),
                **({} if rights else {"log": False}),
            }
        )
        return True

    def _seconds(self) -> float | None:
        """Return the time of the rates of all requests; None if it is unknown."""
        tile = self._figure(_PER_TILE)
        return tile.seconds if tile is not None else None

    def _figure(self, title: str, subject: str | None = None) -> Figure | None:
        """Return the figure of a tile, so that a chart says the same; the first one without a subject."""
        return next(
            (
                figure
                for head in self._heads
                for figure in head.figures
                if figure.title == title and subject in (None, head.subject)
            ),
            None,
        )

    def _rates(self, groups: Sequence[NameGroup], pictures: Pictures, *, has_overview: bool) -> None:
        """Add rates of the values of the main series, and of counters of trouble, unless the overview has them."""
        for group in groups[:1]:
            candidates = [(name, self._over.get(identity(stat))) for name, stat in group.lines]
            series = [(name, course) for name, course in candidates if course is not None]
            if not series or (has_overview and len(series) == 1):
                continue
            lines = [
                {**_line(name, [point.rate for point in course.points]), **self._whole_rate(course)}
                for name, course in series
            ]
            times = _ends(series[0][1].points)
            title = "Values per second" if len(series) > 1 else f"{group.title}: values per second"
            same = [line for line in lines if len(line["values"]) == len(times[0])]
            self._add(title, "", times, same, counted=_PER_S)
        trouble = overview.troubles(pictures)
        lines = [
            {**_line(wording.instrument(counter.name, counter.labels), counter.rates), **self._whole_rate(counter)}
            for counter in trouble[:LINES]
        ]
        if len(lines) == 1:
            lines[0]["tone"] = "bad"
        edges = pictures.edges_s
        if not (has_overview and len(lines) == 1):
            self._add("Failures per second", "", (edges[:-1], edges[1:]), lines, counted=_PER_S)

    def _whole_rate(self, course: CounterOverTime | SeriesOverTime) -> Chart:
        """Return the rate of the whole run for the legend of a line, as tables have it."""
        pace = overview.pace_of(self._report, [course])
        return {} if pace is None else _whole(pace)

    def _speed(self) -> None:
        """Add the speed of the axis with the most steps."""
        curves = [curve for curve in self._report.curves if len(curve.steps) > 1 and len(curve.times_s) > 1]
        if not curves:
            return
        longest = max(curves, key=lambda curve: curve.count)
        group = -(-(len(longest.steps) - 1) // _SPEED_STEPS)
        places = [*range(0, len(longest.steps) - 1, group), len(longest.steps) - 1]
        pairs = [
            (index, other) for index, other in pairwise(places) if longest.times_s[other] > longest.times_s[index]
        ]
        values = [
            (longest.steps[other] - longest.steps[index]) / (longest.times_s[other] - longest.times_s[index])
            for index, other in pairs
        ]
        if values:
            line = {
                "name": printable(longest.axis),
                "values": values,
                "whole": readable(Paces(self._report.snapshot).steps_per_s(longest.axis)),
            }
            start, end = ([longest.times_s[pair[side]] for pair in pairs] for side in (0, 1))
            self._add("Steps per second", "", (start, end), [line], counted=_PER_S)

    def _percentiles(self, group: NameGroup) -> None:
        """Add percentiles of a group: of its busiest series, or of the busiest window in each step."""
        parts = [self._over[identity(stat)] for _, stat in group.lines if identity(stat) in self._over]
        if not parts:
            return
        points = overview.busiest_points(parts) if group.is_request else parts[0].points
        lines: list[Chart] = [
            {
                "name": f"p{key}",
                "values": [point.percentiles.get(key) for point in points],
                "whole": readable(group.main.percentiles.get(key)),
            }
            for key in PERCENTILES
        ]
        lines.append(
            {
                "name": "max",
                "values": [point.max for point in points],
                "whole": readable(group.main.max),
            }
        )
        whole = f"window {group.lines[0][0]}" if group.is_request and len(group.lines) > 1 else "whole run"
        named = group.title if group.is_request else wording.instrument(group.main.name, group.main.labels)
        self._add(f"{named}: percentiles", parts[0].unit, _ends(points), lines, whole)

    def _side_by_side(self, group: NameGroup) -> None:
        """Add p99 of each label set."""
        candidates = [(name, stat, self._over.get(identity(stat))) for name, stat in group.lines]
        series = [(name, stat, course) for name, stat, course in candidates if course is not None]
        if len(series) < 2 or group.is_request:
            return
        lines: list[Chart] = [
            {
                "name": name,
                "values": [point.percentiles.get("99") for point in course.points],
                "whole": readable(stat.percentiles.get("99")),
            }
            for name, stat, course in series
        ]
        times = _ends(series[0][2].points)
        same = [line for line in lines if len(line["values"]) == len(times[0])]
        self._add(f"{group.title}: p99 of each", series[0][2].unit, times, same, "whole run")

    def _levels(self, requests: Sequence[RequestsOverTime], edges: list[float]) -> None:
        """Add requests per second of several kinds, concurrency, and output tokens of requests that have them."""
        kinds = {
            (kind.kind, tuple(sorted(kind.labels.items())))
            for kind in request_counts(self._report.snapshot)
            if kind.has_tokens
        }
        read: tuple[tuple[str, str, _Read], ...] = (
            (_IN_FLIGHT, "requests", lambda kind: kind.in_flight),
            (
                "Output tokens per second",
                _PER_S,
                lambda kind: (
                    kind.output_tokens_per_s if (kind.kind, tuple(sorted(kind.labels.items()))) in kinds else []
                ),
            ),
        )
        each: tuple[str, str, _Read] = "Completed requests per second", _PER_S, lambda kind: kind.completed_per_s
        for title, counted, values_of in (each, *read) if len(requests) > 1 else read:
            lines = [
                _line(wording.instrument(kind.kind, kind.labels), values_of(kind))
                for kind in requests[:LINES]
                if any(values_of(kind))
            ]
            whole = self._in_flight(lines) if title == _IN_FLIGHT else self._span(lines, _TILES.get(title, ""))
            self._add(title, "", (edges[:-1], edges[1:]), lines, whole, counted=counted)

    def _span(self, lines: Sequence[Chart], title: str) -> str:
        """Give lines of one kind each the figure of its tile. Return words for the means of the chart."""
        figures = [self._figure(title, line["name"]) for line in lines] if title else []
        if not figures or any(figure is None or figure.value is None for figure in figures):
            return MEAN
        for line, figure in zip(lines, figures, strict=True):
            line["whole"] = readable(figure.value if figure else None)
        return f"{MEAN} from the first issue to the last completion"

    def _in_flight(self, lines: Sequence[Chart]) -> str:
        """Give lines of one kind each the mean of the table. Return words for the means of the chart."""
        means = {
            wording.instrument(kind.kind, kind.labels): kind.concurrency_mean
            for kind in self._report.requests
            if kind.concurrency_mean is not None
        }
        matching = [line for line in lines if line["name"] in means]
        for line in matching:
            line["whole"] = readable(means[line["name"]])
        return f"{MEAN} from the first issue to the last end" if lines and len(matching) == len(lines) else MEAN

    def _heat_map(self, title: str, heat_map: HeatMap, edges: list[float]) -> None:
        columns = [_trimmed(column) for column in heat_map.counts]
        if not any(columns) or len(columns) < LEAST_STEPS:
            return
        self._charts.append(
            {
                "title": f"{title}: how values spread",
                "help": explanation(f"{title}: how values spread"),
                "unit": printable(heat_map.unit),
                "edges": [rounded(edge) for edge in heat_map.edges],
                "columns": columns,
                "whole": "",
                "times": self._times_of((edges[:-1], edges[1:])),
            }
        )


def identity(of: SeriesStat | SeriesOverTime | HeatMap | Distribution) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Return name and labels as a key."""
    return of.name, tuple(sorted(of.labels.items()))


def marks(report: Report) -> list[tuple[float, str]]:
    """Return marks as seconds since the run's start, with their text; the newest if there are many."""
    snapshot = report.snapshot
    if not snapshot.started_ns:
        return []
    newest = sorted(snapshot.marks, key=lambda mark: mark.time_ns)[-_MARKS:]
    return [
        (
            round((mark.time_ns - snapshot.started_ns) / 1e9, 3),
            wording.instrument(mark.text.removeprefix(_OF_WINDOW), mark.labels),
        )
        for mark in newest
    ]


def _heat_maps(pictures: Pictures, groups: Sequence[NameGroup]) -> Iterator[tuple[str, HeatMap]]:
    """Yield heat maps of the main series, with their titles."""
    by_series = {identity(heat_map): heat_map for heat_map in pictures.heat_maps}
    pairs = [(group, by_series[identity(group.main)]) for group in groups if identity(group.main) in by_series]
    for group, heat_map in pairs[-_HEAT_MAPS:]:
        yield (group.title if group.is_request else wording.instrument(heat_map.name, heat_map.labels)), heat_map


def _line(name: str, values: Column, tone: str = "") -> Chart:
    """Return a line whose mean is still to be added."""
    line: Chart = {"name": name, "values": values}
    return line | {"tone": tone} if tone else line


def _whole(pace: Pace) -> Chart:
    return {"whole": readable(pace.per_s)} if pace.per_s is not None else {}


def _ends(points: Sequence[SeriesPoint]) -> Times:
    return [point.start_s for point in points], [point.end_s for point in points]


def _trimmed(counts: Sequence[int]) -> list[int]:
    """Return the first row with values, then the counts up to the last one; empty without values."""
    filled = [row for row, count in enumerate(counts) if count]
    return [filled[0], *counts[filled[0] : filled[-1] + 1]] if filled else []


def with_means(
    lines: Sequence[dict[str, Any]], times: tuple[list[float], list[float]], tile: Figure | None = None
) -> tuple[list[dict[str, Any]], str]:
    """Return the lines with their means over the same time, and words for it: `mean over 24.0 s`.

    The time goes from the first to the last step in which any line is not 0. `tile` is the figure with the mean of
    the first line, whose time is used then. Of a rate, the mean is the total divided by the seconds with data.
    Lines that have a mean keep it: without a tile, no time is named then.
    """
    has_own = any("whole" in line for line in lines)
    if all("whole" in line for line in lines):
        return list(lines), MEAN
    active = [at for line in lines for at, value in enumerate(line["values"]) if value]
    first, last = (min(active), max(active) + 1) if active else (0, len(times[0]))
    seconds = [end - start for start, end in zip(*times, strict=True)]
    longest, shown = 0.0, tile.seconds if tile is not None and tile.value is not None else None
    result = []
    for line in lines:
        pairs = zip(line["values"][first:last], seconds[first:last], strict=False)
        samples = [(value, long) for value, long in pairs if value is not None]
        span = sum(long for _, long in samples)
        longest = max(longest, span)
        total = sum(value * long for value, long in samples)
        result.append({"whole": rounded(total / (shown or span) if span else 0.0), **line})
    if shown and tile is not None and result:
        result[0]["whole"] = readable(tile.value)
    if has_own and not shown:
        return result, MEAN
    return result, f"{MEAN} over {formatting.duration_s(shown or longest)}"

"""Charts of a run over time, for one time axis: rates, percentiles, concurrency, tokens, and a heat map."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Final

from telemetry import formatting, wording
from telemetry.directions import TROUBLE, words_of
from telemetry.formatting import printable
from telemetry.report.glossary import explanation
from telemetry.report.html.main_series import LINES, Group
from telemetry.report.html.numbers import Column, column, rounded
from telemetry.wire.pictures import Distribution, HeatMap, Pictures, RequestsOverTime
from telemetry.wire.report import Report, SeriesOverTime, SeriesPoint
from telemetry.wire.snapshot import SeriesStat

PERCENTILES: Final = ("50", "90", "99")
LEAST_STEPS: Final = 3
"""Smallest number of time steps that make a picture."""
_MARKS: Final = 200
_OF_WINDOW: Final = "tracking "
"""Start of the marks of tracking windows, left out where space is short."""
_HEAT_MAPS: Final = 2
_SPEED_STEPS: Final = 60
"""Largest number of steps of the chart of steps per second."""
_MEAN: Final = "mean"

Chart = dict[str, Any]
Times = tuple[list[float], list[float]]
"""Starts and ends of time steps."""


class TimeCharts:
    """A collector of charts that share their time steps where these are equal."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._over = {identity(one): one for one in report.over_time if one.points}
        self._times: list[tuple[Any, Any]] = []
        self._charts: list[Chart] = []

    def data(self, groups: Sequence[Group]) -> dict[str, Any] | None:
        """Return the data for the browser; None if the run is too short to have a course."""
        pictures = self._report.pictures or Pictures()
        edges = pictures.edges_s
        self._requests(pictures.requests, edges)
        if not pictures.requests:
            self._rates(groups, pictures)
        self._speed()
        for group in groups:
            self._percentiles(group)
        for group in groups:
            self._side_by_side(group)
        self._levels(pictures.requests, edges)
        for title, one in _heat_maps(pictures, groups):
            self._heat_map(title, one, edges)
        if not self._charts:
            return None
        return {
            "charts": self._charts,
            "times": self._times,
            "marks": marks(self._report),
            "domain": self._domain(),
        }

    def _domain(self) -> tuple[float, float]:
        """Return the ends of the time axis: the whole run, or its time range."""
        shown = self._report.time_range
        ends = [point.end_s for one in self._report.over_time for point in one.points[-1:]]
        end = max([*ends, *(self._report.pictures or Pictures()).edges_s[-1:]], default=0.0)
        if shown is not None and shown.found:
            return shown.start_s, max(min(end, shown.end_s), shown.start_s)
        return 0.0, end or self._report.snapshot.elapsed_s

    def _add(self, title: str, unit: str, times: Times, lines: Sequence[Chart], whole: str = _MEAN) -> None:
        drawn = [line for line in lines if any(value is not None for value in line["values"])]
        if drawn and len(times[0]) >= LEAST_STEPS:
            if whole == _MEAN:
                drawn, whole = _with_means(drawn, times)
            drawn_lines = [{**line, "values": column(line["values"])} for line in drawn]
            terms = " ".join([title, *(line["name"] for line in drawn)])
            chart = {"title": title, "unit": printable(unit), "lines": drawn_lines, "whole": whole}
            chart |= {"help": text} if (text := explanation(terms)) else {}
            scale = {"log": False} if whole.startswith(_MEAN) else {}
            self._charts.append({**chart, **scale, "times": self._times_of(times)})

    def _times_of(self, times: Times) -> int:
        start, end = times
        stored = column(start), column(end)
        if stored not in self._times:
            self._times.append(stored)
        return self._times.index(stored)

    def _requests(self, requests: Sequence[RequestsOverTime], edges: list[float]) -> None:
        """Add rates of completed, good and failed requests; of several kinds the completed ones of each."""
        shown = requests[:LINES]
        lines = []
        for one in shown:
            name = "" if len(shown) == 1 else f"{wording.instrument(one.kind, one.labels)} "
            lines.append(_line(f"{name}completed", one.completed_per_s))
            if len(shown) == 1 and any(one.good_per_s):
                lines.append(_line(f"{name}within limits", one.good_per_s, "good"))
        times = edges[:-1], edges[1:]
        self._add("Requests per second", "", times, lines)
        failed = _sum([one.failed_per_s for one in requests])
        if any(failed):
            self._add("Failed requests per second", "", times, [_line("failed", failed, "bad")])

    def _rates(self, groups: Sequence[Group], pictures: Pictures) -> None:
        """Add rates of the values of the main series, and of counters of trouble."""
        for group in groups[:1]:
            found = [(name, self._over.get(identity(stat))) for name, stat in group.lines]
            series = [(name, one.points) for name, one in found if one is not None]
            if not series:
                continue
            lines = [_line(name, [point.rate for point in points]) for name, points in series]
            times = _ends(series[0][1])
            title = "Values per second" if len(series) > 1 else f"{group.title}: values per second"
            self._add(title, "", times, [line for line in lines if len(line["values"]) == len(times[0])])
        trouble = [one for one in pictures.counters if TROUBLE & set(words_of(one.name)) and any(one.rates)]
        lines = [_line(wording.instrument(one.name, one.labels), one.rates) for one in trouble[:LINES]]
        if len(lines) == 1:
            lines[0]["tone"] = "bad"
        edges = pictures.edges_s
        self._add("Failures per second", "", (edges[:-1], edges[1:]), lines)

    def _speed(self) -> None:
        """Add the speed of the axis with the most steps."""
        curves = [curve for curve in self._report.curves if len(curve.steps) > 1 and len(curve.times_s) > 1]
        if not curves:
            return
        longest = max(curves, key=lambda curve: curve.count)
        group = -(-(len(longest.steps) - 1) // _SPEED_STEPS)
        places = [*range(0, len(longest.steps) - 1, group), len(longest.steps) - 1]
        pairs = [(one, other) for one, other in pairwise(places) if longest.times_s[other] > longest.times_s[one]]
        values = [
            (longest.steps[other] - longest.steps[one]) / (longest.times_s[other] - longest.times_s[one])
            for one, other in pairs
        ]
        if values:
            line = {"name": printable(longest.axis), "values": values, "whole": rounded(longest.steps_per_s)}
            start, end = ([longest.times_s[pair[side]] for pair in pairs] for side in (0, 1))
            self._add("Steps per second", "", (start, end), [line])

    def _percentiles(self, group: Group) -> None:
        """Add percentiles of a group: of its busiest series, or of the busiest window in each step."""
        parts = [self._over[identity(stat)] for _, stat in group.lines if identity(stat) in self._over]
        if not parts:
            return
        points = _busiest_points(parts) if group.is_request else parts[0].points
        lines: list[Chart] = [
            {
                "name": f"p{key}",
                "values": [point.percentiles.get(key) for point in points],
                "whole": rounded(group.main.percentiles.get(key)),
            }
            for key in PERCENTILES
        ]
        lines.append({"name": "max", "values": [point.max for point in points], "whole": rounded(group.main.max)})
        whole = f"window {group.lines[0][0]}" if group.is_request and len(group.lines) > 1 else "whole run"
        named = group.title if group.is_request else wording.instrument(group.main.name, group.main.labels)
        self._add(f"{named}: percentiles", parts[0].unit, _ends(points), lines, whole)

    def _side_by_side(self, group: Group) -> None:
        """Add p99 of each label set."""
        found = [(name, stat, self._over.get(identity(stat))) for name, stat in group.lines]
        series = [(name, stat, one) for name, stat, one in found if one is not None]
        if len(series) < 2 or group.is_request:
            return
        lines: list[Chart] = [
            {
                "name": name,
                "values": [point.percentiles.get("99") for point in one.points],
                "whole": rounded(stat.percentiles.get("99")),
            }
            for name, stat, one in series
        ]
        times = _ends(series[0][2].points)
        same = [line for line in lines if len(line["values"]) == len(times[0])]
        self._add(f"{group.title}: p99 of each", series[0][2].unit, times, same, "whole run")

    def _levels(self, requests: Sequence[RequestsOverTime], edges: list[float]) -> None:
        """Add concurrency, and output tokens."""
        read: tuple[tuple[str, Callable[[RequestsOverTime], list[float | None]]], ...] = (
            ("Requests in flight", lambda one: one.in_flight),
            ("Output tokens per second", lambda one: one.output_tokens_per_s),
        )
        for title, values_of in read:
            lines = [
                _line(wording.instrument(one.kind, one.labels), values_of(one))
                for one in requests[:LINES]
                if any(values_of(one))
            ]
            self._add(title, "", (edges[:-1], edges[1:]), lines)

    def _heat_map(self, title: str, one: HeatMap, edges: list[float]) -> None:
        columns = [_trimmed(column) for column in one.counts]
        if not any(columns) or len(columns) < LEAST_STEPS:
            return
        self._charts.append(
            {
                "title": f"{title}: how values spread",
                "help": explanation(f"{title}: how values spread"),
                "unit": printable(one.unit),
                "edges": [rounded(edge) for edge in one.edges],
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
    found = sorted(snapshot.marks, key=lambda mark: mark.time_ns)[-_MARKS:]
    return [
        (
            round((mark.time_ns - snapshot.started_ns) / 1e9, 3),
            wording.instrument(mark.text.removeprefix(_OF_WINDOW), mark.labels),
        )
        for mark in found
    ]


def _heat_maps(pictures: Pictures, groups: Sequence[Group]) -> Iterator[tuple[str, HeatMap]]:
    """Yield heat maps of the main series, with their titles."""
    by_series = {identity(one): one for one in pictures.heat_maps}
    found = [(group, by_series[identity(group.main)]) for group in groups if identity(group.main) in by_series]
    for group, one in found[-_HEAT_MAPS:]:
        yield (group.title if group.is_request else wording.instrument(one.name, one.labels)), one


def _line(name: str, values: Column, tone: str = "") -> Chart:
    """Return a line whose mean is still to be added."""
    line: Chart = {"name": name, "values": values}
    return line | {"tone": tone} if tone else line


def _with_means(lines: Sequence[Chart], times: Times) -> tuple[list[Chart], str]:
    """Return the lines with their means over the same time, and words for it: `mean over 24.0 s`.

    The time goes from the first to the last step in which any line is not 0. Of a rate, the mean is what there was
    in total divided by the seconds with data.
    """
    if all("whole" in line for line in lines):
        return list(lines), _MEAN
    active = [at for line in lines for at, value in enumerate(line["values"]) if value]
    first, last = (min(active), max(active) + 1) if active else (0, len(times[0]))
    seconds = [end - start for start, end in zip(*times, strict=True)]
    longest = 0.0
    found = []
    for line in lines:
        pairs = zip(line["values"][first:last], seconds[first:last], strict=False)
        known = [(value, long) for value, long in pairs if value is not None]
        span = sum(long for _, long in known)
        longest = max(longest, span)
        mean = sum(value * long for value, long in known) / span if span else 0.0
        found.append({**line, "whole": rounded(mean)})
    return found, f"{_MEAN} over {formatting.duration_s(longest)}"


def _ends(points: Sequence[SeriesPoint]) -> Times:
    return [point.start_s for point in points], [point.end_s for point in points]


def _busiest_points(parts: Sequence[SeriesOverTime]) -> list[SeriesPoint]:
    """Return for each step the point of the series with the most values in it."""
    best: dict[tuple[float, float], SeriesPoint] = {}
    for part in parts:
        for point in part.points:
            step = point.start_s, point.end_s
            if step not in best or point.count > best[step].count:
                best[step] = point
    return [best[step] for step in sorted(best)]


def _sum(columns: Sequence[Column]) -> list[float | None]:
    """Return the sums of columns step by step; None where no column has a value."""
    rows = zip(*columns, strict=False)
    return [sum(known) if (known := [value for value in row if value is not None]) else None for row in rows]


def _trimmed(counts: Sequence[int]) -> list[int]:
    """Return the first row with values, then the counts up to the last one; empty without values."""
    filled = [row for row, count in enumerate(counts) if count]
    return [filled[0], *counts[filled[0] : filled[-1] + 1]] if filled else []

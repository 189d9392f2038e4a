"""The description of a dashboard: variables, and rows of panels with queries.

In queries, `RUN` stands for the selector of the chosen run. `ANY_RUN` also takes series without a run, which
Prometheus got from another exporter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

WIDTH: Final = 24
"""Columns of a dashboard."""
_SELECTORS: Final = {"ANY_RUN": 'run=~"$run|"', "RUN": 'run=~"$run"'}


def promql(query: str) -> str:
    """Return a query with the selectors that the words RUN and ANY_RUN stand for."""
    for word, selector in _SELECTORS.items():
        query = query.replace(word, selector)
    return query


def newest(metric: str, matchers: str = "RUN") -> str:
    """Return the newest value of a metric in the time range, so that a run that has ended shows its last one."""
    return f"last_over_time({metric}{{{matchers}}}[$__range])"


def own(name: str, *matchers: str, run: str = "RUN") -> str:
    """Return the selector of a gauge, with or without a namespace before its name.

    Without one, a name with the suffix of another kind of metric ends with `_value`.
    """
    value = "(_value)?" if name.endswith(("_total", "_bucket", "_sum", "_count")) else ""
    return "{" + ",".join((f'__name__=~"(.+_)?{name}{value}"', run, *matchers)) + "}"


@dataclass(frozen=True)
class Target:
    """A query of a panel, and the name of its lines."""

    query: str
    legend: str = ""
    """Name with `{{label}}`. Empty: the labels in which lines differ."""

    @property
    def promql(self) -> str:
        return promql(self.query)


@dataclass(frozen=True, kw_only=True)
class Panel:
    """A panel of any kind."""

    title: str
    question: str
    """Question that the panel answers; Grafana shows it as the description."""
    targets: tuple[Target, ...]
    unit: str = "short"
    """Unit in Grafana's words."""
    width: int = 12
    height: int = 8
    repeat: str = ""
    """Variable for whose values the panel is repeated."""


@dataclass(frozen=True, kw_only=True)
class TimeSeries(Panel):
    """Lines over time."""

    stacked: bool = False
    least: float | None = 0.0
    """Lower end of the axis. None: that of the values."""
    most: float | None = None
    colors: Mapping[str, str] = field(default_factory=dict)
    """Name of a line → color."""


@dataclass(frozen=True, kw_only=True)
class Stat(Panel):
    """Large numbers, or large words."""

    shows: Literal["value", "name", "value_and_name"] = "value"
    over_time: bool = False
    """True for the newest value of a query over time, with a small curve."""
    thresholds: tuple[tuple[float, str], ...] = ()
    """(value, color from this value on)."""
    colors: Mapping[str, str] = field(default_factory=dict)
    width: int = 4
    height: int = 4


@dataclass(frozen=True, kw_only=True)
class Table(Panel):
    """A table with a line for each set of labels and a column for each query."""

    labels: Mapping[str, str]
    """Label → header of its column."""
    units: Mapping[str, str] = field(default_factory=dict)
    """Header → unit. A column's header is the legend of its target."""
    sort_by: str = ""
    """Header of the column to sort by, largest value first."""


@dataclass(frozen=True, kw_only=True)
class Heatmap(Panel):
    """A distribution over time, from the buckets of a histogram."""


@dataclass(frozen=True)
class Row:
    """Panels below one title. They flow from left to right."""

    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True, kw_only=True)
class Variable:
    """A choice above the dashboard, filled by a query."""

    name: str
    label: str
    query: str
    regex: str = ""
    """Expression whose group is the value."""
    order: Literal["query", "ascending", "descending"] = "ascending"
    has_all: bool = False
    has_many: bool = False

    @property
    def promql(self) -> str:
        return promql(self.query)


RUN: Final = Variable(
    name="run",
    label="Run",
    query="query_result(sort_desc(max by (run) (max_over_time(telemetry_run_start_time_seconds[$__range]))))",
    regex='/run="([^"]+)"/',
    order="query",
    has_all=True,
)
"""The run. The newest one is first, so it is shown when the dashboard opens."""


@dataclass(frozen=True, kw_only=True)
class Dashboard:
    """A dashboard. Its variables come after those of the data source and the run."""

    name: str
    """Name of its file, and the end of its uid."""
    title: str
    question: str
    rows: tuple[Row, ...]
    variables: tuple[Variable, ...] = ()

    @property
    def uid(self) -> str:
        return f"telemetry-{self.name}"

    @property
    def all_variables(self) -> tuple[Variable, ...]:
        return (RUN, *self.variables)

    @property
    def panels(self) -> tuple[Panel, ...]:
        return tuple(panel for row in self.rows for panel in row.panels)

"""Figures over time for pictures of a run: rates, gauges, requests, distributions, and the curves of steps."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class CounterOverTime(Struct, frozen=True, kw_only=True):
    name: str
    labels: dict[str, str] = {}
    unit: str = ""
    rates: list[float | None] = []
    """Increase per second in each time step; null without data."""


class GaugeOverTime(Struct, frozen=True, kw_only=True):
    name: str
    labels: dict[str, str] = {}
    unit: str = ""
    values: list[float | None] = []
    """Last value in each time step; null if none was set."""


class RequestsOverTime(Struct, frozen=True, kw_only=True):
    """Requests of one kind, all tracking windows together."""

    kind: str
    labels: dict[str, str] = {}
    completed_per_s: list[float | None] = []
    failed_per_s: list[float | None] = []
    """Failed and expired requests per second."""
    in_flight: list[float | None] = []
    """Requests in flight at the end of each time step."""
    output_tokens_per_s: list[float | None] = []
    """Empty if the requests have no output tokens."""
    good_per_s: list[float | None] = []
    """Requests within their limits per second; empty without limits."""


class HeatMap(Struct, frozen=True, kw_only=True):
    """How the values of a series spread in each time step. Rows are equally high on a log scale."""

    name: str
    labels: dict[str, str] = {}
    unit: str = ""
    edges: list[float] = []
    """Edges of the rows, ascending; one more than rows. The first row also has the few values below it."""
    counts: list[list[int]] = []
    """For each time step, the values by row; an empty list for a step without values."""


class Distribution(Struct, frozen=True, kw_only=True):
    """The values of a series from percentile 0.1 to 99.9, fine enough to show two modes."""

    name: str
    labels: dict[str, str] = {}
    unit: str = ""
    scale: Literal["linear", "log", "cells"] = "linear"
    """Scale on which all bars are equally wide. `cells`: on none; these are the coarse cells of the result."""
    edges: list[float] = []
    """Edges of the bars, ascending; one more than counts."""
    counts: list[int] = []
    below: int = 0
    """Number of values below the first edge."""
    above: int = 0
    """Number of values above the last edge."""


class RequestSlots(Struct, frozen=True, kw_only=True):
    """Requests one by one, each in the lowest slot that no other one uses at the same time. Times are seconds since
    the run's start; all lists are equally long.
    """

    total: int = 0
    """Number of requests in the log. If there are more than in the lists, these overlap one time range of the run,
    around the most requests in flight."""
    slots: list[int] = []
    begin_s: list[float] = []
    """Planned time of each request, or of its issue."""
    issued_s: list[float] = []
    first_s: list[float | None] = []
    """Time of the first output; null without one."""
    end_s: list[float] = []
    reasons: list[str] = []
    """Reasons of requests that failed or expired; empty for completed ones."""


class Pictures(Struct, frozen=True, kw_only=True):
    """Everything over time. All lists of figures are as long as `edges_s` less one, or empty.

    Without a history there are distributions only.
    """

    edges_s: list[float] = []
    """Edges of the time steps, in seconds since the run's start. A gap in the history is a step without data."""
    requests: list[RequestsOverTime] = []
    counters: list[CounterOverTime] = []
    """Counters that belong to no request and no span, the busiest first."""
    gauges: list[GaugeOverTime] = []
    heat_maps: list[HeatMap] = []
    """Heat maps of the busiest series in a unit of time, latencies of requests first."""
    distributions: list[Distribution] = []
    """Distributions of the series in `Report.over_time`, in their order."""
    slots: RequestSlots | None = None
    """Requests one by one, if the run has a request log."""


class ProducersChange(Struct, frozen=True, kw_only=True):
    """The last change in the number of producers that report a value of a step."""

    before: int
    """Number up to step `last`."""
    last: int
    after: int
    """Number from step `first` on."""
    first: int
    changes: int = 1
    """Number of changes in the whole run."""


class StepCurve(Struct, frozen=True, kw_only=True):
    """One value of an axis of steps over the run. Points are single steps, or the means of neighbours."""

    axis: str
    name: str
    steps: list[int] = []
    """Last step of each point."""
    times_s: list[float] = []
    """Time of the newest value of that step, in seconds since the run's start."""
    values: list[float | None] = []
    """Mean of the finite values of each point; null if there are none."""
    low: list[float | None] = []
    """Lowest value of a producer in the steps of each point; empty if `values` has it all."""
    high: list[float | None] = []
    count: int = 0
    """Number of steps that have the value, finite or not."""
    producers: int = 1
    """Largest number of producers that reported the value for one step."""
    producers_change: ProducersChange | None = None
    """Null if the same number reported it for all steps."""
    first: float | None = None
    """Value of the lowest step; null if it is not finite. Likewise `last`, of the highest step."""
    last: float | None = None
    last_low: float | None = None
    """Lowest value of a producer in the highest step. Likewise `last_high`, the highest one."""
    last_high: float | None = None
    min: float | None = None
    max: float | None = None
    min_step: int | None = None
    max_step: int | None = None

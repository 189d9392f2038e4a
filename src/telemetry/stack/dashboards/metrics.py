"""The dashboard of any metric: a series, a counter and gauges, chosen by name."""

from __future__ import annotations

from typing import Final

from telemetry.stack.dashboards.model import Dashboard, Heatmap, Row, Table, Target, TimeSeries, Variable
from telemetry.stack.dashboards.requests import QUANTILES

_RATE: Final = "sum by (le) (rate(${series}_bucket{RUN}[$__rate_interval]))"
_NOT_GAUGES: Final = (
    "telemetry_.+|up|scrape_.+|ALERTS.*|.+_(bucket|sum|count|total|created|percentile|min|max)|run:.+"
)
"""Names that are no gauges of a program."""

METRICS: Final = Dashboard(
    name="metrics",
    title="telemetry / Metrics",
    question="How does a metric of the program develop?",
    variables=(
        Variable(
            name="series",
            label="Series",
            query='label_values({__name__=~".+_bucket",RUN}, __name__)',
            regex="/^(.+)_bucket$/",
        ),
        Variable(
            name="counter",
            label="Counter",
            query='label_values({__name__=~".+_total",__name__!~"telemetry_.+",RUN}, __name__)',
        ),
        Variable(
            name="gauge",
            label="Gauges",
            query=f'label_values({{__name__!~"{_NOT_GAUGES}",RUN}}, __name__)',
            has_many=True,
        ),
    ),
    rows=(
        Row(
            "$series",
            (
                TimeSeries(
                    title="Percentiles",
                    question="How large are usual and rare values?",
                    targets=tuple(
                        Target(f"histogram_quantile({ratio:g}, {_RATE})", word) for word, ratio in QUANTILES
                    ),
                    width=8,
                ),
                Heatmap(
                    title="Distribution",
                    question="Are there groups of values, and do they move?",
                    targets=(Target("sum by (le) (increase(${series}_bucket{RUN}[$__rate_interval]))"),),
                    width=8,
                ),
                TimeSeries(
                    title="Values per second",
                    question="How often is a value recorded?",
                    targets=(Target("sum(rate(${series}_count{RUN}[$__rate_interval]))", "values"),),
                    unit="cps",
                    width=8,
                ),
                Table(
                    title="Percentiles of the whole run",
                    question="What will the report say? Of several sets of labels, the largest value counts.",
                    targets=(
                        Target(
                            "max by (percentile) (last_over_time(${series}_percentile{RUN}[$__range]))", "Value"
                        ),
                    ),
                    labels={"percentile": "Percentile"},
                    unit="none",
                    width=24,
                    height=6,
                ),
            ),
        ),
        Row(
            "$counter",
            (
                TimeSeries(
                    title="Per second",
                    question="How fast does it grow?",
                    targets=(Target("rate($counter{RUN}[$__rate_interval])"),),
                ),
                TimeSeries(
                    title="Total",
                    question="How large is it?",
                    targets=(Target("$counter{RUN}"),),
                ),
            ),
        ),
        Row(
            "Gauges",
            (
                TimeSeries(
                    title="$gauge",
                    question="How does it develop? Gauges of servers that the run scrapes are here, too.",
                    targets=(Target('{__name__=~"$gauge",RUN}'),),
                    least=None,
                    repeat="gauge",
                    width=8,
                ),
            ),
        ),
    ),
)

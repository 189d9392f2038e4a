"""The dashboard of ranks: which one is slow, silent, or different from the others?"""

from __future__ import annotations

from typing import Final

from telemetry.stack.dashboards.model import Dashboard, Row, Table, Target, TimeSeries, Variable
from telemetry.stack.dashboards.training import AXIS


def _values(variable: str) -> str:
    return f'telemetry_step_rank_value{{RUN,axis=~"$axis",name="${variable}"}}'


def _mean(variable: str) -> str:
    return f"avg by (rank) (avg_over_time({_values(variable)}[$__range]))"


_RANKED: Final = 'label_values(telemetry_step_rank_value{RUN,axis=~"$axis"}, name)'
_LAG: Final = f"quantile by (run, axis) (0.5, {_values('wait')}) - on (run, axis) group_right () {_values('wait')}"
_RECEIVED: Final = 'telemetry_producer_received_total{RUN,rank!=""}'

RANKS: Final = Dashboard(
    name="ranks",
    title="telemetry / Ranks",
    question="Which rank is slow, silent, or different from the others?",
    variables=(
        AXIS,
        Variable(name="work", label="Work", query=_RANKED, order="descending"),
        Variable(name="wait", label="Wait", query=_RANKED),
        Variable(
            name="metric",
            label="Metric of ranks",
            query='label_values({__name__!~"telemetry_.+|.+_bucket",RUN,rank!=""}, __name__)',
        ),
    ),
    rows=(
        Row(
            "Stragglers",
            (
                TimeSeries(
                    title="Work of each rank",
                    question="Which rank works longer than the others?",
                    targets=(Target(_values("work"), "rank {{rank}}"),),
                    unit="s",
                ),
                TimeSeries(
                    title="Wait of each rank",
                    question="Which rank waits least? The others wait for it.",
                    targets=(Target(_values("wait"), "rank {{rank}}"),),
                    unit="s",
                ),
                TimeSeries(
                    title="Lag of each rank",
                    question="How much less than the median rank does each one wait? A slow rank stays on top.",
                    targets=(Target(_LAG, "rank {{rank}}"),),
                    unit="s",
                    least=None,
                ),
                Table(
                    title="Means of the time range",
                    question="Who works longest and waits least? The report says which rank is slow beyond chance.",
                    targets=(Target(_mean("work"), "Work"), Target(_mean("wait"), "Wait")),
                    labels={"rank": "Rank"},
                    unit="s",
                    units={"Rank": "none"},
                    sort_by="Work",
                ),
            ),
        ),
        Row(
            "What each rank records",
            (
                TimeSeries(
                    title="Events per second",
                    question="Does a rank stop recording?",
                    targets=(Target(f"sum by (rank) (rate({_RECEIVED}[$__rate_interval]))", "rank {{rank}}"),),
                    unit="cps",
                    width=8,
                ),
                TimeSeries(
                    title="Lag of events",
                    question="Which rank's events arrive late?",
                    targets=(
                        Target('max by (rank) (telemetry_producer_lag_seconds{RUN,rank!=""})', "rank {{rank}}"),
                    ),
                    unit="s",
                    width=8,
                ),
                TimeSeries(
                    title="Lost events",
                    question="Which rank's numbers have gaps?",
                    targets=(Target('max by (rank) (telemetry_producer_lost{RUN,rank!=""})', "rank {{rank}}"),),
                    width=8,
                ),
            ),
        ),
        Row(
            "Metrics with the label rank",
            (
                TimeSeries(
                    title="$metric",
                    question="Which rank differs from the others?",
                    targets=(Target('{__name__="$metric",RUN,rank!=""}', "rank {{rank}}"),),
                    least=None,
                    width=24,
                ),
            ),
        ),
    ),
)

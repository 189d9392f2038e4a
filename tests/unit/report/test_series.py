"""Series beside their bounds."""

from __future__ import annotations

import pytest

from telemetry.report.series import between, machine, percentile_words, series
from telemetry.wire.report import Bounds, Report, SeriesBounds
from telemetry.wire.snapshot import GaugeStat, MetricsSnapshot, NodeSpread, SeriesStat

LATENCY = SeriesStat(
    name="latency",
    labels={"b": "2", "a": "1"},
    unit="ms",
    count=500,
    percentiles={"50": 1.5, "99.9": 9.0, "100": 9.5},
)
KNOWN = {"50": Bounds(low=1.4, high=1.6, beyond=250), "99.9": Bounds(low=8.0, beyond=0), "100": Bounds()}


def report(*bounds: SeriesBounds) -> Report:
    return Report(
        snapshot=MetricsSnapshot(run_id="r", name="n", series=[LATENCY]), source="file", bounds=list(bounds)
    )


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (1.8, 1.97, "1.80–1.97 ms"),
        (0.95, 1.02, "950 µs–1.02 ms"),
        (1.8, None, "≥ 1.80 ms"),
        (None, 1.97, "≤ 1.97 ms"),
        (None, None, "–"),
        (125_000.0, 126_000.0, "2 min 5 s–2 min 6 s"),
    ],
)
def test_bounds_in_words(low: float | None, high: float | None, said: str) -> None:
    """The unit stands once where it is the same."""
    assert between(Bounds(low=low, high=high), "ms") == said


def test_bounds_stand_beside_their_percentile() -> None:
    """The column of bounds follows its percentile, whatever the order of labels.

    A percentile of too few values has a mark that is explained.
    """
    section = series(report(SeriesBounds(name="latency", labels={"a": "1", "b": "2"}, percentiles=KNOWN)))
    assert section.table is not None
    titles = [column.title for column in section.table.columns]
    row = dict(zip(titles, section.table.rows[0], strict=True))
    assert titles[titles.index("p50") + 1] == "95 % bounds"
    assert section.table.rows[0][titles.index("p50") + 1] == "1.40–1.60 ms"
    assert row["p99.9"] == "*9.00 ms"
    assert row["p100"] == "9.50 ms"
    assert section.notes == ["* rests on too few values for 95 % confidence bounds"]


def test_without_bounds_there_is_no_column_and_no_mark() -> None:
    """A live run has none."""
    section = series(report())
    assert section.table is not None
    assert "95 % bounds" not in [column.title for column in section.table.columns]
    assert section.notes == []


def test_a_value_that_is_not_there_is_not_marked() -> None:
    """A missing value has no mark, and p100 has none, because the highest value needs no bounds."""
    none = SeriesStat(name="s")
    nothing = Report(
        snapshot=MetricsSnapshot(run_id="r", name="n", series=[none]),
        source="file",
        bounds=[SeriesBounds(name="s", percentiles={"99": Bounds()})],
    )
    assert percentile_words(nothing, none, "99") == "–"
    whole = report(SeriesBounds(name="latency", labels=LATENCY.labels, percentiles=dict.fromkeys(KNOWN, Bounds())))
    assert [percentile_words(whole, LATENCY, key) for key in KNOWN] == ["*1.50 ms", "*9.00 ms", "9.50 ms"]


def test_a_gauge_of_all_nodes_stands_for_those_of_single_nodes() -> None:
    """Its row has the median, and the nodes with the least and the greatest value."""
    spread = NodeSpread(nodes=20, least=3.0, least_node="n7", greatest=98.0, greatest_node="n37")
    of_all = GaugeStat(
        name="host.cpu", labels={"node": "all"}, unit="%", value=50.0, min=1.0, max=99.0, over_nodes=spread
    )
    of_one = GaugeStat(name="host.cpu", labels={"node": "n7"}, unit="%", value=3.0, min=1.0, max=9.0)
    section = machine(MetricsSnapshot(run_id="r", name="n", gauges=[of_one, of_all]))
    assert section.table is not None
    assert section.table.rows == [["host.cpu{node=all} [%]", "50", "1", "99", "3 n7", "98 n37"]]

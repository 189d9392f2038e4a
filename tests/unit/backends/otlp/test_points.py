"""Items as points of metrics."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.backends.reading_otlp import Got, points

from telemetry.backends.items import CounterReading, GaugeReading, Params, Reading, SeriesReading, Step
from telemetry.backends.otlp.messages import Points, metrics_request, ucum
from telemetry.wire.events import Spread

START_NS = 1_790_000_000_000_000_000
SERIES = SeriesReading(
    name="latency",
    labels={"route": "/a", "percentile": "odd"},
    unit="ms",
    count=8,
    total=28.0,
    min=0.0,
    max=9.5,
    percentiles={"50": 3.0, "99.9": 9.5},
    cells=[(0.0, 1.0, 1), (1.0, 2.0, 3), (8.0, 16.0, 4)],
)


def sent(folder: Path, items: Sequence[Step | Reading | Params], *, spread: bool = False) -> list[Got]:
    made = Points(START_NS, spread=spread)
    request = metrics_request([point for item in items for point in made.of(item)], {"service.name": "x"})
    (folder / "0.metrics.pb").write_bytes(request.SerializeToString())
    return list(points(folder))


def reading(*, final: bool = False) -> Reading:
    return Reading(
        key="t1",
        time_ns=START_NS + 30_000_000_000,
        elapsed_s=30.0,
        seconds=10.0,
        series=[SERIES, SeriesReading(name="idle")],
        counters=[CounterReading(name="read", unit="KiB", value=5.0, rate=0.5)],
        gauges=[GaugeReading(name="depth", labels={"a": "b"}, value=-2.5)],
        final=final,
    )


def test_a_step_is_a_gauge_at_its_own_time(tmp_path: Path) -> None:
    """One for each name, with axis and step beside it; no number is NaN, and what was the spread on demand."""
    item = Step(
        key="r1",
        time_ns=START_NS + 7,
        axis="train",
        step=-3,
        values={"loss": 0.5, "λ": math.nan},
        spread={"loss": Spread(2, 0.25, 0.75, 0.5, "a", "b")},
    )
    loss, odd = sent(tmp_path, [item])
    assert (loss.scope, loss.name, loss.kind, loss.time_ns) == ("telemetry.steps", "loss", "gauge", START_NS + 7)
    assert (loss.labels, loss.value) == ({"axis": "train", "step": -3}, 0.5)
    assert math.isnan(odd.value)
    found = {got.name: got.value for got in sent(tmp_path, [item], spread=True)}
    assert (found["loss/min"], found["loss/max"]) == (0.25, 0.75)


def test_a_reading_is_about_its_own_seconds(tmp_path: Path) -> None:
    """Series as differences, counters since the start."""
    found = {(got.scope, got.name, got.labels.get("percentile")): got for got in sent(tmp_path, [reading()])}
    latency = found["telemetry.readings", "latency", "odd"]
    assert (latency.kind, latency.unit) == ("exponential_histogram", "ms")
    assert (latency.time_ns - latency.start_ns, latency.time_ns - START_NS) == (10**10, 3 * 10**10)
    data = latency.data
    assert (data.count, data.sum, data.min, data.max, data.zero_count, data.scale) == (8, 28.0, 0.0, 9.5, 1, 3)
    below_2 = sum(data.positive.bucket_counts[: 8 - data.positive.offset])
    assert (below_2, sum(data.positive.bucket_counts)) == (3, 7)
    read = found["telemetry.readings", "read", None]
    assert (read.kind, read.unit, read.value, read.start_ns) == ("sum", "KiBy", 5.0, START_NS)
    assert found["telemetry.readings", "depth", None].value == -2.5
    assert found["telemetry.readings", "idle", None].data.count == 0
    percentiles = [got for got in found.values() if got.scope == "telemetry.percentiles"]
    assert [(got.name, got.value) for got in percentiles] == [("latency", 9.5)]
    assert percentiles[0].labels["telemetry.percentile"] == "99.9"


def test_temporality_is_told() -> None:
    """Histograms of some seconds are differences; those of the result, and counters, are not."""
    request = metrics_request(Points(START_NS, spread=False).of(reading()), {})
    final = metrics_request(Points(START_NS, spread=False).of(reading(final=True)), {})
    for message, wanted in ((request, {"delta": 1, "sum": 2}), (final, {"delta": 2, "sum": 2})):
        metrics = [metric for scope in message.resource_metrics[0].scope_metrics for metric in scope.metrics]
        (histogram, *_) = [metric for metric in metrics if metric.HasField("exponential_histogram")]
        (counter,) = [metric for metric in metrics if metric.HasField("sum")]
        assert histogram.exponential_histogram.aggregation_temporality == wanted["delta"]
        assert counter.sum.aggregation_temporality == wanted["sum"]
        assert counter.sum.is_monotonic


def test_the_result_is_apart(tmp_path: Path) -> None:
    """The result has names and a scope of its own, and goes from the run's start on."""
    found = sent(tmp_path, [reading(final=True)])
    assert all(got.name.startswith("final/") for got in found)
    assert {got.scope for got in found} == {"telemetry.result", "telemetry.percentiles"}
    assert {got.start_ns for got in found if got.kind == "exponential_histogram"} == {START_NS}


def test_settings_keep_their_words(tmp_path: Path) -> None:
    """Numbers also as numbers."""
    values = {"lr": 0.25, "big": 10**400, "opt": "adam", "warm": True, "none": None}
    found = {
        got.name: (got.value, got.labels["value"])
        for got in sent(tmp_path, [Params(key="p", time_ns=1, values=values)])
    }
    assert found == {
        "lr": (0.25, "0.25"),
        "big": (math.inf, str(10**400)),
        "opt": (1.0, "adam"),
        "warm": (1.0, "True"),
        "none": (1.0, "null"),
    }


def test_points_of_one_metric_are_together() -> None:
    """However many items they come from."""
    made = Points(START_NS, spread=False)
    steps = [Step(key=f"r{n}", time_ns=n, axis="a", step=n, values={"x": 1.0, "y": 2.0}) for n in range(3)]
    request = metrics_request([point for item in steps for point in made.of(item)], {})
    ((scope,),) = [group.scope_metrics for group in request.resource_metrics]
    assert [(metric.name, len(metric.gauge.data_points)) for metric in scope.metrics] == [("x", 3), ("y", 3)]


@pytest.mark.parametrize(
    ("unit", "wanted"),
    [
        ("", ""),
        ("ms", "ms"),
        ("µs", "us"),
        ("bytes", "By"),
        ("GiB", "GiBy"),
        ("tokens", "{tokens}"),
        ("a{b}", "{a(b)}"),
    ],
)
def test_units_are_those_of_ucum(unit: str, wanted: str) -> None:
    """One that nobody knows is a word in braces."""
    assert ucum(unit) == wanted

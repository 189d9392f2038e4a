"""What is compared of a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from telemetry.comparison.figures import Figure, Reading, duration_s, needed, readings
from telemetry.errors import UsageError
from telemetry.wire.report import Report, Stretch
from telemetry.wire.snapshot import CounterStat


def test_all_figures_of_a_run(run: Callable[..., Report]) -> None:
    """Percentiles, mean and rate of a series, value and rate of a counter, both times of the command."""
    found = {(f.of, f.name, f.statistic): reading for f, reading in readings(run(10.0)).items()}
    assert found == {
        ("series", "latency", "p50"): Reading(10.0, "ms", 1_000),
        ("series", "latency", "p90"): Reading(15.0, "ms", 1_000),
        ("series", "latency", "p99"): Reading(20.0, "ms", 1_000),
        ("series", "latency", "p99.9"): Reading(None, "ms", 1_000),
        ("series", "latency", "mean"): Reading(11.0, "ms", 1_000),
        ("series", "latency", "rate"): Reading(100.0, "1", 1_000),
        ("counter", "requests", "value"): Reading(1_000.0, "", 1_000),
        ("counter", "requests", "rate"): Reading(100.0, "", 1_000),
        ("command", "", "wall"): Reading(10.0, "s", 1),
        ("command", "", "cpu"): Reading(1.0, "s", 1),
    }


def test_labels_tell_series_apart_in_any_order(run: Callable[..., Report], series: Callable[..., Any]) -> None:
    """Sorted, so that two runs that name them in another order agree."""
    one = readings(run(series=[series("s", 1.0, labels={"b": "1", "a": "2"})]))
    two = readings(run(series=[series("s", 2.0, labels={"a": "2", "b": "1"}), series("s", 3.0)]))
    figure = Figure("series", "s", (("a", "2"), ("b", "1")), "p50")
    assert (one[figure].value, two[figure].value) == (1.0, 2.0)


@pytest.mark.parametrize(
    ("statistic", "least"), [("p50", 6), ("p90", 36), ("p99", 368), ("p99.9", 3_688), ("mean", 1)]
)
def test_a_percentile_needs_values(
    run: Callable[..., Report], series: Callable[..., Any], statistic: str, least: int
) -> None:
    """From where it has bounds on both sides; one value less is too few."""
    figure = Figure("series", "s", (), statistic)
    assert needed(statistic) == least
    assert readings(run(series=[series("s", 1.0, count=least)]))[figure].value is not None
    if least > 1:
        assert readings(run(series=[series("s", 1.0, count=least - 1)]))[figure].value is None


def test_the_highest_value_is_not_compared() -> None:
    """It has no bounds, however many values there are."""
    with pytest.raises(UsageError, match="p100 can't be compared"):
        needed("p100")


def test_what_is_not_there_is_not_a_figure(run: Callable[..., Report], series: Callable[..., Any]) -> None:
    """A series without values, a run without a command or a duration."""
    report = run(series=[series("s", 1.0, count=0)], command=None, elapsed_s=0.0, counters=[CounterStat(name="c")])
    assert [(f.name, f.statistic) for f in readings(report)] == [("c", "value"), ("s", "rate")][:1]


def test_of_a_part_of_a_run(run: Callable[..., Report]) -> None:
    """Rates are over its length, and the command's time is not of it."""
    part = replace(run(), stretch=Stretch(start_s=2.0, end_s=7.0, chosen="given"))
    assert duration_s(part) == 5.0
    found = readings(part)
    assert found[Figure("counter", "requests", (), "rate")].value == 200.0
    assert not [figure for figure in found if figure.of == "command"]

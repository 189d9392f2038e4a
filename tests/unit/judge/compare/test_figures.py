"""Tests of what is compared of a run."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from telemetry.errors import UsageError
from telemetry.history.rates import Paces
from telemetry.history.request_model import request_counts
from telemetry.judge.compare.figures import FigureKey, FigureValue, duration_s, needed, readings
from telemetry.wire import requests as words
from telemetry.wire.pictures import StepCurve
from telemetry.wire.report import Report, TimeRange
from telemetry.wire.snapshot import AxisStat, CounterStat, Extent, SeriesStat


def test_all_figures_of_a_run(run: Callable[..., Report]) -> None:
    """Percentiles, mean and rate of a series, value and rate of a counter, both times of the command."""
    found = {(f.of, f.name, f.statistic): reading for f, reading in readings(run(10.0)).items()}
    assert found == {
        ("series", "latency", "p50"): FigureValue(10.0, "ms", 1_000),
        ("series", "latency", "p90"): FigureValue(15.0, "ms", 1_000),
        ("series", "latency", "p99"): FigureValue(20.0, "ms", 1_000),
        ("series", "latency", "p99.9"): FigureValue(None, "ms", 1_000),
        ("series", "latency", "mean"): FigureValue(11.0, "ms", 1_000),
        ("series", "latency", "rate"): FigureValue(100.0, "1", 1_000),
        ("counter", "requests", "value"): FigureValue(1_000.0, "", 1_000),
        ("counter", "requests", "rate"): FigureValue(100.0, "", 1_000),
        ("command", "", "wall"): FigureValue(10.0, "s", 1),
        ("command", "", "cpu"): FigureValue(1.0, "s", 1),
    }


def test_labels_tell_series_apart_in_any_order(run: Callable[..., Report], series: Callable[..., Any]) -> None:
    """Sorted, so that two runs that name them in another order agree."""
    one = readings(run(series=[series("s", 1.0, labels={"b": "1", "a": "2"})]))
    two = readings(run(series=[series("s", 2.0, labels={"a": "2", "b": "1"}), series("s", 3.0)]))
    figure = FigureKey("series", "s", (("a", "2"), ("b", "1")), "p50")
    assert (one[figure].value, two[figure].value) == (1.0, 2.0)


@pytest.mark.parametrize(
    ("statistic", "least"), [("p50", 6), ("p90", 36), ("p99", 368), ("p99.9", 3_688), ("mean", 1)]
)
def test_a_percentile_needs_values(
    run: Callable[..., Report], series: Callable[..., Any], statistic: str, least: int
) -> None:
    """A percentile has a value only from the number of values on that bounds it on both sides."""
    figure = FigureKey("series", "s", (), statistic)
    assert needed(statistic) == least
    assert readings(run(series=[series("s", 1.0, count=least)]))[figure].value is not None
    if least > 1:
        assert readings(run(series=[series("s", 1.0, count=least - 1)]))[figure].value is None


def test_the_highest_value_is_not_compared() -> None:
    """The highest value is not compared: it has no bounds, however many values there are."""
    with pytest.raises(UsageError, match="p100 can't be compared"):
        needed("p100")


def test_what_is_not_there_is_not_a_figure(run: Callable[..., Report], series: Callable[..., Any]) -> None:
    """A series without values, a run without a command or a duration."""
    report = run(series=[series("s", 1.0, count=0)], command=None, elapsed_s=0.0, counters=[CounterStat(name="c")])
    assert [(f.name, f.statistic) for f in readings(report)] == [("c", "value"), ("s", "rate")][:1]


def test_of_a_part_of_a_run(run: Callable[..., Report]) -> None:
    """Rates are over its length, and the command's time is not of it."""
    part = replace(run(), time_range=TimeRange(start_s=2.0, end_s=7.0, chosen="given"))
    assert duration_s(part) == 5.0
    found = readings(part)
    assert found[FigureKey("counter", "requests", (), "rate")].value == 200.0
    assert not [figure for figure in found if figure.of == "command"]


def requests(kind: str = "llm", span_s: float = 4.0, **labels: str) -> tuple[list[CounterStat], list[SeriesStat]]:
    """All instruments of a kind in one window: 12 requests issued, 10 completed with 70 tokens in all."""
    counts = {words.ISSUED: 12, words.COMPLETED: 10, words.FAILED: 2}
    counters = [
        CounterStat(name=words.name_of(kind, word), labels=labels, unit=unit, value=counts.get(word, 0))
        for word, (of, unit) in words.INSTRUMENTS.items()
        if of == "counter"
    ]
    extent = Extent(first_ns=10**9, last_ns=3 * 10**9, end_ns=int((1 + span_s) * 1e9), inside=7, inside_total=50)
    series = [
        SeriesStat(
            name=words.name_of(kind, word),
            labels=labels | ({words.TURN: "1"} if word in (words.TURN_LATENCY, words.TURN_TTFT) else {}),
            unit=unit,
            count=10,
            total=70,
            mean=7.0,
            percentiles={"50": 7},
            extent=extent if word in words.WITHIN else None,
        )
        for word, (of, unit) in words.INSTRUMENTS.items()
        if of == "series"
    ]
    return counters, series


def rates_of(report: Report, **options: bool) -> dict[tuple[str, str], FigureValue]:
    """Return the rates of a report by name and window."""
    found = readings(report, **options).items()
    return {(f.name, dict(f.labels).get("window", "")): reading for f, reading in found if f.statistic == "rate"}


def test_requests_have_a_rate_of_requests_and_one_of_tokens(run: Callable[..., Report]) -> None:
    """Requests have a rate of requests and one of tokens over the time that they took.

    Other instruments of the kind have no rate.
    """
    counters, series = requests()
    found = rates_of(run(counters=counters, series=series))
    assert found == {
        ("llm.latency", ""): FigureValue(2.5, "requests", 10),
        ("llm.output_tokens", ""): FigureValue(17.5, "tokens", 10),
    }


def test_rates_of_requests_are_those_of_the_report(run: Callable[..., Report]) -> None:
    """Rates of requests equal those of the report to the last digit, for each kind, label and window.

    Requests outside of windows have a rate of their own.
    """
    parts = [
        requests(span_s=4.7),
        requests(span_s=3.1, window="warm-up"),
        requests(span_s=7.3, window="measured"),
        requests("chat", span_s=1.9, model="a"),
    ]
    counters = [stat for part in parts for stat in part[0]]
    report = run(counters=counters, series=[stat for part in parts for stat in part[1]])
    found = rates_of(report)
    expected = {
        (words.name_of(whole.kind, word), part.window or ""): rate
        for whole in request_counts(report.snapshot)
        for part in whole.windows or [whole]
        for word, rate in (
            (words.LATENCY, part.rates.overall.requests_per_s),
            (words.OUTPUT_TOKENS, part.rates.overall.tokens_per_s),
        )
    }
    assert len(expected) == 8
    assert {key: reading.value for key, reading in found.items()} == expected


def test_other_instruments_keep_their_rates_beside_requests(
    run: Callable[..., Report], series: Callable[..., Any]
) -> None:
    """Other instruments keep their rates, even with names like those of requests."""
    counters, of_requests = requests()
    others = [CounterStat(name="tool.completed", unit="requests", value=30, events=30)]
    report = run(counters=[*counters, *others], series=[*of_requests, series("tool.latency", 1.0, count=20)])
    found = rates_of(report)
    assert found["tool.latency", ""] == FigureValue(2.0, "1", 20)
    assert found["tool.completed", ""] == FigureValue(3.0, "requests", 30)


def test_rates_of_requests_that_nobody_knows(run: Callable[..., Report]) -> None:
    """Requests have no rate, instead of another one, in a part of a run and where none completed."""
    counters, series = requests()
    bare = [replace(stat, extent=None) for stat in series]
    assert rates_of(run(counters=counters, series=bare)) == {}
    empty = [replace(stat, count=0, extent=None, mean=None, percentiles={}) for stat in series]
    assert rates_of(run(counters=counters, series=empty)) == {}


def test_every_rate_for_gates(run: Callable[..., Report]) -> None:
    """Gates get a rate over the whole run for every instrument. A rate that comparisons have too is the same."""
    counters, series = requests()
    found = rates_of(run(counters=counters, series=series), every_rate=True)
    assert len(found) == len(words.INSTRUMENTS)
    assert found["llm.ttft", ""] == FigureValue(1.0, "1", 10)
    assert found["llm.issued", ""] == FigureValue(1.2, "requests", 0)
    assert found["llm.latency", ""] == FigureValue(2.5, "requests", 10)


def with_limits(good: int, window: str = "") -> list[CounterStat]:
    labels = {"window": window} if window else {}
    numbers = {"issued": 100, "completed": 90, "expired": 10, "good": good}
    counters = [
        CounterStat(name=f"llm.{word}", unit="requests", labels=labels, value=value, events=value)
        for word, value in numbers.items()
    ]
    met = CounterStat(name="llm.met", unit="requests", labels={**labels, "slo": "ttft"}, value=85, events=85)
    return [*counters, met]


def test_requests_with_limits_have_goodput_and_attainment(run: Callable[..., Report]) -> None:
    """Requests with limits have goodput and attainment of all limits and the attainment of each.

    The counters behind them are left out.
    """
    latency = SeriesStat(
        name="llm.latency", unit="ns", count=90, extent=Extent(first_ns=10**9, last_ns=9 * 10**9, end_ns=11 * 10**9)
    )
    found = readings(run(counters=with_limits(80), series=[latency], command=None))
    named = {(figure.name, figure.statistic): reading.value for figure, reading in found.items()}
    assert named["llm", "goodput"] == 8.0
    assert named["llm", "attainment"] == 0.8
    assert named["llm.ttft", "attainment"] == 0.85
    assert ("llm.good", "value") not in named
    assert ("llm.met", "value") not in named
    assert ("llm.completed", "value") in named
    windows = readings(run(counters=[*with_limits(80, "a"), *with_limits(70, "b")], series=[], command=None))
    shares = {figure.labels: reading.value for figure, reading in windows.items() if figure.name == "llm"}
    assert shares == {(("window", "a"),): 0.8, (("window", "b"),): 0.7}


def test_steps_have_their_last_and_best_values(run: Callable[..., Report]) -> None:
    """The best by the words of the name; a value that is not finite is no number."""
    axis = AxisStat(name="train", closed=7, values={"loss": 0.5, "acc": None, "lr": 0.1})
    curves = [
        StepCurve(axis="train", name="loss", count=7, min=0.25, max=2.0),
        StepCurve(axis="train", name="acc", count=7),
        StepCurve(axis="train", name="lr", count=7, min=0.1, max=0.2),
    ]
    report = replace(run(series=[], counters=[], command=None, axes=[axis]), curves=curves)
    found = {(figure.name, figure.statistic): reading.value for figure, reading in readings(report).items()}
    assert found["train", "steps"] == 7
    assert (found["loss", "last"], found["loss", "best"], found["lr", "last"]) == (0.5, 0.25, 0.1)
    assert ("lr", "best") not in found
    assert all(math.isnan(found["acc", word] or 0) for word in ("last", "best"))
    without = readings(replace(report, curves=[]))
    assert {figure.statistic for figure in without} == {"steps", "last"}


def test_an_axis_has_the_speed_of_its_steps(run: Callable[..., Report]) -> None:
    """The one of the report: 10 steps within 9 seconds of their distance. Without times there is none."""
    started_ns = 1_000_000_000
    axis = AxisStat(
        name="train", closed=10, lowest=1, highest=10, began_ns=2_000_000_000, ended_ns=11_000_000_000, open=0
    )
    report = run(series=[], counters=[], command=None, axes=[axis], started_ns=started_ns)
    found = {(figure.name, figure.statistic): reading.value for figure, reading in readings(report).items()}
    assert found["train", "rate"] == Paces(report.snapshot).steps_per_s("train") == pytest.approx(10 / 9)
    untimed = replace(axis, began_ns=0, ended_ns=0)
    assert {f.statistic for f in readings(run(series=[], counters=[], command=None, axes=[untimed]))} == {"steps"}


def test_words_of_earlier_versions_compare_with_those_of_today(run: Callable[..., Report]) -> None:
    """An old run has `chunk_gap`, a new one `itl`; other series keep their names."""
    issued = [CounterStat(name="llm.issued", unit="requests", value=9, events=9)]
    for name in ("llm.chunk_gap", "llm.itl"):
        series = [SeriesStat(name=one, unit="ns", count=9, mean=1.0) for one in (name, "other.chunk_gap")]
        names = {figure.name for figure in readings(run(counters=issued, series=series)) if figure.of == "series"}
        assert names == {"llm.itl", "other.chunk_gap"}

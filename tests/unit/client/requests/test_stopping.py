"""Tests of whether a percentile is known: the condition, the question, and the figures."""

from __future__ import annotations

import threading
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from telemetry.client.requests import stopping as module
from telemetry.client.requests.stopping import Condition, StatusQuery, condition, judge, parse, value_at
from telemetry.errors import UsageError
from telemetry.testing.aggregator import FakeAggregator
from telemetry.wire.cells import cell
from telemetry.wire.snapshot import MetricsSnapshot, SeriesStat


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("p99 known", Condition()),
        ("  p99.9   of ttft known ", Condition("99.9", "ttft")),
        ("p50 of latency_corrected known within 2.5%", Condition("50", "latency_corrected", within=0.025)),
        ("p99 known within 5 %", Condition(within=0.05)),
        ("p0.99 known", Condition("0.99")),
        ("p99 known at 95% confidence", Condition(confidence=0.95)),
        ("p99 known tolerating 0.1%", Condition(tolerance=0.001)),
        (
            "p90 of ttft known within 5% at 99.9 % confidence tolerating 1 %",
            Condition("90", "ttft", 0.999, 0.05, 0.01),
        ),
    ],
)
def test_conditions_are_read(text: str, expected: Condition) -> None:
    """Latency unless another series is named."""
    assert parse(text) == expected


@pytest.mark.parametrize(
    "text",
    ["", "p99", "known", "99 known", "p100 known", "p0 known", "p9.9.9 known", "p99 of nothing known",
     "p99 of turn.latency known", "p99 known within 0%", "p99 known within %", "p99 known at 100% confidence",
     "p99 known tolerating 99.5%", "p99 known and p50 known", 3, True],
)  # fmt: skip
def test_what_is_no_condition_is_refused(text: Any) -> None:
    """The error for an invalid condition hints at a valid one."""
    with pytest.raises(UsageError) as caught:
        parse(text)
    assert caught.value.hint


@pytest.mark.parametrize(
    "wrong",
    [{"percentile": "x"}, {"percentile": 100}, {"of": "issued"}, {"confidence": 1.0}, {"within": 0.0},
     {"within": 5}, {"within": float("inf")}, {"within": "5%"}, {"within": [1, 2]}, {"confidence": "0.99"},
     {"tolerance": -0.1}, {"tolerance": 0.999}, {"tolerance": "1%"},
     {"percentile": "p0"}, {"percentile": "pp9"}, {"percentile": None}],
)  # fmt: skip
def test_what_cannot_be_asked_is_refused(wrong: Any) -> None:
    """Numbers do as well as text."""
    good: dict[str, Any] = {"percentile": 99.9, "of": "ttft", "confidence": 0.95, "within": None}
    assert condition(**good).ratio == (999, 1000)
    with pytest.raises(UsageError):
        condition(**(good | wrong))


def test_numbers_of_any_type_are_taken() -> None:
    """Numbers of any type are taken, and the answers are plain numbers."""
    asked = condition(99, "latency", Decimal("0.95"), np.float64(0.05))
    assert (type(asked.confidence), type(asked.within)) == (float, float)
    known = judge(None, "llm", {}, asked)
    assert known.missing == judge(None, "llm", {}, condition(99, "latency", 0.95, 0.05)).missing


@pytest.mark.parametrize(("asked", "meant"), [(99, "99"), ("p99.9", "99.9"), (1, "1"), ("p0.99", "0.99")])
def test_a_percentile_may_be_written_as_in_a_gate(asked: object, meant: str) -> None:
    """A percentile may be written with a `p`, and then may also be below 1."""
    assert condition(asked, "latency", 0.99, None).percentile == meant


@pytest.mark.parametrize(
    ("asked", "meant"), [(0.99, "99"), ("0.999", "99.9"), (0.9999999, "99.99999"), (0.5, "50")]
)
def test_a_share_is_no_percentile(asked: object, meant: str) -> None:
    """A share would be one of the fastest percentiles.

    The error names the percentile that was meant, and how to ask for the fast one.
    """
    with pytest.raises(UsageError, match="is a share, not a percentile") as caught:
        condition(asked, "latency", 0.99, None)
    assert f'write {meant} or "p{meant}"' in caught.value.hint
    assert f'"p{asked}"' in caught.value.hint


def series(values: list[int], percentiles: tuple[int, ...] = ()) -> SeriesStat:
    """Return the series that a snapshot holds for sorted values."""
    cells: dict[int, int] = {}
    for value in values:
        cells[cell(value)] = cells.get(cell(value), 0) + 1
    return SeriesStat(
        name="llm.latency",
        unit="ns",
        count=len(values),
        min=values[0],
        max=values[-1],
        percentiles={str(p): values[-(-p * len(values) // 100) - 1] for p in percentiles},
        histogram=sorted(cells.items()),
        cell_unit=1.0,
    )


def snapshot(found: list[SeriesStat]) -> MetricsSnapshot:
    return MetricsSnapshot(run_id="r", name="n", epoch="e", seq=1, state="LIVE", series=found)


def test_a_value_lies_where_the_snapshot_puts_it() -> None:
    """The value of a given percentile is exact.

    Others lie between the two percentiles beside them and the edges of their cell.
    """
    values = sorted(1_000 + 7 * number for number in range(1_000))
    stat = series(values, (50, 90, 99))
    assert [value_at(stat, rank) for rank in (1, 500, 900, 990, 1_000)] == [1_000, 4_493, 7_293, 7_923, 7_993]
    for rank in (200, 700, 950, 995):
        assert values[rank - 1] / 1.2 <= value_at(stat, rank) <= 1.2 * values[rank - 1]
    assert 7_293 <= value_at(stat, 950) <= 7_923


def test_known_within_a_share_depends_on_the_spread() -> None:
    """A bound far above the value is a bound, but not near enough."""
    asked = Condition(within=0.05)
    steady = snapshot([series([100] * 700, (99,))])
    assert judge(steady, "llm", {}, asked).known
    wild = snapshot([series([100] * 693 + [150_000] * 7, (99,))])
    found = judge(wild, "llm", {}, asked)
    assert (found.known, found.value, found.bound) == (False, 100.0, 150_000.0)
    assert judge(wild, "llm", {}, Condition()).known


@pytest.mark.parametrize(
    ("percentile", "confidence", "tolerance", "needed"),
    [("99", 0.99, 0.0, 662), ("99", 0.95, 0.0, 473), ("99", 0.99, 0.01, 330), ("90", 0.99, 0.01, 58)],
)
def test_confidence_and_tolerance_say_how_many_samples_it_takes(
    percentile: str, confidence: float, tolerance: float, needed: int
) -> None:
    """`needed` is the least n with P(X <= 1) <= 1 - c, X binomial of n tries and the chance 1 - p + d."""
    chance = 1 - float(percentile) / 100 + tolerance

    def at_most_one(count: int) -> float:
        return (1 - chance) ** count + count * chance * (1 - chance) ** (count - 1)

    assert at_most_one(needed) <= 1 - confidence < at_most_one(needed - 1)
    asked = Condition(percentile, confidence=confidence, tolerance=tolerance)
    by_settings = Condition(percentile)
    for few in (needed - 1, needed):
        made = snapshot([series([100] * few, (int(percentile),))])
        found = judge(made, "llm", {}, asked)
        assert (found.needed, found.known) == (needed, few == needed)
        assert judge(made, "llm", {}, by_settings, confidence=confidence, tolerance=tolerance) == found


def test_a_tolerance_of_the_settings_is_for_the_median_and_above() -> None:
    """Below it nothing might be left."""
    assert judge(None, "llm", {}, Condition("1"), tolerance=0.1) == judge(None, "llm", {}, Condition("1"))


def test_the_settings_have_what_is_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The settings fill in what is not asked for, and are read once a run."""
    monkeypatch.setenv("TELEMETRY_EARLY_STOPPING__CONFIDENCE", "0.9")
    monkeypatch.setenv("TELEMETRY_EARLY_STOPPING__TOLERANCE", "0.01")
    asker = StatusQuery(lambda: "")
    assert (asker.rule.confidence, asker.rule.tolerance) == (0.9, 0.01)
    monkeypatch.setenv("TELEMETRY_EARLY_STOPPING__CONFIDENCE", "0.8")
    assert asker.rule.confidence == 0.9
    asker.forget()
    assert asker.rule.confidence == 0.8


def test_without_figures_nothing_is_known() -> None:
    """All samples are missing as long as there are no figures."""
    for figures in (None, snapshot([])):
        found = judge(figures, "llm", {}, Condition())
        assert (found.count, found.missing, found.known, found.value) == (0, 662, False, None)


def test_the_aggregator_is_asked_once_a_second(short_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often somebody wants to know, and again after the run is another."""
    now = [100.0]
    with FakeAggregator(short_dir) as aggregator:
        asker = StatusQuery(lambda: aggregator.endpoint)
        monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
        assert asker.ask() is asker.ask()
        assert len(aggregator.requests) == 1
        now[0] += 1.5
        assert asker.ask() is not None
        asker.forget()
        assert asker.ask() is not None
        assert len(aggregator.requests) == 3


def test_without_an_answer_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing endpoint or aggregator gives no answer, and the caller goes on."""
    monkeypatch.setattr(module, "_PATIENCE_S", 0.01)
    assert StatusQuery(lambda: "").ask() is None
    assert StatusQuery(lambda: "ipc:///nowhere/c").ask() is None


def test_nobody_waits_for_somebody_elses_question(monkeypatch: pytest.MonkeyPatch) -> None:
    """A caller doesn't wait while another one asks, and gets the answer from before that."""
    asking, answered = threading.Event(), threading.Event()
    asker = StatusQuery(lambda: "x")

    def answer() -> MetricsSnapshot:
        asking.set()
        answered.wait(10.0)
        return snapshot([])

    monkeypatch.setattr(asker, "_answer", answer)
    first = threading.Thread(target=asker.ask)
    first.start()
    assert asking.wait(10.0)
    assert asker.ask() is None
    answered.set()
    first.join()
    assert asker.ask() is not None


def test_an_answer_that_comes_after_another_run_began_is_not_its(monkeypatch: pytest.MonkeyPatch) -> None:
    """A caller that asked about the old run gets no answer and no exception. The new run is asked at once."""
    asker = StatusQuery(lambda: "x")

    def answer() -> MetricsSnapshot:
        asker.forget()
        return snapshot([])

    monkeypatch.setattr(asker, "_answer", answer)
    assert asker.ask() is None
    new = snapshot([])
    monkeypatch.setattr(asker, "_answer", lambda: new)
    assert asker.ask() is new

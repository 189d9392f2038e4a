"""Tests of the upper bounds of percentiles by the values of the sample that early stopping names."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace
from tests.unit.history.runs import Making, Row
from tests.unit.history.test_bounds import stat

from telemetry.errors import UsageError
from telemetry.history import early_stopping as early
from telemetry.history.early_stopping import early_ranks, early_stops
from telemetry.history.run import RecordedRun
from telemetry.report import render
from telemetry.statistics.early_stopping import bound_rank, samples_needed
from telemetry.statistics.hdr.percentiles import Ratio
from telemetry.wire.cells import cell, edge
from telemetry.wire.events import Define
from telemetry.wire.report import EarlyRule, EarlyStop

KEYS = ("10", "50", "90", "99", "100")
DEFINITIONS = (
    Define(0, "llm.issued", "counter", "requests"),
    Define(1, "llm.completed", "counter", "requests"),
    Define(2, "llm.latency", "series", "ns"),
    *(Define(10 + number, f"other{number}", "series", "ns") for number in range(30)),
)


def recorded(folder: Path, values: list[int]) -> RecordedRun:
    """A run of requests that took so long, in three seconds, among other series."""
    seconds: list[list[Row]] = [[], [], []]
    for number, value in enumerate(values):
        seconds[number % 3] += [(0, 1), (1, 1), (2, value), *((10 + other, value + other) for other in range(30))]
    return Making(folder, DEFINITIONS, KEYS).run(seconds)


@pytest.mark.parametrize("pages", [False, True])
def test_bounds_are_of_the_bucket_that_holds_the_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pages: bool
) -> None:
    """The history has it to three digits, also where so much was added up that pages nobody asks for are one."""
    if pages:
        monkeypatch.setattr("telemetry.history.interval_sums._PENDING_SLOTS", 0)
    values = [int(1_000 * 1.02**number) for number in range(700)]
    (figures,) = recorded(tmp_path, values).report().requests
    stops = figures.early_stopping["latency"]
    assert list(stops) == ["50", "90", "99"]
    for key, ratio in (("50", (1, 2)), ("90", (9, 10)), ("99", (99, 100))):
        rank = bound_rank(ratio, 700)
        assert rank is not None
        sample, bound = sorted(values)[rank - 1], stops[key].bound
        assert bound is not None
        assert sample <= bound <= sample * 1.001
        assert (stops[key].needed, stops[key].missing) == (samples_needed(ratio), 0)


def test_what_is_missing(tmp_path: Path) -> None:
    """Too few samples have no bound, and it is said how many more there should be."""
    (figures,) = recorded(tmp_path, [5] * 70).report().requests
    assert figures.early_stopping["latency"] == {
        "50": EarlyStop(bound=5.0, needed=11),
        "90": EarlyStop(bound=5.0, needed=64),
        "99": EarlyStop(bound=None, needed=662, missing=592),
    }


def test_a_history_that_lacks_values_is_no_source(tmp_path: Path) -> None:
    """The sample may be among those it lacks; the cells of the result have all of them."""
    seconds: list[list[Row] | None] = [[(2, 1_000 + number) for number in range(50)], [(2, 9_000)] * 50]
    rows = [[(0, 100), (1, 100), *(second or ())] for second in seconds]
    whole = Making(tmp_path / "whole", DEFINITIONS, KEYS).run(rows)
    with_gap = Making(tmp_path / "gap", DEFINITIONS, KEYS).run(rows)
    snapshot = with_gap.result.snapshot
    early = {one.name: one for one in snapshot.series}["llm.latency"]
    more = replace(early, count=150, histogram=[*early.histogram, (60, 50)], max=40_000)
    result = replace(with_gap.result, snapshot=replace(snapshot, series=[more]))
    (figures,) = RecordedRun(result, with_gap.directory).report().requests
    assert figures.early_stopping["latency"]["90"].bound == 40_000
    (figures,) = whole.report().requests
    assert figures.early_stopping["latency"]["90"].bound == 9_000


@pytest.mark.parametrize(("confidence", "tolerance"), [(0.99, 0.0), (0.9, 0.0), (0.99, 0.02), (0.999, 0.05)])
def test_the_bound_is_by_confidence_and_tolerance(tmp_path: Path, confidence: float, tolerance: float) -> None:
    """The t-th largest sample, t the most with P(X <= t) <= 1 - c; X is binomial: n tries, chance 1 - p + d."""
    count, percentile = 300, 0.9
    chance = 1 - percentile + tolerance
    below, above = 0.0, -1
    while below <= 1 - confidence:
        above += 1
        below += math.comb(count, above) * chance**above * (1 - chance) ** (count - above)
    expected = float(count - (above - 1) + 1)
    run = recorded(tmp_path, list(range(1, count + 1)))
    ruled = replace(run.result, early_rule=EarlyRule(confidence=confidence, tolerance=tolerance))
    (figures,) = RecordedRun(ruled, run.directory).report().requests
    assert (figures.confidence, figures.tolerance) == (confidence, tolerance)
    assert figures.early_stopping["latency"]["90"].bound == expected
    text = render(RecordedRun(ruled, run.directory).report(), full=True)
    said = f"and a tolerance of {tolerance * 100:g}" if tolerance else f"with {confidence * 100:g}"
    assert said in text


@pytest.mark.parametrize(
    "wrong", [{"confidence": 1.0}, {"confidence": 0.0}, {"tolerance": 0.5}, {"tolerance": -1.0}]
)
def test_what_is_no_rule_is_refused(wrong: dict[str, float]) -> None:
    """The error for a wrong rule has a hint at a right one."""
    with pytest.raises(UsageError) as caught:
        EarlyRule(**wrong)
    assert caught.value.hint


def test_without_history_bounds_are_of_cells() -> None:
    """The upper edge of the cell that holds the sample; the maximum where that is it."""
    values = list(range(1_000, 2_000))
    stops = early_stops(stat(values, percentiles={"50": 1, "99": 1}))
    rank = bound_rank((1, 2), 1_000)
    assert rank is not None
    assert stops["50"].bound == edge(cell(values[rank - 1]) + 1)
    few = early_stops(stat([7, 8, 9] * 4, percentiles={"50": 8}))
    assert few["50"].bound == 9
    assert early_stops(stat(values, percentiles={"50": 1}, histogram=[]))["50"] == EarlyStop(needed=11)


@pytest.mark.parametrize("key", ["10", "100", "x", "1e9"])
def test_others_than_limits_are_set_on_have_none(key: str) -> None:
    """Percentiles below the median, the maximum, and what is no percentile."""
    assert early_stops(stat([1] * 100, percentiles={key: 1})) == {}


def test_only_requests_cost_pages(tmp_path: Path) -> None:
    """Rows of other series ask for rank 1, which is in their first page."""
    run = recorded(tmp_path, [5, 6] * 400)
    gathered = run._gathered(0, 1 << 62, 3.0, 1.0)
    rows = gathered.part.rows
    counts = np.full(len(rows), 800, dtype=np.int64)
    asked = early_ranks(counts, KEYS, rows, [("llm.latency", ()), ("unknown", ())])
    own = rows.place["llm.latency", ()]
    assert asked[own].tolist() == [bound_rank(ratio, 800) for ratio in ((1, 2), (9, 10), (99, 100))]
    assert np.delete(asked, own, axis=0).max() == 1
    assert early_ranks(counts, KEYS, rows, []).shape == (len(rows), 0)


def test_more_samples_than_any_run_has_cost_no_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranks are not counted for the number in a file, neither for its sums nor for its figures."""

    def never(ratio: Ratio, count: int) -> int | None:
        raise AssertionError(count)

    rows = recorded(tmp_path, [5, 6] * 400)._gathered(0, 1 << 62, 3.0, 1.0).part.rows
    monkeypatch.setattr(early, "bound_rank", never)
    counts = np.full(len(rows), 10**15, dtype=np.int64)
    assert early_ranks(counts, KEYS, rows, [("llm.latency", ())]).max() == 1
    assert early_stops(replace(stat([1] * 100), count=10**15)) == {}

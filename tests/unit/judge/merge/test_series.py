"""Series added up: where from, how far off, and when not."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.unit.judge.merge.conftest import LATENCY, Made, MakeRun

from telemetry.errors import UsageError
from telemetry.judge.merge import gather
from telemetry.judge.merge.history import add_histories
from telemetry.judge.merge.run import merged_series, percentiles_of
from telemetry.wire.events import Define
from telemetry.wire.snapshot import Extent, SeriesStat, WindowStat


@pytest.fixture
def merged(tmp_path: Path) -> object:
    """`merged(runs, coarse=False)` → (series, warnings)."""

    def add(runs: list[Made], *, coarse: bool = False) -> tuple[list[SeriesStat], list[str]]:
        inputs = gather(runs)
        percentiles = percentiles_of(inputs)
        added = add_histories(inputs, tmp_path / f"h{len(list(tmp_path.iterdir()))}", percentiles)
        return merged_series(inputs, added, percentiles, coarse=coarse)

    return add


def test_histograms_are_added_and_not_percentiles(make_run: MakeRun, merged: object) -> None:
    """The median of all values is not the mean of the medians; the bound is that of the digits."""
    runs = [make_run("a", {0: [1.0] * 9}), make_run("b", {0: [100.0, 200.0, 300.0]})]
    ((stat,), warnings) = merged(runs)  # type: ignore[operator]
    assert warnings == []
    assert (stat.count, stat.total, stat.min, stat.max, stat.mean) == (12, 609, 1, 300, 50.75)
    assert stat.percentiles["50"] == pytest.approx(1.0, rel=1e-3)
    assert stat.percentiles["99"] == 300
    assert (stat.exact, stat.error_bound, stat.resolution, stat.window) == (False, 0.001, 1e-6, WindowStat())


def test_what_one_run_has_stays_exact(make_run: MakeRun, merged: object) -> None:
    """A series without values in any other run is taken as it is, order statistics and all."""
    one, result = make_run("a", {0: [1.0, 2.0]})
    known = replace(result.series[0], exact=True, error_bound=0.0, percentiles={"50": 1})
    ((stat,), _) = merged([(one, replace(result, series=[known])), make_run("b", {1: [1]})])  # type: ignore[operator]
    assert stat == replace(known, window=WindowStat())


@pytest.mark.parametrize("history", [True, False])
def test_a_history_that_lacks_values_is_refused(make_run: MakeRun, merged: object, history: bool) -> None:
    """Percentiles of fewer values than there were would pass for exact; the hint says what there is instead."""
    one, (two, result) = make_run("a", {0: [1.0]}), make_run("b", {0: [2.0]}, history=history)
    longer = replace(result, series=[replace(result.series[0], count=1_201)])
    words = "the history of run b has 1 of 1,201 values" if history else "run b has no history"
    with pytest.raises(UsageError, match=f"can't add the histograms of 'latency' exactly: {words}") as error:
        merged([one, (two, longer)])  # type: ignore[operator]
    assert "--coarse" in error.value.hint


def test_a_history_of_more_values_is_refused(make_run: MakeRun, merged: object) -> None:
    """A result that is older than the history is not its result."""
    one, (two, result) = make_run("a", {0: [1.0]}), make_run("b", {0: [2.0, 3.0]})
    shorter = replace(result, series=[replace(result.series[0], count=1)])
    with pytest.raises(UsageError, match="the history of run b does not match its result"):
        merged([one, (two, shorter)])  # type: ignore[operator]


def test_display_histograms_stand_in(make_run: MakeRun, merged: object) -> None:
    """Display histograms stand in on request, within the stated bound.

    A warning names the run without a history.
    """
    low = [float(value) for value in range(1, 20)]
    high = [float(value) for value in range(20, 40)]
    runs = [make_run("a", {0: low}), make_run("b", {0: high}, history=False)]
    ((stat,), warnings) = merged(runs, coarse=True)  # type: ignore[operator]
    assert warnings == ["latency: run b has no history, so its percentiles are computed from display histograms"]
    assert stat.error_bound == pytest.approx(0.25, rel=0.01)
    for name, value in (("50", 20.0), ("99", 39.0)):
        assert value <= stat.percentiles[name] <= value * (1 + stat.error_bound)
    assert (stat.count, stat.total, stat.max) == (39, sum(range(40)), 39)
    assert sum(count for _, count in stat.histogram) == 39


def test_a_forged_display_histogram_is_no_error(make_run: MakeRun, merged: object) -> None:
    """Cells that can't be, and counts that don't fit, end in wrong numbers at worst."""
    one, (two, result) = make_run("a", {0: [1.0]}), make_run("b", {0: [2.0]}, history=False)
    forged = replace(result.series[0], histogram=[(-5, -9), (10**12, 1)], percentiles={"what": 1, "50": 2})
    ((stat,), _) = merged([one, (two, replace(result, series=[forged]))], coarse=True)  # type: ignore[operator]
    assert 1 <= stat.percentiles["50"] <= 2


def test_values_beyond_the_range_have_no_bound(make_run: MakeRun, merged: object) -> None:
    """The merged error has no bound if values of one run are beyond the range."""
    bounded = [Define(0, "latency", "series", "ms", high=10.0)]
    runs = [make_run("a", {0: [5.0, 20.0]}, definitions=bounded), make_run("b", {0: [5.0]}, definitions=bounded)]
    ((stat,), _) = merged(runs)  # type: ignore[operator]
    assert (stat.above, stat.error_bound) == (1, None)


def test_the_fewest_digits_count(make_run: MakeRun, merged: object) -> None:
    """Finer histograms can be made coarser, and the bound says so."""
    runs = [
        make_run("a", {0: [1234.0]}, definitions=[replace(LATENCY, digits=5)]),
        make_run("b", {0: [1240.0] * 5}, definitions=[replace(LATENCY, digits=2)]),
    ]
    ((stat,), _) = merged(runs)  # type: ignore[operator]
    assert (stat.digits, stat.error_bound, stat.percentiles["50"]) == (2, 0.01, 1240)


def test_extents_join_as_far_as_they_are_known(make_run: MakeRun, merged: object) -> None:
    """Extents join as far as they are known, and the number inside of all runs is not.

    A series of one run alone keeps its own extent.
    """
    known = Extent(first_ns=1, last_ns=5, last_done_ns=6, end_ns=7, inside=3)
    (one, first), (two, second) = (make_run(name, {0: [1.0]}) for name in "ab")
    found = [
        (run, replace(result, series=[replace(result.series[0], extent=extent)]))
        for run, result, extent in ((one, first, known), (two, second, replace(known, last_ns=9, last_done_ns=12)))
    ]
    ((stat,), _) = merged(found)  # type: ignore[operator]
    assert stat.extent == Extent(first_ns=1, last_done_ns=12, end_ns=7)
    nothing = make_run("c", {1: [1.0]})
    ((stat,), _) = merged([found[0], nothing])  # type: ignore[operator]
    assert stat.extent == known


def test_percentiles_of_all_runs_are_asked_for(make_run: MakeRun) -> None:
    """Ascending; what is no percentile is passed over."""
    (one, first), two = make_run("a", {0: [1.0]}), make_run("b", {0: [1.0]})
    keys = {"99.9": 1, "5": 1, "what": 1, "100": 1}
    inputs = gather([(one, replace(first, series=[replace(first.series[0], percentiles=keys)])), two])
    assert percentiles_of(inputs) == ["5", "50", "99", "99.9", "100"]

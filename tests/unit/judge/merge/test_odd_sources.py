"""Tests of which source differs from the others."""

from __future__ import annotations

import pytest
from tests.unit.judge.merge.conftest import MakeRun

from telemetry.judge.merge import gather
from telemetry.judge.merge.run import compared, sources_of
from telemetry.wire.sources import SourceSeries, SourceStat

FORGED = (10**400, 10, 20)


def tails(make_run: MakeRun, *values: float) -> list[tuple[float | None, bool]]:
    """(p99 over that of the others, odd) of runs that recorded one value each."""
    runs = [make_run(f"r{at}_{len(values)}", {0: [value]}, start_s=10.0 * at) for at, value in enumerate(values)]
    return [(one.series[0].p99_to_others, one.series[0].odd) for one in sources_of(gather(runs))]


def test_the_farthest_is_odd(make_run: MakeRun) -> None:
    """Measured against the median of the others, so that it does not move what it is measured against."""
    found = tails(make_run, 10.0, 30.0, 10.0, 12.0)
    assert [ratio for ratio, _ in found] == pytest.approx([10 / 12, 3.0, 10 / 12, 1.2], rel=2e-3)
    assert [odd for _, odd in found] == [False, True, False, False]


def test_a_faster_one_can_be_odd(make_run: MakeRun) -> None:
    """Far is far, above or below."""
    assert [odd for _, odd in tails(make_run, 10.0, 10.0, 2.0)] == [False, False, True]


def test_of_two_the_slower_is_odd(make_run: MakeRun) -> None:
    """Each is as far from the other."""
    assert [odd for _, odd in tails(make_run, 20.0, 10.0)] == [True, False]


def test_what_is_near_is_not_odd(make_run: MakeRun) -> None:
    """A few per cent are the noise of any tail."""
    assert [odd for _, odd in tails(make_run, 10.0, 10.5, 10.2)] == [False] * 3


def test_zeros_have_no_ratio(make_run: MakeRun) -> None:
    """Zeros have no ratio to each other. A source of zeros is odd if the others have none."""
    assert tails(make_run, 0.0, 0.0) == [(None, False), (None, False)]
    assert tails(make_run, 0.0, 4.0, 4.0)[0] == (0.0, True)


def test_sources_begin_after_the_first(make_run: MakeRun) -> None:
    """Offsets are those of the clocks, whether starts are aligned or not."""
    runs = [make_run("a", {0: [1.0]}, start_s=2.5), make_run("b", {0: [1.0]})]
    for aligned in (False, True):
        found = sources_of(gather(runs, align_starts=aligned))
        assert [one.start_offset_s for one in found] == [2.5, 0.0]
        assert [one.label for one in found] == ["a", "b"]


def test_a_series_of_one_source_is_not_compared(make_run: MakeRun) -> None:
    """There are no others."""
    found = sources_of(gather([make_run("a", {0: [1.0]}), make_run("b", {1: [1.0]})]))
    assert (found[0].series[0].p99_to_others, found[0].series[0].odd, found[1].series) == (None, False, [])


def test_a_number_beyond_floats_is_compared_with_nothing() -> None:
    """A file may hold any integer."""
    forged = [SourceStat(run_id=str(p99)[:2], name="n", series=[SourceSeries(name="s", p99=p99)]) for p99 in FORGED]
    assert [one.p99_to_others for (one,) in compared(forged)] == [None, 0.5, 2.0]

"""Tests of a result that is reported once more for a time range."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.unit.history.runs import Making

from telemetry.history.range_report import RangeReport, plain, snapshot_of
from telemetry.history.run import RecordedRun
from telemetry.testing.builders import WALL_NS
from telemetry.wire.events import Define
from telemetry.wire.snapshot import MarkStat, MetricsSnapshot

DEFINITIONS = (
    Define(0, "whole", "series", "tokens"),
    Define(1, "real", "series", "ms", digits=2),
    Define(2, "narrow", "series", "tokens", high=10.0),
    Define(3, "ones", "counter"),
    Define(4, "halves", "counter"),
    Define(5, "load", "gauge"),
)


@pytest.fixture
def run(tmp_path: Path) -> RecordedRun:
    """Ten seconds, and a gauge that is set in the first alone."""
    rows = [[(0, 5.0), (0, 7.0), (1, 0.5), (2, 50.0), (3, 1.0), (4, 0.5)] for _ in range(10)]
    rows[0].append((5, 3.0))
    return Making(tmp_path, DEFINITIONS).run(rows)


def part_of(run: RecordedRun, start_s: float, end_s: float, marks: tuple[float, ...] = ()) -> MetricsSnapshot:
    whole = run.result.snapshot
    whole = replace(whole, marks=[MarkStat(text=f"{at}", time_ns=WALL_NS + int(at * 1e9)) for at in marks])
    windows = list(run.windows(1.0, start_s, end_s))
    part = RangeReport(windows[0].rows)
    for window in windows:
        part.add(window)
    return snapshot_of(whole, part, part.added())


def test_numbers_keep_their_kind(run: RecordedRun) -> None:
    """Integers stay integers, totals and increases among them."""
    part = part_of(run, 2.0, 6.0)
    whole, real, _ = part.series
    assert (whole.count, whole.total, whole.min, whole.max, whole.mean) == (8, 48, 5, 7, 6.0)
    assert isinstance(whole.total, int)
    assert isinstance(whole.percentiles["50"], int)
    assert (real.total, real.min) == (2.0, 0.5)
    assert isinstance(real.total, float)
    ones, halves = part.counters
    assert (ones.value, ones.rate, ones.events) == (4, 1.0, 0)
    assert isinstance(ones.value, int)
    assert (halves.value, halves.rate) == (2.0, 0.5)
    assert isinstance(halves.value, float)
    assert plain(2.0**60) == 2.0**60


def test_bounds_are_those_of_the_histogram(run: RecordedRun) -> None:
    """Bounds are by digits. Values outside of the range leave no bound, because their part is unknown."""
    whole, real, narrow = part_of(run, 2.0, 6.0).series
    assert (whole.error_bound, whole.resolution, whole.exact) == (0.001, 1.0, False)
    assert (real.error_bound, real.resolution, real.digits) == (0.01, 1e-6, 2)
    assert narrow.error_bound is None
    assert (whole.stddev, whole.window.count, whole.histogram) == (None, 0, [(5, 4), (7, 4)])


def test_gauges_and_marks_of_the_part(run: RecordedRun) -> None:
    """A gauge that was not set in the part has no value there; marks outside of it are left out."""
    early = part_of(run, 0.0, 2.0, (1.0, 5.0))
    assert (early.gauges[0].value, [mark.text for mark in early.marks]) == (3, ["1.0"])
    late = part_of(run, 4.0, 8.0, (1.0, 5.0))
    assert (late.gauges[0].value, [mark.text for mark in late.marks]) == (None, ["5.0"])


def test_all_else_is_that_of_the_run(run: RecordedRun) -> None:
    """The producers, the losses and the duration are those of the run."""
    part, whole = part_of(run, 2.0, 6.0), run.result.snapshot
    changed = {name for name in MetricsSnapshot.__struct_fields__ if getattr(part, name) != getattr(whole, name)}
    assert changed == {"exact_reason", "window_s", "series", "counters", "gauges"}


def test_a_series_that_was_not_heard_of(run: RecordedRun) -> None:
    """A series without values in the part is in the report, and empty."""
    whole = run.result.snapshot
    windows = list(run.windows(1.0, series=[("real", ())]))
    part = RangeReport(windows[0].rows)
    for window in windows:
        part.add(window)
    found = snapshot_of(whole, part, part.added()).series
    assert [(stat.name, stat.count) for stat in found] == [("whole", 0), ("real", 10), ("narrow", 0)]
    assert (found[0].percentiles, found[0].min) == ({}, None)

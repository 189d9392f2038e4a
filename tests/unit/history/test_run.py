"""A run as it was recorded: the whole of it, and parts of it."""

from __future__ import annotations

import random
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.unit.history.runs import Making, Row

from telemetry import limits
from telemetry.errors import RunDirectoryError, RunNotFoundError, UsageError
from telemetry.history.run import RecordedRun, open_run
from telemetry.history.time_range import TimeRangeChoice
from telemetry.wire.events import Define

DEFINITIONS = (
    Define(0, "latency", "series", "ms"),
    Define(1, "requests", "counter"),
    Define(2, "load", "gauge"),
    Define(3, "rare", "series", "s"),
)


def seconds(number: int, seed: int = 1) -> list[Sequence[Row] | None]:
    """Fifty latencies, three requests and the load in each; something rare in the first."""
    rng = random.Random(seed)
    rows: list[Sequence[Row] | None] = []
    for second in range(number):
        latencies = [(0, rng.lognormvariate(2.0, 1.0)) for _ in range(50)]
        rows.append([*latencies, (1, 3.0), (2, float(second)), *([] if second else [(3, 5.0)])])
    return rows


def test_a_whole_run_has_bounds_and_steps(tmp_path: Path) -> None:
    """The result itself is untouched; its percentiles lie within their bounds, and steps hold all values."""
    run = Making(tmp_path, DEFINITIONS).run(seconds(125))
    report = run.report()
    assert report.snapshot == run.result.snapshot
    assert (report.source, report.time_range, report.step_s) == ("file", None, 5.0)
    stat = report.series("latency")
    bounds = report.bounds_of(stat)
    assert bounds is not None
    for percentile, value in stat.percentiles.items():
        found = bounds.percentiles[percentile]
        assert found.low is not None
        assert found.high is not None
        assert found.low <= value <= found.high
        assert found.high <= 2.5 * found.low
    latency, rare = report.over_time
    assert [point.start_s for point in latency.points] == [5.0 * step for step in range(25)]
    assert sum(point.count for point in latency.points) == stat.count
    assert [point.count for point in rare.points] == [1] + [0] * 24
    assert rare.points[3].percentiles == {}
    assert not report.trusted(report.series("rare"), "50")
    assert report.findings == ["too few values for any percentile of rare: 1 sample"]


def test_a_part_of_a_run(tmp_path: Path) -> None:
    """Edges are the nearest ones of seconds; counters tell their increase, gauges their last value."""
    run = Making(tmp_path, DEFINITIONS).run(seconds(125))
    report = run.time_range(TimeRangeChoice(from_s=10.4, to_s=69.6))
    assert report.time_range is not None
    assert (report.time_range.start_s, report.time_range.end_s, report.time_range.chosen) == (10.0, 70.0, "given")
    stat = report.series("latency")
    assert (stat.count, stat.exact, stat.error_bound, stat.stddev) == (3_000, False, 0.001, None)
    assert (stat.min, stat.max) != (None, None)
    assert report.series("rare").count == 0
    assert (report.counter("requests").value, report.counter("requests").rate) == (180, 3.0)
    assert isinstance(report.counter("requests").value, int)
    assert report.gauge("load").value == 69
    assert report.snapshot.accounting == run.result.snapshot.accounting
    assert report.snapshot.exact_reason == "percentiles of a time range are computed from the history"
    assert "cover the chosen time range, 10.0 s to 70.0 s" in report.findings[0]
    assert sum(point.count for point in report.over_time[0].points) == 3_000


@pytest.mark.parametrize(
    ("from_s", "to_s", "part"),
    [
        (5.0, 6.0, (5.02, 6.02)),
        (4.6, 6.4, (5.02, 6.02)),
        (5.4, 5.6, (5.02, 6.02)),
        (5.6, 6.3, (5.02, 6.02)),
        (6.1, 6.2, (6.02, 7.02)),
    ],
)
def test_a_part_is_as_long_as_it_was_asked_for(
    tmp_path: Path, from_s: float, to_s: float, part: tuple[float, float]
) -> None:
    """Seconds of the history begin a little after those of the run: a part has none more for that, but has one."""
    lengths = [1_020_000_000] + [1_000_000_000] * 9
    run = Making(tmp_path, DEFINITIONS, seconds_ns=lengths).run(seconds(10))
    report = run.time_range(TimeRangeChoice(from_s=from_s, to_s=to_s))
    assert report.time_range is not None
    assert (report.time_range.start_s, report.time_range.end_s) == part
    assert report.series("latency").count == 50


@pytest.mark.parametrize(
    ("choice", "part"),
    [
        (TimeRangeChoice(from_s=-10.0), (115.0, 125.0)),
        (TimeRangeChoice(to_s=-100.0), (0.0, 25.0)),
        (TimeRangeChoice(from_s=-20.0, to_s=-10.0), (105.0, 115.0)),
        (TimeRangeChoice(from_s=-500.0, to_s=1.0), (0.0, 1.0)),
        (TimeRangeChoice(from_s=120.0, to_s=500.0), (120.0, 125.0)),
        (TimeRangeChoice(from_s=100.0, to_s=-0.0), (100.0, 125.0)),
    ],
)
def test_moments_count_from_either_end(tmp_path: Path, choice: TimeRangeChoice, part: tuple[float, float]) -> None:
    """Negative ones are before the end; beyond the run there is nothing."""
    report = Making(tmp_path, DEFINITIONS).run(seconds(125)).time_range(choice)
    assert report.time_range is not None
    assert (report.time_range.start_s, report.time_range.end_s) == part
    assert report.series("latency").count == 50 * (part[1] - part[0])


def test_all_of_a_run_is_no_part_of_it(tmp_path: Path) -> None:
    """A time range of the whole run returns the result itself, with its order statistics."""
    run = Making(tmp_path, DEFINITIONS).run(seconds(20))
    assert run.time_range(TimeRangeChoice()) == run.report()
    report = run.time_range(TimeRangeChoice(from_s=0.0, to_s=20.0))
    assert report.snapshot is run.result.snapshot
    assert report.time_range is not None
    assert not [line for line in report.findings if "time range" in line]


def test_what_is_drawn_begins_with_the_first_event(tmp_path: Path) -> None:
    """Pictures begin with the first event, even if the program took longer than a step to start.

    A time range from before it is drawn as it was chosen.
    """
    run = Making(tmp_path, is_timed=True).run([[]] * 3 + [[(0, 1.0)] * 10] * 5)
    report = run.report(step_s=1.0, pictures=True)
    assert report.pictures is not None
    assert report.pictures.edges_s == [3.049, 4.0, 5.0, 6.0, 7.0, 8.0]  # a latency of 1 ms that ended at 3.05 s
    (latency,) = report.over_time
    assert [(point.start_s, point.count) for point in latency.points] == [
        (3.049, 10), (4.0, 10), (5.0, 10), (6.0, 10), (7.0, 10),
    ]  # fmt: skip
    assert [window.start_s for window in run.drawn_windows(1.0, [], [])] == [3.049, 4.0, 5.0, 6.0, 7.0]
    early = run.time_range(TimeRangeChoice(from_s=0.0, to_s=2.0), step_s=1.0, pictures=True)
    assert early.pictures is not None
    assert early.pictures.edges_s == [0.0, 1.0, 2.0]


def test_gauges_before_the_first_event_are_drawn(tmp_path: Path) -> None:
    """A gauge, such as the machine's load while a program starts, is drawn from its first value on."""
    definitions = (Define(0, "latency", "series", "ms"), Define(1, "load", "gauge", ""))
    run = Making(tmp_path, definitions, is_timed=True).run([[(1, 7.0)]] * 3 + [[(0, 1.0)] * 10] * 2)
    pictures = run.report(step_s=1.0, pictures=True).pictures
    assert pictures is not None
    assert pictures.edges_s[:3] == [0.0, 1.0, 2.0]
    assert pictures.gauges[0].values[:3] == [7.0, 7.0, 7.0]


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        (TimeRangeChoice(from_s=20.0), "time range from 20.0 s to 20.0 s of the run is empty"),
        (TimeRangeChoice(from_s=5.0, to_s=5.0), "of the run is empty"),
        (TimeRangeChoice(from_s=9.0, to_s=-15.0), "time range from 9.00 s to 5.00 s of the run is empty"),
    ],
)
def test_a_part_outside_of_the_run(tmp_path: Path, choice: TimeRangeChoice, said: str) -> None:
    """Is the asker's mistake, who is told how long it took."""
    run = Making(tmp_path, DEFINITIONS).run(seconds(20))
    with pytest.raises(UsageError, match=said) as caught:
        run.time_range(choice)
    assert "the run took 20.0 s" in str(caught.value)


def test_a_part_the_history_knows_nothing_of(tmp_path: Path) -> None:
    """Seconds that were lost are no seconds without values."""
    rows = seconds(30)
    rows[10:20] = [None] * 10
    run = Making(tmp_path, DEFINITIONS).run(rows)
    with pytest.raises(UsageError, match=r"has no data between 12\.0 s and 18\.0 s"):
        run.time_range(TimeRangeChoice(from_s=12.0, to_s=18.0))
    assert "the history has a gap of 10.0 s" in run.report().findings


def test_warm_up_and_steady_part(tmp_path: Path) -> None:
    """The warm-up and the steady part are found in rate and median.

    The reason says how, and a finding says what the numbers cover.
    """
    rng = random.Random(3)
    rows = [
        [(0, rng.lognormvariate(2.0, 0.3) * (3 if second < 20 else 1)) for _ in range(50)] for second in range(125)
    ]
    run = Making(tmp_path).run(rows)
    for choice in (TimeRangeChoice(trim_warmup=True), TimeRangeChoice(steady=True)):
        report = run.time_range(choice)
        assert report.time_range is not None
        assert (report.time_range.start_s, report.time_range.end_s, report.time_range.found) == (20.0, 125.0, True)
        assert "by rate and median of latency in steps of 1 s" in report.time_range.reason
        assert report.series("latency").count == 105 * 50
    later = run.time_range(TimeRangeChoice(trim_warmup=True, from_s=5.0, to_s=100.0))
    assert later.time_range is not None
    assert (later.time_range.start_s, later.time_range.end_s) == (20.0, 100.0)


def test_no_steady_part(tmp_path: Path) -> None:
    """A run without a steady part reports the whole run, exact as it was. The first finding says so."""
    rows = [[(0, 1.0 + second)] * 50 for second in range(60)]
    run = Making(tmp_path).run(rows)
    report = run.time_range(TimeRangeChoice(steady=True))
    assert report.time_range is not None
    assert (report.time_range.found, report.time_range.start_s, report.time_range.end_s) == (False, 0.0, 60.0)
    assert report.snapshot is run.result.snapshot
    assert "these numbers cover the whole run" in report.findings[0]
    part = run.time_range(TimeRangeChoice(steady=True, from_s=10.0, to_s=50.0))
    assert part.time_range is not None
    assert (part.time_range.found, part.time_range.start_s, part.time_range.end_s) == (False, 10.0, 50.0)
    assert "these numbers cover 10.0 s to 50.0 s" in part.findings[0]
    assert part.series("latency").count == 2_000


def test_a_run_without_a_history(tmp_path: Path) -> None:
    """A run without a history reports the bounds that its display histogram allows.

    A part of it is refused with the reason.
    """
    run = Making(tmp_path, DEFINITIONS).run(seconds(20))
    fine = run.report().bounds_of(run.result.series("latency"))
    assert run.directory is not None
    shutil.rmtree(run.directory.history)
    run = open_run("job", tmp_path)
    assert not run.has_history
    report = run.report()
    assert (report.over_time, report.step_s, report.snapshot) == ([], 0.0, run.result.snapshot)
    wide = report.bounds_of(report.series("latency"))
    assert fine is not None
    assert wide is not None
    for percentile, value in report.series("latency").percentiles.items():
        inner, outer = fine.percentiles[percentile], wide.percentiles[percentile]
        assert inner.beyond == outer.beyond
        assert outer.low is None or outer.low <= (inner.low or 0.0) <= value
        assert outer.high is None or outer.high >= (inner.high or 0.0) >= value
    assert wide.percentiles["50"].low is not None
    for ask in (
        lambda: run.time_range(TimeRangeChoice(steady=True)),
        lambda: run.report(10.0),
        lambda: run.windows(1.0),
        lambda: run.digest(("latency", ())),
        lambda: run.end_s,
    ):
        with pytest.raises(RunDirectoryError, match=r"has no history.*history\.enabled"):
            ask()


def test_a_damaged_history_costs_no_report(tmp_path: Path) -> None:
    """A damaged history becomes a finding of the report. Only a request for a time range fails."""
    run = Making(tmp_path, DEFINITIONS).run(seconds(20))
    assert run.directory is not None
    (run.directory.history / "keys.jsonl").write_text("{}\nnonsense\n")
    report = open_run("job", tmp_path).report()
    assert report.bounds
    assert not report.over_time
    assert "can't read the history" in report.findings[0]
    with pytest.raises(RunDirectoryError, match="damaged"):
        open_run("job", tmp_path).time_range(TimeRangeChoice(from_s=1.0))


def test_a_result_that_lies_alone(tmp_path: Path) -> None:
    """A copy of a result file opens as a run, whatever its name.

    A name that is no file is looked up among the runs.
    """
    run = Making(tmp_path, DEFINITIONS).run(seconds(5))
    assert run.directory is not None
    alone = tmp_path / "baseline.json"
    alone.write_bytes(run.directory.final.read_bytes())
    copy = open_run(alone)
    assert copy.directory is None
    assert copy.report().bounds_of(copy.result.series("latency")) is not None
    with pytest.raises(RunDirectoryError, match="a result without its run directory has no history"):
        copy.time_range(TimeRangeChoice(from_s=1.0))
    with pytest.raises(RunNotFoundError):
        open_run("missing.json", tmp_path)
    assert open_run(run.directory.final).directory == run.directory


def test_seconds_that_retention_took(tmp_path: Path) -> None:
    """Parts extend to the edges of the coarser intervals that are left. Steps are as long as these intervals."""
    making = Making(tmp_path, DEFINITIONS, retention_s={1: 60.0, 10: 120.0, 60: None})
    run = making.run(seconds(400))
    report = run.time_range(TimeRangeChoice(from_s=61.0, to_s=62.0))
    assert report.time_range is not None
    assert (report.time_range.start_s, report.time_range.end_s) == (60.0, 120.0)
    assert report.series("latency").count == 3_000
    fine = run.time_range(TimeRangeChoice(from_s=391.0, to_s=392.0))
    assert fine.time_range is not None
    assert (fine.time_range.start_s, fine.time_range.end_s, fine.series("latency").count) == (391.0, 392.0, 50)
    windows = list(run.windows(5.0))
    assert [window.end_s - window.start_s for window in windows[:3]] == [60.0] * 3
    assert sum(window.series["latency", ()].count for window in windows) == 20_000
    assert windows[-1].end_s - windows[-1].start_s == 5.0
    assert run.report().findings == ["too few values for any percentile of rare: 1 sample"]


def test_a_history_without_its_last_roll_ups(tmp_path: Path) -> None:
    """A run that has just ended, or was killed: what is not rolled up yet comes from the seconds."""
    making = Making(tmp_path, DEFINITIONS, close=False)
    run = making.run(seconds(207))
    for step_s in (1.0, 10.0, 30.0, 60.0):
        windows = list(run.windows(step_s))
        assert sum(window.series["latency", ()].count for window in windows) == 207 * 50
        assert [window.start_s for window in windows] == [step_s * number for number in range(len(windows))]
    assert run.report().findings == ["too few values for any percentile of rare: 1 sample"]
    assert run.end_s == 207.0


def test_windows(tmp_path: Path) -> None:
    """Each has the figures, increases and last values of its time, and bounds for who asks."""
    run = Making(tmp_path, DEFINITIONS).run(seconds(125))
    windows = list(run.windows(30.0, percentiles=("50", "99.9")))
    assert [(window.start_s, window.end_s, window.seconds) for window in windows] == [
        *((30.0 * number, 30.0 * number + 30.0, 30.0) for number in range(4)),
        (120.0, 125.0, 5.0),
    ]
    first, last = windows[0], windows[-1]
    assert set(first.series) == {("latency", ()), ("rare", ())}
    assert set(last.series) == {("latency", ())}
    assert (first.series["latency", ()].count, last.series["latency", ()].rate) == (1_500, 50.0)
    assert list(first.series["latency", ()].percentiles) == ["50", "99.9"]
    assert (first.counters, last.counters) == ({("requests", ()): 90.0}, {("requests", ()): 15.0})
    assert (first.gauges, last.gauges) == ({("load", ()): 29.0}, {("load", ()): 124.0})
    bounds = first.bounds(("latency", ()), ["50", "99.9"])
    assert bounds["50"].low is not None
    assert bounds["50"].low <= first.series["latency", ()].percentiles["50"]
    assert bounds["99.9"].high is None
    assert last.bounds(("rare", ()), ["50"]) == {}
    wide = first.bounds(("latency", ()), ["50"], 0.9999)["50"]
    assert wide.low is not None
    assert wide.low < bounds["50"].low


def test_windows_of_a_part(tmp_path: Path) -> None:
    """Windows of a part begin at multiples of the step. Intervals outside of the part are in no window."""
    run = Making(tmp_path, DEFINITIONS).run(seconds(125))
    windows = list(run.windows(30.0, 45.0, 100.0, series=[("latency", ())]))
    assert [(window.start_s, window.end_s) for window in windows] == [(45.0, 60.0), (60.0, 90.0), (90.0, 100.0)]
    assert [window.series["latency", ()].count for window in windows] == [750, 1_500, 500]
    rare = list(run.windows(30.0, series=[("rare", ()), ("unknown", ())]))
    assert [list(window.series) for window in rare] == [[("rare", ())], [], [], [], []]


@pytest.mark.parametrize("step_s", [0.0, -1.0, float("nan"), float("inf")])
def test_steps_that_lead_nowhere(tmp_path: Path, step_s: float) -> None:
    """Are refused before anything is read."""
    run = Making(tmp_path, DEFINITIONS).run(seconds(3))
    with pytest.raises(UsageError, match="is too short"):
        run.windows(step_s)
    with pytest.raises(UsageError, match="is too short"):
        run.report(step_s)
    with pytest.raises(UsageError, match="percentile"):
        run.windows(1.0, percentiles=["fifty"])


def test_a_digest_of_one_series(tmp_path: Path) -> None:
    """A digest covers any part of a run and is empty without values.

    A series that the run never had raises an error.
    """
    run = Making(tmp_path, DEFINITIONS).run(seconds(125))
    assert run.digest(("latency", ())).figures(["50"]).percentiles == {
        "50": run.result.series("latency").percentiles["50"]
    }
    part = run.digest(("latency", ()), 10.5, 69.5)
    assert (part.count, part.figures([]).seconds) == (3_000, 60.0)
    assert run.digest(("rare", ()), 10.0, 20.0).count == 0
    assert run.digest(("rare", ()), 500.0).count == 0
    with pytest.raises(KeyError):
        run.digest(("unknown", ()))


def test_points_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error for steps that are too short names the shortest step that would do.

    A report by itself shows the busiest series.
    """
    monkeypatch.setattr("telemetry.history.over_time.POINTS", 30)
    monkeypatch.setattr("telemetry.history.over_time.OWN_POINTS", 30)
    run = Making(tmp_path, DEFINITIONS).run(seconds(20))
    with pytest.raises(UsageError, match="20 points for each of 2 series") as caught:
        run.report(1.0)
    assert "steps of at least 2 s" in str(caught.value)
    report = run.report()
    assert [series.name for series in report.over_time] == ["latency"]
    assert report.findings[-1] == "figures over time show the 1 series with the most values, of 2"
    assert len(run.report(10.0).over_time) == 2


def test_a_run_of_nothing(tmp_path: Path) -> None:
    """A run without seconds and without series still has a report."""
    run = Making(tmp_path).run([])
    report = run.report()
    assert (report.over_time, report.bounds) == ([], [])
    assert list(run.windows(1.0)) == []
    with pytest.raises(UsageError, match="of the run is empty"):
        run.time_range(TimeRangeChoice(from_s=0.0, to_s=0.0))
    assert isinstance(run, RecordedRun)


def test_a_large_history_is_read_on_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A report by itself takes seconds, not minutes; who wants more is told how."""
    monkeypatch.setattr(limits, "READ_HISTORY_BYTES", 1_000)
    run = Making(tmp_path, DEFINITIONS).run(seconds(125))
    report = run.report()
    assert report.over_time == []
    assert report.bounds_of(report.series("latency")) is not None
    assert "`--every 5s` reads all of it: bounds are wider" in report.findings[0]
    assert len(run.report(5.0).over_time[0].points) == 25
    assert run.time_range(TimeRangeChoice(from_s=100.0)).series("latency").count == 1_250

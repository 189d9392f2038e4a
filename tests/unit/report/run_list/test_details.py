"""Figures and curves of a run in a list."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace
from tests.unit.history.runs import Making

from telemetry.history import RecordedRun
from telemetry.report.run_list import Room, details_of
from telemetry.store.records import RecordLog
from telemetry.testing.builders import WALL_NS
from telemetry.wire.events import ClosedStep, StreamRecord
from telemetry.wire.snapshot import AxisStat
from telemetry.wire.version import PROTOCOL


def trained(root: Path, steps: int = 400) -> RecordedRun:
    """Return a run whose loss falls from 4 to 1/100."""
    run = Making(root, definitions=()).run([()])
    assert run.directory is not None
    log = RecordLog(run.directory.records)
    closed = (ClosedStep("train", step, {"lr": 0.5, "loss": 4.0 / (step + 1)}) for step in range(steps))
    log.append(
        [
            StreamRecord(PROTOCOL, "aaaa1111", step, "", WALL_NS + step * 10**7, record)
            for step, record in enumerate(closed)
        ]
    )
    axis = AxisStat(name="train", closed=steps, newest=steps - 1, values={"loss": 4.0 / steps, "lr": 0.5})
    snapshot = replace(run.result.snapshot, axes=[axis], params={"lr": 0.1, "slo.chat": "ttft:200ms"})
    return RecordedRun(replace(run.result, snapshot=snapshot), run.directory)


def test_a_load_has_its_rate_and_p99(tmp_path: Path) -> None:
    """Seconds are points; the figures are those of the headline."""
    run = Making(tmp_path).run([[(0, 10.0 + second)] * (second + 1) for second in range(8)])
    found = details_of(run, Room())
    rate, slow = found.curves
    assert (rate.title, rate.by_step, slow.title, slow.unit) == ("requests/s", False, "latency p99", "ms")
    assert [round(value or 0.0) for value in rate.values] == list(range(1, 9))
    assert [round(value or 0.0) for value in slow.values] == list(range(10, 18))
    assert [round(at, 1) for at in slow.x] == [0.5 + second for second in range(8)]
    assert found.main == 1
    assert found.figures[0].title == "requests/s"


def test_a_curve_of_rates_is_that_of_the_report(tmp_path: Path) -> None:
    """The curve of rates equals that of the report.

    It begins with the first request, not with the start of the program.
    """
    run = Making(tmp_path, is_timed=True).run([[(0, 10.0)], *[[(0, 10.0)] * 20] * 5])
    rate = details_of(run, Room()).curves[0]
    [drawn] = run.report(pictures=True).over_time
    assert drawn.points[0].start_s == 0.49
    assert rate.values == [point.rate for point in drawn.points]
    assert rate.x == [(point.start_s + point.end_s) / 2 for point in drawn.points]


def test_training_has_its_curves_the_most_telling_first(tmp_path: Path) -> None:
    """The last and the best value stand beside them."""
    found = details_of(trained(tmp_path), Room())
    loss, lr = found.curves
    assert (loss.title, loss.by_step, loss.means, lr.title) == ("loss", True, False, "lr")
    assert loss.whole == "0.01, best 0.01"
    assert lr.whole == "0.5"
    assert found.main == 0
    assert dict(found.params) == {"lr": 0.1}


def test_few_runs_have_more_points_each() -> None:
    """A page of hundreds of runs stays small."""
    assert [Room.of(runs).points for runs in (1, 20, 50, 500)] == [500, 500, 200, 80]


def test_a_large_run_has_figures_only(tmp_path: Path) -> None:
    """A list must not read gigabytes: what is left out is counted."""
    room = Room(largest=1_000)
    found = details_of(trained(tmp_path), room)
    assert found.curves == []
    assert "loss" in [figure.title for figure in found.figures]
    assert room.refused == 1
    assert Room(left=10).take(11) is False


def test_a_run_without_history_has_figures_only(tmp_path: Path) -> None:
    """A run without a history has figures but no curves. `history.enabled` may have been false."""
    run = Making(tmp_path).run([[(0, 1.0)]])
    found = details_of(RecordedRun(run.result, None), Room())
    assert found.curves == []
    assert found.figures[0].title == "requests/s"

"""The history of a run: where its moments lie, and what is asked of it in steps."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.history.runs import SECOND, Making

from telemetry.errors import RunDirectoryError
from telemetry.history.reader import FAR_NS, RunHistory
from telemetry.testing.builders import WALL_NS
from telemetry.wire.events import Define

DEFINITIONS = (
    Define(0, "latency", "series", "tokens"),
    Define(1, "requests", "counter"),
    Define(2, "load", "gauge"),
)


def past(making: Making, seconds: int, late_s: int = 0) -> RunHistory:
    run = making.run([[(0, 1.0), (1, 2.0), (2, float(second))] for second in range(seconds)])
    assert run.directory is not None
    return RunHistory(run.directory.history, WALL_NS, run.result.snapshot.time_ns + late_s * SECOND)


def test_moments(tmp_path: Path) -> None:
    """Seconds since the start, whatever is asked; what no clock can tell is as far as one goes."""
    found = past(Making(tmp_path, DEFINITIONS), 3)
    assert (found.ns(1.5), found.seconds(found.ns(1.5))) == (WALL_NS + 3 * SECOND // 2, 1.5)
    assert (found.ns(1e30), found.ns(-1e30), found.ns(float("inf"))) == (FAR_NS, 0, FAR_NS)


@pytest.mark.parametrize("late_s", [0, 600])
def test_the_end_is_that_of_the_history(tmp_path: Path, late_s: int) -> None:
    """A result may come later, also much later: the exact pass takes its time, and a recovery may come any day."""
    assert past(Making(tmp_path, DEFINITIONS), 75, late_s).end_s == 75.0
    assert past(Making(tmp_path / "other", DEFINITIONS), 0).end_s == 0.0


def test_a_start_that_nobody_wrote_down(tmp_path: Path) -> None:
    """Is that of the first interval."""
    run = Making(tmp_path, DEFINITIONS).run([[(0, 1.0)]] * 3)
    assert run.directory is not None
    assert RunHistory(run.directory.history, 0, 0).started_ns == WALL_NS


def test_edges_of_steps_follow_the_intervals(tmp_path: Path) -> None:
    """Seconds that last a little longer belong to the step that most of them lie in."""
    making = Making(tmp_path, DEFINITIONS, seconds_ns=[1_040_000_000] * 50)
    found = past(making, 50)
    windows = list(found.windows(5.0, 0, FAR_NS, ["50"], found.rows))
    assert [window.counters["requests", ()] for window in windows[:3]] == [10.0, 10.0, 8.0]
    assert windows[0].end_s == pytest.approx(5.2)
    assert windows[2].start_s == windows[1].end_s
    assert sum(window.counters["requests", ()] for window in windows) == 100.0
    assert [window.gauges["load", ()] for window in windows[:3]] == [4.0, 9.0, 13.0]


def test_a_clock_that_was_set_back(tmp_path: Path) -> None:
    """A second that ends before it begins takes no time, and its values count."""
    lasted = [SECOND] * 5 + [-3 * SECOND] + [SECOND] * 5
    found = past(Making(tmp_path, DEFINITIONS, seconds_ns=lasted), 11)
    windows = list(found.windows(1.0, 0, FAR_NS, [], found.rows))
    assert sum(window.series["latency", ()].count for window in windows) == 11
    assert all(window.seconds >= 0.0 for window in windows)


def test_a_directory_that_is_no_history(tmp_path: Path) -> None:
    """Is an error of ours."""
    with pytest.raises(RunDirectoryError, match="no history to read"):
        RunHistory(tmp_path, 0, 0)

"""Rate and median of a series in equal steps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from tests.unit.history.runs import SECOND, Making

from telemetry.history.reader import FAR_NS, RunHistory
from telemetry.history.steady_range import SteadySteps, steps_of
from telemetry.wire.events import Define

DEFINITIONS = (Define(0, "latency", "series", "tokens"), Define(1, "other", "series", "tokens"))


def steps(making: Making, rows: list[list[tuple[int, float]] | None], start_ns: int = 0) -> SteadySteps:
    run = making.run(rows)
    assert run.directory is not None
    past = RunHistory(run.directory.history, run.result.snapshot.started_ns, run.result.snapshot.time_ns)
    return steps_of(past, past.rows.key_of(("latency", ())), start_ns, FAR_NS)


def test_a_step_a_second(tmp_path: Path) -> None:
    """Rate and median of its values alone; a second without any has a rate of nothing and no median."""
    rows = [[(0, 1.0 + second)] * (second % 3) + [(1, 9.0)] for second in range(12)]
    found = steps(Making(tmp_path, DEFINITIONS), rows)  # type: ignore[arg-type]
    assert found.step_s == 1.0
    assert found.start_s.tolist() == [float(second) for second in range(12)]
    assert found.end_s.tolist() == [second + 1.0 for second in range(12)]
    assert found.rate.tolist() == [0.0, 1.0, 2.0] * 4
    assert np.isnan(found.median).tolist() == [True, False, False] * 4
    assert found.median[[1, 2, 4]].tolist() == [2.0, 3.0, 5.0]


def test_a_short_end_is_not_known(tmp_path: Path) -> None:
    """A rest of a second at the end has no rate, because it would mean nothing."""
    making = Making(tmp_path, DEFINITIONS, seconds_ns=[SECOND] * 5 + [SECOND // 10])
    found = steps(making, [[(0, 5.0)] * 10] * 6)
    assert found.rate.tolist()[:5] == [10.0] * 5
    assert np.isnan(found.rate[5])
    assert np.isnan(found.median[5])


def test_coarse_steps_of_what_is_left(tmp_path: Path) -> None:
    """All steps are as long as the remaining ones if the seconds of most of the run are gone."""
    making = Making(tmp_path, DEFINITIONS, retention_s={1: 60.0, 10: 3_600.0, 60: None})
    found = steps(making, [[(0, float(second // 10))] * 3 for second in range(300)])
    assert found.step_s == 10.0
    assert found.start_s.tolist() == [10.0 * step for step in range(30)]
    assert found.rate.tolist() == [3.0] * 30
    assert found.median.tolist() == [float(step) for step in range(30)]


def test_nothing_in_no_time(tmp_path: Path) -> None:
    """A part that the history has nothing of has no steps."""
    found = steps(Making(tmp_path, DEFINITIONS), [[(0, 1.0)]] * 3, FAR_NS - 1)
    assert found.rate.size == found.start_s.size == 0

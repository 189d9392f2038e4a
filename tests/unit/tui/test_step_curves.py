"""How values of steps went, from one snapshot to the next."""

from __future__ import annotations

import math
from collections.abc import Mapping

from tests.unit.tui.model.scenes import NOON, SECOND, snapshot

from telemetry.tui.model.scene import TREND_POINTS
from telemetry.tui.step_curves import NAMES, StepCurves
from telemetry.wire.snapshot import AxisStat, MetricsSnapshot


def at(second: float, step: int | None, values: Mapping[str, float | None], axis: str = "train") -> MetricsSnapshot:
    axes = [AxisStat(name=axis, newest=step, values=dict(values))]
    return snapshot(time_ns=NOON + int(second * SECOND), axes=axes)


def test_a_point_a_second_at_most_and_for_new_steps_only() -> None:
    """Fast steps share one, and while none comes there is none."""
    courses = StepCurves()
    for second, step in ((0.0, 1), (0.5, 2), (1.0, 3), (2.0, 3), (9.0, 4)):
        found = courses.learn(at(second, step, {"loss": float(step)}))
    assert found == {"train": {"loss": (1.0, 3.0, 4.0)}}


def test_without_news_it_is_the_same_object() -> None:
    """So that nothing is drawn."""
    courses = StepCurves()
    first = courses.learn(at(0, 1, {"loss": 1.0}))
    assert courses.learn(at(5, 1, {"loss": 1.0})) is first
    assert courses.learn(at(6, None, {})) is first


def test_what_is_no_finite_number_is_a_gap() -> None:
    """Whoever sends it."""
    courses = StepCurves()
    for second, value in enumerate((1.0, None, math.inf, math.nan, 2.0)):
        found = courses.learn(at(second, second, {"loss": value}))
    assert found["train"]["loss"] == (1.0, None, None, None, 2.0)


def test_memory_is_bounded() -> None:
    """By points of a name, and by names of all axes together; a name that is known goes on."""
    courses = StepCurves()
    courses.learn(at(0, 1, {f"a{number}": 0.0 for number in range(NAMES - 1)}))
    courses.learn(at(0, 1, {"b": 0.0, "c": 0.0}, axis="eval"))
    for step in range(1, TREND_POINTS + 20):
        found = courses.learn(at(step, step, {"b": float(step), "d": 1.0}, axis="eval"))
    assert sum(len(names) for names in found.values()) == NAMES
    assert found["eval"]["b"][-1] == TREND_POINTS + 19
    assert len(found["eval"]["b"]) == TREND_POINTS


def test_a_clock_that_is_set_back_stops_nothing() -> None:
    """The next step is a point again."""
    courses = StepCurves()
    courses.learn(at(100, 1, {"loss": 1.0}))
    assert courses.learn(at(5, 2, {"loss": 2.0}))["train"]["loss"] == (1.0, 2.0)

"""The steps behind a point of a curve."""

from __future__ import annotations

import numpy as np
import pytest

from telemetry.history.curve_points import first_step, has_means, lowest_step
from telemetry.history.step_curves import NewSteps, StepPoints
from telemetry.wire.pictures import StepCurve


def curve(begin: int, count: int, points: int) -> StepCurve:
    """Return the curve of a value that is the square of the step."""
    steps = np.arange(begin, begin + count)
    values = steps.astype(np.float64) ** 2
    made = StepPoints(points)
    made.add(NewSteps(steps, values, values, values, values, np.ones(steps.size, np.int64)))
    return made.curve("step", "loss")


@pytest.mark.parametrize(("begin", "count"), [(0, 9), (1, 9), (1, 8), (3, 8)])
def test_a_point_is_the_mean_of_its_steps(begin: int, count: int) -> None:
    """A point is the mean from the first step that is returned to the last one."""
    of = curve(begin, count, 5)
    assert has_means(of)
    for place, (last, value) in enumerate(zip(of.steps, of.values, strict=True)):
        first = first_step(of, place)
        if place == 0 and first is None:  # it has no point before it
            first = begin
            assert last > begin
        assert first is not None
        assert value == pytest.approx(np.mean(np.arange(first, last + 1) ** 2))


@pytest.mark.parametrize(("begin", "count", "points"), [(0, 9, 20), (0, 9, 5), (1, 9, 5), (5, 1, 5)])
def test_the_lowest_step_begins_the_axis(begin: int, count: int, points: int) -> None:
    """The lowest step begins the axis, also if the first point is a mean of several steps."""
    assert lowest_step(curve(begin, count, points)) == begin


def test_single_steps_are_their_own() -> None:
    """However far they are apart."""
    of = StepCurve(axis="step", name="loss", steps=[10, 20], values=[1.0, 2.0], count=2, first=1.0)
    assert not has_means(of)
    assert [first_step(of, place) for place in (0, 1)] == [10, 20]

"""Axes of training loops that follow each other in a process."""

from __future__ import annotations

import itertools
import pickle

import pytest

from telemetry.client.step_axes import StepAxes
from telemetry.integrations import loop_axes
from telemetry.integrations.loop_axes import LoopAxes


@pytest.fixture(autouse=True)
def _first_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Number the loops from 1, as in a new process, where no other library has logged steps."""
    monkeypatch.setattr(loop_axes, "_NUMBERS", itertools.count(1))
    monkeypatch.setattr(loop_axes, "SHARED", StepAxes())


def test_the_first_loop_has_axes_without_a_number() -> None:
    """Most programs have one loop, and see plain names."""
    axes = LoopAxes()
    assert [axes.axis("step", step) for step in (0, 3, 3, 7)] == ["step"] * 4
    assert axes.axis("validation", 0) == "validation"


def test_each_further_loop_has_a_number() -> None:
    """Two loops at the same step never share an axis."""
    first, second = LoopAxes(), LoopAxes()
    assert (first.axis("step", 5), second.axis("step", 5)) == ("step", "step_2")
    assert first.axis("step", 6) == "step"


def test_a_count_that_goes_back_gets_a_new_axis() -> None:
    """Other counts of the loop keep theirs."""
    axes = LoopAxes()
    seen = [axes.axis("validation", step) for step in (0, 1, 0, 1, 0)]
    assert seen == ["validation", "validation", "validation_2", "validation_2", "validation_3"]
    assert axes.axis("step", 9) == "step"
    assert axes.current("validation") == "validation_3"


def test_a_count_that_goes_back_often_keeps_its_last_axis() -> None:
    """One loop must not use up the axes of the run."""
    axes = LoopAxes()
    seen = [axes.axis("validation", step) for step in [1, 0] * 100]
    assert len(set(seen)) == 9
    assert set(seen[20:]) == {"validation_9"}


def test_the_present_axis_is_known_before_the_first_step() -> None:
    """Marks and checkpoints name it before any value is logged."""
    LoopAxes().axis("step", 0)
    assert LoopAxes().current() == "step_2"


def test_names_with_steps_of_their_own_are_split_by_count() -> None:
    """Names that count differently get different axes."""
    axes = LoopAxes()
    assert axes.split(["loss"], 100) == {"own_step": ["loss"]}
    assert axes.split(["val/acc"], 0) == {"val": ["val/acc"]}
    assert axes.split(["loss", "val/acc"], 101) == {"own_step": ["loss"], "val": ["val/acc"]}
    assert LoopAxes().split(["loss"], 3) == {"own_step_2": ["loss"]}


def test_a_loop_whose_axis_others_have_moved_on_gets_another_one() -> None:
    """A loop gets another axis if others have moved its own on, because its steps would be refused.

    A restart of the loop tries its own name again.
    """
    for step in range(500):
        loop_axes.SHARED.axis("loss of a writer", step)
    axes = LoopAxes(own="mine")
    assert [axes.axis("step", step) for step in (1, 2)] == ["trainer/step"] * 2
    assert axes.current() == "trainer/step"
    assert axes.axis("step", 0) == "step_2"
    assert axes.split(["loss"], 0) == {"mine": ["loss"]}


def test_a_pickled_loop_keeps_its_axes() -> None:
    """A process that continues a loop records on the same axes."""
    LoopAxes().axis("step", 0)
    again = pickle.loads(pickle.dumps(LoopAxes(own="mine")))
    assert again.axis("step", 0) == "step_2"
    assert again.split(["loss"], 0) == {"mine_2": ["loss"]}

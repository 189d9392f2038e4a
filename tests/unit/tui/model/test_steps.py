"""Axes, their newest values, and how those went."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.unit.tui import trainings
from tests.unit.tui.model.scenes import column, drawn, producer, scene, text, tones

from telemetry.tui.model.scene import Scene, View
from telemetry.tui.model.steps import has_steps, steps, steps_per_s
from telemetry.wire.pictures import StepCurve
from telemetry.wire.snapshot import AxisStat, BackendStat

SECOND = 10**9
RUN = View(figures="run")


def axis(name: str = "train", **changes: Any) -> AxisStat:
    times = {"lowest": 0, "highest": 1_999, "began_ns": SECOND, "ended_ns": 41 * SECOND}
    return AxisStat(
        **{"name": name, "closed": 2_000, "newest": 1_999, "values": {"loss": 0.25}, **times, **changes}
    )


def test_who_has_steps() -> None:
    """Or backends: there is nowhere else that they could be looked at."""
    assert not has_steps(Scene())
    assert not has_steps(scene())
    assert has_steps(scene(axes=[axis()]))
    assert has_steps(scene(backends=[BackendStat(name="a")]))


def test_nothing_yet() -> None:
    """The tables are empty before the first snapshot and without axes.

    An axis without a closed step has no values.
    """
    assert steps(Scene(), View()).values.empty == "no steps yet"
    assert steps(scene(), View()).axes.empty == "no steps yet"
    assert steps(replace(scene(), live=False), View()).axes.empty == "the run has no steps"
    found = steps(scene(axes=[axis(newest=None, closed=0, values={})]), View())
    assert column(found.axes, "newest") == ["–"]
    assert found.values.empty == "no step has been closed yet"


def test_how_fast_they_come() -> None:
    """The speed of an axis is that of the last seconds as far as watched, or of the whole run."""
    one = replace(scene(axes=[axis()]), steps_per_s={"train": 48.5})
    assert column(steps(one, View()).axes, "rate") == ["48.5"]
    assert column(steps(one, RUN).axes, "rate") == ["50"]
    assert column(steps(scene(axes=[axis()]), View()).axes, "rate") == ["–"]
    assert steps_per_s(axis(), scene(), RUN) is None


def test_who_is_waited_for() -> None:
    """Producers waited for are named by rank, else by name, else by id.

    The cell has the first ones, and the step.
    """
    producers = [
        producer("a", rank=3),
        producer("b", rank=None, name="roll\x1b"),
        producer("c", rank=None, name=""),
    ]
    behind = axis(open=4, oldest_open=1_001, waiting_for=["a", "b", "c", "z"])
    usual = axis("eval", open=1, oldest_open=7, waiting_for=["z"])
    nobody = axis("rollout")
    found = steps(scene(axes=[behind, usual, nobody], producers=producers), View()).axes
    assert column(found, "waiting") == [r"step 1,001: rank 3, roll\x1b and 2 more", "step 7: z", "–"]
    assert tones(found, "waiting") == ["warn", "dim", "dim"]


def test_trouble_stands_out() -> None:
    """Timeouts and corrections stand out, and a count of zero does not."""
    found = steps(scene(axes=[axis(timeouts=2), axis("b", corrections=3)]), View()).axes
    assert tones(found, "timeouts") == ["warn", "dim"]
    assert tones(found, "corrections") == ["dim", "warn"]


def test_values_of_the_chosen_axis() -> None:
    """Or of the first one; what is no finite number says so."""
    axes = [axis(), axis("eval", values={"accuracy": 0.97125, "bad": None})]
    found = steps(scene(axes=axes), View(), "eval")
    assert found.values.columns[0].title == "values of eval"
    assert column(found.values, "value") == ["0.971", "not finite"]
    assert tones(found.values, "value") == ["plain", "bad"]
    assert column(steps(scene(axes=axes), View(units="raw"), "eval").values, "value")[0] == "0.97125"
    assert column(steps(scene(axes=axes), View(), "gone").values, "name") == ["loss"]


def test_how_they_went_over_the_run() -> None:
    """More points on a wider screen, at last those of the whole curve; none of what was not read."""
    curve = StepCurve(axis="train", name="loss", steps=[1, 2, 3], values=[3.0, 2.0, 1.0])
    one = replace(scene(axes=[axis()]), curves=(curve,))
    assert column(steps(one, View()).values, "trend") == ["▇▄▁".rjust(20)]
    assert column(steps(one, View(), width=160).values, "trend") == ["▇▄▁".rjust(60)]
    long = StepCurve(axis="train", name="loss", steps=list(range(99)), values=[float(at) for at in range(99)])
    (drawn_,) = column(steps(replace(one, curves=(long,)), View()).values, "trend")
    assert (len(drawn_), drawn_[0], drawn_[-1]) == (20, "▁", "▇")
    assert column(steps(scene(axes=[axis()]), View()).values, "trend") == [" " * 20]


def test_a_filter_leaves_values() -> None:
    """A filter leaves some values, and the caption names it."""
    one = scene(axes=[axis(values={"train/loss": 1.0, "lr": 2.0})])
    found = steps(one, View(filter="LOSS"), width=120)
    assert column(found.values, "name") == ["train/loss"]
    assert text(found.caption) == "last 10 s · 2 values · filter 'LOSS'"
    assert steps(one, View(filter="x")).values.empty == "no value matches 'x'"
    assert text(steps(one, RUN).caption) == "whole run · 2 values"


def test_at_80_columns_the_step_the_pace_and_who_lags() -> None:
    """At 80 columns the table of the played run has the step, the pace and who lags."""
    found = steps(Scene(snapshot=trainings.training().last), View())
    (head, first, *_) = drawn(found.axes, 77)
    assert head.split() == ["axis", "newest", "step", "steps/s", "open", "timeouts", "waits", "for"]
    assert first.split() == ["train", "1,196", "–", "3", "0", "step", "1,197:", "rank", "1"]


def test_names_from_outside_are_printable() -> None:
    """Names of axes and values from outside are made printable."""
    found = steps(scene(axes=[axis("a\x1b", values={"b\x1b": 1.0})]), View())
    assert column(found.axes, "name") + column(found.values, "name") == [r"a\x1b", r"b\x1b"]
    assert found.values.columns[0].title == r"values of a\x1b"

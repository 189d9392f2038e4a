"""Steps of all axes: who is there, what there is room for, and what a checkpoint holds."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.unit.aggregator.stepping import SECOND, Bench

from telemetry import limits
from telemetry.aggregator.checkpoint import encode, load, save
from telemetry.aggregator.steps.merger import StepMerger
from telemetry.wire.drop_reasons import Reason
from telemetry.wire.events import Axis, StepEnd

LOWEST, HIGHEST = -(1 << 63), (1 << 63) - 1


def test_who_ends_leaves_no_step_open() -> None:
    """A producer that is over is not waited for, so it leaves no step open."""
    bench = Bench()
    bench.log("a", 1, x=1.0)
    bench.log("b", 1, x=2.0)
    bench.end("a", 1)
    bench.steps.leave("b")
    bench.steps.leave("stranger")
    assert bench.take() == [(1, {"x": 1.5}, "ended")]
    assert bench.stat.producers == 1


def test_the_end_closes_what_is_open() -> None:
    """The end closes open steps in order, as `run_end`. A step that only waited for its turn is complete."""
    bench = Bench(young=True)
    bench.log("a", 1, x=1.0)
    bench.log("a", 2, x=2.0)
    bench.steps.close()
    assert bench.take() == [(1, {"x": 1.0}, "ended"), (2, {"x": 2.0}, "run_end")]


def test_axes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Axes beyond the bound are dropped, and one warning says so."""
    monkeypatch.setattr(limits, "AXES", 1)
    bench = Bench()
    assert bench.log("a", 1, axis="eval", x=1.0) is Reason.STEPS_FULL
    assert bench.steps.end("a", StepEnd("eval", 1)) is Reason.STEPS_FULL
    bench.steps.declare(Axis("eval"))
    assert set(bench.warnings) == {"more than 1 axes: the steps of further axes are dropped"}
    assert [stat.name for stat in bench.steps.stats()] == ["train"]


def test_room_is_made_of_kept_steps_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Room is made of kept steps first, then of open ones, which close as they are.

    A step that takes all the room gets no more.
    """
    monkeypatch.setattr(limits, "STEP_VALUES", 4)
    monkeypatch.setattr(limits, "STEP_UNITS", 0)
    bench = Bench()
    for step in (1, 2, 3, 4):
        bench.log("a", step, x=0.0)
    assert bench.take() == [(1, {"x": 0.0}, "ended"), (2, {"x": 0.0}, "ended"), (3, {"x": 0.0}, "ended")]
    assert bench.log("b", 4, x=1.0, y=1.0) is None
    assert bench.log("b", 1, x=1.0) is Reason.STEP_TOO_LATE, "its values made room"
    assert bench.log("b", 5, x=1.0, y=1.0, z=1.0) is None
    assert bench.take() == [(4, {"x": 0.5, "y": 1.0}, "timeout")]
    assert bench.log("b", 5, p=1.0, q=1.0) is Reason.STEPS_FULL
    assert bench.warnings == ["more than 4 values in open steps: further values are dropped"]
    bench.steps.close()
    assert bench.take() == [(5, {"x": 1.0, "y": 1.0, "z": 1.0}, "run_end")]
    assert bench.steps._budget.left == 1


def test_steps_and_producers_take_room_beside_their_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many steps of one value are as bounded as few steps of many values.

    The holder of a value is larger than the value.
    """
    monkeypatch.setattr(limits, "STEP_VALUES", 30)
    monkeypatch.setattr(limits, "STEP_UNITS", 4)
    bench = Bench()
    bench.log("b", 0, x=1.0)
    for step, left in ((1, 12), (2, 3)):
        assert bench.log("a", step, x=1.0) is None
        assert bench.steps._budget.left == left
    assert bench.log("b", 1, x=1.0) is None, "its step is there, and the lowest makes room"
    assert bench.take() == [(0, {"x": 1.0}, "timeout")]
    assert bench.steps._budget.left == 7
    assert bench.log("b", 1, x=2.0, y=2.0) is None
    assert bench.steps._budget.left == 4
    again = Bench()
    again.steps = StepMerger(30.0, again.warnings.append)
    load(again.steps, msgspec.msgpack.decode(encode(save(bench.steps))))
    assert again.steps._budget.left == 4
    for each in (bench, again):
        each.steps.close()
        each.take()
        assert each.log("c", 3, x=1.0) is None, "kept ones go"
        each.steps.close()
    assert bench.steps._budget.left == again.steps._budget.left


def test_the_first_declaration_stands() -> None:
    """Another one is told once; the same again is none."""
    bench = Bench(young=True)
    bench.steps.declare(Axis("train", "sum", {"lr": "last"}, 5))
    bench.steps.declare(Axis("train", "sum", {"lr": "last"}, 6))
    assert bench.warnings == []
    bench.steps.declare(Axis("train", "max"))
    assert bench.warnings == ["axis 'train' was declared again with other values; the first declaration is used"]
    bench.log("a", 1, 1, loss=1.0, lr=1.0)
    bench.log("b", 1, 2, loss=2.0, lr=2.0)
    bench.steps.close()
    assert bench.take() == [(1, {"loss": 3.0, "lr": 2.0}, "run_end")]


def test_patterns_that_do_not_count_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A warning names the patterns that do not count, so nobody wonders why a sum is a mean."""
    monkeypatch.setattr(limits, "STEP_PATTERNS", 1)
    bench = Bench(young=True)
    bench.steps.declare(Axis("train", "mean", {"a*": "sum", "b*": "sum"}))
    assert bench.warnings == ["axis 'train': only the first 1 of its patterns are used"]


def test_no_values_are_no_step() -> None:
    """A report without values only tells where the producer is, and makes no step."""
    bench = Bench()
    bench.log("a", 1, x=1.0)
    bench.log("a", 2)
    assert bench.take() == [(1, {"x": 1.0}, "ended")]
    assert bench.stat.open == 0


def test_the_lowest_and_the_highest_step() -> None:
    """The ends of what the wire carries are steps like others, in a checkpoint, too."""
    bench = Bench()
    bench.log("a", LOWEST, x=1.0)
    bench.log("a", HIGHEST, x=2.0)
    bench.end("a", HIGHEST)
    again = StepMerger(30.0, bench.warnings.append)
    load(again, msgspec.msgpack.decode(encode(save(bench.steps))))
    assert bench.take() == [(LOWEST, {"x": 1.0}, "ended"), (HIGHEST, {"x": 2.0}, "ended")]


def test_time_in_which_nobody_could_be_heard_is_not_the_producers() -> None:
    """An aggregator that stood still, or was away, for minutes closes no step for that."""
    bench = Bench(grace_s=5.0)
    bench.log("a", 1, x=1.0)
    bench.log("b", 1, x=3.0)
    bench.end("a", 1)
    bench.steps.pass_time(600 * SECOND)
    bench.steps.pass_time(600 * SECOND)
    assert bench.take() == []
    assert bench.seconds(2) == [(1, {"x": 2.0}, "timeout")]


def test_claims_are_in_a_checkpoint() -> None:
    """Claims of several axes are in a checkpoint.

    After a restore, claims count when they would have counted before.
    """
    bench = Bench()
    bench.log("a", 1, x=1.0)
    bench.log("a", 2, since=3, x=2.0)
    bench.log("a", 8, axis="eval", since=5, x=8.0)
    bench.end("a", 2, since=5)
    bench.seconds(2)
    again = Bench()
    again.steps = StepMerger(30.0, again.warnings.append)
    load(again.steps, msgspec.msgpack.decode(encode(save(bench.steps))))
    for each in (bench, again):
        each.steps.settle("a", 3)
        assert each.take() == [(1, {"x": 1.0}, "ended")]
        each.steps.settle("a", 6)
        assert each.take() == [(2, {"x": 2.0}, "ended")]
        assert [stat.waiting_for for stat in each.steps.stats()] == [[], ["a"]]
    assert encode(save(again.steps)) == encode(save(bench.steps))


@pytest.mark.parametrize(
    "change",
    [
        lambda axis: axis["_kept"].update({1: axis["_open"][2]}),
        lambda axis: axis["_open"][2].__setitem__(0, {}),
        lambda axis: axis["_open"].update(dict.fromkeys(range(3, 9), axis["_open"][2])),
        lambda axis: axis["_shown"].update(y=1.0),
        lambda axis: axis["_open"][2].__setitem__(0, {"a": [{f"{n}": 1.0 for n in range(99)}, 1, {}]}),
        lambda axis: axis["_open"].update({1: axis["_open"][2]}),
        lambda axis: axis["members"].update(a=[2, 0, False, [[2, 2, 0], [1, 2, 0]], 0]),
    ],
)
def test_what_no_axis_has_is_refused(monkeypatch: pytest.MonkeyPatch, change: Any) -> None:
    """Bytes from anywhere make nothing that a run could not have come to."""
    monkeypatch.setattr(limits, "STEPS_OPEN", 4)
    monkeypatch.setattr(limits, "STEP_VALUES", 50)
    bench = Bench()
    bench.log("a", 1, x=1.0)
    bench.log("a", 2, x=1.0)
    bench.take()
    state = msgspec.msgpack.decode(encode(save(bench.steps)))
    load(
        StepMerger(30.0, bench.warnings.append),
        msgspec.msgpack.decode(msgspec.msgpack.encode(state)),
    )
    change(state["_axes"]["train"])
    with pytest.raises(ValueError, match="steps"):
        load(StepMerger(30.0, bench.warnings.append), state)

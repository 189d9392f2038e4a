"""The leaf's side of steps: what it tells its root, and when."""

from __future__ import annotations

import math

import pytest
from tests.unit.aggregator.stepping import Bench
from tests.unit.aggregator.steps.nodes import LeafBench, value

from telemetry import limits
from telemetry.aggregator import Aggregator, AggregatorConfig
from telemetry.testing import batch
from telemetry.testing.builders import MONO_NS, WALL_NS
from telemetry.wire.events import Axis, ClosedStep, Scalars, StepEnd
from telemetry.wire.nodes import PartialValue, StepPart

SECOND = 1_000_000_000


def test_a_closed_step_carries_a_part() -> None:
    """The part of a closed step has the sum, its rounding error, the extremes and the newest value.

    Other aggregators make no parts.
    """
    leaf = LeafBench()
    leaf.log("a", 1, 10, x=1e16, y=None)
    leaf.log("b", 1, 20, x=1.0)
    leaf.end("a", 1)
    leaf.end("b", 1)
    leaf.take()
    values = {"x": PartialValue(2, 1e16, 1.0, 1.0, 1e16, "b", "a", 1.0, 20, "b"), "y": None}
    assert leaf.parts() == [StepPart("train", 1, values, 20, 2, ended=True, first_ns=10, not_finite=["y"])]
    assert leaf.said[0].step.values == {"x": 5e15, "y": None}
    plain = Bench()
    plain.log("a", 1, x=1.0)
    plain.steps.close()
    plain.take()
    assert [closed.part for closed in plain.said] == [None]


def test_a_step_of_very_many_names_is_several_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the last part of a step of very many names ends it, because the root may close it then."""
    monkeypatch.setattr(limits, "PARAMS_PER_RECORD", 2)
    leaf = LeafBench()
    leaf.log("a", 1, x=1.0, y=2.0, z=3.0)
    leaf.end("a", 1)
    leaf.take()
    assert [(*part.values, part.ended, part.number) for part in leaf.parts()] == [
        ("x", "y", False, 0),
        ("z", True, 1),
    ]


def test_a_correction_repeats_what_was_reported_late() -> None:
    """A correction repeats also a late name whose mean stays the same here.

    At the root this name counts one producer more.
    """
    leaf = LeafBench()
    leaf.log("a", 1, x=2.0, y=1.0)
    leaf.end("a", 1)
    leaf.take()
    leaf.log("b", 1, x=2.0)
    assert leaf.take() == [(1, {"x": 2.0}, "late")]
    late = leaf.parts()[-1]
    assert (late.values["x"].count, [*late.values], late.producers) == (2, ["x"], 2)  # type: ignore[union-attr]
    assert (late.ended, late.closed) == (False, "late"), "b has not ended step 1"
    leaf.end("b", 1)
    leaf.log("b", 1, x=4.0)
    leaf.take()
    assert leaf.parts()[-1].ended


def test_a_timeout_ends_the_step_for_the_root() -> None:
    """A leaf that has given up a producer does not make the root wait for it as well."""
    leaf = LeafBench(grace_s=2.0)
    leaf.log("a", 1, x=1.0)
    leaf.log("b", 1, x=1.0)
    leaf.end("a", 1)
    assert leaf.seconds(3) == [(1, {"x": 1.0}, "timeout")]
    (part,) = leaf.parts()
    assert (part.ended, part.closed) == (True, "timeout")


def test_the_end_of_a_run_tells_all_that_is_open() -> None:
    """Including reports that no interval has told."""
    leaf = LeafBench(closing="reported")
    leaf.log("a", 1, x=1.0)
    leaf.end("a", 2)
    leaf.steps.close()
    leaf.take()
    assert [(part.step, part.ended, part.closed) for part in leaf.parts()] == [(1, False, "run_end")]
    assert [(part.step, part.ended) for part in leaf.steps.take_parts()] == [(2, True)]
    assert leaf.steps.take_parts() == []


# --- steps that end ------------------------------------------------------------------------------


def test_the_root_learns_of_producers_before_their_first_step_closes() -> None:
    """The root learns of producers before their first step closes, and so waits for slow nodes.

    Each second it hears that the node is alive.
    """
    leaf = LeafBench()
    leaf.log("a", 5, x=1.0)
    assert leaf.told() == [(4, [], True, False)]
    assert leaf.told() == [], "nothing was reported in this second"
    leaf.log("a", 5, y=1.0)
    assert leaf.told() == [(4, [], True, False)]
    leaf.end("a", 5)
    assert leaf.told() == [], "the part of the step says it"


def test_steps_that_end_without_values_are_told() -> None:
    """A producer that logs nothing ends steps, too. The slowest one counts, and no step that is open."""
    leaf = LeafBench()
    leaf.end("a", 7)
    leaf.end("b", 4)
    assert leaf.told() == [(4, [], True, False)]
    leaf.log("a", 6, x=1.0)
    leaf.end("b", 9)
    leaf.log("c", 3)
    assert leaf.told() == [(2, [], True, False)]
    leaf.steps.leave("c")
    leaf.take()
    assert [(part.step, part.ended) for part in leaf.parts()] == [(6, True)]
    assert leaf.told() == [(7, [], True, False)]


def test_a_step_that_is_open_is_not_ended() -> None:
    """An open step is not ended even if all producers have ended it.

    A young axis closes no step, so its part is still to come.
    """
    leaf = LeafBench()
    leaf.log("a", 5, axis="eval", x=1.0)
    leaf.log("a", 6, axis="eval", x=1.0)
    assert leaf.told() == [(4, [], True, False)]


def test_a_leaf_without_producers_leaves_the_axis() -> None:
    """The root waits for it no more, and does again once somebody reports."""
    leaf = LeafBench()
    assert leaf.told() == []
    leaf.log("a", 1, x=1.0)
    leaf.steps.leave("a")
    assert leaf.told() == [(0, [], False, True)]
    assert leaf.told() == []
    leaf.log("b", 9, x=1.0)
    assert leaf.told() == [(8, [], True, False)]


def test_a_leaf_whose_producers_are_all_away_tells_nothing() -> None:
    """The root finds that out by itself, as it does for a producer."""
    leaf = LeafBench(grace_s=2.0)
    leaf.log("a", 1, x=1.0)
    leaf.log("b", 1, x=1.0)
    leaf.end("b", 1)
    leaf.steps.leave("b")
    assert leaf.told() == [(0, [], True, False)]
    leaf.seconds(3)
    leaf.steps.take_parts()
    assert leaf.parts()[-1].closed == "timeout"
    assert leaf.told() == []


def test_the_lowest_step_there_may_be_ends_nothing() -> None:
    """A claim above a gap has ended no step so far."""
    leaf = LeafBench()
    leaf.log("a", 5, since=2)
    assert leaf.told() == [(-(1 << 63), [], False, False)]


# --- steps that are reported ---------------------------------------------------------------------


def test_values_of_open_steps_are_told_each_second() -> None:
    """A process of another node may report the step. Only names that changed, with all values of the leaf."""
    leaf = LeafBench(closing="reported")
    leaf.log("a", 1, x=1.0, y=1.0)
    leaf.log("b", 2, x=5.0)
    assert leaf.told() == [(1, ["x", "y"], False, False), (2, ["x"], False, False)]
    assert leaf.told() == []
    leaf.log("b", 1, 30, y=3.0)
    leaf.take()
    (part,) = leaf.second()
    assert part.values == {"y": PartialValue(2, 4.0, 0.0, 1.0, 3.0, "a", "b", 3.0, 30, "b")}
    leaf.log("a", 2, x=6.0)
    leaf.end("a", 2)
    leaf.take()
    assert [(part.step, part.ended) for part in leaf.parts()] == [(2, True)]
    assert leaf.told() == [], "the part of the closed step has its values"


def test_many_open_names_are_several_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many open names are several parts, as those of a closed step are."""
    monkeypatch.setattr(limits, "PARAMS_PER_RECORD", 2)
    leaf = LeafBench(closing="reported")
    leaf.log("a", 1, x=1.0, y=1.0, z=1.0)
    assert leaf.told() == [(1, ["x", "y"], False, False), (1, ["z"], False, False)]


def test_a_report_of_a_step_without_values_is_told() -> None:
    """The process that reports may be on a node that logs nothing."""
    leaf = LeafBench(closing="reported")
    leaf.end("a", 3)
    assert leaf.told() == [(3, [], True, False)]
    assert leaf.told() == []


def test_a_clear_is_told_once() -> None:
    """A clear is sent once, with the values that were logged after it."""
    leaf = LeafBench(closing="reported")
    leaf.log("a", 1, x=1.0)
    leaf.log("a", 2, x=1.0)
    leaf.told()
    leaf.clear()
    leaf.log("a", 2, y=2.0)
    leaf.take()
    assert [(part.step, [*part.values], part.cleared) for part in leaf.second()] == [
        (1, [], True),
        (2, ["y"], True),
    ]
    leaf.clear(2)
    leaf.log("a", 2, z=3.0)
    leaf.end("a", 2)
    leaf.take()
    assert [(part.cleared, part.ended) for part in leaf.parts()] == [(True, True)]
    assert leaf.told() == []


def test_what_is_told_of_reported_steps_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of open steps bounds what is sent of reported steps. Processes may do anything in a second."""
    leaf = LeafBench(closing="reported")
    monkeypatch.setattr(limits, "STEPS_OPEN", 2)
    for step in range(5):
        leaf.log("a", step, x=1.0)
        leaf.clear(step)
        leaf.end("a", step + 10)
    assert len(leaf.told()) == 4


def test_a_declaration_that_comes_later_tells_what_is_open() -> None:
    """Values that were logged before it had been those of an ordinary axis."""
    leaf = LeafBench()
    leaf.steps.report("a", Scalars("eval", 1, {"x": 1.0}), 1)
    leaf.steps.take()
    leaf.steps.pass_time(SECOND)
    assert [(part.axis, part.step) for part in leaf.steps.take_parts()] == [("eval", 0)]
    leaf.steps.declare(Axis("eval", closing="reported"))
    leaf.steps.pass_time(SECOND)
    assert [(part.axis, part.step, [*part.values]) for part in leaf.steps.take_parts()] == [("eval", 1, ["x"])]


# --- the aggregator ------------------------------------------------------------------------------


def test_a_leaf_streams_its_steps_with_parts() -> None:
    """Each closed step has one, and a checkpoint keeps the rest of what is to be told."""
    leaf = Aggregator(AggregatorConfig(leaf=True))
    records = [Axis("r", closing="reported"), Scalars("train", 1, {"x": 1.0}), StepEnd("train", 1)]
    records += [Scalars("train", 2, {"x": 2.0}), Scalars("r", 1, {"y": 3.0})]
    sent = batch("p", 0, 0, records=records)
    assert leaf.admit(sent, MONO_NS)
    leaf.apply([sent], MONO_NS, WALL_NS)
    streamed = leaf.pass_time(SECOND) + leaf.pass_time(SECOND)
    (closed,) = streamed
    assert isinstance(closed.record, ClosedStep)
    assert closed.part is not None
    assert (closed.part.step, closed.part.values) == (1, {"x": value("p", 1.0, closed.wall_ns)})
    leaf.steps.take_parts()
    more = batch("p", 1, 5, records=[Scalars("r", 2, {"y": 4.0})])
    assert leaf.admit(more, MONO_NS)
    leaf.apply([more], MONO_NS, WALL_NS)
    again = Aggregator.restore(leaf.checkpoint())
    for each in (leaf, again):
        each.pass_time(SECOND)
        assert [(part.axis, part.step) for part in each.steps.take_parts()] == [("r", 2)]
    assert leaf.checkpoint() == again.checkpoint()


def test_a_part_names_the_values_that_one_producer_has_as_nan() -> None:
    """A part names a value that one producer has as NaN, even if another one has a number.

    This holds for parts of open steps and for corrections.
    """
    leaf = LeafBench()
    leaf.log("a", 1, x=1.0, y=1.0)
    leaf.log("b", 1, x=math.nan, y=2.0)
    leaf.end("a", 1)
    leaf.end("b", 1)
    leaf.take()
    leaf.log("c", 1, y=math.inf)
    leaf.take()
    assert [(part.not_finite, [*part.values]) for part in leaf.parts()] == [(["x"], ["x", "y"]), (["y"], ["y"])]
    assert leaf.stat.not_finite == {"x": 1, "y": 1}
    open_leaf = LeafBench(closing="reported")
    open_leaf.log("a", 1, 30, x=1.0, y=1.0)
    open_leaf.log("b", 1, 20, x=math.nan)
    (part,) = open_leaf.second()
    assert (part.not_finite, part.first_ns, part.wall_ns) == (["x"], 20, 30)

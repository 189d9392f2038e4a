"""The root's side of steps: parts of leaves, and values of its own producers."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from tests.unit.aggregator.steps.nodes import RootBench, value

from telemetry import limits
from telemetry.aggregator.checkpoint import encode, load, save
from telemetry.aggregator.steps.merger import StepMerger
from telemetry.wire.drop_reasons import Reason
from telemetry.wire.events import Axis, Spread, StepClear
from telemetry.wire.nodes import PartialValue, StepPart


def test_parts_and_plain_values_make_one_step() -> None:
    """A mean over all producers, and not a mean of means. The number of producers is that of all leaves."""
    root = RootBench()
    of_three = PartialValue(3, 9.0, 0.0, 1.0, 5.0, "L1", "L3", 3.0, 40, "L2")
    root.log("own", 1, 20, x=7.0, y=1.0)
    root.send("leaf", StepPart("train", 1, {"x": of_three, "z": None}, 50, 3))
    root.end("own", 1)
    root.take()
    (closed,) = root.said
    assert closed.wall_ns == 50
    assert closed.part is None
    assert closed.step.values == {"x": 4.0, "y": 1.0, "z": None}
    assert closed.step.spread == {"x": Spread(4, 1.0, 7.0, 4.0, "L1", "own")}
    assert (closed.step.producers, closed.step.closed) == (4, "ended")


def test_times_of_a_part_are_moved() -> None:
    """The newest value is that of the root's clock, however wrong the clock of the node is."""
    root = RootBench()
    root.steps = StepMerger(30.0, root.warnings.append)
    root.steps.declare(Axis("train", "last"))
    root.send("A", StepPart("train", 1, {"x": value("A1", 1.0, 900)}, 900), shift_ns=-890)
    root.send("B", StepPart("train", 1, {"x": value("B1", 2.0, 5)}, 5), shift_ns=6)
    root.send("C", StepPart("train", 1, {"x": value("C1", 3.0, 5)}, 5), shift_ns=-10)
    root.steps.close()
    root.take()
    assert [(closed.wall_ns, closed.step.values) for closed in root.said] == [(11, {"x": 2.0})]


def test_the_times_of_an_axis_are_those_of_all_leaves() -> None:
    """The times of an axis begin with the oldest value on any node.

    This holds also if another rank of the node reports the step long after it.
    """
    root = RootBench()
    late = StepPart("train", 1, {"x": value("A1", 1.0, 900)}, 900, first_ns=420)
    root.send("A", late, shift_ns=-10)
    root.send("B", StepPart("train", 3, {"x": value("B1", 2.0, 800)}, 800, first_ns=700))
    root.send("B", StepPart("train", 4, {"x": value("B1", 2.0, 600)}, 600))
    assert (root.stat.lowest, root.stat.highest, root.stat.ended_ns) == (1, 4, 890)
    assert root.stat.began_ns == 410 - (890 - 410) // 2


def test_a_value_that_one_rank_of_a_node_has_as_nan_is_named() -> None:
    """A value that one rank has as NaN is named, whatever numbers other ranks or nodes have.

    A newer part states it anew.
    """
    root = RootBench()
    root.send("A", StepPart("train", 1, {"x": value("A1", 1.0)}, not_finite=["x"], number=1))
    root.part("B", 1, x=3.0)
    root.send("A", StepPart("train", 2, {"y": None}, number=2))
    root.part("B", 2, y=3.0)
    root.take()
    assert root.stat.values == {"x": 2.0, "y": 3.0}
    assert root.stat.not_finite == {"x": 1, "y": 2}
    root.send("A", StepPart("train", 3, {"z": value("A1", 1.0)}, not_finite=["z"], number=4, ended=False))
    again = StepMerger(30.0, root.warnings.append)
    load(again, msgspec.msgpack.decode(encode(save(root.steps))))
    root.steps = again
    root.send("A", StepPart("train", 3, {"z": value("A1", 2.0)}, number=5))
    root.send("A", StepPart("train", 3, {"z": None}, number=3))
    root.part("B", 3, z=3.0)
    root.take()
    assert root.stat.not_finite == {"x": 1, "y": 2}


def test_a_leaf_of_leaves_names_the_nan_of_a_rank() -> None:
    """The part of a leaf of leaves has the names that the parts it got have."""
    middle = RootBench()
    middle.steps = StepMerger(30.0, middle.warnings.append, leaf=True)
    middle.steps.declare(Axis("train"))
    middle.seconds(2)
    middle.send("A", StepPart("train", 1, {"x": value("A1", 1.0, 40)}, 40, first_ns=20, not_finite=["x"]))
    middle.take()
    (closed,) = middle.said
    assert closed.part is not None
    assert (closed.part.not_finite, closed.part.first_ns) == (["x"], 20)


def test_a_step_waits_for_all_leaves() -> None:
    """A step waits for all leaves, as for producers. A leaf that ends is not waited for any more."""
    root = RootBench()
    root.part("A", 1, x=1.0)
    root.part("B", 1, x=3.0)
    assert root.take() == [(1, {"x": 2.0}, "ended")]
    root.part("A", 2, x=1.0)
    assert root.take() == []
    assert root.stat.waiting_for == ["B"]
    root.steps.leave("B")
    assert root.take() == [(2, {"x": 1.0}, "ended")]


def test_a_leaf_without_producers_holds_nothing_back() -> None:
    """A leaf without producers holds nothing back until its producers report again."""
    root = RootBench()
    root.part("A", 1, x=1.0)
    root.part("B", 1, x=3.0)
    root.part("A", 2, x=1.0)
    root.take()
    root.send("B", StepPart("train", 0, {}, ended=False, left=True))
    assert root.take() == [(2, {"x": 1.0}, "ended")]
    assert (root.stat.producers, root.stat.waiting_for) == (1, [])
    root.send("B", StepPart("train", 2, {}))
    root.part("A", 3, x=1.0)
    assert root.take() == []
    assert root.stat.waiting_for == ["B"]
    root.send("C", StepPart("train", 0, {}, left=True))
    assert root.stat.producers == 2, "it never was a member"


def test_a_leave_above_a_gap_waits_for_the_batches() -> None:
    """The missing batch may have values of the step. Then the leaf is gone, and may return."""
    root = RootBench()
    root.part("A", 1, x=1.0)
    root.part("B", 0, x=3.0)
    root.take()
    root.send("B", StepPart("train", 0, {}, left=True, number=2), since=5)
    root.steps.settle("B", 4)
    assert root.take() == []
    root.part("B", 1, 1, since=5, x=3.0)
    root.steps.settle("B", 5)
    assert root.take() == [(1, {"x": 2.0}, "ended")]
    again = StepMerger(30.0, root.warnings.append)
    load(again, msgspec.msgpack.decode(encode(save(root.steps))))
    root.part("A", 2, x=1.0)
    assert root.take() == [(2, {"x": 1.0}, "ended")]
    root.steps = again
    root.part("B", 2, 3, x=3.0)
    root.send("A", StepPart("train", 3, {}))
    assert root.take() == [(2, {"x": 3.0}, "ended")]
    root.log("own", 4, x=1.0)
    root.end("own", 4)
    assert root.take() == []
    assert root.stat.waiting_for == ["A", "B"]


def test_a_leave_above_a_gap_counts_once_the_batches_arrive() -> None:
    """Or once they are given up, without another word of the leaf."""
    root = RootBench()
    root.part("A", 1, x=1.0)
    root.part("B", 0, x=3.0)
    root.send("B", StepPart("train", 0, {}, left=True), since=5)
    assert [number for number, *_ in root.take()] == [0]
    root.steps.settle("B", 5)
    assert root.take() == [(1, {"x": 1.0}, "ended")]


@pytest.mark.parametrize("leave_first", [True, False])
def test_a_leaf_that_returned_is_waited_for(leave_first: bool) -> None:
    """Batches above a gap arrive in any order: its leave, and the first word of its next producers."""
    root = RootBench()
    root.part("A", 1, x=1.0)
    root.part("B", 1, x=3.0)
    root.take()
    leave = StepPart("train", 0, {}, ended=False, left=True, number=1)
    returned = StepPart("train", 2, {}, ended=False, number=2)
    if leave_first:
        root.send("B", leave, since=5)
        root.send("B", returned, since=5)
    else:
        root.send("B", returned, since=5)
        root.send("B", leave)
    root.steps.settle("B", 6)
    root.part("A", 2, x=1.0)
    assert root.take() == []
    assert root.stat.waiting_for == ["B"]
    root.part("B", 2, 3, x=3.0)
    assert root.take() == [(2, {"x": 2.0}, "ended")]


def test_an_older_word_does_not_bring_a_leaf_back() -> None:
    """An older report does not bring a leaf back. The report was sent before the leave and arrived after it."""
    root = RootBench()
    root.part("A", 1, x=1.0)
    root.part("B", 1, x=3.0)
    root.take()
    root.send("B", StepPart("train", 0, {}, ended=False, left=True, number=2), since=5)
    root.send("B", StepPart("train", 2, {}, ended=False, number=1))
    root.steps.settle("B", 5)
    root.part("A", 2, x=1.0)
    assert root.take() == [(2, {"x": 1.0}, "ended")]


def test_a_leave_with_claims_left_leaves_no_trace() -> None:
    """A claim of a leaf that is no member any more counts nothing."""
    root = RootBench()
    root.part("A", 1, x=1.0)
    root.part("B", 1, x=1.0)
    root.part("B", 3, since=4, x=3.0)
    root.send("B", StepPart("train", 0, {}, left=True))
    root.steps.settle("B", 5)
    root.send("A", StepPart("train", 3, {}))
    assert [number for number, *_ in root.take()] == [1, 3]
    assert root.stat.producers == 1


def test_signs_of_life_keep_a_slow_leaf() -> None:
    """The steps of a slow leaf time out as those of a slow producer.

    Signs of life make the next step wait for it again.
    """
    root = RootBench(grace_s=2.0)
    root.send("B", StepPart("train", 0, {}))
    for step in (1, 2):
        root.part("A", step, x=1.0)
        for _ in range(2):
            assert root.seconds(1) == []
            root.send("B", StepPart("train", 0, {}))
        assert root.seconds(1) == [(step, {"x": 1.0}, "timeout")]
    root.seconds(3)
    root.part("A", 3, x=1.0)
    assert root.seconds(3) == [(3, {"x": 1.0}, "timeout")]
    root.part("A", 4, x=1.0)
    assert root.take() == [(4, {"x": 1.0}, "ended")], "it was silent for a grace time"


def test_a_timeout_of_a_leaf_is_one_of_the_step() -> None:
    """A timeout of a leaf is one of the step. A reader of the step knows that a producer is missing in it."""
    root = RootBench()
    for number, closed in ((1, "timeout"), (2, "run_end"), (3, "late")):
        partials: dict[str, PartialValue | None] = {"x": value("A1", 1.0)}
        root.send("A", StepPart("train", number, partials, closed=closed))  # type: ignore[arg-type]
    assert root.take() == [(1, {"x": 1.0}, "timeout"), (2, {"x": 1.0}, "run_end"), (3, {"x": 1.0}, "ended")]
    assert root.stat.timeouts == 1


# --- corrections ---------------------------------------------------------------------------------


def test_a_later_part_replaces_an_earlier_one() -> None:
    """A later part replaces an earlier one of the same names, whichever arrives first."""
    for order in ((0, 1, 2), (2, 1, 0), (1, 2, 0)):
        root = RootBench()
        parts = [{"x": 1.0, "y": 1.0}, {"x": 2.0}, {"x": 3.0, "z": None}]
        for number in order:
            root.part("A", 1, number, **parts[number])  # type: ignore[arg-type]
        root.steps.close()
        assert root.take() == [(1, {"x": 3.0, "y": 1.0, "z": None}, "ended")]


def test_the_number_of_producers_is_that_of_the_newest_part() -> None:
    """A part that was lost and sent again changes nothing."""
    root = RootBench()
    for number, producers in ((0, 1), (2, 3), (1, 2)):
        root.send("A", StepPart("train", 1, {"x": value("A1", 1.0)}, producers=producers, number=number))
    root.steps.close()
    root.take()
    assert root.said[0].step.producers == 3


def test_a_late_part_corrects_the_step() -> None:
    """A late part corrects the step together with the values of the others."""
    root = RootBench()
    root.part("A", 1, x=1.0)
    assert root.take() == [(1, {"x": 1.0}, "ended")]
    root.part("B", 1, x=3.0)
    assert root.take() == [(1, {"x": 2.0}, "late")]
    root.log("own", 1, x=5.0)
    assert root.take() == [(1, {"x": 3.0}, "late")]
    root.part("A", 1, 1, x=1.0)
    assert root.take() == []
    assert [closed.step.revision for closed in root.said] == [0, 1, 2]
    assert root.steps.state("train", 1).producers == 3


def test_a_single_producer_keeps_its_own_values() -> None:
    """A part that comes late does not change what the producer said."""
    root = RootBench()
    root.log("own", 1, x=1.0)
    root.end("own", 1)
    root.take()
    root.part("A", 1, x=3.0)
    assert root.take() == [(1, {"x": 2.0}, "late")]
    root.log("own", 1, 2, x=5.0)
    assert root.take() == [(1, {"x": 4.0}, "late")]


def test_a_part_for_a_forgotten_step_is_dropped_with_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that was cut off for long: its values are on its own disk only."""
    monkeypatch.setattr(limits, "STEPS_KEPT", 1)
    root = RootBench()
    for step in (1, 2):
        root.part("A", step, x=1.0)
    root.take()
    assert root.part("B", 1, x=1.0) is Reason.STEP_TOO_LATE
    assert root.warnings == [
        "axis 'train': values of a node arrived after 1 later steps had closed; its steps lack them"
    ]


@pytest.mark.parametrize(
    "part",
    [
        StepPart("train", 1, {"x": replace(value("A1", 1.0), min=math.nan)}),
        StepPart("train", 1, {"x": value("A1", 1.0)}, producers=1 << 50),
        StepPart("train", 1, {"x": value("A1", 1.0)}, ranks={"y": [(1, 1.0)]}),
        StepPart("train", 1, {"x": value("A1", 1.0)}, ranks={"x": [(1, math.inf)]}),
        StepPart("train", 1, {"x": value("A1", 1.0)}, ranks={"x": [("p" * 400, 1.0)]}),
        StepPart("train", 1, {"x": value("A1", 1.0)}, ranks={"x": [(1, 1.0)] * (limits.STEP_RANKS + 1)}),
        StepPart("train", 1, {f"{n}": None for n in range(9)}, ranks={f"{n}": [] for n in range(9)}),
    ],
)
def test_impossible_parts_are_refused(part: StepPart) -> None:
    """Impossible parts are refused without an effect on the axis."""
    root = RootBench()
    assert root.send("A", part) is Reason.MALFORMED_RECORD
    root.steps.close()
    assert root.take() == []
    assert root.stat.producers == 0


# --- ranks ---------------------------------------------------------------------------------------


def test_ranks_of_all_leaves_are_in_one_order() -> None:
    """Ranks of all leaves are in one order, together with those of the root's own producers."""
    root = RootBench()
    root.steps = StepMerger(30.0, root.warnings.append, {"own": 1}.get)
    root.steps.declare(Axis("train", ranked=["x"]))
    root.log("own", 1, x=5.0)
    for leaf, ranks in (("B", [(2, 2.0), ("B9", 3.0)]), ("A", [(0, 0.0), (3, 4.0)])):
        root.send(leaf, StepPart("train", 1, {"x": value(leaf, 1.0)}, ranks={"x": ranks}))  # type: ignore[dict-item]
    root.steps.close()
    root.take()
    assert root.said[0].step.ranks == {"x": [(0, 0.0), (1, 5.0), (2, 2.0), (3, 4.0), ("B9", 3.0)]}
    root.send("A", StepPart("train", 1, {"x": value("A", 1.0)}, ranks={"x": [(0, 9.0)]}, number=1))
    root.take()
    assert root.said[1].step.ranks == {"x": [(0, 9.0), (1, 5.0), (2, 2.0), ("B9", 3.0)]}


def test_ranks_come_before_the_declaration() -> None:
    """The parts themselves say which names are ranked."""
    root = RootBench()
    root.steps = StepMerger(30.0, root.warnings.append)
    root.send("A", StepPart("train", 1, {"x": value("A", 1.0)}, ranks={"x": [(0, 1.0)]}))
    root.steps.close()
    root.take()
    assert root.said[0].step.ranks == {"x": [(0, 1.0)]}


# --- bounds --------------------------------------------------------------------------------------


def test_parts_take_room_for_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts take room for their names and for the values of ranks. A restored root has as much room left."""
    monkeypatch.setattr(limits, "STEP_VALUES", 100)
    root = RootBench()
    ranks: Any = {"x": [(0, 1.0), (1, 1.0)]}
    root.send("A", StepPart("train", 1, {"x": value("A", 1.0), "y": None}, ranks=ranks))
    assert root.steps._budget.left == 100 - 2 * limits.STEP_UNITS - 4
    root.send("A", StepPart("train", 1, {"x": value("A", 2.0)}, number=1))
    assert root.steps._budget.left == 100 - 2 * limits.STEP_UNITS - 3
    again = StepMerger(30.0, root.warnings.append)
    load(again, msgspec.msgpack.decode(encode(save(root.steps))))
    assert again._budget.left == root.steps._budget.left
    root.send("A", StepPart("train", 1, {}, ended=False, cleared=True, number=2))
    assert root.steps._budget.left == 100
    assert root.stat.open == 0


def test_parts_beyond_the_room_close_steps_or_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts beyond the room close steps or are dropped, as values of producers are."""
    monkeypatch.setattr(limits, "STEP_VALUES", 14)
    root = RootBench()
    assert root.part("A", 1, since=1, x=1.0) is None
    assert root.part("A", 2, since=1, x=1.0) is None
    assert root.take() == [(1, {"x": 1.0}, "timeout")]
    assert root.part("A", 2, 1, since=1, **dict.fromkeys("pqrstuv", 1.0)) is Reason.STEPS_FULL
    assert root.warnings == ["more than 14 values in open steps: further values are dropped"]


# --- reported axes -------------------------------------------------------------------------------


def reported() -> RootBench:
    return RootBench(closing="reported")


def open_part(leaf: str, step: int, number: int = 0, *, cleared: bool = False, **values: float) -> StepPart:
    partials: dict[str, PartialValue | None] = {name: value(f"{leaf}1", each) for name, each in values.items()}
    return StepPart("train", step, partials, 1, ended=False, number=number, cleared=cleared)


def test_a_report_of_one_leaf_closes_the_step_for_all() -> None:
    """A moment later, because values of other nodes are on their way."""
    root = reported()
    root.send("A", open_part("A", 7, x=1.0))
    root.send("B", StepPart("train", 7, {}))
    assert root.seconds(1) == []
    root.send("A", open_part("A", 7, 1, x=3.0))
    root.send("A", open_part("A", 8, 2, x=5.0))
    assert root.seconds(1) == [(7, {"x": 3.0}, "ended")]
    assert root.seconds(40) == []
    root.steps.close()
    assert root.take() == [(8, {"x": 5.0}, "run_end")]


def test_a_reported_step_is_open_while_its_values_may_be_on_their_way() -> None:
    """A gateway that asks for it does not take it for a step without values."""
    root = reported()
    root.send("A", open_part("A", 6, x=1.0))
    root.send("B", StepPart("train", 7, {}))
    assert (root.steps.state("train", 7).state, root.steps.state("train", 8).state) == ("open", "unknown")
    root.seconds(1)
    assert root.steps.state("train", 7).state == "open"
    root.seconds(1)
    assert root.steps.state("train", 7).state == "unknown"
    root.send("A", open_part("A", 7, x=1.0))
    root.seconds(1)
    assert root.steps.state("train", 7).state == "closed"


def test_a_report_may_arrive_before_all_values() -> None:
    """A report before all values is remembered for half a minute. Afterwards the step stays open."""
    root = reported()
    root.send("B", StepPart("train", 7, {}))
    root.send("B", StepPart("train", 8, {}))
    root.seconds(20)
    again = StepMerger(30.0, root.warnings.append)
    load(again, msgspec.msgpack.decode(encode(save(root.steps))))
    root.steps = again
    root.send("A", open_part("A", 7, x=1.0))
    assert root.seconds(1) == [(7, {"x": 1.0}, "ended")]
    root.seconds(10)
    root.send("A", open_part("A", 8, x=1.0))
    assert root.seconds(3) == []


def test_a_report_of_the_roots_own_producer_waits_for_leaves_too() -> None:
    """A report of the root's own producer counts at once until a leaf has reported on the axis.

    From then on it waits for leaves too.
    """
    root = reported()
    root.log("own", 1, x=1.0)
    root.end("own", 1)
    assert root.take() == [(1, {"x": 1.0}, "ended")]
    root.send("A", open_part("A", 2, x=1.0))
    root.end("own", 2)
    assert root.take() == []
    assert root.seconds(2) == [(2, {"x": 1.0}, "ended")]


def test_a_report_above_a_gap_waits_for_the_values() -> None:
    """A report above a gap waits for the values, and a moment more."""
    root = reported()
    root.send("A", open_part("A", 1, x=1.0))
    root.part("A", 1, 2, since=5, x=2.0)
    assert root.seconds(5) == []
    root.steps.settle("A", 5)
    assert root.seconds(2) == [(1, {"x": 2.0}, "ended")]


def test_reports_at_the_end_count() -> None:
    """A step that was reported is closed for that reason, and not by the end of the run."""
    root = reported()
    root.send("A", open_part("A", 1, x=1.0))
    root.send("B", StepPart("train", 1, {}))
    root.steps.close()
    assert root.take() == [(1, {"x": 1.0}, "ended")]


def test_reports_without_room_count_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports without room count at once, so that a flood of them takes no memory."""
    monkeypatch.setattr(limits, "STEPS_OPEN", 2)
    root = reported()
    for step in (5, 6):
        root.send("B", StepPart("train", step, {}))
    root.send("A", open_part("A", 7, x=1.0))
    root.send("B", StepPart("train", 7, {}))
    assert root.take() == [(7, {"x": 1.0}, "ended")]


def test_a_clear_of_a_leaf_spares_what_it_logged_afterwards() -> None:
    """A clear of a leaf spares what the leaf logged afterwards, and the values of other nodes.

    A closed step stays.
    """
    root = reported()
    root.send("A", open_part("A", 1, 0, x=1.0, y=1.0))
    root.send("A", open_part("A", 1, 2, y=2.0))
    root.send("B", open_part("B", 1, x=5.0))
    root.send("A", open_part("A", 1, 1, cleared=True, z=3.0))
    root.part("B", 1, 1, w=1.0)
    assert root.seconds(2) == [(1, {"x": 5.0, "y": 2.0, "z": 3.0, "w": 1.0}, "ended")]
    root.send("A", open_part("A", 1, 9, cleared=True))
    assert root.take() == []


def test_a_clear_of_the_roots_own_producer_closes_reported_steps_first() -> None:
    """The report was made before it."""
    root = reported()
    root.send("A", open_part("A", 1, x=1.0))
    root.send("A", open_part("A", 2, x=1.0))
    root.send("B", StepPart("train", 1, {}))
    root.clear()
    assert root.take() == [(1, {"x": 1.0}, "ended")]
    assert root.stat.open == 0


def test_a_clear_of_the_roots_own_producer_forgets_parts() -> None:
    """A clear of the root's own producer forgets parts. The producer's own values after the request stay."""
    root = reported()
    root.send("A", open_part("A", 1, x=1.0))
    root.log("own", 1, 50, y=2.0)
    root.steps.clear("own", StepClear("train", 1), 0, 40)
    root.end("own", 1)
    assert root.seconds(2) == [(1, {"y": 2.0}, "ended")]


def test_a_leaf_of_leaves_whose_leaves_left_leaves_too() -> None:
    """A leaf of leaves leaves when its leaves have left, even if it knows that only by claims."""
    middle = RootBench()
    middle.steps = StepMerger(30.0, middle.warnings.append, leaf=True)
    middle.steps.declare(Axis("train"))
    middle.send("A", StepPart("train", 4, {}))
    middle.seconds(1)
    assert [(part.step, part.left) for part in middle.steps.take_parts()] == [(4, False)]
    middle.send("A", StepPart("train", 0, {}, left=True), since=3)
    middle.steps.settle("A", 3)
    middle.seconds(1)
    assert [part.left for part in middle.steps.take_parts()] == [True]


def test_a_leaf_of_leaves_passes_on_what_it_hears() -> None:
    """Values of open steps, clears with the values that stay, and reports of steps without values."""
    middle = reported()
    middle.steps = StepMerger(30.0, middle.warnings.append, leaf=True)
    middle.steps.declare(Axis("train", closing="reported"))
    middle.send("A", open_part("A", 1, x=1.0))
    middle.send("B", open_part("B", 1, x=3.0))
    middle.seconds(1)
    assert [[*part.values] for part in middle.steps.take_parts()] == [["x"]]
    middle.send("A", open_part("A", 1, 1, cleared=True))
    middle.send("A", StepPart("train", 5, {}))
    middle.seconds(1)
    (cleared,) = middle.steps.take_parts()
    assert (cleared.cleared, cleared.values) == (True, {"x": value("B1", 3.0)})
    middle.seconds(1)
    middle.seconds(1)
    assert [(part.step, part.ended) for part in middle.steps.take_parts()] == [(5, True)]


def test_a_state_that_no_root_has_is_refused() -> None:
    """Delayed reports belong to a reported axis that leaves report on."""
    root = RootBench()
    root.part("A", 1, x=1.0)
    for change in (
        {"_delayed": {"active": True, "_ages": {1: 0}}},
        {"_delayed": {"active": False, "_ages": {1: 0}}},
    ):
        state = msgspec.msgpack.decode(encode(save(root.steps)))
        state["_axes"]["train"].update(change)
        with pytest.raises(ValueError, match="steps"):
            load(StepMerger(30.0, root.warnings.append), state)
    state = msgspec.msgpack.decode(encode(save(root.steps)))
    (step,) = [*state["_axes"]["train"]["_open"].values()]
    step[5]["A"][0]["x"][0] = 0  # a count
    with pytest.raises(ValueError, match="steps"):
        load(StepMerger(30.0, root.warnings.append), state)

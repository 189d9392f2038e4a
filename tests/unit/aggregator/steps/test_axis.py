"""The steps of an axis: when they close, what is said of them, and what happens to what comes too late."""

from __future__ import annotations

import math

import msgspec
import pytest
from tests.unit.aggregator.stepping import SECOND, Bench

from telemetry import limits
from telemetry.aggregator.checkpoint import encode, load, save
from telemetry.aggregator.run_clock import RunClock
from telemetry.aggregator.steps.merger import StepMerger
from telemetry.aggregator.steps.step import FinishedStep
from telemetry.wire.drop_reasons import Reason
from telemetry.wire.events import ClosedStep, Scalars, Spread
from telemetry.wire.snapshot import AxisStat


def test_a_step_closes_when_all_that_report_on_the_axis_have_ended_it() -> None:
    """A closed step has the mean of its values, the spread, and the wall clock of the newest.

    The step closes when all that report on the axis have ended it.
    """
    bench = Bench()
    bench.log("a", 1, 10, loss=1.0)
    bench.log("b", 1, 20, loss=3.0)
    bench.end("a", 1)
    assert bench.take() == []
    assert (bench.stat.open, bench.stat.oldest_open, bench.stat.waiting_for) == (1, 1, ["b"])
    bench.end("b", 1)
    bench.take()
    spread = {"loss": Spread(2, 1.0, 3.0, 2.0, "a", "b")}
    assert bench.said == [FinishedStep(20, ClosedStep("train", 1, {"loss": 2.0}, spread, 2, "ended", 0))]
    assert (bench.stat.closed, bench.stat.open, bench.stat.newest, bench.stat.producers) == (1, 0, 1, 2)
    assert bench.stat.values == {"loss": 2.0}


def test_a_later_step_ends_those_before_it() -> None:
    """A later step ends those before it. So a producer that never says `step_end` is one step behind."""
    bench = Bench()
    for step in range(3):
        bench.log("a", step, x=float(step))
    assert bench.take() == [(0, {"x": 0.0}, "ended"), (1, {"x": 1.0}, "ended")]


def test_who_joins_later_is_not_waited_for_before() -> None:
    """Steps below its first are the others' affair."""
    bench = Bench()
    bench.log("a", 1, x=1.0)
    bench.log("b", 5, x=1.0)
    bench.end("a", 1)
    assert bench.take() == [(1, {"x": 1.0}, "ended")]


def test_a_new_axis_waits_for_those_who_come_second() -> None:
    """A new axis closes nothing for at least a second. The first producer does not know who else will report."""
    bench = Bench(young=True)
    bench.log("a", 0, x=1.0)
    bench.end("a", 0)
    assert bench.seconds(1) == []
    bench.log("b", 0, x=3.0)
    bench.end("b", 0)
    assert bench.take() == []
    assert bench.seconds(1) == [(0, {"x": 2.0}, "ended")]


def test_steps_close_in_ascending_order() -> None:
    """One that is complete waits for those below it."""
    bench = Bench()
    bench.log("a", 2, x=2.0)
    bench.log("b", 1, x=1.0)
    bench.end("a", 2)
    assert bench.take() == []
    bench.end("b", 2)
    assert bench.take() == [(1, {"x": 1.0}, "ended"), (2, {"x": 2.0}, "ended")]


def test_the_grace_bounds_the_wait() -> None:
    """The grace begins when the first producer ends the step.

    The wait is as long as it should be, or at most a second longer.
    """
    bench = Bench(grace_s=5.0)
    bench.log("a", 1, x=1.0)
    bench.log("b", 1, x=2.0)
    assert bench.seconds(60) == [], "nobody has ended it"
    bench.end("a", 1)
    assert bench.seconds(5) == []
    assert bench.seconds(1) == [(1, {"x": 1.5}, "timeout")]
    assert bench.stat.timeouts == 1


def test_who_was_silent_for_a_grace_is_not_waited_for() -> None:
    """A silent producer is not waited for until it says something.

    So the axis of a dead rank does not limp on at one step in half a minute.
    """
    bench = Bench(grace_s=5.0)
    bench.log("a", 1, x=1.0)
    bench.log("b", 1, x=2.0)
    bench.log("a", 2, x=1.0)
    bench.log("a", 3, x=1.0)
    assert bench.seconds(6) == [(1, {"x": 1.5}, "timeout"), (2, {"x": 1.0}, "ended")]
    bench.end("a", 3)
    assert bench.take() == [(3, {"x": 1.0}, "ended")]
    bench.log("b", 2, x=4.0)
    assert bench.take() == [(2, {"x": 2.5}, "late")]
    bench.log("a", 4, x=1.0)
    bench.end("a", 4)
    assert bench.take() == [], "it is back"
    assert bench.stat.waiting_for == ["b"]


def test_who_reports_is_waited_for_however_slow() -> None:
    """A step that takes it longer than the grace closes without it, and the next one waits again."""
    bench = Bench(grace_s=2.0)
    bench.log("b", 1, x=1.0)
    bench.log("a", 1, x=1.0)
    bench.end("a", 2)
    for _ in range(2):
        bench.seconds(1)
        bench.log("b", 1, y=1.0)
    assert bench.seconds(1) == [(1, {"x": 1.0, "y": 1.0}, "timeout")]
    bench.log("a", 2, x=1.0)
    bench.end("a", 2)
    assert bench.take() == []


def test_a_grace_begins_also_for_steps_that_are_opened_later() -> None:
    """A step that somebody ended before the first value of it came."""
    bench = Bench(grace_s=3.0)
    bench.log("b", 0, x=0.0)
    bench.end("a", 5)
    bench.seconds(1)
    bench.log("b", 4, x=4.0)
    assert bench.take() == [(0, {"x": 0.0}, "ended")]
    assert bench.seconds(2) == []
    assert bench.seconds(2) == [(4, {"x": 4.0}, "timeout")]


# --- batches that are missing --------------------------------------------------------------------


def test_what_is_said_above_a_gap_ends_nothing() -> None:
    """The missing batch may have values of the steps below. Once it is here they close, in order."""
    bench = Bench()
    bench.log("a", 0, x=0.0)
    bench.log("a", 3, since=2, x=3.0)
    bench.end("a", 3, since=2)
    assert bench.take() == []
    assert bench.stat.waiting_for == ["a"]
    bench.steps.settle("a", 1)
    assert bench.take() == []
    bench.log("a", 1, x=1.0)
    bench.log("a", 2, x=2.0)
    bench.steps.settle("a", 3)
    assert bench.take() == [(step, {"x": float(step)}, "ended") for step in range(4)]


def test_who_begins_above_a_gap_has_ended_nothing() -> None:
    """A producer that begins above a gap has ended nothing.

    The producer's first step may be in the missing batch.
    """
    bench = Bench()
    bench.log("a", 5, since=1, x=5.0)
    bench.log("b", 6, x=6.0)
    bench.end("b", 6)
    assert bench.take() == []
    bench.log("a", 3, x=3.0)
    bench.steps.settle("a", 2)
    assert bench.take() == [(3, {"x": 3.0}, "ended")]
    assert (bench.stat.oldest_open, bench.stat.waiting_for) == (5, ["a"])


def test_what_others_ended_waits_for_the_batches_of_one() -> None:
    """A step that others ended waits for the missing batches of one producer.

    The producers take part in the same steps, and go on.
    """
    bench = Bench()
    for step in range(3):
        bench.log("a", step, x=0.0)
        bench.log("b", step, since=1 if step else 0, x=2.0)
    assert bench.take() == []
    bench.steps.settle("stranger", 9)
    bench.steps.settle("b", 3)
    assert bench.take() == [(0, {"x": 1.0}, "ended"), (1, {"x": 1.0}, "ended")]


def test_the_grace_bounds_the_wait_for_a_missing_batch() -> None:
    """The grace bounds the wait for a missing batch, and afterwards nobody waits for it.

    The wait for a later missing batch begins anew.
    """
    bench = Bench(grace_s=5.0)
    bench.log("a", 0, x=0.0)
    bench.log("a", 1, since=5, x=1.0)
    assert bench.seconds(3) == []
    bench.log("a", 2, since=5, x=2.0)
    bench.log("a", 3, since=9, x=3.0)
    assert bench.seconds(2) == []
    bench.log("a", 4, since=9, x=4.0)
    assert bench.seconds(1) == [(0, {"x": 0.0}, "timeout"), (1, {"x": 1.0}, "ended")]
    assert bench.seconds(2) == []
    assert bench.seconds(1) == [(2, {"x": 2.0}, "timeout"), (3, {"x": 3.0}, "ended")]
    bench.log("a", 5, since=9, x=5.0)
    assert bench.take() == [(4, {"x": 4.0}, "ended")]
    bench.log("a", 6, since=12, x=6.0)
    assert bench.take() == []


def test_what_counts_of_who_is_away_ends_no_step_for_others() -> None:
    """A batch that is not waited for any more, of a producer that is not waited for either."""
    bench = Bench(grace_s=2.0)
    bench.log("b", 1, since=1, x=3.0)
    bench.log("b", 9, since=1, x=3.0)
    bench.log("c", 1, x=1.0)
    bench.seconds(1)
    bench.log("c", 2, x=1.0)
    assert bench.seconds(2) == [(1, {"x": 2.0}, "timeout")]
    assert bench.stat.waiting_for == ["c"]
    bench.end("c", 2)
    assert bench.take() == [(2, {"x": 1.0}, "ended")]


# --- what is late --------------------------------------------------------------------------------


def test_late_values_correct_a_step_that_is_kept() -> None:
    """A correction has only the values that changed, with the next revision."""
    bench = Bench()
    bench.log("a", 1, 10, x=1.0, y=5.0, z=1.0)
    bench.end("a", 1)
    bench.take()
    bench.log("b", 1, 30, x=3.0, y=5.0)
    bench.log("c", 1, 20, x=5.0)
    bench.take()
    spread = {"x": Spread(3, 1.0, 5.0, 3.0, "a", "c")}
    assert bench.said[1:] == [FinishedStep(30, ClosedStep("train", 1, {"x": 3.0}, spread, 3, "late", 1))]
    assert (bench.stat.corrections, bench.stat.closed) == (1, 1)
    bench.log("b", 1, 40, x=3.0)
    assert bench.take() == []
    bench.log("a", 1, 50, x=None, w=1.0)
    assert bench.take() == [(1, {"x": 4.0, "w": 1.0}, "late")]
    assert bench.said[-1].step.revision == 2


def test_what_is_too_late_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step that is not kept any more may have been said: it is told from one that never was by its number."""
    monkeypatch.setattr(limits, "STEPS_KEPT", 2)
    bench = Bench()
    for step in (1, 3, 5, 7):
        bench.log("a", step, x=0.0)
    bench.end("a", 7)
    bench.take()
    assert bench.log("b", 3, x=1.0) is Reason.STEP_TOO_LATE
    assert bench.log("b", 1, x=1.0) is Reason.STEP_TOO_LATE
    assert bench.log("b", 5, x=1.0) is None
    assert bench.log("b", 4, x=1.0) is None
    assert bench.take() == [(4, {"x": 1.0}, "ended"), (5, {"x": 0.5}, "late")]


def test_a_correction_is_said_before_its_step_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """A correction is published before its step is forgotten, even if both happen in one turn."""
    monkeypatch.setattr(limits, "STEPS_KEPT", 1)
    bench = Bench()
    bench.log("a", 1, x=1.0)
    bench.end("a", 1)
    bench.take()
    bench.log("b", 1, x=3.0)
    bench.log("a", 2, x=1.0)
    bench.end("a", 2)
    bench.end("b", 2)
    assert bench.take() == [(2, {"x": 1.0}, "ended"), (1, {"x": 2.0}, "late")]


def test_too_many_open_steps_close_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest of too many open steps is closed as it is. Complete steps are closed first."""
    monkeypatch.setattr(limits, "STEPS_OPEN", 2)
    bench = Bench()
    bench.log("b", 0, x=0.0)
    for step in range(4):
        bench.log("a", step, x=1.0)
    assert bench.take() == [(0, {"x": 0.5}, "timeout"), (1, {"x": 1.0}, "timeout")]


def test_a_young_axis_does_not_hold_back_more_than_there_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """A producer that floods a young axis does not get the second of waiting."""
    monkeypatch.setattr(limits, "STEPS_OPEN", 2)
    bench = Bench(young=True)
    for step in range(4):
        bench.log("a", step, x=1.0)
    assert bench.take() == [(step, {"x": 1.0}, "ended") for step in range(3)]


def test_names_shown_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest value of each of the first names; all of them are in the stream."""
    monkeypatch.setattr(limits, "STEP_NAMES_SHOWN", 2)
    bench = Bench()
    bench.log("a", 1, x=1.0)
    bench.log("a", 2, y=1.0, z=1.0)
    bench.log("a", 3, z=1.0, x=3.0)
    bench.end("a", 3)
    assert [values for _, values, _ in bench.take()] == [{"x": 1.0}, {"y": 1.0, "z": 1.0}, {"z": 1.0, "x": 3.0}]
    assert (bench.stat.values, bench.stat.newest) == ({"x": 3.0, "y": 1.0}, 3)
    assert bench.warnings == ["values of more than 2 names of steps, or too long ones: the rest is not shown"]


def test_names_shown_of_all_axes_are_bounded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Axes share the bound on shown names and their characters as they come.

    The bound is as much as a snapshot repeats.
    """
    monkeypatch.setattr(limits, "STEP_NAMES_SHOWN", 3)
    monkeypatch.setattr(limits, "STEP_NAME_CHARS_SHOWN", 8)
    bench = Bench()
    bench.log("a", 1, x=1.0, much_too_long=1.0, five5=1.0)
    bench.log("a", 1, axis="eval", x=2.0, yy=2.0, z=2.0)
    bench.steps.close()
    bench.take()
    assert [stat.values for stat in bench.steps.stats()] == [{"x": 1.0, "five5": 1.0}, {"x": 2.0}]
    assert bench.warnings == ["values of more than 3 names of steps, or too long ones: the rest is not shown"]
    again = StepMerger(30.0, bench.warnings.append)
    state = msgspec.msgpack.decode(encode(save(bench.steps)))
    load(again, state)
    assert again.report("a", Scalars("eval", 2, {"n": 1.0, "x": 9.0}), 2) is None
    again.close()
    assert [stat.values for stat in again.stats()] == [{"x": 1.0, "five5": 1.0}, {"x": 9.0}]
    state["_axes"]["eval"].update(_shown={"x": 2.0, "q": 1.0}, _shown_steps={"x": 1, "q": 1})
    with pytest.raises(ValueError, match="steps"):
        load(StepMerger(30.0, bench.warnings.append), state)


def test_axes_of_the_longest_names_leave_a_snapshot_small() -> None:
    """All axes there may be, of many names of four bytes a character, are far below what a frame may have."""
    bench = Bench(young=True)
    name = "\U0001f600" * (limits.NAME_CHARS - 4)
    for axis in range(limits.AXES):
        bench.log("a", 1, axis=f"{axis}", **{f"{number:04d}{name}": 1.0 for number in range(100)})
    bench.steps.close()
    assert len(encode(bench.steps.stats())) < 2 * limits.MIB


def test_an_older_step_does_not_hide_newer_values() -> None:
    """The shown value of a name is from the highest step that had it."""
    bench = Bench()
    bench.log("a", 5, x=5.0)
    bench.log("b", 9, y=9.0)
    bench.steps.leave("a")
    bench.steps.leave("b")
    bench.take()
    bench.log("c", 7, x=7.0, y=7.0)
    bench.end("c", 9)
    bench.take()
    assert (bench.stat.newest, bench.stat.values) == (9, {"x": 7.0, "y": 9.0})


def test_a_value_that_only_one_producer_has_as_nan_is_kept() -> None:
    """The mean leaves it out, so the number of the others must not hide it."""
    bench = Bench()
    for number in (1, 2, 3):
        bench.log("a", number, loss=1.0)
        bench.log("b", number, loss=math.nan if number > 1 else 2.0)
    bench.steps.leave("a")
    bench.steps.leave("b")
    bench.take()
    assert bench.stat.values == {"loss": 1.0}
    assert bench.stat.not_finite == {"loss": 2}


def test_a_nan_that_comes_late_is_kept() -> None:
    """A late NaN is kept, but changes no value, so no correction is published."""
    bench = Bench()
    bench.log("a", 1, loss=1.0)
    bench.end("a", 1)
    bench.take()
    bench.log("b", 1, loss=math.nan)
    assert bench.take() == []
    assert bench.stat.not_finite == {"loss": 1}


def test_the_axis_knows_when_it_was_reported_on() -> None:
    """The time of an axis goes from its first value, less the mean step time, to its last. A checkpoint has it."""
    bench = Bench()
    assert bench.steps.stats() == [AxisStat(name="train")]
    bench.log("a", 10, 5_000, x=1.0)
    bench.log("b", 10, 4_000, x=1.0)
    bench.log("a", 20, 6_000, x=1.0)
    bench.log("a", 30, 9_000, x=1.0)
    bench.take()
    found = bench.stat
    assert (found.closed, found.open) == (0, 3), "one that is open counts, too"
    assert (found.lowest, found.highest, found.began_ns, found.ended_ns) == (10, 30, 4_000 - 2_500, 9_000)
    again = StepMerger(30.0, bench.warnings.append)
    load(again, msgspec.msgpack.decode(encode(save(bench.steps))))
    assert again.stats() == [found]


def test_a_step_of_the_wall_clock_moves_no_time_of_an_axis() -> None:
    """The times of an axis are on the clock of the run, as those of counters."""
    clock = RunClock()
    steps = StepMerger(30.0, lambda _: None, clock=clock)
    for at, shift_ns in ((10, 0), (20, 3_600 * SECOND)):
        wall_ns = (1_000 + at) * SECOND + shift_ns
        clock.read(at * SECOND, wall_ns)
        steps.report("a", Scalars("train", at, {"x": 1.0}), wall_ns)
    (stat,) = steps.stats()
    assert (stat.began_ns, stat.ended_ns) == (1_000 * SECOND, 1_020 * SECOND)


def test_steps_before_an_old_checkpoint_have_no_times() -> None:
    """The axis has no times either, because the times of some of its steps would be wrong."""
    bench = Bench()
    bench.log("a", 1, x=1.0)
    bench.end("a", 1)
    bench.take()
    state = msgspec.msgpack.decode(encode(save(bench.steps)))
    del state["_axes"]["train"]["_times"]
    bench.steps = StepMerger(30.0, bench.warnings.append)
    load(bench.steps, state)
    bench.log("a", 2, 5_000, x=1.0)
    assert (bench.stat.lowest, bench.stat.began_ns) == (None, 0)


def test_the_first_step_of_a_value_that_is_not_finite_is_kept() -> None:
    """The first step of a value that is not finite is kept, and a checkpoint has it.

    This holds if a later step closed first, and if the value recovers.
    """
    bench = Bench()
    bench.log("a", 1, loss=1.0)
    bench.log("a", 5, loss=math.nan, norm=2.0)
    bench.log("a", 6, loss=math.inf)
    bench.log("a", 7, loss=0.5)
    bench.steps.leave("a")
    bench.take()
    assert bench.stat.not_finite == {"loss": 5}
    assert bench.stat.values["loss"] == 0.5
    bench.log("b", 4, loss=math.nan)
    bench.steps.leave("b")
    bench.take()
    assert bench.stat.not_finite == {"loss": 4}


def test_a_step_of_very_many_names_is_several_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each as large as a producer's may be; together they are the step."""
    monkeypatch.setattr(limits, "PARAMS_PER_RECORD", 2)
    bench = Bench()
    bench.log("a", 1, **dict.fromkeys("vwxyz", 1.0))
    bench.log("b", 1, y=3.0)
    bench.steps.close()
    bench.take()
    assert [(said.step.revision, list(said.step.values), list(said.step.spread)) for said in bench.said] == [
        (0, ["v", "w"], []),
        (1, ["x", "y"], ["y"]),
        (2, ["z"], []),
    ]
    assert (bench.stat.closed, bench.stat.corrections) == (1, 0)


def test_producers_shown_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A snapshot names some of thousands."""
    monkeypatch.setattr(limits, "STEP_PRODUCERS_SHOWN", 2)
    bench = Bench()
    for number in range(5):
        bench.log(f"p{number}", 1, x=1.0)
    assert (bench.stat.waiting_for, bench.stat.producers) == (["p0", "p1"], 5)

"""Axes whose steps close by reports, and steps whose values are forgotten."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.unit.aggregator.stepping import Bench

from telemetry import limits
from telemetry.aggregator.checkpoint import encode, load, save
from telemetry.aggregator.steps.merger import StepMerger
from telemetry.aggregator.steps.step import FinishedStep
from telemetry.wire.control import StepState
from telemetry.wire.drop_reasons import Reason
from telemetry.wire.events import Axis, ClosedStep, Scalars, Spread, StepClear, StepEnd


def reported(grace_s: float = 30.0) -> Bench:
    return Bench(grace_s, closing="reported")


def test_a_report_closes_its_step_for_all() -> None:
    """A report by any producer closes its step. Steps below and above stay open."""
    bench = reported()
    bench.log("a", 1, 10, x=1.0)
    bench.log("b", 2, 20, x=1.0)
    bench.log("a", 2, 30, x=3.0)
    bench.log("a", 3, 40, x=5.0)
    bench.end("c", 2)
    bench.take()
    spread = {"x": Spread(2, 1.0, 3.0, 2.0, "b", "a")}
    assert bench.said == [FinishedStep(30, ClosedStep("train", 2, {"x": 2.0}, spread, 2, "ended", 0))]
    bench.end("a", 1)
    assert bench.take() == [(1, {"x": 1.0}, "ended")]
    assert (bench.stat.open, bench.stat.oldest_open, bench.stat.closed) == (1, 3, 2)


def test_nothing_else_closes_a_reported_step() -> None:
    """A reported step is not closed by a higher step, the end of a producer, or time.

    The axis waits for no producer.
    """
    bench = reported(grace_s=2.0)
    for step in range(5):
        bench.log("a", step, x=float(step))
    bench.steps.leave("a")
    assert bench.seconds(60) == []
    assert (bench.stat.waiting_for, bench.stat.producers, bench.stat.open) == ([], 0, 5)
    bench.steps.close()
    assert bench.take() == [(step, {"x": float(step)}, "run_end") for step in range(5)]


def test_a_first_report_counts_at_once() -> None:
    """An axis that is new waits for no others."""
    bench = Bench(young=True)
    bench.steps.declare(Axis("train", closing="reported"))
    bench.log("a", 1, x=1.0)
    bench.end("a", 1)
    assert bench.take() == [(1, {"x": 1.0}, "ended")]


def test_a_report_of_nothing_changes_nothing() -> None:
    """A report of a step without values or of a closed one changes nothing.

    Later values are open, or a correction.
    """
    bench = reported()
    bench.end("a", 1)
    bench.log("a", 1, x=1.0)
    assert bench.take() == []
    bench.end("a", 1)
    bench.end("a", 1)
    assert bench.take() == [(1, {"x": 1.0}, "ended")]
    bench.log("b", 1, 50, x=3.0)
    assert bench.take() == [(1, {"x": 2.0}, "late")]


def test_a_report_above_a_gap_waits_for_the_values() -> None:
    """The missing batch may have values of this very step; another's report does not wait."""
    bench = reported()
    bench.log("a", 2, x=2.0)
    bench.end("a", 1, since=2)
    bench.end("a", 2, since=2)
    assert bench.take() == []
    bench.end("b", 2)
    assert bench.take() == [(2, {"x": 2.0}, "ended")]
    bench.steps.settle("a", 1)
    assert bench.take() == []
    bench.log("a", 1, x=1.0)
    bench.steps.settle("a", 3)
    assert bench.take() == [(1, {"x": 1.0}, "ended")]


def test_a_report_that_is_repeated_waits_for_the_last_gap() -> None:
    """A report that is repeated waits for the last gap.

    So it closes the step with all that was logged before it.
    """
    bench = reported()
    bench.log("a", 1, x=1.0)
    bench.end("a", 1, since=2)
    bench.end("a", 1, since=4)
    bench.steps.settle("a", 3)
    assert bench.take() == []
    bench.steps.settle("a", 4)
    assert bench.take() == [(1, {"x": 1.0}, "ended")]


def test_a_missing_batch_delays_a_report_by_a_grace_at_most() -> None:
    """A dead producer never sends it."""
    bench = reported(grace_s=3.0)
    bench.log("a", 1, x=1.0)
    bench.end("a", 1, since=2)
    assert bench.seconds(3) == []
    assert bench.seconds(1) == [(1, {"x": 1.0}, "ended")]


def test_an_end_of_a_producer_makes_its_reports_count() -> None:
    """All its batches are in, or given up."""
    bench = reported()
    bench.log("a", 1, x=1.0)
    bench.end("a", 1, since=2)
    bench.steps.leave("a")
    assert bench.take() == [(1, {"x": 1.0}, "ended")]


def test_reports_without_room_to_wait_count_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The values that are missing become a correction."""
    monkeypatch.setattr(limits, "STEPS_OPEN", 2)
    bench = reported()
    bench.log("a", 9, x=1.0)
    for step in (1, 2, 9):
        bench.end("a", step, since=2)
    assert bench.take() == [(9, {"x": 1.0}, "ended")]


def test_waiting_reports_are_part_of_the_state() -> None:
    """A restored axis closes the step when the batch comes; a state that can't be is refused."""
    bench = reported()
    bench.log("a", 1, x=1.0)
    bench.end("a", 1, since=2)
    state = msgspec.msgpack.decode(encode(save(bench.steps)), strict=False)
    again = StepMerger(30.0, bench.warnings.append)
    load(again, state)
    again.settle("a", 2)
    assert [(one.step.step, one.step.closed) for one in again.take()] == [(1, "ended")]
    lies: list[dict[str, Any]] = [
        {"declared": None},
        {"declared": ["axis", "train"], "members": {"a": [1, 0, False, [], 0]}},
        {"members": {"a": [1, 0, False, [], 0]}},
    ]
    for lie in lies:
        with pytest.raises(ValueError, match="steps that no axis has"):
            load(
                StepMerger(30.0, bench.warnings.append),
                {**state, "_axes": {"train": state["_axes"]["train"] | lie}},
            )
    state["_axes"]["train"]["_reports"]["_waiting"]["b"] = {}
    with pytest.raises(ValueError, match="invalid reports"):
        load(StepMerger(30.0, bench.warnings.append), state)


def test_a_declaration_that_comes_later_lets_nobody_be_waited_for() -> None:
    """Open steps stay open until they are reported; claims behind gaps are void."""
    bench = Bench(young=True, grace_s=2.0)
    bench.log("a", 1, x=1.0)
    bench.log("b", 2, since=1, x=2.0)
    assert bench.steps.stats()[0].producers == 2
    bench.steps.declare(Axis("train", closing="reported"))
    bench.steps.settle("b", 5)
    assert bench.seconds(10) == []
    assert (bench.stat.producers, bench.stat.waiting_for, bench.stat.open) == (0, [], 2)
    bench.end("a", 2)
    assert bench.take() == [(2, {"x": 2.0}, "ended")]


def test_the_first_declaration_says_how_steps_close() -> None:
    """Another one is a contradiction, also if only that differs."""
    bench = reported()
    bench.steps.declare(Axis("train", closing="reported"))
    assert bench.warnings == []
    bench.steps.declare(Axis("train"))
    assert bench.warnings == ["axis 'train' was declared again with other values; the first declaration is used"]
    bench.log("a", 1, x=1.0)
    bench.log("a", 2, x=1.0)
    assert bench.take() == []


def test_too_many_open_reported_steps_close_the_lowest(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lowest of too many open reported steps is closed as it is."""
    monkeypatch.setattr(limits, "STEPS_OPEN", 2)
    bench = reported()
    for step in (5, 3, 9):
        bench.log("a", step, x=float(step))
    assert bench.take() == [(3, {"x": 3.0}, "timeout")]
    assert bench.stat.timeouts == 1


def test_a_skipped_step_below_those_forgotten_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A skipped step below those forgotten is refused, because it looks like a closed one.

    An open step closes as any other.
    """
    monkeypatch.setattr(limits, "STEPS_KEPT", 2)
    bench = reported()
    bench.log("a", 0, x=0.0)
    for step in (2, 4, 6, 8):
        bench.log("a", step, x=1.0)
        bench.end("a", step)
    bench.take()
    assert bench.log("a", 3, x=1.0) is Reason.STEP_TOO_LATE
    bench.log("a", 0, y=1.0)
    bench.end("a", 0)
    assert bench.take() == [(0, {"x": 0.0, "y": 1.0}, "ended")]


# --- clear ---------------------------------------------------------------------------------------


def test_cleared_values_are_gone_and_new_ones_stay() -> None:
    """Cleared values of one step are gone and new ones stay, on an axis of any kind. Closed steps stay closed."""
    for bench in (Bench(), reported()):
        bench.log("a", 1, x=1.0)
        bench.end("a", 1)
        bench.log("a", 2, x=2.0, y=2.0)
        bench.log("b", 2, x=4.0)
        bench.log("a", 3, x=3.0)
        bench.clear(1)
        bench.clear(2)
        bench.clear(77)
        bench.log("a", 2, 9, y=5.0)
        bench.steps.leave("b")
        bench.end("a", 2)
        bench.end("a", 3)
        said = bench.take()
        assert sorted(said) == [(1, {"x": 1.0}, "ended"), (2, {"y": 5.0}, "ended"), (3, {"x": 3.0}, "ended")]


def test_all_open_steps_are_cleared_and_give_back_their_room() -> None:
    """The budget is as before them."""
    bench = reported()
    left = bench.steps._budget.left
    for step in range(5):
        bench.log("a", step, x=1.0, y=2.0)
    assert bench.steps._budget.left < left
    bench.clear()
    assert (bench.steps._budget.left, bench.stat.open, bench.stat.oldest_open) == (left, 0, None)
    bench.steps.close()
    assert bench.take() == []


def test_a_cleared_step_holds_back_none_above_it() -> None:
    """A cleared step holds back none above it on an axis whose steps ascend."""
    bench = Bench()
    bench.log("a", 1, x=1.0)
    bench.log("b", 2, x=1.0)
    bench.log("a", 2, x=1.0)
    bench.end("b", 2)
    bench.log("c", 0, x=1.0)
    bench.end("a", 2)
    assert bench.take() == []
    bench.clear(0)
    bench.steps.leave("c")
    assert bench.take() == [(1, {"x": 1.0}, "ended"), (2, {"x": 1.0}, "ended")]


def test_a_clear_makes_no_axis() -> None:
    """Nor does a question."""
    bench = Bench(young=True)
    bench.steps.clear("a", StepClear("nowhere"))
    assert bench.steps.state("nowhere", 1) == StepState(state="unknown")
    assert bench.steps.stats() == []


# --- the state of a step -------------------------------------------------------------------------


def test_the_state_of_a_step_has_its_values_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    """Merged as they would be published; after its end also what corrected it."""
    monkeypatch.setattr(limits, "STEPS_KEPT", 1)
    bench = Bench(young=True)
    steps = bench.steps
    steps.declare(Axis("train", "last", {"n": "sum"}, closing="reported"))
    assert steps.state("train", 1) == StepState(state="unknown")
    steps.report("a", Scalars("train", 1, {"x": 1.0, "n": 1.0, "bad": float("nan")}), 10)
    assert steps.state("train", 1) == StepState(state="open", values={"x": 1.0, "n": 1.0, "bad": None}, producers=1)
    steps.report("b", Scalars("train", 1, {"x": 2.0, "n": 2.0}), 20)
    merged = {"x": 2.0, "n": 3.0, "bad": None}
    assert steps.state("train", 1) == StepState(state="open", values=merged, producers=2)
    steps.end("a", StepEnd("train", 1))
    steps.take()
    assert steps.state("train", 1) == StepState(state="closed", values=merged, producers=2)
    steps.report("b", Scalars("train", 1, {"x": 7.0}), 30)
    steps.take()
    assert steps.state("train", 1) == StepState(state="closed", values=merged | {"x": 7.0}, producers=2, revision=1)
    steps.report("a", Scalars("train", 5, {"x": 1.0}), 40)
    steps.end("a", StepEnd("train", 5))
    assert steps.state("train", 1) == StepState(state="forgotten")
    assert steps.state("train", 0) == StepState(state="forgotten")
    assert steps.state("train", 6) == StepState(state="unknown")


def test_a_step_of_very_many_names_shows_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer has a bound."""
    monkeypatch.setattr(limits, "STEP_STATE_NAMES", 2)
    bench = reported()
    bench.log("a", 1, x=1.0, y=2.0, z=3.0)
    assert bench.steps.state("train", 1).values == {"x": 1.0, "y": 2.0}
    bench.end("a", 1)
    assert bench.steps.state("train", 1).values == {"x": 1.0, "y": 2.0}

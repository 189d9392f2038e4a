"""Tests of texts and distributions that belong to a step.

They are kept only for an axis whose steps close by reports. A client that asks for the state of a step gets them.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.unit.aggregator.stepping import Bench

from telemetry import limits
from telemetry.aggregator.checkpoint import encode, load, save
from telemetry.aggregator.steps.merger import Attached, AttachedRecords
from telemetry.wire.control import StepDistribution
from telemetry.wire.events import Bins, Note, StepClear

LENGTHS = Bins("lengths", [0.0, 1.0, 2.0], [1, 2], 0, "train", 3)


def note(step: int, text: str, name: str = "note", axis: str = "train") -> Note:
    return Note(name, text, 0, axis, step)


def restored(records: AttachedRecords) -> AttachedRecords:
    made = AttachedRecords()
    load(made, msgspec.msgpack.decode(encode(save(records))))
    return made


def test_a_step_may_have_nothing_else() -> None:
    """A step that has only attached records is open until it is reported.

    The step's state has the newest of each name.
    """
    bench = Bench(closing="reported")
    bench.steps.attach(note(3, "first"), 10)
    bench.steps.attach(note(3, "second"), 20)
    bench.steps.attach(LENGTHS, 30)
    state = bench.steps.state("train", 3)
    assert (state.state, state.values, state.texts) == ("open", {}, {"note": "second"})
    assert state.distributions == {"lengths": StepDistribution(edges=[0.0, 1.0, 2.0], counts=[1, 2])}
    bench.end("a", 3)
    assert bench.steps.state("train", 3).state == "closed"
    assert bench.take() == []


def test_a_step_with_values_has_them_beside() -> None:
    """The state of a step with values is that of its values, with the attached texts beside them."""
    bench = Bench(closing="reported")
    bench.log("a", 3, 10, x=1.0)
    bench.steps.attach(note(3, "text"), 10)
    state = bench.steps.state("train", 3)
    assert (state.state, state.values, state.texts) == ("open", {"x": 1.0}, {"note": "text"})


def test_other_axes_and_records_without_a_step_keep_nothing() -> None:
    """Attached records on other axes or without a step are not kept.

    The steps of such records are not asked for.
    """
    bench = Bench(closing="ended")
    bench.log("a", 3, 10, x=1.0)
    bench.steps.attach(note(3, "text"), 10)
    bench.steps.attach(note(0, "text", axis=""), 10)
    assert bench.steps.state("train", 3).texts == {}


def test_clear_forgets_what_is_not_reported() -> None:
    """`clear` removes texts of steps that are not reported. A text that was recorded after the request stays."""
    bench = Bench(closing="reported")
    for step in (1, 2, 3):
        bench.steps.attach(note(step, "text"), step)
    bench.end("a", 1)
    bench.steps.clear("a", StepClear("train", 3), 1, 2)
    assert bench.steps.state("train", 3).texts == {"note": "text"}
    bench.steps.clear("a", StepClear("train"))
    assert [bench.steps.state("train", step).state for step in (1, 2, 3)] == ["closed", "unknown", "unknown"]


def test_the_oldest_steps_are_forgotten() -> None:
    """The oldest steps are forgotten by number of steps and by size, over all axes."""
    records = AttachedRecords()
    for step in range(limits.STEPS_KEPT + 2):
        records.add(note(step, "text"), step)
    assert records.of("train", 1) is None
    assert records.of("train", 2) is not None
    half = "x" * (limits.TEXT_CHARS // 2)
    for step in range(2 * limits.STEP_TEXT_CHARS // len(half)):
        records.add(note(step, half, axis="eval"), step)
    assert records.of("eval", 0) is None
    assert 0 < records._chars <= limits.STEP_TEXT_CHARS


def test_a_checkpoint_has_them() -> None:
    """A state that can't have been saved is refused."""
    records = AttachedRecords()
    records.add(note(3, "text"), 10)
    records.add(LENGTHS, 20)
    records.close("train", 3)
    again = restored(records)
    assert again.of("train", 3) == records.of("train", 3)
    assert again._chars == records._chars
    too_many: dict[str, Any] = {"train": {step: Attached() for step in range(limits.STEPS_KEPT + 1)}}
    records._steps = too_many
    with pytest.raises(ValueError, match="more texts of steps"):
        restored(records)

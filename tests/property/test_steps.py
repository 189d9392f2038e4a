"""Steps: what they come to depends on what was said, and on nothing else."""

from __future__ import annotations

import random
from collections import Counter
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from telemetry import limits
from telemetry.aggregator.steps.merger import StepMerger
from telemetry.wire.drop_reasons import Reason
from telemetry.wire.events import (
    CLOSING_RULES,
    REDUCTIONS,
    Axis,
    ClosedStep,
    ClosingRule,
    Scalars,
    StepClear,
    StepEnd,
)

SECOND = 1_000_000_000
PRODUCERS = [f"rank {number}" for number in range(4)]
NAMES = ["loss", "lr", "tokens"]
NUMBERS = st.none() | st.floats(allow_nan=False, allow_infinity=False)
SAID = st.lists(
    st.tuples(st.sampled_from(PRODUCERS), st.integers(0, 5), st.dictionaries(st.sampled_from(NAMES), NUMBERS)),
    max_size=30,
)


def closed(
    said: list[tuple[str, int, dict[str, float | None]]], order: list[int], axis: Axis
) -> dict[int, ClosedStep]:
    """Each step, if what was said first came in this order."""
    steps = StepMerger(30.0, lambda _: None)
    steps.declare(axis)
    for at in order:
        producer, step, values = said[at]
        assert steps.report(producer, Scalars("train", step, dict(values)), at + 1) is None
    steps.close()
    found = [taken.step for taken in steps.take()]
    assert [step.step for step in found] == sorted({step for _, step, values in said if values})
    return {step.step: step for step in found}


@given(SAID, st.sampled_from(REDUCTIONS), st.sampled_from(CLOSING_RULES), st.randoms(use_true_random=False))
def test_the_order_of_arrival_changes_nothing(
    said: list[tuple[str, int, dict[str, float | None]]], reduction: str, closing: ClosingRule, rng: random.Random
) -> None:
    """The order of arrival changes neither the values nor the spread, as each value has its time."""
    axis = Axis("train", reduction, closing=closing)  # type: ignore[arg-type]
    order = list(range(len(said)))
    before = closed(said, order, axis)
    rng.shuffle(order)
    after = closed(said, order, axis)
    for step, one in before.items():
        other = after[step]
        assert (one.values, one.spread, one.producers) == (other.values, other.spread, other.producers)
        for name, spread in one.spread.items():
            value = one.values[name]
            assert spread.min <= spread.mean <= spread.max
            if reduction != "sum":
                assert value is not None
                assert spread.min <= value <= spread.max


DEEDS = st.lists(
    st.one_of(
        st.tuples(
            st.just("log"), st.sampled_from(PRODUCERS), st.integers(0, 30), st.lists(st.sampled_from("abcdefgh"))
        ),
        st.tuples(st.just("end"), st.sampled_from(PRODUCERS), st.integers(0, 30)),
        st.tuples(st.just("clear"), st.none() | st.integers(0, 30)),
        st.tuples(st.just("leave"), st.sampled_from(PRODUCERS)),
        st.tuples(st.just("pass")),
        st.tuples(st.just("take")),
    ),
    max_size=60,
)


@given(DEEDS, st.sampled_from(CLOSING_RULES))
def test_every_value_is_said_or_dropped(deeds: list[tuple[object, ...]], closing: ClosingRule) -> None:
    """The last value of a name of a step that was taken is the last that was said, whatever closed it, unless it
    was cleared; revisions count from 0; bounds hold."""
    with patch.multiple(
        limits,
        STEPS_OPEN=4,
        STEPS_KEPT=3,
        STEP_VALUES=36,
        STEP_UNITS=1,
        STEP_NAMES_SHOWN=3,
        PARAMS_PER_RECORD=2,
    ):
        steps = StepMerger(2.0, lambda _: None)
        steps.declare(Axis("train", "last", closing=closing))
        expected: dict[tuple[int, str], float] = {}
        reasons: set[Reason] = set()
        said: list[ClosedStep] = []
        for at_ns, (deed, *what) in enumerate(deeds, 1):
            match deed, *what:
                case "log", str(producer), int(step), list(names):
                    values: dict[str, float | None] = dict.fromkeys(names, float(at_ns))
                    refused = steps.report(producer, Scalars("train", step, values), at_ns)
                    if refused is None:
                        expected |= {(step, name): float(at_ns) for name in names}
                    else:
                        reasons.add(refused)
                case "end", str(producer), int(step):
                    steps.end(producer, StepEnd("train", step))
                case "clear", int() | None as cleared:
                    steps._axes["train"].close_complete()  # as the clear does first
                    opened = {int(step) for step in steps._axes["train"]._open if cleared in (None, step)}
                    steps.clear("a", StepClear("train", cleared))
                    expected = {key: value for key, value in expected.items() if key[0] not in opened}
                case "leave", str(producer):
                    steps.leave(producer)
                case ("pass",):
                    steps.pass_time(SECOND)
                case _:
                    said += [taken.step for taken in steps.take()]
            (stat,) = steps.stats()
            assert stat.open <= 4
            assert len(stat.values) <= 3
            assert 0 <= steps._budget.left <= 36
            (axis,) = steps._axes.values()
            states = [*axis._open.values(), *axis._kept.values()]
            assert steps._budget.left == 36 - sum(state.units for state in states)
        steps.close()
        said += [taken.step for taken in steps.take()]
    found = {(step.step, name): value for step in said for name, value in step.values.items()}
    assert found == expected
    assert reasons <= {Reason.STEP_TOO_LATE, Reason.STEPS_FULL}
    revisions: Counter[int] = Counter()
    for step in said:
        assert step.revision == revisions[step.step]
        revisions[step.step] += 1

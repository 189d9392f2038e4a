"""Tests of the step that a span belongs to."""

from __future__ import annotations

from tests.unit.backends.timeline.test_trace import ORIGIN, span

from telemetry.backends.items import Span
from telemetry.backends.timeline.backend import OPEN_STEPS, SpansByStep


def at(us: int) -> int:
    return ORIGIN + us * 1_000


def taken(steps: SpansByStep) -> dict[int, list[str]]:
    return {step: [one.name for one in spans] for step, _, spans in steps.take_changed()}


def test_a_span_belongs_to_the_first_step_that_ends_after_it() -> None:
    """A span belongs to the first step that ends after it, also if that step has already closed."""
    steps = SpansByStep()
    steps.add(span("a", 0, 10))
    steps.add(span("b", 5, 25))
    steps.close("train", 1, at(20))
    assert taken(steps) == {1: ["a"]}
    steps.close("train", 2, at(30))
    steps.add(span("late", 3, 15))
    steps.add(span("at the end", 15, 20))
    assert taken(steps) == {1: ["a", "late", "at the end"], 2: ["b"]}
    assert taken(steps) == {}


def test_a_label_names_the_step() -> None:
    """A label names the step of a span, whether or not that step has closed."""
    steps = SpansByStep()
    steps.add(span("early", 0, 10, step="7"))
    steps.add(span("odd", 0, 10, step="seven"))
    assert taken(steps) == {7: ["early"]}
    steps.close("train", 1, at(20))
    assert taken(steps) == {1: ["odd"]}


def test_only_one_axis_counts() -> None:
    """The first one, or the one that was chosen."""
    steps = SpansByStep()
    steps.close("train", 1, at(10))
    steps.close("eval", 1, at(20))
    assert (steps.axis, taken(steps)) == ("train", {1: []})
    chosen = SpansByStep("eval")
    chosen.close("train", 1, at(10))
    assert taken(chosen) == {}
    chosen.close("eval", 5, at(20))
    assert taken(chosen) == {5: []}


def test_old_steps_take_no_more_spans() -> None:
    """Old steps take no more spans, so their files stay as they are."""
    steps = SpansByStep()
    for number in range(3 * OPEN_STEPS):
        steps.close("train", number, at(10 * number + 10))
        steps.take_changed()
    steps.add(span("much too late", 0, 5))
    steps.add(span("named, too late", 0, 5, step="0"))
    steps.add(span("named, in time", 0, 5, step=str(3 * OPEN_STEPS - 1)))
    assert taken(steps) == {3 * OPEN_STEPS - 1: ["named, in time"]}


def test_named_steps_wait_until_they_have_ended() -> None:
    """A rank that is far ahead takes no place from the others."""
    steps = SpansByStep()
    for number in range(5 * OPEN_STEPS):
        steps.add(span("ahead", number, number + 1, "a", step=str(number)))
    assert len(taken(steps)) == 5 * OPEN_STEPS
    for number in range(5 * OPEN_STEPS):
        steps.add(span("behind", number, number + 1, "b", step=str(number)))
        steps.close("train", number, at(1_000 + number))
        assert taken(steps) == {number: ["ahead", "behind"]}


def test_a_time_range_begins_where_the_step_before_ended() -> None:
    """A step whose end lies before that of an earlier one is left out."""
    steps = SpansByStep()
    steps.close("train", 1, at(10))
    steps.close("train", 2, at(30))
    steps.close("train", 3, at(20))
    ranges = [time_range for _, time_range, _ in steps.take_changed()]
    assert [(one.step, one.start_ns, one.end_ns) for one in ranges if one] == [(1, 0, at(10)), (2, at(10), at(30))]


def test_waiting_spans_are_bounded() -> None:
    """A run without steps needs no more memory than this."""
    from telemetry.backends.timeline.backend import WAITING

    steps = SpansByStep()
    one: Span = span("x", 0, 1)
    for _ in range(WAITING + 10):
        steps.add(one)
    steps.close("train", 1, at(10))
    [(_, _, found)] = steps.take_changed()
    assert len(found) == WAITING

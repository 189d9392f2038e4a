"""Batches that are late: what was said of steps does not depend on which of a producer's batches came first."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from telemetry.aggregator import Aggregator, AggregatorConfig
from telemetry.testing import batch
from telemetry.testing.builders import MONO_NS, WALL_NS
from telemetry.wire.events import Axis, ClosedStep, EventBatch, EventRecord, Scalars, StepEnd

SECOND = 1_000_000_000
TOGETHER = 2
"""Steps of a batch, at most; so a producer may have a step in two."""


class Script:
    """Batches of two producers on one axis, in steps that ascend, and the order in which they are on their way."""

    def __init__(self, ends: list[list[bool]], turns: list[int], *, declaring: bool = False) -> None:
        """`ends`: for each batch of each producer, whether it says so at its end. `turns`: whose batch is next.

        With `declaring`, the first batch of each producer says that the axis closes by reports.
        """
        self.batches: list[list[EventBatch]] = []
        self.reported = {seq for said in ends for seq, with_end in enumerate(said) if with_end}
        for who, said in enumerate(ends):
            made: list[EventBatch] = []
            first = 0
            for seq, with_end in enumerate(said):
                records: list[EventRecord] = [
                    Scalars("train", step, {"x": float(10 * seq + who), f"y{seq}": 1.0}, MONO_NS + seq)
                    for step in range(seq, seq + TOGETHER)
                ]
                if declaring and not seq:
                    records.insert(0, Axis("train", closing="reported"))
                if with_end:
                    records.append(StepEnd("train", seq))
                made.append(batch(f"rank {who}", seq, first, records=records))
                first += len(records)
            self.batches.append(made)
        self.turns = turns

    def order(self, numbers: list[list[int]]) -> list[EventBatch]:
        """Return the batches of each producer in its same places, in the order of `numbers`."""
        left = [iter(of) for of in numbers]
        return [self.batches[who][next(left[who])] for who in self.turns]


@st.composite
def scripts(draw: st.DrawFn, *, declaring: bool = False) -> tuple[Script, list[list[int]], list[int]]:
    """Return a script, another order for all but the first batches, and how many come at a time."""
    ends = [draw(st.lists(st.booleans(), min_size=1, max_size=9)) for _ in range(2)]
    turns = [0, 1, *draw(st.permutations([who for who in range(2) for _ in ends[who][1:]]))]
    numbers = [[0, *draw(st.permutations(range(1, len(said))))] for said in ends]
    sizes = draw(st.lists(st.integers(1, 4), min_size=len(turns), max_size=len(turns)))
    return Script(ends, turns, declaring=declaring), numbers, sizes


def said(
    order: list[EventBatch], sizes: list[int], lost: dict[str, int] | None = None, *, reported: bool = False
) -> list[ClosedStep]:
    """The steps of a run in which they come in this order; then it is told what is lost. Nothing is dropped."""
    aggregator = Aggregator(AggregatorConfig())
    streamed = []
    if reported:
        declaration = batch("who declares", 0, 0, records=[Axis("train", closing="reported")])
        assert aggregator.admit(declaration, MONO_NS)
        aggregator.apply([declaration], MONO_NS, WALL_NS)
    for at, size in enumerate([2, *sizes]):
        turn, order = order[:size], order[size:]
        now_ns = MONO_NS + at
        admitted = [one for one in turn if aggregator.admit(one, now_ns)]
        assert admitted == turn
        streamed += aggregator.apply(turn, now_ns, WALL_NS)
        if not at:
            streamed += aggregator.pass_time(SECOND) + aggregator.pass_time(SECOND)
    for producer, seq in (lost or {}).items():
        streamed += aggregator.cannot_resend(producer, seq, seq, MONO_NS + 99)
    streamed += aggregator.close()
    for producer in aggregator.book.known:
        assert aggregator.book[producer].account.ledger.by_reason() == {}
    return [item.record for item in streamed if isinstance(item.record, ClosedStep)]


@given(scripts())
def test_batches_that_overtake_each_other_change_no_step(made: tuple[Script, list[list[int]], list[int]]) -> None:
    """The same steps, in the same order, closed for the same reason, and none said twice: however many batches are
    missing for a while, and however many come at once."""
    script, numbers, sizes = made
    usual = said(script.order([sorted(of) for of in numbers]), sizes)
    assert [step.step for step in usual] == sorted({step.step for step in usual})
    assert said(script.order(numbers), sizes) == usual
    assert said(script.order(numbers), [len(script.turns)]) == usual


@given(scripts(), st.data())
def test_a_batch_that_never_comes_holds_nothing_back_for_ever(
    made: tuple[Script, list[list[int]], list[int]], data: st.DataObject
) -> None:
    """Steps without a batch that was given up are those of a run in which it had no content."""
    script, numbers, sizes = made
    who, gone = data.draw(st.sampled_from([(who, seq) for who in (0, 1) for seq in numbers[who]]))
    if not gone or gone == len(numbers[who]) - 1:
        return  # who never came is nobody, and a tail is missing only once the end is told
    place = [at for at, whose in enumerate(script.turns) if whose == who]
    ordered = script.order([sorted(of) for of in numbers])
    ordered[place[gone]] = batch(f"rank {who}", gone, script.batches[who][gone].first)
    usual = said(ordered, sizes)
    order = [one for one in script.order(numbers) if (one.producer, one.seq) != (f"rank {who}", gone)]
    assert said(order, sizes, {f"rank {who}": gone}) == usual


def outcome(steps: list[ClosedStep]) -> dict[int, dict[str, float | None]]:
    """The values of each step after all corrections."""
    values: dict[int, dict[str, float | None]] = {}
    for step in steps:
        values.setdefault(step.step, {}).update(step.values)
    return values


@given(scripts())
def test_reports_that_overtake_values_change_no_result(made: tuple[Script, list[list[int]], list[int]]) -> None:
    """Each step has the same values in the end. A step that nobody reports is open to the end."""
    script, numbers, sizes = made
    usual = said(script.order([sorted(of) for of in numbers]), sizes, reported=True)
    other = said(script.order(numbers), sizes, reported=True)
    assert outcome(other) == outcome(usual)
    for steps in (usual, other):
        reported = {step.step for step in steps if step.closed == "ended"}
        assert reported == script.reported
        assert {step.step for step in steps if step.closed == "run_end"} == outcome(steps).keys() - reported


@given(scripts(), st.data())
def test_a_lost_batch_holds_no_report_back_for_ever(
    made: tuple[Script, list[list[int]], list[int]], data: st.DataObject
) -> None:
    """Reports behind a lost batch count once the batch is given up."""
    script, numbers, sizes = made
    who, gone = data.draw(st.sampled_from([(who, seq) for who in (0, 1) for seq in numbers[who]]))
    if not gone or gone == len(numbers[who]) - 1:
        return
    order = [one for one in script.order(numbers) if (one.producer, one.seq) != (f"rank {who}", gone)]
    steps = said(order, sizes, {f"rank {who}": gone}, reported=True)
    ended = {one.seq for one in order if len(one.records) > TOGETHER}
    assert {step.step for step in steps if step.closed == "ended"} == ended


@given(scripts(declaring=True), st.data())
def test_a_declaration_may_come_after_all_that_needs_it(
    made: tuple[Script, list[list[int]], list[int]], data: st.DataObject
) -> None:
    """Each producer declares the axis in its first batch, which may come last. Every report closes its step."""
    script, numbers, sizes = made
    usual = said(script.order([sorted(of) for of in numbers]), sizes)
    other = said(script.order([data.draw(st.permutations(of)) for of in numbers]), sizes)
    assert outcome(other) == outcome(usual)
    for steps in (usual, other):
        assert {step.step for step in steps if step.closed == "ended"} == script.reported

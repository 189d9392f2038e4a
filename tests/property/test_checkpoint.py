"""A checkpoint is the whole state: whoever goes on from it gets the same numbers to the last bit."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw
from msgspec.structs import replace

from telemetry import limits
from telemetry.aggregator import Aggregator, AggregatorConfig, SnapshotFacts
from telemetry.aggregator.series import extents, moments
from telemetry.testing import batch, loose_rows, with_raw_rows
from telemetry.testing.builders import MONO_NS, WALL_NS
from telemetry.wire.codec import encode_interval
from telemetry.wire.control import End, Hello
from telemetry.wire.drop_reasons import Reason
from telemetry.wire.events import (
    CLOSING_RULES,
    Axis,
    Count,
    Counted,
    Define,
    EventBatch,
    EventRecord,
    Expect,
    Gauge,
    Mark,
    Params,
    Sample,
    Scalars,
    Span,
    StepClear,
    StepEnd,
    Uncounted,
)
from telemetry.wire.events import REDUCTIONS as REDUCTION_WORDS

pytestmark = pytest.mark.slow

SECOND = 1_000_000_000
CONFIG = AggregatorConfig(percentiles=("50", "99"), window_s=2, series_cap=5, step_grace_s=1.0)
FACTS = SnapshotFacts(run_id="r", name="n", state="COMPLETE")

Operation = tuple[Any, ...]

PRODUCERS = st.sampled_from(["p", "q", "r", "one too many"])
NAMES = st.sampled_from([*"abcdefgh", "overflow"])
LABELS = st.sampled_from([{}, {"k": "1"}, {"k": "2", "j": "x"}])
VALUES = st.sampled_from(
    [
        0.0,
        1.0,
        2.5,
        0.1,
        1 / 3,
        7.0,
        5e-324,
        1e6 + 0.3,
        2.0**40 + 1,
        2.0**53,
        2.0**62,
        1e300,
        -1.0,
        math.nan,
        math.inf,
    ]
)
TIMES = st.sampled_from([0, MONO_NS, MONO_NS + SECOND, MONO_NS + 90 * SECOND])
BOUNDS = st.sampled_from([(3, None, None), (1, None, None), (5, None, 1e4), (4, 1e-3, None), (3, 5.0, 1.0)])
DEFINITIONS = st.builds(
    lambda number, name, kind, unit, labels, bounds, within: Define(
        number, name, kind, unit, labels, *bounds, within=within
    ),
    st.integers(0, 6),
    NAMES,
    st.sampled_from(["series", "series", "counter", "gauge"]),
    st.sampled_from(["ns", "ns", "s"]),
    LABELS,
    BOUNDS,
    st.just("") | NAMES,
)
AXES = st.sampled_from(["train", "train", "eval", "one too many"])
STEPS = st.integers(0, 9) | st.sampled_from([-(1 << 63), (1 << 63) - 1])
REDUCTIONS = st.sampled_from(REDUCTION_WORDS)
SCALARS = st.builds(Scalars, AXES, STEPS, st.dictionaries(NAMES, st.none() | VALUES, max_size=4), TIMES)
RECORDS: st.SearchStrategy[EventRecord] = st.one_of(
    DEFINITIONS,
    DEFINITIONS,
    st.builds(Sample, NAMES, VALUES, TIMES, st.just("ns"), LABELS),
    st.builds(Count, NAMES, VALUES, TIMES, st.just("ns"), LABELS),
    st.builds(Gauge, NAMES, VALUES, TIMES, st.just("ns"), LABELS),
    st.builds(Mark, st.text(max_size=3), TIMES, LABELS),
    st.builds(Params, st.dictionaries(NAMES, st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=9))),
    st.builds(Expect, NAMES, st.sampled_from([0.0, 3.0, 1e9])),
    st.just(Span("s", 5, 9)),
    st.builds(Uncounted, st.text(max_size=3), NAMES, TIMES, LABELS),
    st.builds(Counted, st.lists(st.integers(0, 9), max_size=3), st.integers(0, 3)),
    SCALARS,
    SCALARS,
    SCALARS,
    st.builds(StepEnd, AXES, STEPS),
    st.builds(
        Axis,
        AXES,
        REDUCTIONS,
        st.dictionaries(st.sampled_from(["a", "b*", "*"]), REDUCTIONS),
        closing=st.sampled_from(CLOSING_RULES),
    ),
    st.builds(StepClear, AXES, st.none() | STEPS),
)
ROWS = st.lists(st.tuples(st.sampled_from([0, 1, 2, 3, 4, 5, 6, 9, 0.5]), TIMES, VALUES), max_size=12)
DROPS = st.dictionaries(st.sampled_from(["buffer_full", "a", "b", "c"]), st.integers(0, 5), max_size=3)


@st.composite
def batches(draw: st.DrawFn) -> EventBatch:
    """Any number, so that there are gaps and duplicates; rows canonical, loose or none; records readable or not."""
    seq = draw(st.integers(0, 14) | st.sampled_from([10**6, 1 << 50]))
    sent = batch(
        draw(PRODUCERS),
        seq,
        seq * 10 % limits.EVENT_NUMBERS,
        rows=draw(ROWS),
        records=draw(st.lists(RECORDS, max_size=6)),
        dropped=draw(DROPS),
    )
    match draw(st.integers(0, 9)):
        case 0:
            return with_raw_rows(sent, loose_rows([1, 0, 5, 2, 0, None]))
        case 1:
            return with_raw_rows(sent, Raw(b"\xc0"))
        case 2:
            return replace(sent, records=[*sent.records, Raw(b"\x92\xa6sample\x05"), Raw(b"\x92\xa6define\x07")])
    return sent


ASKED = ("snapshot", "acknowledgements", "exact targets", "take texts")
OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("turn"), st.lists(batches(), min_size=1, max_size=4)),
        st.tuples(st.just("turn"), st.lists(batches(), min_size=1, max_size=4)),
        st.tuples(st.just("turn"), st.lists(batches(), min_size=1, max_size=4)),
        st.tuples(st.just("hello"), PRODUCERS),
        st.tuples(st.just("ping"), PRODUCERS),
        st.tuples(st.just("end"), PRODUCERS, st.integers(0, 15), st.integers(0, 99)),
        st.tuples(st.just("cannot resend"), PRODUCERS, st.integers(0, 15), st.integers(0, 15)),
        st.tuples(st.just("roll"), st.sampled_from([0, SECOND // 3, SECOND])),
        st.tuples(st.just("roll"), st.just(SECOND)),
        st.tuples(st.just("bad frame"), st.sampled_from([Reason.WRONG_TOPIC, Reason.FRAME_UNREADABLE])),
        st.tuples(st.just("take bad frames")),
        st.tuples(st.just("close")),
        st.tuples(st.sampled_from(ASKED)),
    ),
    max_size=25,
)


@contextmanager
def small_limits() -> Iterator[None]:
    """Every bound within reach of a few operations."""
    with (
        patch.multiple(
            limits,
            UNKNOWN_ROWS=10,
            SEQUENCE_GAPS=3,
            GAPS_SHOWN=2,
            DROP_REASONS=2,
            WARNINGS_KEPT=4,
            MARKS_KEPT=2,
            PARAMS_KEPT=4,
            PARAM_CHARS_KEPT=15,
            PRODUCERS=3,
            ID_SLOTS=32,
            INSTRUMENT_CHARS=20,
            FINE_PAGES=300,
            CHUNK_EVENTS=8,
            EXTENT_ROWS=8,
            UNCOUNTED_TEXTS=4,
            UNCOUNTED_BYTES=60,
            AXES=2,
            STEPS_OPEN=3,
            STEPS_KEPT=2,
            STEP_VALUES=30,
            STEP_UNITS=1,
            STEP_NAMES_SHOWN=3,
            PARAMS_PER_RECORD=2,
        ),
        patch.object(extents, "_FEWEST", 4),
        patch.object(moments, "FOLD_EVENTS", 20),
    ):
        yield


class Run:
    """An aggregator, what it was told when, and what it answered."""

    def __init__(self, aggregator: Aggregator, now_ns: int = 0) -> None:
        self.aggregator = aggregator
        self.now_ns = now_ns
        self.answers: list[object] = []

    def do(self, operation: Operation) -> None:
        self.now_ns += SECOND // 7
        wall_ns = WALL_NS + self.now_ns
        of = self.aggregator
        told: dict[str, Callable[..., object]] = {
            "turn": self._turn,
            "hello": lambda producer: of.hello(Hello(producer=producer, pid=7, rank=1), self.now_ns, wall_ns),
            "ping": lambda producer: of.ping(producer, self.now_ns),
            "end": lambda producer, batches, emitted: of.end(
                End(producer=producer, batches=batches, emitted=emitted, dropped={"c": 2}), self.now_ns
            ),
            "cannot resend": lambda producer, first, last: of.cannot_resend(producer, first, last, self.now_ns),
            "roll": lambda ns: (encode_interval(of.roll(wall_ns - ns, wall_ns, ns)), of.pass_time(ns)),
            "bad frame": of.bad_frame,
            "take bad frames": of.take_bad_frames,
            "close": of.close,
            "snapshot": self.snapshot,
            "acknowledgements": lambda: bool(of.book.acknowledgements()) and None,
            "take texts": self._take_texts,
            "exact targets": lambda: bool(of.series.targets()) and None,
        }
        name, *arguments = operation
        self.answers.append(told[name](*arguments))

    def _turn(self, sent: list[EventBatch]) -> object:
        new = [self.aggregator.admit(one, self.now_ns) for one in sent]
        admitted = [one for one, is_new in zip(sent, new, strict=True) if is_new]
        return new, self.aggregator.apply(admitted, self.now_ns, WALL_NS + self.now_ns)

    def _take_texts(self) -> None:
        """Take the texts away, because those that a restored aggregator gives out again are no answer."""
        self.aggregator.uncounted.take(20)

    def snapshot(self) -> object:
        return self.aggregator.snapshot(FACTS, self.now_ns, WALL_NS + self.now_ns)


@settings(max_examples=3 * settings().max_examples)
@given(OPERATIONS, st.integers(0, 25))
def test_a_restored_aggregator_goes_on_as_the_other_one(operations: list[Operation], cut: int) -> None:
    """Same answers, same snapshot, same intervals, and at the end the same checkpoint: wherever it was made."""
    with small_limits():
        whole = Run(Aggregator(CONFIG))
        for operation in operations[:cut]:
            whole.do(operation)
        checkpoint = whole.aggregator.checkpoint()
        restored = Run(Aggregator.restore(checkpoint), whole.now_ns)
        assert restored.aggregator.checkpoint() == checkpoint
        assert whole.aggregator.checkpoint() == checkpoint
        del whole.answers[:]
        for operation in operations[cut:]:
            whole.do(operation)
            restored.do(operation)
        assert restored.answers == whole.answers
        assert restored.snapshot() == whole.snapshot()
        assert restored.aggregator.checkpoint() == whole.aggregator.checkpoint()


@given(OPERATIONS)
def test_questions_change_no_number(operations: list[Operation]) -> None:
    """The number of snapshots and acknowledgements changes nothing in what is computed."""
    with small_limits():
        asked, left_alone = Run(Aggregator(CONFIG)), Run(Aggregator(CONFIG))
        for operation in operations:
            asked.do(operation)
            for question in ASKED:
                asked.do((question,))
            if operation[0] not in ASKED:
                left_alone.now_ns = asked.now_ns - (len(ASKED) + 1) * (SECOND // 7)
                left_alone.do(operation)
        left_alone.now_ns = asked.now_ns
        assert left_alone.aggregator.checkpoint() == asked.aggregator.checkpoint()
        assert left_alone.snapshot() == asked.snapshot()

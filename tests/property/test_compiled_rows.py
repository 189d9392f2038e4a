"""Tests that the code in C leaves the same state as numpy, to the last bit."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from struct import pack
from typing import Any, cast
from unittest import mock

import msgspec
import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from telemetry import limits
from telemetry.aggregator import Aggregator, AggregatorConfig, fast_rows
from telemetry.aggregator.checkpoint import encode, save
from telemetry.aggregator.series import group
from telemetry.aggregator.series.table import SeriesTable
from telemetry.testing.builders import MONO_NS, WALL_NS
from telemetry.wire import codec
from telemetry.wire import rows as wire_rows
from telemetry.wire.codec import decode_batch, encode_batch
from telemetry.wire.events import Define, EventBatch, OutgoingBatch
from telemetry.wire.version import PROTOCOL

SERIES = (
    {"unit": "ns"},
    {"unit": "tokens"},
    {"unit": "ms", "low": 0.01, "high": 50.0},
    {"unit": "s"},
    {"unit": "", "low": 3.0},
)
WHOLE = st.sampled_from([0.0, -0.0, 1.0, 2.0, 255.0, 256.0, 2047.0, 2048.0, 2049.0, 4095.0, 1e6, 1e9])
EDGES = st.sampled_from([0.5, 1.5, 2.5, 2.0**52 - 0.5, 2.0**53 - 1, 2.0**53])
ANY = st.floats(0, 1e4) | st.floats(0, 1e100) | EDGES
ROWS = st.lists(st.tuples(st.integers(0, len(SERIES) - 1), WHOLE | ANY), min_size=1, max_size=20)
STEPS = st.lists(ROWS | st.integers(2, 40) | st.none(), min_size=1, max_size=12)
"""Rows; the last ones so many times more; a second ends."""


def state(steps: list[list[tuple[int, float]] | int | None]) -> bytearray:
    table = SeriesTable(("50", "99"), 3)
    for number, options in enumerate(SERIES):
        table.add(f"s{number}", {}, **options)  # type: ignore[arg-type]
    index, value = np.zeros(1, np.intp), np.ones(1)
    for step in steps:
        if step is None:
            table.roll(1.0)
        elif isinstance(step, int):
            table.record(np.tile(index, step), np.tile(value, step))
        else:
            index, value = np.array([row[0] for row in step], np.intp), np.array([row[1] for row in step])
            table.record(index, value)
    return encode(save(table))


ZEROS = [[(1, 1.0)], [(1, 0.0), (1, -0.0)], None]
FAR = [[(1, 2.0**52 - 500)], [(0, 999.5)], None, [(1, 2.0**52 - 500)] * 2, [(0, 999.5)]]


@example(ZEROS)
@example(FAR)
@given(STEPS)
def test_both_ways_lead_to_the_same_state(
    compiled: Callable[..., Any], steps: list[list[tuple[int, float]] | int | None]
) -> None:
    """Both ways lead to the same sums as they round, counts by slot, minimum and maximum.

    This holds for values in portions of any size.
    """
    with mock.patch.object(group, "Columns", compiled):
        found = state(steps)
    with mock.patch.object(group, "Columns", None):
        assert found == state(steps)


# --- batches -------------------------------------------------------------------------------------

KINDS: tuple[dict[str, Any], ...] = (
    {"name": "latency", "kind": "series", "unit": "ns"},
    {"name": "tokens", "kind": "series", "unit": "tokens", "within": "latency"},
    {"name": "size", "kind": "series", "unit": "ms", "low": 0.01, "high": 50.0},
    {"name": "requests", "kind": "counter", "unit": "requests"},
    {"name": "errors", "kind": "counter", "unit": "", "within": "latency"},
    {"name": "queue", "kind": "gauge", "unit": ""},
    {"name": "heat", "kind": "gauge", "unit": "C"},
)
"""Instruments by id. Two follow the first one, whose rows mark times."""
MORE: tuple[dict[str, Any], ...] = (
    {"name": "late", "kind": "series", "unit": "ns"},
    {"name": "late", "kind": "counter", "unit": ""},
    {"name": "late", "kind": "gauge", "unit": ""},
    {"name": "fine", "kind": "series", "unit": "ns", "digits": 4},
)
"""Instruments of later ids. The last one has histograms of its own precision."""
PRODUCERS = ("p", "q", "r")
USUAL = st.sampled_from([0.0, 1.0, 2.0, 3.0, 255.0, 2048.0, 70_000.0, 1e6, 2.5e7])
UNUSUAL = st.sampled_from([-0.0, -1.0, 0.5, 1e-3, 1.5, 2.0**39, 2.0**52 - 1, 2.0**53, 1e300, math.nan, math.inf])
TIMES = st.sampled_from([0, MONO_NS, MONO_NS + 5, MONO_NS - 10**9, MONO_NS + 10**12, 1 << 63, (1 << 64) - 1])
IDS = st.integers(0, len(KINDS) - 1)
USUAL_ROW = st.tuples(IDS, TIMES, USUAL)
ANY_ROW = st.tuples(
    st.integers(0, len(KINDS) + 1) | st.sampled_from([-1, 0.5, 15.0, 16.0, 65_535, 65_536, math.nan]),
    TIMES,
    USUAL | UNUSUAL | st.floats(0, 1e4),
)
LINES = st.lists(USUAL_ROW, max_size=12) | st.lists(USUAL_ROW | ANY_ROW, max_size=12)
ANCHORS = st.sampled_from([(MONO_NS, WALL_NS), (MONO_NS - 10**6, WALL_NS), (0, 0), (5, 7), (MONO_NS, 0)])
SENT = st.tuples(st.sampled_from(PRODUCERS), LINES, st.integers(1, 4), ANCHORS)
"""Producer, rows, how often these, anchor."""
TURNS = st.lists(
    st.lists(SENT, min_size=1, max_size=4) | st.integers(0, len(MORE) - 1) | st.just("roll"),
    min_size=1,
    max_size=10,
)

Line = tuple[float, int, float]


def canonical(lines: list[Line]) -> msgspec.Raw:
    """Return rows as a producer packs them."""
    rows = b"".join(pack(">BdBQBd", 0xCB, row_id, 0xCF, time_ns, 0xCB, value) for row_id, time_ns, value in lines)
    return msgspec.Raw(pack(">BH", 0xDC, 3 * len(lines)) + rows)


class Run:
    """An aggregator that takes the same turns either way."""

    def __init__(self) -> None:
        self.aggregator = Aggregator(AggregatorConfig(percentiles=("50", "99"), window_s=2))
        self.now_ns = MONO_NS
        self._next = dict.fromkeys(PRODUCERS, (0, 0))
        self.answers: list[object] = []
        self.take([self.batch(producer, [], records=KINDS) for producer in PRODUCERS])

    def batch(
        self,
        producer: str,
        lines: list[Line],
        anchor: tuple[int, int] = (MONO_NS, WALL_NS),
        records: tuple[dict[str, Any], ...] = (),
        first_id: int = 0,
    ) -> EventBatch:
        seq, first = self._next[producer]
        self._next[producer] = seq + 1, first + len(lines)
        defines = [Define(first_id + number, **options) for number, options in enumerate(records)]
        raw = cast(Any, canonical(lines))
        return decode_batch(
            bytes(encode_batch(OutgoingBatch(PROTOCOL, producer, seq, first, anchor, {}, defines, raw)))
        )

    def take(self, batches: list[EventBatch]) -> None:
        self.now_ns += 10**8
        for batch in batches:
            assert self.aggregator.admit(batch, self.now_ns)
        self.aggregator.apply(batches, self.now_ns, WALL_NS + self.now_ns - MONO_NS)

    def do(self, turn: Any) -> None:
        if turn == "roll":
            self.now_ns += 10**9
            self.answers.append(self.aggregator.roll(WALL_NS, WALL_NS, 10**9))
        elif isinstance(turn, int):
            self.take([self.batch("p", [], records=MORE[turn : turn + 1], first_id=len(KINDS) + turn % 2)])
        else:
            self.take([self.batch(producer, lines * often, anchor) for producer, lines, often, anchor in turn])

    def state(self) -> tuple[bytearray, list[object]]:
        return self.aggregator.checkpoint(), self.answers


@contextmanager
def taken(columns: Any) -> Iterator[None]:
    """Use this code for usual rows; None for numpy. Chunks are so small that a turn has several."""
    with (
        mock.patch.object(limits, "CHUNK_EVENTS", 8),
        mock.patch.object(group, "Columns", columns),
        mock.patch.object(fast_rows, "Columns", columns),
    ):
        yield


def outcome(turns: list[Any], columns: Any) -> tuple[bytearray, list[object]]:
    with taken(columns):
        run = Run()
        for turn in turns:
            run.do(turn)
        return run.state()


def turn(lines: list[Line]) -> Any:
    """Return a turn of one batch."""
    return [("p", lines, 1, (MONO_NS, WALL_NS))]


WARM: list[Any] = [turn([(number, MONO_NS, 1.0) for number in range(len(KINDS))])]
MIXED: list[Any] = [
    *WARM,
    [
        (
            "p",
            [(0, MONO_NS, 2e6), (3, MONO_NS, 2.0), (5, MONO_NS, 3.0), (4, MONO_NS + 5, 1.0)],
            4,
            (MONO_NS, WALL_NS),
        )
    ],
    [("q", [(1, MONO_NS, 2.0), (5, MONO_NS + 5, 0.0)], 3, (0, 0)), ("p", [(6, 0, -2.0)], 1, (MONO_NS, WALL_NS))],
    "roll",
]


@example(MIXED)
@example([*MIXED, 0, *MIXED, 3, *MIXED])
@example([turn([(0, MONO_NS, 1e6)] * 8 + [(0, MONO_NS, 70_000.0)])])
@example([turn([(1, MONO_NS, 2.0)]), turn([(1, MONO_NS, 1.5)])])
@example([turn([(0, MONO_NS, 1.0), (0.5, MONO_NS, 1.0)])])
@example([turn([(5, MONO_NS, 0.0)]), turn([(5, MONO_NS, -0.0)]), turn([(5, MONO_NS, 0.0)])])
@example([turn([(5, MONO_NS, -0.0), (6, MONO_NS, -1.0)]), turn([(5, MONO_NS, 0.0), (6, MONO_NS, 0.0)])])
@settings(max_examples=3 * settings().max_examples)
@given(TURNS)
def test_batches_leave_the_same_checkpoint_either_way(compiled: Callable[..., Any], turns: list[Any]) -> None:
    """Rows of any kind, from several producers, in chunks and in new pages, with special rows among them."""
    assert outcome([*WARM, *turns], compiled) == outcome([*WARM, *turns], None)


def test_usual_batches_never_reach_numpy(compiled: Callable[..., Any]) -> None:
    """Except for the first values of each series. Otherwise the test above would compare numpy with itself."""
    numpy_path = mock.Mock(side_effect=AssertionError("numpy"))
    with taken(compiled):
        run = Run()
        for turn in WARM:
            run.do(turn)
        with mock.patch("telemetry.aggregator.apply.unpack", numpy_path):
            for turn in MIXED:
                run.do(turn)
    assert not numpy_path.called


AROUND = st.tuples(st.binary(max_size=60) | st.integers(900, 1_200).map(bytes), st.binary(max_size=2))


@given(AROUND, st.integers(0, 40), st.integers(0, 70), st.booleans())
def test_rows_are_found_at_the_same_place(
    find_rows: Callable[[bytes, int], int], around: tuple[bytes, bytes], rows: int, begin: int, wide: bool
) -> None:
    """Rows are found at the same place behind any bytes.

    This holds also for rows that are not whole or not quite canonical.
    """
    head, tail = around
    array = bytes(canonical([(1.0, MONO_NS, 2.0)] * rows))
    if wide:
        array = pack(">BI", 0xDD, 3 * rows) + array[3:]
    for data in (head + array + tail, head + array, head + array[:-1], head):
        for start in (begin, len(codec.EVENTS), len(head)):
            assert find_rows(data, start) == wire_rows.find(data, start)


@given(st.integers(1, 60), st.data())
def test_one_changed_marker_is_seen(find_rows: Callable[[bytes, int], int], rows: int, data: st.DataObject) -> None:
    """One changed marker is noticed in any row."""
    array = bytearray(canonical([(1.0, MONO_NS, 2.0)] * rows))
    assert find_rows(bytes(array), 0) == 0
    array[3 + 9 * data.draw(st.integers(0, 3 * rows - 1))] ^= data.draw(st.integers(1, 255))
    assert find_rows(bytes(array), 0) == wire_rows.find(bytes(array), 0) == -1

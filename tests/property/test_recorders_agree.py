"""The compiled recorder and that in Python: the same calls give the same batches and the same account."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry import limits
from telemetry.client.catalog import Catalog
from telemetry.client.native_recorders import build_recorders
from telemetry.client.recorders import Recorders, discard, python_recorders
from telemetry.client.sending.outbox import Outbox
from telemetry.testing.clock import FakeClock
from telemetry.wire.codec import decode_batch
from telemetry.wire.drop_reasons import Reason
from telemetry.wire.rows import ROW_BYTES

EARLIEST_NS = 1 << 32
"""From here on a time takes nine bytes however it is encoded, as in every batch of a machine that is up for 5 s."""


class Breaks:
    """A value that raises something."""

    def __init__(self, error: type[BaseException]) -> None:
        self.error = error

    def __float__(self) -> float:
        raise self.error


class Likes:
    """A value that is a number in its own way."""

    def __float__(self) -> float:
        return 2.5


class Index:
    """A time that is an integer in its own way."""

    def __index__(self) -> int:
        return EARLIEST_NS + 5


VALUES = st.one_of(
    st.floats(),
    st.integers(),
    st.sampled_from([True, None, "1.5", b"1", [], Likes(), Breaks(ValueError), Breaks(KeyError), 1 << 2_000, 1j]),
)
TIMES = st.one_of(
    st.integers(EARLIEST_NS, (1 << 63) - 1),
    st.sampled_from([-1, 1 << 63, 1 << 70, 1.5, "1", Index(), Breaks(OSError)]),
)
CALLS = st.one_of(
    st.tuples(st.just("record"), VALUES, TIMES),
    st.tuples(st.just("set"), VALUES, TIMES),
    st.tuples(st.just("add"), VALUES, TIMES),
    st.tuples(st.just("add one"), TIMES),
    st.tuples(st.just("put"), st.lists(st.tuples(st.floats(), st.integers(EARLIEST_NS, 1 << 62)), max_size=5)),
    st.tuples(st.just("mark"), st.binary(max_size=20)),
    st.tuples(st.just("batch")),
    st.tuples(st.just("discard")),
    st.tuples(st.just("count")),
    st.tuples(st.just("install")),
)


class Side:
    """One of the two: its recorders, and the batches that come of them."""

    def __init__(self, recorders: Recorders) -> None:
        self.recorders = recorders
        self.counted: list[float] = []
        catalog = Catalog(recorders, recorders.unencodable)
        self.series = catalog.instrument("series", "s")
        self.gauge = catalog.instrument("gauge", "g")
        self.counter = catalog.instrument("counter", "c")
        clock = FakeClock()
        self.outbox = Outbox(
            "p",
            recorders.buffer,
            catalog.definitions,
            tallies={Reason.NOT_A_NUMBER: recorders.refused, Reason.UNENCODABLE: recorders.unencodable},
            row_bound=10,
            clock=clock,
        )
        self.frames: list[bytes] = []

    def call(self, name: str, *arguments: Any) -> None:
        recorders = self.recorders
        calls: dict[str, Callable[..., object]] = {
            "record": self.series.record,  # type: ignore[attr-defined]
            "set": lambda value, at: self.gauge.set(value, at_ns=at),  # type: ignore[attr-defined]
            "add": lambda value, at: self.counter.add(n=value, at_ns=at),  # type: ignore[attr-defined]
            "add one": lambda at: self.counter.add(at_ns=at),  # type: ignore[attr-defined]
            "put": lambda rows: recorders.put([number for value, at in rows for number in (0.0, at, value)]),
            "mark": lambda text: self.outbox.records.append(
                b"\x92\xa4mark" + b"\xa1x" if text else b"\x92\xa4mark\xa0"
            ),
            "batch": self.pack,
            "discard": lambda: recorders.install(discard),
            "count": lambda: recorders.install(self.counted.extend),
            "install": lambda: recorders.install(recorders.buffer.extend),
        }
        calls[name](*arguments)

    def pack(self) -> None:
        self.outbox.settle()
        packed = self.outbox.pack()
        if packed is not None:
            self.frames.append(bytes(packed.frame))


@pytest.mark.usefixtures("native")
@given(st.lists(CALLS, max_size=60))
def test_the_same_calls_give_the_same_batches(calls: list[tuple[Any, ...]]) -> None:
    """Byte for byte, with the same drops by reason; a call that raises on one side raises on the other."""
    here, there = Side(build_recorders()), Side(python_recorders())
    for call in [("install",), *calls, ("batch",), ("batch",)]:
        for side in (here, there):
            side.call(*call)
    assert here.frames == there.frames
    assert repr(here.counted) == repr(there.counted)  # as text, because a NaN is not equal to itself
    assert (here.outbox.emitted, here.outbox.dropped) == (there.outbox.emitted, there.outbox.dropped)
    assert here.recorders.refused.total == there.recorders.refused.total


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_what_ends_a_program_passes(error: type[BaseException]) -> None:
    """An exception that is none of a value comes out of the call."""
    for recorders in (build_recorders(), python_recorders()):
        record = recorders.record(0.0)
        recorders.install(recorders.buffer.extend)
        with pytest.raises(error):
            record(Breaks(error))
        assert (len(recorders.buffer), recorders.refused.total) == (0, 0)


def test_more_rows_than_a_ring_begins_with() -> None:
    """A ring that gets more rows than it begins with grows, and gives them back in order."""
    recorders = build_recorders()
    record = recorders.record(1.0)
    recorders.install(recorders.buffer.extend)
    for number in range(200_000):
        record(number, at_ns=EARLIEST_NS + number)
    outbox = Outbox("p", recorders.buffer, [], tallies={}, row_bound=None, clock=FakeClock())
    values: list[float] = []
    while (packed := outbox.pack()) is not None:
        batch = decode_batch(bytes(packed.frame))
        body = batch.rows.body
        assert body is not None
        values += [int.from_bytes(body[at + 10 : at + 18], "big") for at in range(0, len(body), ROW_BYTES)]
    assert values == [EARLIEST_NS + number for number in range(200_000)]
    assert outbox.next_seq == -(-200_000 // limits.BATCH_EVENTS)

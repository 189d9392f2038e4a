"""Batches whose rows nobody walked through are read as those whose rows somebody did."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry.wire.codec import EVENTS, TOPIC_BYTES, Malformed, decode_batch, encode_batch
from telemetry.wire.events import EventBatch, Mark, OutgoingBatch
from telemetry.wire.rows import ROW_BYTES, at_end
from telemetry.wire.version import PROTOCOL

ROW = (st.integers(0, 70_000).map(float), st.integers(1 << 32, (1 << 64) - 1), st.floats(allow_nan=False))

ROWS = [1.0, 1 << 40, 2.0] * 400


@st.composite
def frames(draw: st.DrawFn) -> bytes:
    """Return a frame as producers make them, with any number of rows.

    Some frames are cut, or changed in a few bytes.
    """
    count = draw(st.sampled_from([0, 1, 5, 6, 7, 40, 400, 21_845, 21_846]))
    row = [number for strategy in ROW for number in [draw(strategy)]]
    batch = OutgoingBatch(
        version=PROTOCOL,
        producer=draw(st.text("abc-", min_size=1, max_size=60)),
        seq=draw(st.integers(0, 1 << 40)),
        first=draw(st.integers(0, 1 << 40)),
        anchor=(draw(st.integers(0, 1 << 60)), 1),
        dropped=draw(st.dictionaries(st.sampled_from(["buffer_full", "not_a_number"]), st.integers(0, 9))),
        records=[Mark("m" * draw(st.integers(0, 40)))] * draw(st.integers(0, 3)),
        rows=row * count,
    )
    frame = encode_batch(batch)
    for at, byte in draw(st.lists(st.tuples(st.integers(0, len(frame) - 1), st.integers(0, 255)), max_size=3)):
        frame[at] = byte
    return bytes(frame[: len(frame) - draw(st.sampled_from([0, 0, 0, 1, 27]))])


def read(frame: bytes | bytearray) -> object:
    """Return the fields of a frame, or the reason why it is refused."""
    try:
        batch = decode_batch(frame)
    except Malformed as malformed:
        return malformed.reason
    return [getattr(batch, name) for name in FIELDS]


FIELDS = [name for name in EventBatch.__struct_fields__ if name != "records"]


@given(frames())
def test_rows_unread_are_rows_read(frame: bytes) -> None:
    """Rows of `bytes` are left unread, and are the same as rows that were read."""
    assert read(frame) == read(bytearray(frame))


def test_a_batch_of_many_canonical_rows_is_found_to_end_with_them() -> None:
    """A batch of many canonical rows is found with a frame of any length around them. One wrong mark is noticed."""
    for rows in (6, 40, 21_845, 21_846):
        frame = bytes(encode_batch(OutgoingBatch(PROTOCOL, "p", 0, 0, (1, 1), {}, [], [1.0, 1 << 40, 2.0] * rows)))
        header = 3 if rows <= 21_845 else 5
        found = at_end(frame, TOPIC_BYTES)
        assert found is not None
        assert (found.count, len(found.data)) == (rows, header + ROW_BYTES * rows)
        assert at_end(frame[:-9] + b"\xcf" + frame[-8:], TOPIC_BYTES) is None


@pytest.mark.parametrize(
    "end",
    [([], ROWS), (ROWS[:3], ROWS), ([1.0, ROWS],), ([ROWS, ROWS],), (ROWS, [])],
    ids=["behind none", "behind rows", "in rows", "twice in rows", "before more"],
)
def test_only_the_field_of_rows_is_left_unread(end: tuple[object, ...]) -> None:
    """Only the field of rows is left unread.

    Fields within it that look like rows, or fields of a later version behind it, are read.
    """
    frame = EVENTS + msgspec.msgpack.encode([PROTOCOL, "p", 0, 0, (1, 1), {}, [], *end])
    assert read(frame) == read(bytearray(frame))


def test_a_mark_far_from_the_end_is_no_header() -> None:
    """Records may hold any byte, and be longer than the rows that a short header can tell of."""
    for distance in (3 * 21_846, 10**6):
        assert at_end(bytes(TOPIC_BYTES) + b"\xdc" * distance, TOPIC_BYTES) is None

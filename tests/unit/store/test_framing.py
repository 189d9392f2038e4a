"""Frames survive every torn tail and every flipped bit: readers stop before the damage and say how much is cut."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry.errors import RunDirectoryError
from telemetry.store.framing import (
    FRAME_HEADER_BYTES,
    SEGMENT_HEADER_BYTES,
    SegmentReader,
    frame,
    segment_header,
)

MAGIC = b"testmagc"
Item = tuple[int, int, bytes]
ITEMS = st.lists(
    st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 255), st.binary(max_size=40)), min_size=1, max_size=6
)


def segment(items: list[Item]) -> tuple[bytes, list[int]]:
    """A segment, and where each of its frames ends."""
    data = segment_header(MAGIC)
    ends = []
    for stamp, kind, payload in items:
        data += b"".join(frame([payload], stamp, kind))
        ends.append(len(data))
    return data, ends


class _Trickle(io.BytesIO):
    """Gives at most `step` bytes a read."""

    step = 7

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        return super().readinto(buffer[: self.step])


def read(data: bytes, source: type[io.BytesIO] = io.BytesIO) -> tuple[list[Item], int]:
    reader = SegmentReader(source(data), Path("segment"), MAGIC)  # type: ignore[arg-type]
    return [(item.stamp, item.kind, bytes(item.data)) for item in reader.frames()], reader.torn_bytes


@given(ITEMS)
def test_round_trip(items: list[Item]) -> None:
    """What was framed is read back, and nothing is torn."""
    assert read(segment(items)[0]) == (items, 0)


@given(ITEMS)
def test_reads_may_be_short(items: list[Item]) -> None:
    """A source that trickles gives the same frames."""
    assert read(segment(items)[0], _Trickle) == (items, 0)


@given(ITEMS)
def test_torn_at_every_byte(items: list[Item]) -> None:
    """Cut anywhere, exactly the whole frames before the cut are read, and the rest is counted."""
    data, ends = segment(items)
    for cut in range(len(data)):
        whole = [end for end in ends if end <= cut]
        kept = whole[-1] if whole else (SEGMENT_HEADER_BYTES if cut >= SEGMENT_HEADER_BYTES else 0)
        assert read(data[:cut]) == (items[: len(whole)], cut - kept)


@given(ITEMS, st.data())
def test_any_flipped_bit_stops_before_its_frame(items: list[Item], data: st.DataObject) -> None:
    """A frame with a flipped bit in header or payload is not handed out, nor is anything after it."""
    intact, ends = segment(items)
    bit = data.draw(st.integers(SEGMENT_HEADER_BYTES * 8, len(intact) * 8 - 1))
    damaged = bytearray(intact)
    damaged[bit // 8] ^= 1 << bit % 8
    hit = sum(end <= bit // 8 for end in ends)
    found, torn = read(bytes(damaged))
    assert found == items[:hit]
    assert torn == len(intact) - (ends[hit - 1] if hit else SEGMENT_HEADER_BYTES)


def test_a_tail_of_zeros_is_torn() -> None:
    """What a file system leaves after a power cut is no frame."""
    data, _ = segment([(1, 1, b"x")])
    assert read(data + bytes(100)) == ([(1, 1, b"x")], 100)


def test_a_lying_length_costs_no_memory() -> None:
    """A length of 4 GiB in a small file is torn, not allocated."""
    data, _ = segment([(1, 1, b"x")])
    lie = b"\xff\xff\xff\xff" + bytes(FRAME_HEADER_BYTES)
    assert read(data + lie) == ([(1, 1, b"x")], len(lie))


def test_frames_larger_than_the_read_buffer() -> None:
    """The buffer grows to the frame and small frames go on after it."""
    items = [(1, 1, b"a"), (2, 1, bytes(5 << 20)), (3, 1, b"b"), (4, 1, b"c" * (3 << 20)), (5, 1, b"d")]
    assert read(segment(items)[0]) == (items, 0)


def test_data_is_read_only() -> None:
    """Nobody can change the buffer the next frames come from."""
    reader = SegmentReader(io.BytesIO(segment([(1, 1, b"x")])[0]), Path("s"), MAGIC)  # type: ignore[arg-type]
    assert next(reader.frames()).data.readonly


@pytest.mark.parametrize("data", [b"", b"short", b"othermgc" + bytes(20)])
def test_no_header_of_ours_is_all_torn(data: bytes) -> None:
    """An empty, cut or foreign file yields nothing and counts every byte."""
    assert read(data) == ([], len(data))


def test_a_newer_schema_is_refused() -> None:
    """A file of a newer version is an error, not a torn tail."""
    newer = MAGIC + (99).to_bytes(8, "little")
    with pytest.raises(RunDirectoryError, match="schema version 99"):
        read(newer)

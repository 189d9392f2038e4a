"""A packed interval is the interval: to the last bit, as a whole and series by series; and nothing else is one."""

from __future__ import annotations

import struct
import tracemalloc
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.unit.store.columns import INTERVALS, Row, interval, many

from telemetry.limits import HISTORY_UNPACKED_BYTES
from telemetry.store.intervals import packed
from telemetry.store.intervals.packed import OPENING_BYTES, Head, intact, pack, pick, unpack, unpacked_bytes
from telemetry.wire.codec import Malformed, decode_interval, encode_interval
from telemetry.wire.history import Interval

STAMP, KIND = 59, 2
GOLDEN = Path(__file__).parents[3] / "golden" / "history"


def pack_it(one: Interval) -> bytes:
    data = pack(one, STAMP, KIND)
    assert data is not None
    return data


@contextmanager
def groups_of(size: int) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packed, "_GROUP_BYTES", size)
        yield


def check_rows(one: Interval, data: bytes) -> None:
    """Each series alone is what the columns say; those between are not there."""
    head, columns = Head.of(data, len(data)), one.series
    ends = np.cumsum(np.frombuffer(columns.occupied, "<u4"), dtype=np.int64).tolist()
    indices = np.frombuffer(columns.index, "<u4").tolist()
    for row, (index, begin, end) in enumerate(zip(indices, [0, *ends], ends, strict=False)):
        group = head.group_of(index)
        assert group is not None
        found = pick(head, group, data[group.begin : group.begin + group.bytes], index)
        assert found is not None
        wide = struct.pack("<Qddd", found.values, found.total, found.min, found.max)
        own = slice(8 * row, 8 * row + 8)
        assert wide == columns.count[own] + columns.total[own] + columns.min[own] + columns.max[own]
        assert found.slots.astype("<u4").tobytes() == columns.slots[4 * begin : 4 * end]
        assert found.counts.astype("<u4").tobytes() == columns.counts[4 * begin : 4 * end]
    for absent in {near for index in indices for near in (index - 1, index + 1)} - set(indices):
        group = head.group_of(absent)
        if group is not None:
            assert pick(head, group, data[group.begin : group.begin + group.bytes], absent) is None


@given(INTERVALS, st.sampled_from([1, 20, 200, 16_384]))
def test_packed_and_unpacked_is_the_interval(one: Interval, group_bytes: int) -> None:
    """Counts of 64 bits, slots of 32, not a number, nothing at all: as a whole, and each series alone."""
    with groups_of(group_bytes):
        data = pack_it(one)
    assert unpack(data, STAMP, KIND) == one
    head = Head.of(data, len(data))
    assert (head.start_ns, head.end_ns) == (one.start_ns, one.end_ns)
    assert intact(data[: head.body], len(data), STAMP, KIND)
    check_rows(one, data)


def test_a_second_of_many_series_is_small() -> None:
    """A quarter of its columns at most, several groups, and all of it comes back."""
    one = many(1_000)
    data = pack_it(one)
    assert len(data) < unpacked_bytes(one) / 4
    assert len(Head.of(data, len(data)).directory) > 1
    assert unpack(data, STAMP, KIND) == one


def test_series_with_one_value_take_little() -> None:
    """A series with one value keeps its minimum, maximum and total once, and no count."""
    random = np.random.default_rng(5)
    values = random.random(1_000).tolist()
    one = interval({at: Row(1, value, value, value, [(at, 1)]) for at, value in enumerate(values)})
    assert len(pack_it(one)) < 12 * len(values)


def test_unpacked_bytes_are_those_of_the_columns() -> None:
    """The unpacked bytes are those that a reader will hold."""
    one = many(30)
    parts = (one.series, one.counters, one.gauges)
    assert unpacked_bytes(one) == sum(len(getattr(part, name)) for part in parts for name in part.__struct_fields__)


@pytest.mark.parametrize("times", [(-(2**63) - 1, 0), (0, 2**63)])
def test_times_of_other_widths_are_not_packed(times: tuple[int, int]) -> None:
    """Times that need more than 64 bits are not packed, because the head has no place for them."""
    assert pack(interval({}, start_ns=times[0], end_ns=times[1]), STAMP, KIND) is None


def test_what_comes_to_too_much_is_not_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    """An interval is not packed if readers would refuse it for its size.

    The size is above a limit and too many times the packed length.
    """
    one = interval({at: Row(1, 0.0, 0.0, 0.0, [(0, 1)]) for at in range(1_000)})
    data = pack_it(one)
    monkeypatch.setattr("telemetry.limits.HISTORY_UNPACKED_TIMES", 1)
    monkeypatch.setattr("telemetry.limits.HISTORY_UNPACKED_BYTES", unpacked_bytes(one))
    assert pack(one, STAMP, KIND) == data
    monkeypatch.setattr("telemetry.limits.HISTORY_UNPACKED_BYTES", unpacked_bytes(one) - 1)
    assert pack(one, STAMP, KIND) is None
    with pytest.raises(Malformed, match="comes to too much"):
        unpack(data, STAMP, KIND)


# --- what is none --------------------------------------------------------------------------------


def forged(data: bytes, at: int, value: bytes) -> bytes:
    """Return the data with other bytes at `at` and a CRC of the head that fits."""
    changed = bytearray(data)
    changed[at : at + len(value)] = value
    end = min(Head.size(changed), len(changed)) - 4
    frame = struct.pack("<IQB", len(changed), STAMP, KIND)
    changed[end : end + 4] = struct.pack("<I", zlib.crc32(changed[:end], zlib.crc32(frame)))
    return bytes(changed)


SAMPLE = pack_it(
    interval({0: Row(3, 5.5, 1.5, 2.5, [(7, 2), (9, 1)]), 4: Row(1, 9.0, 9.0, 9.0, [(8, 1)])}, {1: 2.0})
)


def test_every_beginning_is_refused() -> None:
    """Every beginning of a packed interval is refused, whatever is missing."""
    for size in range(len(SAMPLE)):
        with pytest.raises(Malformed):
            unpack(SAMPLE[:size], STAMP, KIND)


def test_another_frame_s_head_is_refused() -> None:
    """Length, stamp and kind are under its CRC."""
    assert intact(SAMPLE[: Head.size(SAMPLE)], len(SAMPLE), STAMP, KIND)
    for length, stamp, kind in ((1, 0, 0), (0, 1, 0), (0, 0, 1)):
        assert not intact(SAMPLE[: Head.size(SAMPLE)], len(SAMPLE) + length, STAMP + stamp, KIND + kind)
    with pytest.raises(Malformed, match="head"):
        unpack(SAMPLE, STAMP + 1, KIND)


def test_flipped_bits_of_series_are_noticed() -> None:
    """Flipped bits are noticed in the head and in every group. The rest is under the CRC of the frame alone."""
    head = Head.of(SAMPLE, len(SAMPLE))
    groups = head.body + int(head.directory[:, 3].sum())
    for bit in range(8 * groups):
        changed = bytearray(SAMPLE)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(Malformed):
            unpack(changed, STAMP, KIND)


def test_columns_out_of_order_are_refused() -> None:
    """Sums are found by bisection: as a whole, and in the one series that has it."""
    unordered = pack_it(interval({0: Row(2, 1.0, 1.0, 1.0, [(9, 1), (7, 1)]), 1: Row(1, 1.0, 1.0, 1.0, [(7, 1)])}))
    head = Head.of(unordered, len(unordered))
    (group,) = head.groups()
    own = unordered[group.begin : group.begin + group.bytes]
    with pytest.raises(Malformed, match="not in order"):
        unpack(unordered, STAMP, KIND)
    with pytest.raises(Malformed, match="not in order"):
        pick(head, group, own, 0)
    assert pick(head, group, own, 1) is not None
    assert pick(head, group._replace(first=3), own, 2) is None
    swapped = interval({0: Row(1, 1.0, 1.0, 1.0, []), 1: Row(1, 1.0, 1.0, 1.0, [])})
    swapped = replace(swapped, series=replace(swapped.series, index=struct.pack("<2I", 1, 0)))
    with pytest.raises(Malformed, match="not in order"):
        unpack(pack_it(swapped), STAMP, KIND)


@pytest.mark.parametrize("what", [0, 4, 8, 12], ids=["first index", "rows", "cells", "bytes"])
@pytest.mark.parametrize("number", [0, 1, 3, 5, 2**16, 2**31, 2**32 - 1])
def test_a_directory_that_lies_is_refused(what: int, number: int) -> None:
    """A directory with wrong numbers is refused, although its checksums fit.

    No wrong length costs more memory than the limit.
    """
    lie = struct.pack("<I", number)
    if SAMPLE[OPENING_BYTES + what : OPENING_BYTES + what + 4] == lie:
        return
    data = forged(SAMPLE, OPENING_BYTES + what, lie)
    tracemalloc.start()
    with pytest.raises(Malformed):
        unpack(data, STAMP, KIND)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * HISTORY_UNPACKED_BYTES


@pytest.mark.parametrize("at", [16, 20, 24, 28, 32], ids=["groups", "counters", "bytes", "gauges", "their bytes"])
@pytest.mark.parametrize("number", [2**20, 2**32 - 1])
def test_an_opening_that_lies_is_refused(at: int, number: int) -> None:
    """An opening with wrong numbers is refused before any memory is taken for them.

    Rows of zeros take no bytes, so the length of the data is no check.
    """
    tracemalloc.start()
    with pytest.raises(Malformed):
        unpack(forged(SAMPLE, at, struct.pack("<I", number)), STAMP, KIND)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * HISTORY_UNPACKED_BYTES


@given(st.integers(0, 11), st.integers(0, 255))
def test_any_mask_is_read_or_refused(mask: int, value: int) -> None:
    """Bits that no byte has say nothing; others make a plane."""
    data = forged(SAMPLE, 36 + mask, bytes([value]))
    try:
        found = unpack(data, STAMP, KIND)
    except Malformed:
        return
    assert decode_interval(encode_interval(found)) == found


# --- what has been written -----------------------------------------------------------------------


def test_packed_frames_of_before_are_read() -> None:
    """Deflated by whichever library: these bytes were written once, and stay what they are."""
    payload = bytes.fromhex((GOLDEN / "packed.hex").read_text())
    one = many(40)
    assert unpack(payload, STAMP, KIND) == one
    check_rows(one, payload)

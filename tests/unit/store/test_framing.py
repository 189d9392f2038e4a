"""Frames survive every torn tail and every flipped bit: readers stop before the damage and say how much is cut."""

from __future__ import annotations

import io
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry.errors import RunDirectoryError
from telemetry.store import framing
from telemetry.store.framing import (
    FRAME_HEADER_BYTES,
    SEGMENT_HEADER_BYTES,
    Kind,
    SegmentReader,
    SegmentSteps,
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
    """Frames read back as they were written, and no bytes are torn."""
    assert read(segment(items)[0]) == (items, 0)


@given(ITEMS)
def test_reads_may_be_short(items: list[Item]) -> None:
    """A source that trickles gives the same frames."""
    assert read(segment(items)[0], _Trickle) == (items, 0)


@pytest.mark.slow
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
    """Zeros that a file system leaves after a power cut are no frame."""
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


@given(ITEMS, st.sets(st.integers(0, 255)))
def test_kinds_that_nobody_reads_are_frames_without_data(items: list[Item], unread: set[int]) -> None:
    """Frames of unread kinds are given in their place without data. The others are unchanged."""
    reader = SegmentReader(io.BytesIO(segment(items)[0]), Path("segment"), MAGIC)  # type: ignore[arg-type]
    unread |= {items[0][1]}
    wanted = [(stamp, kind, b"" if kind in unread else data) for stamp, kind, data in items]
    assert [(item.stamp, item.kind, bytes(item.data)) for item in reader.frames(unread=unread)] == wanted
    assert reader.good_bytes == len(segment(items)[0])
    assert not reader.torn_bytes


@pytest.mark.parametrize("flipped", [False, True])
def test_a_large_frame_that_nobody_reads_is_checked_and_not_held(flipped: bool) -> None:
    """A large frame that is not wanted is checked piece by piece. One wrong bit in it ends the segment."""
    data, ends = segment([(1, 1, b"a"), (2, 2, bytes(20 << 20)), (3, 1, b"b" * (3 << 20)), (4, 2, b"c")])
    damaged = bytearray(data)
    damaged[ends[1] - 1] ^= flipped
    source = io.BytesIO(damaged)
    tracemalloc.start()
    reader = SegmentReader(source, Path("segment"), MAGIC)  # type: ignore[arg-type]
    found = [(item.stamp, len(item.data)) for item in reader.frames(unread={2})]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found == ([(1, 1)] if flipped else [(1, 1), (2, 0), (3, 3 << 20), (4, 0)])
    assert reader.torn_bytes == (len(data) - ends[0] if flipped else 0)
    assert peak < 7 << 20


def test_data_is_read_only() -> None:
    """The data of a frame is read-only, because later frames come from the same buffer."""
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


KINDS = {1: Kind(40), 2: Kind(10**6)}


def cut_short(data: bytes, source: type[io.BytesIO] = io.BytesIO) -> bool:
    reader = SegmentReader(source(data), Path("segment"), MAGIC)  # type: ignore[arg-type]
    list(reader.frames())
    return reader.cut_short(KINDS)


LIMITED = st.lists(st.tuples(st.integers(0, 2**64 - 1), st.just(1), st.binary(max_size=40)), min_size=1, max_size=4)


@pytest.mark.slow
@given(LIMITED)
def test_whatever_a_killed_writer_leaves_is_cut_short(items: list[Item]) -> None:
    """A segment is cut short at any byte, also if a power cut left blocks of zeros behind it."""
    data, _ = segment(items)
    for cut in range(len(data) + 1):
        assert cut_short(data[:cut])
        assert cut_short(data[:cut] + bytes(1_024))


@given(LIMITED, st.data())
def test_damage_with_a_frame_behind_it_is_never_called_cut_short(items: list[Item], data: st.DataObject) -> None:
    """Whichever bit is flipped, of lengths as well: a good frame follows."""
    intact, ends = segment([*items, (7, 1, b"good")])
    bit = data.draw(st.integers(SEGMENT_HEADER_BYTES * 8, ends[-2] * 8 - 1))
    damaged = bytearray(intact)
    damaged[bit // 8] ^= 1 << bit % 8
    assert not cut_short(bytes(damaged))
    assert not cut_short(bytes(damaged), _Trickle)


@pytest.mark.parametrize(
    "tail",
    [
        b"noise" * 10,
        b"".join(frame([b"x" * 30], 1, 3))[:-1],
        b"".join(frame([b"x" * 50], 1, 1))[:-1],
        b"".join(frame([b"x" * 30], 1, 1))[:-1] + b"y",
        b"".join(frame([b"x" * 30], 1, 1))[:-1] + b"y" + bytes(400),
    ],
    ids=["noise", "of no kind", "too long", "rotten", "rotten, then zeros"],
)
def test_what_no_writer_leaves_is_damage(tail: bytes) -> None:
    """A tail that is no beginning of a frame is damage, whatever follows it."""
    assert not cut_short(segment([(1, 1, b"x")])[0] + tail)


def test_a_header_of_the_segment_that_is_damaged_is_not_cut_short() -> None:
    """All behind it is lost; half of one is what a kill leaves."""
    data, _ = segment([(1, 1, b"x")])
    assert not cut_short(b"?" + data[1:])
    assert not cut_short(b"?")
    assert cut_short(data[:9])


def test_a_frame_is_found_behind_much_that_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Piece by piece, across their borders; and the search is bounded, however many things look like a frame."""
    monkeypatch.setattr(framing, "_PIECE_BYTES", 64)
    for gap in range(100):
        torn = b"".join(frame([b"x" * 500_000], 1, 2))[: 17 + gap]
        assert cut_short(segment_header(MAGIC) + torn + b"x" * 60)
        assert not cut_short(segment_header(MAGIC) + torn + b"".join(frame([b"good"], 7, 1)) + b"x" * 60)
    monkeypatch.setattr(framing, "_PIECE_BYTES", 4_096)
    monkeypatch.setattr(framing, "_SEARCH_BYTES", 10_000)
    lookalike = b"".join(frame([b"x" * 40], 7, 1))[:-1] + b"y"
    torn = b"".join(frame([b"x" * 500_000], 1, 2))[:17]
    assert cut_short(segment_header(MAGIC) + torn + lookalike * 5)
    assert not cut_short(segment_header(MAGIC) + torn + lookalike * 20)


def test_a_block_that_was_not_written_may_be_the_last_of_the_file() -> None:
    """A block at the end of the file may have fewer zeros than a whole block."""
    data, _ = segment([(1, 1, b"x")])
    torn = b"".join(frame([b"x" * 30_000], 1, 2))[: 1_024 - len(data)]
    assert cut_short(data + torn + bytes(5))
    whole = b"".join(frame([b"x" * 1_200 + bytes(5)], 1, 2))[: 1_029 - len(data)]
    assert cut_short(data + whole)


def test_what_does_not_begin_like_its_kind_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """A payload is full of what could be the header of a small frame: it must not use up the search."""
    monkeypatch.setattr(framing, "_PIECE_BYTES", 128)
    monkeypatch.setattr(framing, "_SEARCH_BYTES", 5_000)
    kinds = {1: Kind(40, b"go[a-z]d|no[t]e"), 2: Kind(10**6)}
    lookalike = b"".join(frame([b"x" * 40], 7, 1))[:-1] + b"y"
    torn = b"".join(frame([b"x" * 500_000], 1, 2))[:17]

    def is_cut_short(behind: bytes) -> bool:
        reader = SegmentReader(io.BytesIO(segment_header(MAGIC) + torn + behind), Path("s"), MAGIC)  # type: ignore[arg-type]
        list(reader.frames())
        return reader.cut_short(kinds)

    assert is_cut_short(lookalike * 100)
    for gap in range(150):
        for payload in (b"good one", b"note"):
            assert not is_cut_short(b"." * gap + b"".join(frame([payload], 7, 1)) + lookalike * 5)


class _Shrinking(io.BytesIO):
    """A file that somebody cuts while it is looked at."""

    def seek(self, offset: int, whence: int = 0) -> int:
        at = super().seek(offset, whence)
        if whence == io.SEEK_END:
            self.truncate(100)
        return at


def test_a_file_that_is_cut_meanwhile_ends_the_search() -> None:
    """A file may be cut during the search, because a process that goes on with the run cuts the tail."""
    data, _ = segment([(1, 1, b"x")])
    for rest in (10, 60, 5_000):
        cut_short(data + b"".join(frame([b"x" * 500_000], 1, 2))[:rest], _Shrinking)


# --- steps ---------------------------------------------------------------------------------------


def steps(data: bytes) -> SegmentSteps:
    return SegmentSteps(io.BytesIO(data), Path("segment"), MAGIC)  # type: ignore[arg-type]


def walked(found: SegmentSteps) -> list[Item]:
    items = []
    while (place := found.next()) is not None:
        payload = found.payload(place)
        assert payload is not None
        items.append((place.stamp, place.kind, payload))
    return items


@given(ITEMS)
def test_steps_find_what_the_reader_reads(items: list[Item]) -> None:
    """All frames, also of stamps in no order; nothing is torn."""
    found = steps(segment(items)[0])
    assert walked(found) == items
    assert found.torn_bytes == 0


@given(ITEMS, st.data())
def test_steps_end_where_the_file_is_cut(items: list[Item], data: st.DataObject) -> None:
    """Whole frames before, and the rest is torn, whatever it is that is missing."""
    whole, ends = segment(items)
    cut = data.draw(st.integers(0, len(whole)))
    found = steps(whole[:cut])
    good = [end for end in ends if end <= cut]
    assert walked(found) == items[: len(good)]
    assert found.torn_bytes == cut - (
        good[-1] if good else SEGMENT_HEADER_BYTES if cut >= SEGMENT_HEADER_BYTES else 0
    )


def test_steps_read_a_piece_of_a_payload() -> None:
    """`read` gives a piece of a payload and no more than it has.

    A changed payload is refused, and frames from a torn place on do not count.
    """
    data, ends = segment([(1, 1, b"first"), (2, 1, b"second"), (3, 1, b"third")])
    found = steps(data[: ends[1] - 1] + b"?" + data[ends[1] :])
    first = found.next()
    assert first is not None
    assert (found.read(first, 1, 3), found.read(first, 3, 99), found.read(first, 9, 1)) == (b"irs", b"st", b"")
    second = found.next()
    assert second is not None
    assert found.payload(second) is None
    found.tear(second)
    assert found.next() is None
    assert found.torn_bytes == len(data) - ends[0]


@pytest.mark.parametrize("data", [b"", b"short", b"othermgc" + bytes(20)])
def test_steps_through_no_file_of_ours_find_nothing(data: bytes) -> None:
    """Every byte of it is torn; a newer version is refused."""
    found = steps(data)
    assert (found.next(), found.torn_bytes) == (None, len(data))
    with pytest.raises(RunDirectoryError, match="schema version 99"):
        steps(MAGIC + (99).to_bytes(8, "little"))


def test_a_lying_length_costs_steps_nothing() -> None:
    """A frame with a length beyond the end of the file is cut short."""
    data, _ = segment([(1, 1, b"x")])
    found = steps(data + b"\xff\xff\xff\xff" + bytes(40))
    assert [item[0] for item in walked(found)] == [1]
    assert found.torn_bytes == 44


def test_a_frame_larger_than_any_of_ours_is_damage(tmp_path: Path) -> None:
    """A frame above the largest size is damage without any use of memory or time. Its checksum may be right."""
    path = tmp_path / "s"
    path.write_bytes(segment([(1, 1, b"a")])[0] + b"\xff\xff\xff\x0f" + bytes(13))
    with path.open("r+b", buffering=0) as file:
        file.truncate(1 << 40)
        reader = SegmentReader(file, path, MAGIC)
        assert [bytes(item.data) for item in reader.frames()] == [b"a"]
        assert not reader.cut_short({1: Kind(40)})
        steps = SegmentSteps(file, path, MAGIC)
        assert steps.next() is not None
        assert steps.next() is None
        assert steps.torn_bytes > 1 << 39

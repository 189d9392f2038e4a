"""Tests of journals with changed bytes. Frames before the first damage of a segment are read, and none after it."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from telemetry.limits import MIB
from telemetry.store.framing import FRAME_HEADER_BYTES, SEGMENT_HEADER_BYTES
from telemetry.store.journal import BATCH, CHECKPOINT, NOTE, JournalReader, JournalWriter

PAYLOADS = st.lists(st.binary(max_size=30), min_size=1, max_size=3)
CALLS = st.lists(st.tuples(st.sampled_from([BATCH, NOTE, CHECKPOINT]), PAYLOADS), max_size=12)


class Written(NamedTuple):
    segment: int
    end: int
    """Where the frame ends in its segment."""
    kind: int
    stamp: int
    payload: bytes


def write(directory: Path, calls: list[tuple[int, list[bytes]]], number: int = 0) -> list[Written]:
    """Makes the calls; returns the frames that lie in the segments from `number` on."""
    frames: list[Written] = []
    end = 0

    def note(kind: int, stamp: int, payload: bytes) -> None:
        nonlocal end
        end += FRAME_HEADER_BYTES + len(payload)
        frames.append(Written(number, end, kind, stamp, payload))

    writer = JournalWriter(directory, b"start", 0)
    end = SEGMENT_HEADER_BYTES
    note(CHECKPOINT, 0, b"start")
    for stamp, (kind, payloads) in enumerate(calls, 1):
        if kind == CHECKPOINT:
            writer.begin(payloads[0], stamp)
            number, end = number + 1, SEGMENT_HEADER_BYTES
            note(CHECKPOINT, stamp, payloads[0])
            continue
        (writer.append if kind == BATCH else writer.note)(payloads, stamp)
        for payload in payloads:
            note(kind, stamp, payload)
    writer.close()
    assert writer.failed == ""
    return frames


def read(directory: Path) -> tuple[list[tuple[int, int, int, bytes]], JournalReader]:
    reader = JournalReader(directory)
    return [(item.segment, item.kind, item.time_ns, bytes(item.data)) for item in reader.frames()], reader


def plain(frames: list[Written]) -> list[tuple[int, int, int, bytes]]:
    return [(item.segment, item.kind, item.stamp, item.payload) for item in frames]


@given(CALLS, st.data())
def test_any_damage_ends_its_segment_and_nothing_else(
    calls: list[tuple[int, list[bytes]]], data: st.DataObject
) -> None:
    """Cuts, flipped bits and garbage in any segments: exactly the frames before the first damaged byte of each.
    Only frames that are gone whole, from the end of a segment, leave no trace in it."""
    with TemporaryDirectory(prefix="tm") as name:
        frames = write(Path(name), calls)
        kept = list(frames)
        traced = set()
        for number, path in enumerate(sorted(Path(name).iterdir())):
            good = _damage(path, data)
            if good is not None:
                header = good >= SEGMENT_HEADER_BYTES
                kept = [item for item in kept if item.segment != number or (header and item.end <= good)]
                ends = [item.end for item in kept if item.segment == number]
                if not ends or path.stat().st_size != max(ends):
                    traced.add(number)
        found, reader = read(Path(name))
        assert found == plain(kept)
        last = max((item.segment for item in kept), default=0)
        assert reader.damaged == any(item.segment < last and item.segment in traced for item in frames)


def _damage(path: Path, data: st.DataObject) -> int | None:
    """Damages the file or not; returns how many of its first bytes are as they were."""
    content = bytearray(path.read_bytes())
    shape = data.draw(st.sampled_from(["none", "cut", "flip", "garbage", "zeros"]))
    if shape == "none":
        return None
    at = data.draw(st.integers(0, len(content) - 1))
    if shape == "flip":
        bit = data.draw(st.integers(0, 7))
        if at >= 8 and at < SEGMENT_HEADER_BYTES:
            at = 0  # another version is another matter
        content[at] ^= 1 << bit
    elif shape == "cut":
        del content[at:]
    else:
        tail = data.draw(st.binary(max_size=40)) if shape == "garbage" else bytes(40)
        original = bytes(content)
        content[at:] = tail
        while at < min(len(original), len(content)) and original[at] == content[at]:
            at += 1
        if len(content) >= SEGMENT_HEADER_BYTES and 8 <= at < SEGMENT_HEADER_BYTES:
            content[0] ^= 1
            at = 0
    path.write_bytes(content)
    return at


@given(CALLS, CALLS, st.data())
def test_a_writer_goes_on_after_any_cut(
    before: list[tuple[int, list[bytes]]], after: list[tuple[int, list[bytes]]], data: st.DataObject
) -> None:
    """A journal killed at any byte and continued holds the whole frames before the kill, then the new ones."""
    with TemporaryDirectory(prefix="tm") as name:
        frames = write(Path(name), before)
        last = max(Path(name).iterdir())
        cut = data.draw(st.integers(0, last.stat().st_size))
        with last.open("r+b") as file:
            file.truncate(cut)
        kept = [item for item in frames if item.segment < frames[-1].segment or item.end <= cut]
        first_new = kept[-1].segment + 1 if kept else 0
        more = write(Path(name), after, first_new)
        found, reader = read(Path(name))
        assert found == plain(kept + more)
        assert (reader.torn_bytes, reader.dropped_segments, reader.damaged) == (0, 0, False)


def test_lies_about_lengths_cost_no_memory(tmp_path: Path) -> None:
    """A flipped bit of a length in a large segment asks for what lies in the file, and does not get it."""
    writer = JournalWriter(tmp_path, b"start", 0)
    for number in range(24):
        writer.append([bytes(MIB)], number)
    writer.close()
    (path,) = tmp_path.iterdir()
    lie = (16 * MIB).to_bytes(4, "little")
    with path.open("r+b") as file:
        file.seek(SEGMENT_HEADER_BYTES)
        file.write(lie)
    tracemalloc.start()
    try:
        found, reader = read(tmp_path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found == []
    assert reader.torn_bytes > 24 * MIB
    assert peak < 4 * MIB

"""One level of the history: which files it has, what is taken over of them, and what is handed back."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.unit.store.columns import many

from telemetry.errors import RunDirectoryError
from telemetry.store.framing import SEGMENT_HEADER_BYTES, Frame, SegmentReader, frame
from telemetry.store.intervals.levels import (
    INTERVAL,
    KINDS,
    MAGIC,
    PACKED,
    Level,
    damaged_bytes,
    decoded,
    segments,
    within,
)
from telemetry.store.intervals.packed import pack
from telemetry.store.intervals.rollup import merge
from telemetry.wire.history import Interval

GOLDEN = Path(__file__).parents[3] / "golden" / "history"


def filled(directory: Path, seconds: int, rolls: int, retention_s: float | None = None) -> Level:
    """Intervals `[first, first + seconds)`; segments of sixty rolls."""
    level = Level(directory, seconds, retention_s)
    for first in range(0, rolls, seconds):
        level.write(first, Interval(first, first + seconds))
    return level


def stored(level: Level, from_roll: int = 0) -> list[int]:
    return [first for first, _ in level.stored(from_roll)]


def test_segments_are_named_by_level_and_roll(tmp_path: Path) -> None:
    """Sorted by level, then by roll; other files are nobody's business."""
    filled(tmp_path, 10, 130, retention_s=480)
    filled(tmp_path, 1, 70, retention_s=480)
    (tmp_path / "keys.jsonl").touch()
    assert [(item.level, item.first, item.start_ns) for item in segments(tmp_path)] == [
        (1, 0, 0),
        (1, 60, 60),
        (10, 0, 0),
        (10, 60, 60),
        (10, 120, 120),
    ]


def test_a_level_goes_on_where_it_ended(tmp_path: Path) -> None:
    """A level goes on in the same segment, with the next roll after the last."""
    filled(tmp_path, 10, 50)
    level = Level(tmp_path, 10, None)
    assert (level.take_over(), level.end) == (0, 50)
    level.write(50, Interval(50, 60))
    assert stored(level) == [0, 10, 20, 30, 40, 50]
    assert stored(level, 35) == [40, 50]
    assert len(segments(tmp_path)) == 1
    level.close()


def test_what_lies_beyond_is_cut(tmp_path: Path) -> None:
    """Intervals that end after the given roll go, and segments of nothing else."""
    filled(tmp_path, 10, 200, retention_s=480)
    level = Level(tmp_path, 10, 480)
    assert (level.take_over(before=119), level.end) == (0, 110)
    assert stored(level) == list(range(0, 110, 10))
    assert [item.first for item in segments(tmp_path)] == [0, 60]
    level.close()


def test_a_torn_tail_is_cut_and_counted(tmp_path: Path) -> None:
    """A last segment without an interval goes as a whole; an empty directory has nothing."""
    filled(tmp_path, 1, 125, retention_s=480)
    sizes = [item.path.stat().st_size for item in segments(tmp_path)]
    os.truncate(segments(tmp_path)[2].path, SEGMENT_HEADER_BYTES + 5)
    os.truncate(segments(tmp_path)[1].path, sizes[1] - 3)
    level = Level(tmp_path, 1, 480)
    assert level.take_over() == 5 + sizes[1] // 60 - 3
    assert level.end == 119
    assert [item.first for item in segments(tmp_path)] == [0, 60]
    assert stored(level) == list(range(119))
    level.close()
    empty = Level(tmp_path / "none", 1, None)
    (tmp_path / "none").mkdir()
    assert (empty.take_over(), empty.end, stored(empty)) == (0, 0, [])


def test_only_segments_that_matter_are_read(tmp_path: Path) -> None:
    """Damage in a segment before the asked rolls is not met."""
    level = filled(tmp_path, 1, 125, retention_s=480)
    first, _, _ = segments(tmp_path)
    first.path.unlink()
    assert stored(level, 60) == list(range(60, 125))
    with pytest.raises(FileNotFoundError):
        stored(level, 59)
    level.close()


def test_damage_anywhere_is_counted(tmp_path: Path) -> None:
    """Damage is counted in every segment, also in those that no writer looks at again."""
    filled(tmp_path, 1, 125, retention_s=480).close()
    filled(tmp_path, 10, 120, retention_s=480).close()
    assert damaged_bytes(tmp_path) == {}
    seconds, tens = segments(tmp_path)[0].path, segments(tmp_path)[-1].path
    seconds.write_bytes(b"noise")
    os.truncate(tens, SEGMENT_HEADER_BYTES + 3)
    assert sum(damaged_bytes(tmp_path).values()) == 5 + 3


def test_an_interval_that_can_not_be_read_is_said(tmp_path: Path) -> None:
    """Intact bytes that are no interval are damage, not a crash; frames of other kinds are passed over."""
    level = filled(tmp_path, 1, 1)
    (segment,) = segments(tmp_path)
    with segment.path.open("ab") as file:
        file.write(b"".join(frame([b"other"], 1, max(KINDS) + 1)))
    assert stored(level) == [0]
    with pytest.raises(RunDirectoryError, match="damaged"):
        decoded(Frame(0, INTERVAL, memoryview(b"\xc1")), segment.path)
    level.close()


# --- how an interval is written ------------------------------------------------------------------


def frames(path: Path) -> list[tuple[int, int]]:
    """(kind, stamp) of each."""
    with path.open("rb", buffering=0) as file:
        return [(item.kind, item.stamp) for item in SegmentReader(file, path, MAGIC).frames()]


def test_short_intervals_are_arrays_and_others_packed(tmp_path: Path) -> None:
    """Short intervals are arrays and longer ones packed, in one file. Both read back unchanged."""
    level = Level(tmp_path, 1, None)
    intervals = [many(series, at_s=at) for at, series in enumerate((1, 40, 2, 300, 0))]
    for at, one in enumerate(intervals):
        level.write(at, one)
    (segment,) = segments(tmp_path)
    assert frames(segment.path) == [(INTERVAL, 0), (PACKED, 1), (INTERVAL, 2), (PACKED, 3), (INTERVAL, 4)]
    assert [one for _, one in level.stored(0)] == intervals
    level.close()
    again = Level(tmp_path, 1, None)
    assert (again.take_over(), again.end) == (0, 5)
    again.close()


def test_what_nobody_would_read_is_not_packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interval that comes to too much for its bytes is an array, and read as one."""
    monkeypatch.setattr("telemetry.limits.HISTORY_UNPACKED_BYTES", 0)
    monkeypatch.setattr("telemetry.limits.HISTORY_UNPACKED_TIMES", 2)
    level = Level(tmp_path, 1, None)
    level.write(0, many(100))
    (segment,) = segments(tmp_path)
    assert frames(segment.path) == [(INTERVAL, 0)]
    assert [one for _, one in level.stored(0)] == [many(100)]
    level.close()


def test_a_packed_interval_that_can_not_be_is_damage(tmp_path: Path) -> None:
    """Although its checksum is right; of one that is passed over only the end is looked at."""
    payload = pack(many(40, at_s=3), 3, PACKED)
    assert payload is not None
    good, bad = Frame(3, PACKED, memoryview(payload)), Frame(4, PACKED, memoryview(payload))
    assert decoded(good, tmp_path) == many(40, at_s=3)
    with pytest.raises(RunDirectoryError, match="damaged: a packed interval"):
        decoded(bad, tmp_path)
    one = many(40, at_s=3)
    assert within(good, tmp_path, one.start_ns, one.end_ns) == (one.end_ns, one)
    assert within(bad, tmp_path, one.end_ns, one.end_ns + 1) == (one.end_ns, None)
    with pytest.raises(RunDirectoryError):
        within(Frame(3, PACKED, memoryview(payload[:9])), tmp_path, 0, 1)


def test_histories_of_before_are_read_and_go_on(tmp_path: Path) -> None:
    """Files that hold nothing but arrays, written once: every second is there, and a writer appends to them."""
    for path in GOLDEN.glob("*s-*.hex"):
        (tmp_path / f"{path.stem}.seg").write_bytes(bytes.fromhex(path.read_text()))
    level = Level(tmp_path, 1, None)
    assert (level.take_over(), level.end) == (0, 12)
    level.write(12, many(40, at_s=12))
    expected = [many(3, 2, at_s=at) for at in range(12)] + [many(40, at_s=12)]
    assert [one for _, one in level.stored(0)] == expected
    level.close()
    assert [kind for kind, _ in frames(level_path(tmp_path, 1))] == [INTERVAL] * 12 + [PACKED]
    tens = Level(tmp_path, 10, None)
    assert (tens.take_over(), tens.end) == (0, 20)
    assert [one for _, one in tens.stored(0)] == [merge(expected[:10]), merge(expected[10:12])]
    tens.close()


def level_path(directory: Path, seconds: int) -> Path:
    return next(item.path for item in segments(directory) if item.level == seconds)

"""One level of the history: which files it has, what is taken over of them, and what is handed back."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from telemetry.errors import RunDirectoryError
from telemetry.store.framing import SEGMENT_HEADER_BYTES, frame
from telemetry.store.levels import INTERVAL, Level, damaged_bytes, decoded, segments
from telemetry.wire.history import Interval


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
    """In the same segment, with the roll after the last."""
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
    """Also in segments that no writer looks at again."""
    filled(tmp_path, 1, 125, retention_s=480).close()
    filled(tmp_path, 10, 120, retention_s=480).close()
    assert damaged_bytes(tmp_path) == 0
    seconds, tens = segments(tmp_path)[0].path, segments(tmp_path)[-1].path
    seconds.write_bytes(b"noise")
    os.truncate(tens, SEGMENT_HEADER_BYTES + 3)
    assert damaged_bytes(tmp_path) == 5 + 3


def test_an_interval_that_can_not_be_read_is_said(tmp_path: Path) -> None:
    """Intact bytes that are no interval are damage, not a crash; frames of other kinds are passed over."""
    level = filled(tmp_path, 1, 1)
    (segment,) = segments(tmp_path)
    with segment.path.open("ab") as file:
        file.write(b"".join(frame([b"other"], 1, INTERVAL + 1)))
    assert stored(level) == [0]
    with pytest.raises(RunDirectoryError, match="damaged"):
        decoded(memoryview(b"\xc1"), segment.path)
    level.close()

"""The cap of a history: older parts get coarser, and the whole run stays in it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from random import Random

import numpy as np
import pytest
from tests.unit.store.columns import Row, interval

from telemetry.store.framing import SegmentReader
from telemetry.store.history import LEVELS, HistoryReader, HistoryWriter
from telemetry.store.intervals import levels
from telemetry.store.intervals.levels import KINDS, MAGIC, segments
from telemetry.wire.control import SeriesKey
from telemetry.wire.history import Interval

S = 1_000_000_000
CAP = 150_000
KEEP_ALL = dict.fromkeys(LEVELS, None)
KEYS = [SeriesKey(index=at, name=f"s{at}", kind="series") for at in range(5)]
COARSER = "older time ranges are stored in coarser steps than configured"
DELETED = "the oldest time range was deleted"


def second(at: int) -> Interval:
    """Return a second with values of five series and one step of a counter."""
    random = Random(at)
    rows = {}
    for index in range(5):
        cells = [(slot, 1) for slot in sorted(random.sample(range(3_000), 12))]
        rows[index] = Row(12, 12.0 * at, float(at), float(at), cells)
    return interval(rows, {0: 1.0}, {0: float(at)}, at * S, (at + 1) * S)


def write(directory: Path, rolls: range, cap_bytes: int, *, resume: bool = False) -> HistoryWriter:
    writer = HistoryWriter(directory, KEEP_ALL, cap_bytes=cap_bytes, resume=resume)
    for at in rolls:
        writer.append(second(at), KEYS, at)
        assert not writer.failed
    return writer


def size_of(directory: Path) -> int:
    return sum(entry.stat().st_size for entry in os.scandir(directory))


def total(intervals: Iterator[Interval]) -> tuple[int, int, int, float]:
    """Values, values in cells, nanoseconds and steps of the counter. No two intervals overlap."""
    values = cells = nanoseconds = end_ns = 0
    counter = 0.0
    for one in intervals:
        assert one.start_ns >= end_ns
        end_ns = one.end_ns
        nanoseconds += one.end_ns - one.start_ns
        values += int(np.frombuffer(one.series.count, "<u8").sum())
        cells += int(np.frombuffer(one.series.counts, "<u4").sum())
        counter += float(np.frombuffer(one.counters.value, "<f8").sum())
    return values, cells, nanoseconds, counter


def whole(rolls: int) -> tuple[int, int, int, float]:
    return 60 * rolls, 60 * rolls, rolls * S, float(rolls)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Intervals as short as these are packed."""
    monkeypatch.setattr(levels, "_WORTH_IT_BYTES", 0)


@pytest.mark.slow
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("rolls", [1_200, 6_000])
def test_the_cap_is_kept_and_the_whole_run_stays(tmp_path: Path, rolls: int) -> None:
    """Every value is in it once, at whatever level it is read, and percentiles stay what they are."""
    writer = write(tmp_path, range(rolls), CAP)
    writer.close()
    assert size_of(tmp_path) <= CAP
    assert [COARSER in notice for notice in writer.notices] == [True]
    reader = HistoryReader(tmp_path)
    assert reader.keys() == KEYS
    assert total(reader.intervals()) == whole(rolls)
    assert total(reader.coarse()) == whole(rolls)
    assert total(reader.coarse(longest_s=1)) == whole(rolls)
    assert sum(one.count for one in reader.pick(3, coarse=True)) == 12 * rolls
    assert sum(one.count for one in reader.pick(3)) == 12 * rolls
    assert reader.torn == {}
    steps = {segment.step for segment in segments(tmp_path)}
    assert (120 in steps) == (rolls == 6_000)
    newest = list(reader.intervals((rolls - 30) * S))
    assert [one.end_ns - one.start_ns for one in newest] == [S] * 30


@pytest.mark.slow
@pytest.mark.usefixtures("small")
def test_a_part_goes_outward_to_what_is_left(tmp_path: Path) -> None:
    """A part in the thinned beginning has steps of minutes, and each value is in one part of the run."""
    write(tmp_path, range(6_000), CAP).close()
    reader = HistoryReader(tmp_path)
    edges = [one.start_ns for one in reader.coarse()] + [6_000 * S]
    middle_ns = edges[len(edges) // 3]
    before, behind = total(reader.coarse(0, middle_ns)), total(reader.coarse(middle_ns))
    assert tuple(map(sum, zip(before, behind, strict=True))) == whole(6_000)
    inside = list(reader.coarse(100 * S, 101 * S))
    assert [one.start_ns <= 100 * S < one.end_ns for one in inside] == [True]


@pytest.mark.slow
@pytest.mark.usefixtures("small")
def test_a_run_that_goes_on_keeps_the_cap(tmp_path: Path) -> None:
    """A resumed writer keeps the cap and its notice, as if it had never been killed.

    The kill may come in the middle of thinning.
    """
    write(tmp_path, range(4_500), CAP)
    thinned = [segment for segment in segments(tmp_path) if segment.step > 60]
    stale = thinned[0].path.with_name(f"60s-{thinned[0].first:010d}-{thinned[0].start_ns}.seg")
    stale.write_bytes(thinned[0].path.read_bytes())
    assert total(HistoryReader(tmp_path).intervals()) == whole(4_500)
    writer = write(tmp_path, range(4_500, 6_000), CAP, resume=True)
    assert not stale.exists()
    writer.close()
    assert len(writer.notices) == 1
    assert size_of(tmp_path) <= CAP
    assert total(HistoryReader(tmp_path).intervals()) == whole(6_000)


@pytest.mark.slow
@pytest.mark.usefixtures("small")
def test_what_can_not_be_thinned_any_more_goes(tmp_path: Path) -> None:
    """The beginning of a run that no cap holds; that is said."""
    writer = write(tmp_path, range(4_000), 15_000)
    writer.close()
    assert [COARSER in notice or DELETED in notice for notice in writer.notices] == [True, True]
    values, _, nanoseconds, _ = total(HistoryReader(tmp_path).intervals())
    assert 0 < values < 60 * 4_000
    assert values * S == 60 * nanoseconds


@pytest.mark.slow
@pytest.mark.usefixtures("small")
def test_a_damaged_segment_is_not_thinned(tmp_path: Path) -> None:
    """The damage of a segment stays visible, because a damaged segment is not thinned."""
    writer = write(tmp_path, range(2_500), CAP)
    oldest = next(segment for segment in segments(tmp_path) if segment.level == 60)
    data = bytearray(oldest.path.read_bytes())
    data[-1] ^= 1
    oldest.path.write_bytes(data)
    for at in range(2_500, 6_000):
        writer.append(second(at), KEYS, at)
    writer.close()
    assert writer.failed == ""
    reader = HistoryReader(tmp_path)
    total(reader.coarse())
    assert list(reader.torn) == [oldest.path]


@pytest.mark.slow
@pytest.mark.usefixtures("small")
def test_readers_meet_no_gap_while_segments_are_thinned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A segment that is replaced between the listing and the opening is looked for once more."""
    writer = write(tmp_path, range(4_500), CAP)
    listed = segments(tmp_path)
    rolls = iter(range(4_500, 6_000))
    while [one.path for one in segments(tmp_path)][-3:] == [one.path for one in listed][-3:]:
        at = next(rolls)
        writer.append(second(at), KEYS, at)
    answers = iter([listed])
    monkeypatch.setattr("telemetry.store.history.segments", lambda folder: next(answers, None) or segments(folder))
    assert total(HistoryReader(tmp_path).intervals()) == whole(at + 1)
    writer.close()


@pytest.mark.slow
@pytest.mark.usefixtures("small")
def test_a_thinned_segment_has_its_step_in_its_name(tmp_path: Path) -> None:
    """The name of a thinned segment begins with its step.

    The frames are stamped in order, each with its first second.
    """
    write(tmp_path, range(6_000), CAP).close()
    for segment in segments(tmp_path):
        with segment.path.open("rb", buffering=0) as file:
            stamps = [
                item.stamp for item in SegmentReader(file, segment.path, MAGIC).frames() if item.kind in KINDS
            ]
        assert segment.path.name.startswith(f"{segment.step}s-")
        assert stamps == sorted(set(stamps))
        assert len({stamp // segment.step for stamp in stamps}) == len(stamps)
        assert not segment.end or stamps[-1] < segment.end <= stamps[-1] + segment.step

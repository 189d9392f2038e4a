"""A time range of history is found by reading little: each moment once, coarse inside and fine at the edges."""

from __future__ import annotations

import io
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.store.columns import Row, interval, many

from telemetry.errors import RunDirectoryError, UsageError
from telemetry.store.framing import FRAME_HEADER_BYTES, SegmentSteps, frame
from telemetry.store.history import LEVELS, HistoryReader, HistoryWriter, Picked
from telemetry.store.intervals.levels import INTERVAL, MAGIC, PACKED, segments
from telemetry.store.intervals.packed import Head
from telemetry.wire.history import Interval

S = 1_000_000_000
START = 1_700_000_000 * S
SHORT_S = {1: 120, 10: 480, 60: None}


@pytest.fixture(params=[0, 1 << 30], ids=["packed", "arrays"], autouse=True)
def _either_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Intervals as short as these are arrays; here they are packed as well."""
    monkeypatch.setattr("telemetry.store.intervals.levels._WORTH_IT_BYTES", request.param)


def second(at: int, start_ns: int | None = None) -> Interval:
    """One value in slot `at` of series 3, and one of series 5 in every third second."""
    start_ns = START + at * S if start_ns is None else start_ns
    value = float(at)
    rows = {3: Row(1, value, value, value, [(at, 1)])}
    if at % 3 == 0:
        rows[5] = Row(2, 2.5 * value, value, 1.5 * value, [(at, 1), (at + 7, 1)])
    return interval(rows, {0: value}, {0: value}, start_ns, start_ns + S)


def write(directory: Path, rolls: Any, retention_s: Mapping[int, float | None] = SHORT_S) -> HistoryWriter:
    writer = HistoryWriter(directory, retention_s)
    for at in rolls:
        writer.append(second(at), number=at)
    return writer


def slots(intervals: Iterator[Interval]) -> list[int]:
    """The seconds that these intervals hold, in order: the slots of series 3."""
    found = []
    for one in intervals:
        first = int(np.frombuffer(one.series.occupied, "<u4")[0])
        found += np.frombuffer(one.series.slots, "<u4")[:first].tolist()
    return found


def lengths(intervals: Iterator[Interval] | Iterator[Picked]) -> list[int]:
    return [(one.end_ns - one.start_ns) // S for one in intervals]


def window(first_s: float, end_s: float) -> tuple[int, int]:
    return START + round(first_s * S), START + round(end_s * S)


def test_minutes_inside_and_seconds_at_the_edges(tmp_path: Path) -> None:
    """The reader gives as few intervals as possible, from edge to edge of the window."""
    write(tmp_path, range(400), {1: None, 10: None, 60: None}).close()
    reader = HistoryReader(tmp_path)
    assert lengths(reader.coarse(*window(57, 253))) == [1] * 3 + [60] * 3 + [10] + [1] * 3
    assert lengths(reader.coarse(*window(0, 400))) == [60] * 6 + [40]
    assert lengths(reader.coarse(*window(28.5, 61.5))) == [1, 1] + [10] * 3 + [1, 1]
    assert lengths(reader.coarse(*window(57, 253), longest_s=10)) == [1] * 3 + [10] * 19 + [1] * 3
    assert lengths(reader.coarse(*window(57, 253), longest_s=1)) == [1] * 196
    assert lengths(reader.coarse()) == [60] * 6 + [40]
    assert list(reader.coarse(*window(400, 900))) == list(reader.coarse(*window(-9, 0))) == []


def test_what_is_not_rolled_up_yet_is_there_in_seconds(tmp_path: Path) -> None:
    """Seconds that are not rolled up yet are read as such, up to the last one of a live run."""
    writer = write(tmp_path, range(143))
    reader = HistoryReader(tmp_path)
    assert lengths(reader.coarse()) == [60, 60, 10, 10, 1, 1, 1]
    writer.append(second(143))
    assert slots(reader.coarse(*window(60, 144))) == list(range(60, 144))
    writer.close()


def test_what_retention_made_coarse_says_so(tmp_path: Path) -> None:
    """An edge is where the coarser interval has it if the seconds are gone."""
    write(tmp_path, range(1_000)).close()
    reader = HistoryReader(tmp_path)
    assert lengths(reader.coarse(*window(30, 90))) == [60, 60]
    assert lengths(reader.coarse(*window(545, 605))) == [10] * 7
    assert lengths(reader.coarse(*window(30, 90), longest_s=1)) == [60, 60]


def test_what_a_coarse_level_lacks_is_taken_from_finer_ones(tmp_path: Path) -> None:
    """Finer levels stand in for missing coarse files, in the middle and at the end.

    Where finer files are gone, the reader uses what is there.
    """
    write(tmp_path, range(300), {1: None, 10: 480, 60: 480}).close()
    for item in segments(tmp_path):
        if (item.level, item.first) in ((60, 60), (60, 240), (10, 120)):
            item.path.unlink()
    reader = HistoryReader(tmp_path)
    assert lengths(reader.coarse()) == [60] + [10] * 6 + [60, 60] + [10] * 6
    assert lengths(reader.coarse(*window(110, 130))) == [10] + [1] * 10
    assert slots(reader.coarse(*window(110, 130))) == list(range(110, 130))
    assert slots(reader.coarse()) == list(range(300))


def test_another_level_is_refused(tmp_path: Path) -> None:
    """`coarse` refuses a level that does not exist, as `intervals` does."""
    with pytest.raises(UsageError, match="level of 5 s"):
        HistoryReader(tmp_path).coarse(longest_s=5)


ROLLS = st.integers(1, 400).map(lambda count: list(range(count))) | st.lists(
    st.integers(0, 400), min_size=1, max_size=300, unique=True
).map(sorted)
EDGES = st.tuples(st.floats(-5, 410), st.floats(-5, 410)).map(sorted)


@pytest.mark.slow
@given(ROLLS, st.sampled_from([0, 60, 130, None]), st.sampled_from([0, 60, 300]), st.booleans(), st.data())
def test_each_moment_once(rolls: list[int], first: int, middle: int, closed: bool, data: st.DataObject) -> None:
    """`coarse` has the same seconds as `intervals`, except for coarse intervals across an edge.

    A series alone has the same values as among all, whatever is kept, missing or unfinished.
    """
    with TemporaryDirectory(prefix="tm") as name:
        writer = write(Path(name), rolls, {1: first, 10: middle, 60: None})
        if closed:
            writer.close()
        reader = HistoryReader(Path(name))
        assert slots(reader.coarse()) == rolls
        for _ in range(3):
            edges = window(*data.draw(EDGES))
            fine = list(reader.intervals(*edges))
            for longest_s in LEVELS:
                coarse = list(reader.coarse(*edges, longest_s=longest_s))
                assert slots(iter(coarse)) == slots(iter(fine))
                assert all((one.end_ns - one.start_ns) <= longest_s * S or one in fine for one in coarse)
            assert coarse[:1] == fine[:1] or coarse[0].start_ns == fine[0].start_ns
            check_picks(reader, edges, fine)
        writer.close()


def check_picks(reader: HistoryReader, edges: tuple[int, int], fine: list[Interval]) -> None:
    for index in (3, 4, 5):
        assert [plain(one) for one in reader.pick(index, *edges)] == [of_columns(one, index) for one in fine]
        coarse = list(reader.coarse(*edges))
        picked = [plain(one) for one in reader.pick(index, *edges, coarse=True)]
        assert picked == [of_columns(one, index) for one in coarse]


def plain(one: Picked) -> tuple[Any, ...]:
    moments = (one.count, one.total, one.min, one.max)
    return one.start_ns, one.end_ns, moments, one.slots.tolist(), one.counts.tolist()


def of_columns(one: Interval, index: int) -> tuple[Any, ...]:
    """Return the figures of a series from the columns of an interval."""
    series = one.series
    indices = np.frombuffer(series.index, "<u4").tolist()
    if index not in indices:
        return one.start_ns, one.end_ns, (0, 0.0, math.inf, -math.inf), [], []
    row = indices.index(index)
    count = np.frombuffer(series.count, "<u8").tolist()[row]
    wide = [np.frombuffer(data, "<f8").tolist()[row] for data in (series.total, series.min, series.max)]
    ends = np.cumsum([0, *np.frombuffer(series.occupied, "<u4").tolist()]).tolist()
    cells = [
        np.frombuffer(data, "<u4").tolist()[ends[row] : ends[row + 1]] for data in (series.slots, series.counts)
    ]
    return one.start_ns, one.end_ns, (count, *wide), cells[0], cells[1]


def test_a_clock_set_back_loses_nothing_of_the_whole(tmp_path: Path) -> None:
    """Levels fit together by the number of the roll. A minute that ends before it began is looked into."""
    writer = HistoryWriter(tmp_path, {1: None, 10: None, 60: None})
    order = [*range(500, 530), *range(100, 400)]
    for number, at in enumerate(order):
        writer.append(second(at), number=number)
    writer.close()
    reader = HistoryReader(tmp_path)
    assert sorted(slots(reader.coarse())) == sorted(order)
    assert slots(reader.coarse(*window(505, 510))) == list(range(505, 510))
    assert [one.slots.tolist() for one in reader.pick(3, *window(110, 112))] == [[110], [111]]


def test_a_clock_set_forward_makes_no_interval_longer(tmp_path: Path) -> None:
    """A minute in which it was set lasts a minute, also once nobody has its seconds; who asks for a part of it is
    given them while they are there."""
    writer = HistoryWriter(tmp_path, {1: None, 10: None, 60: None})
    order = [*range(100, 195), *range(9_000, 9_200)]
    for number, at in enumerate(order):
        writer.append(second(at), number=number)
    writer.close()
    reader = HistoryReader(tmp_path)
    for level_s in (1, 10, 60):
        lengths = [one.end_ns - one.start_ns for one in reader.intervals(level_s=level_s)]
        assert sum(lengths) == len(order) * S
        assert max(lengths) == level_s * S
    assert sorted(slots(reader.coarse())) == sorted(order)
    assert slots(reader.coarse(*window(190, 193))) == [190, 191, 192]
    assert slots(reader.coarse(*window(9_002, 9_005))) == [9_002, 9_003, 9_004]


def test_missing_seconds_move_no_other(tmp_path: Path) -> None:
    """A minute with a hole in it begins when its first second did, also once it is all that is left of it."""
    writer = write(tmp_path, [60, 70, 120], {1: 0, 10: 0, 60: None})
    reader = HistoryReader(tmp_path)
    assert slots(reader.coarse(*window(0, 61))) == slots(reader.intervals(*window(0, 61))) == [60]
    writer.close()
    assert slots(reader.intervals(*window(60, 61), level_s=60)) == [60, 70]


def test_little_is_read_to_pick_one_series(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader takes the head and one group of an interval, and only the end of those before."""
    monkeypatch.setattr("telemetry.store.intervals.packed._GROUP_BYTES", 512)
    writer = HistoryWriter(tmp_path)
    for at in range(25):
        writer.append(many(150, at_s=at))
    writer.close()
    (path,) = (item.path for item in segments(tmp_path) if item.level == 1)
    if not is_packed(path):
        return  # arrays have to be read whole
    read = 0
    seconds = path.stat().st_size

    class Counting(io.FileIO):
        def read(self, size: int | None = -1, /) -> bytes:
            nonlocal read
            data = super().read(-1 if size is None else size)
            read += len(data or b"")
            return data or b""

    monkeypatch.setattr(Path, "open", lambda self, *_, **__: Counting(self))
    (one,) = HistoryReader(tmp_path).pick(75, *window(22, 23))
    assert one.count == 10
    assert read < seconds / 4


def is_packed(path: Path) -> bool:
    return path.read_bytes()[16 + 16] == PACKED


# --- damage --------------------------------------------------------------------------------------


def test_a_torn_second_ends_its_segment(tmp_path: Path) -> None:
    """A torn second ends its segment, and the earlier seconds are read. The reader says how many bytes follow."""
    write(tmp_path, range(30), {1: None, 10: None, 60: None})
    (path,) = (item.path for item in segments(tmp_path) if item.level == 1)
    with path.open("rb", buffering=0) as file:
        steps = SegmentSteps(file, path, MAGIC)
        place = next(place for place in iter(steps.next, None) if place.stamp == 25)
    data = bytearray(path.read_bytes())
    data[place.begin + 3] ^= 1
    path.write_bytes(data)
    reader = HistoryReader(tmp_path)
    torn = len(data) - place.begin + FRAME_HEADER_BYTES
    assert (slots(reader.coarse(*window(22, 30))), reader.torn_bytes) == ([22, 23, 24], torn)
    picked = [one.slots.tolist() for one in reader.pick(3, *window(22, 30))]
    assert (picked, reader.torn_bytes) == ([[22], [23], [24]], torn)


@pytest.mark.slow
@pytest.mark.parametrize("level", [1, 10])
@pytest.mark.parametrize("at", range(FRAME_HEADER_BYTES))
def test_a_changed_header_hides_nothing(tmp_path: Path, level: int, at: int) -> None:
    """Length, CRC, stamp and kind say where a frame belongs: what can't be placed is said."""
    write(tmp_path, range(30), {1: None, 10: None, 60: None})
    (path,) = (item.path for item in segments(tmp_path) if item.level == level)
    with path.open("rb", buffering=0) as file:
        steps = SegmentSteps(file, path, MAGIC)
        place = next(place for place in iter(steps.next, None) if place.stamp == 20)
    data = bytearray(path.read_bytes())
    windows = [window(*window_s) for window_s in ((0, 30), (12, 28), (20, 21))]
    whole = [slots(HistoryReader(tmp_path).coarse(*one, longest_s=level)) for one in windows]
    for bit in range(8):
        changed = bytearray(data)
        changed[place.begin - FRAME_HEADER_BYTES + at] ^= 1 << bit
        path.write_bytes(changed)
        for one, expected in zip(windows, whole, strict=True):
            reader = HistoryReader(tmp_path)
            assert slots(reader.coarse(*one, longest_s=level)) == expected or list(reader.torn) == [path]


@pytest.mark.parametrize("series", [0, 299])
def test_damage_to_one_group_is_met_by_who_reads_it(
    tmp_path: Path, series: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Damage to a group ends the reading of all series, but not that of a series in another group."""
    monkeypatch.setattr("telemetry.store.intervals.packed._GROUP_BYTES", 512)
    writer = HistoryWriter(tmp_path, {1: None, 10: None, 60: None})
    for at in range(9):
        writer.append(many(300, at_s=at))
    (path,) = (item.path for item in segments(tmp_path))
    if not is_packed(path):
        return  # an array is whole or is not
    data = bytearray(path.read_bytes())
    length = int.from_bytes(data[16:20], "little")
    head = Head.of(data[33 : 33 + length], length)
    group = head.group_of(series)
    assert group is not None
    data[33 + group.begin + 5] ^= 1
    path.write_bytes(data)
    reader = HistoryReader(tmp_path)
    assert len(list(reader.pick(299 - series))) == 9
    assert (len(list(reader.pick(series))), reader.torn_bytes) == (0, len(data) - 16)
    assert (len(list(reader.coarse())), reader.torn_bytes) == (0, len(data) - 16)
    assert (len(list(reader.intervals())), reader.torn_bytes) == (0, len(data) - 16)
    writer.close()


@pytest.mark.parametrize("kind", [INTERVAL, PACKED])
@pytest.mark.parametrize("payload", [b"", b"x" * 60, bytes(8) + b"\1" + bytes(50)], ids=["empty", "noise", "zeros"])
def test_a_frame_that_is_no_interval_is_damage(tmp_path: Path, kind: int, payload: bytes) -> None:
    """A frame with a good checksum that is no interval is damage for every reader that reaches it."""
    write(tmp_path, range(5), {1: None, 10: None, 60: None})
    (path,) = (item.path for item in segments(tmp_path))
    with path.open("ab") as file:
        file.write(b"".join(frame([payload], 7, kind)))
    reader = HistoryReader(tmp_path)
    for read in (reader.intervals, reader.coarse, lambda: reader.pick(3)):
        with pytest.raises(RunDirectoryError, match="damaged"):
            list(read())  # type: ignore[operator]


def test_a_frame_of_another_kind_is_passed_over(tmp_path: Path) -> None:
    """A later version may write them."""
    write(tmp_path, range(5), {1: None, 10: None, 60: None})
    (path,) = (item.path for item in segments(tmp_path))
    with path.open("ab") as file:
        file.write(b"".join(frame([b"?"], 5, 99)))
    assert slots(HistoryReader(tmp_path).coarse()) == list(range(5))


def test_a_history_that_can_not_be_read_is_one_clear_error(tmp_path: Path) -> None:
    """A history without a directory is one clear error."""
    for read in (HistoryReader(tmp_path / "none").coarse(), HistoryReader(tmp_path / "none").pick(0)):
        with pytest.raises(RunDirectoryError, match="can't read"):
            list(read)


def test_a_segment_that_is_cut_while_it_is_read_ends_there(tmp_path: Path) -> None:
    """A segment that is cut while it is read ends there. The reader invents no data and does not wait."""
    write(tmp_path, range(30), {1: None, 10: None, 60: None})
    (path,) = (item.path for item in segments(tmp_path) if item.level == 1)
    found = HistoryReader(tmp_path).coarse(*window(0.5, 29.5))
    assert slots(iter([next(found)])) == [0]
    os.truncate(path, path.stat().st_size // 2)
    assert slots(found) == list(range(1, 20))  # tens are still there

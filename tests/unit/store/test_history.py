"""The history covers every second once, whatever was rolled up, forgotten, or torn."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry.errors import RunDirectoryError, UsageError
from telemetry.store.history import LEVELS, RETENTION_S, HistoryReader, HistoryWriter
from telemetry.wire.control import SeriesKey
from telemetry.wire.history import Interval, SeriesColumns, Slice, ValueColumns

SECOND = 1_000_000_000
START = 1_700_000_000 * SECOND


def second(at: int) -> Interval:
    """Second `at`: one event in slot `at` of series 0, and `at` added to counter 0."""
    one = np.array([1], "<u4").tobytes()
    value = np.array([float(at)], "<f8").tobytes()
    zero = np.array([0], "<u4").tobytes()
    return Interval(
        START + at * SECOND,
        START + (at + 1) * SECOND,
        SeriesColumns(
            zero, np.array([1], "<u8").tobytes(), value, value, value, one, np.array([at], "<u4").tobytes(), one
        ),
        ValueColumns(zero, value),
        ValueColumns(zero, value),
    )


def write(directory: Path, seconds: int, retention_s: Mapping[int, float | None] = RETENTION_S) -> HistoryWriter:
    writer = HistoryWriter(directory, retention_s)
    for at in range(seconds):
        writer.append(second(at))
    return writer


def slots(intervals: Iterator[Interval]) -> list[int]:
    """The seconds that these intervals hold, in order."""
    return [slot for found in intervals for slot in np.frombuffer(found.series.slots, "<u4").tolist()]


def lengths(intervals: Iterator[Interval]) -> list[int]:
    return [(found.end_ns - found.start_ns) // SECOND for found in intervals]


TENTH = SECOND // 10


def tenths(at: int, number: int = 10) -> list[Slice]:
    """Second `at` in slices: the first has its event, and all of them set the gauge to their number."""
    whole = second(at)
    zero = np.array([0], "<u4").tobytes()
    found = []
    for place in range(number):
        start_ns = whole.start_ns + place * TENTH
        values = [whole.series, whole.counters] if not place else [SeriesColumns(), ValueColumns()]
        gauge = ValueColumns(zero, np.array([float(place)], "<f8").tobytes())
        found.append(Slice(at, place, Interval(start_ns, start_ns + TENTH, *values, gauge)))
    return found


def with_slices(directory: Path) -> HistoryWriter:
    """Four seconds: of the first and the third all slices, of the second a part of them, of the last none."""
    writer = HistoryWriter(directory)
    for at in range(4):
        slices = tenths(at) if at < 3 else []
        if at == 1:
            del slices[4]
        writer.append_slices(slices[:-1])
        writer.append(second(at), slices=slices[-1:])
    return writer


def test_slices_stand_for_seconds_that_they_fill(tmp_path: Path) -> None:
    """A second whose slices are incomplete is read as a second, so each value is there once."""
    writer = with_slices(tmp_path)
    writer.close()
    reader = HistoryReader(tmp_path)
    fine = list(reader.fine())
    assert [(one.end_ns - one.start_ns) // TENTH for one in fine] == [1] * 10 + [10] + [1] * 10 + [10]
    assert slots(iter(fine)) == slots(reader.intervals()) == [0, 1, 2, 3]
    assert lengths(reader.intervals()) == [1] * 4, "only who asks for slices gets them"
    some = list(reader.fine(START + 2 * SECOND + 5 * TENTH, START + 3 * SECOND))
    assert [(one.start_ns - START) // TENTH for one in some] == [25, 26, 27, 28, 29]


def test_slices_are_the_edges_of_a_time_range(tmp_path: Path) -> None:
    """Sums use seconds inside, and slices where a second is cut; parts that meet share no value and lose none."""
    with_slices(tmp_path).close()
    reader, edge_ns = HistoryReader(tmp_path), START + 2 * SECOND + 3 * TENTH
    before, behind = (
        list(reader.coarse(*one, 1, slices=True))
        for one in ((START - SECOND, edge_ns), (edge_ns, START + 9 * SECOND))
    )
    assert [(one.end_ns - one.start_ns) // TENTH for one in before] == [10, 10, 1, 1, 1]
    assert [(one.end_ns - one.start_ns) // TENTH for one in behind] == [1] * 7 + [10]
    assert slots(iter([*before, *behind])) == [0, 1, 2, 3]


def test_slices_go_on_after_a_kill(tmp_path: Path) -> None:
    """A torn slice is cut, and those that exist are not written twice."""
    with_slices(tmp_path).close()
    path = tmp_path / "slices.seg"
    complete = path.read_bytes()
    path.write_bytes(complete[:-3])
    writer = HistoryWriter(tmp_path, resume=True)
    assert writer.cut_bytes
    writer.append_slices([*tenths(0), *tenths(1), *tenths(2)])
    writer.close()
    assert path.read_bytes() == complete
    assert len(list(HistoryReader(tmp_path).fine())) == 22


@pytest.mark.parametrize("left", [0, 7, 16, 40])
def test_slices_that_cannot_be_read_cost_detail_only(tmp_path: Path, left: int) -> None:
    """The seconds stand in for slices that can't be read."""
    with_slices(tmp_path).close()
    path = tmp_path / "slices.seg"
    path.write_bytes(path.read_bytes()[:left])
    reader = HistoryReader(tmp_path)
    assert slots(reader.fine()) == [0, 1, 2, 3]
    assert not reader.torn


def test_slices_of_a_second_do_not_stand_for_more(tmp_path: Path) -> None:
    """Ten seconds are read as such once the retention has removed the seconds."""
    writer = HistoryWriter(tmp_path, {1: 60.0, 10: None, 60: None})
    for at in range(150):
        writer.append(second(at), slices=tenths(at) if at < 3 else [])
    writer.close()
    found = list(HistoryReader(tmp_path).fine())
    assert (found[0].end_ns - found[0].start_ns) // SECOND == 10
    assert slots(iter(found)) == list(range(150))


def test_slices_are_bounded(tmp_path: Path) -> None:
    """The slices cover at most a minute and a second, whatever a journal has."""
    writer = HistoryWriter(tmp_path)
    for at in range(100):
        writer.append(second(at), slices=tenths(at))
    writer.close()
    found = [(one.end_ns - one.start_ns) // TENTH for one in HistoryReader(tmp_path).fine()]
    assert found == [1] * 850 + [10] * 15


def test_slices_are_the_first_that_a_cap_removes(tmp_path: Path) -> None:
    """Slices that a cap has removed are gone for good, and a notice tells of it."""
    writer = HistoryWriter(tmp_path, cap_bytes=24 * 1024)
    for at in range(60):
        writer.append(second(at), slices=tenths(at))
    writer.append_slices(tenths(60))
    writer.close()
    assert len(writer.notices) == 1
    assert not (tmp_path / "slices.seg").exists()
    assert lengths(HistoryReader(tmp_path).fine()) == [1] * 60


@pytest.mark.parametrize("seconds", [0, 1, 9, 10, 11, 59, 60, 61, 125, 600])
def test_every_level_covers_the_whole_run(tmp_path: Path, seconds: int) -> None:
    """Each level alone holds every second once after `close`. Its last interval may be shorter."""
    write(tmp_path, seconds).close()
    reader = HistoryReader(tmp_path)
    for level in (1, 10, 60):
        assert slots(reader.intervals(level_s=level)) == list(range(seconds))
        found = lengths(reader.intervals(level_s=level))
        assert found == [level] * (seconds // level) + ([seconds % level] if seconds % level else [])
    assert slots(reader.intervals()) == list(range(seconds))
    assert lengths(reader.intervals()) == [1] * seconds


def test_roll_ups_add_up(tmp_path: Path) -> None:
    """Counts and counter increases of a minute are the sums of its seconds, the gauge is its last."""
    write(tmp_path, 60).close()
    (minute,) = HistoryReader(tmp_path).intervals(level_s=60)
    assert np.frombuffer(minute.series.count, "<u8").tolist() == [60]
    assert np.frombuffer(minute.series.total, "<f8").tolist() == [sum(range(60))]
    assert np.frombuffer(minute.counters.value, "<f8").tolist() == [sum(range(60))]
    assert np.frombuffer(minute.gauges.value, "<f8").tolist() == [59.0]


def test_a_killed_writer_leaves_every_second(tmp_path: Path) -> None:
    """The seconds that no roll-up holds yet are on disk without `close`, too."""
    write(tmp_path, 75)
    assert slots(HistoryReader(tmp_path).intervals()) == list(range(75))


def test_past_its_retention_a_level_hands_over_to_the_next(tmp_path: Path) -> None:
    """Old seconds are gone, but each moment is there once, at the finest level that still has it."""
    write(tmp_path, 1_000, {1: 120, 10: 480, 60: None}).close()
    reader = HistoryReader(tmp_path)
    found = lengths(reader.intervals())
    assert found == sorted(found, reverse=True)
    assert set(found) == {60, 10, 1}
    assert 120 <= found.count(1) <= 120 + 60 + 60
    assert slots(reader.intervals()) == list(range(1_000))
    assert slots(reader.intervals(level_s=60)) == list(range(1_000))


@given(st.integers(1, 400), st.sampled_from([0, 60, 130, 300]), st.sampled_from([60, 300]), st.booleans())
def test_no_second_twice_and_none_lost(seconds: int, first: int, middle: int, closed: bool) -> None:
    """The finest history is the whole run, whatever is retained and however the run ended."""
    with TemporaryDirectory(prefix="tm") as name:
        writer = write(Path(name), seconds, {1: first, 10: middle, 60: None})
        if closed:
            writer.close()
        assert writer.failed == ""
        assert slots(HistoryReader(Path(name)).intervals()) == list(range(seconds))
        writer.close()


def test_a_range_is_cut_to_what_overlaps(tmp_path: Path) -> None:
    """Intervals that overlap the half-open range, no others; asking on from the last end gives the rest."""
    write(tmp_path, 100).close()
    reader = HistoryReader(tmp_path)
    assert slots(reader.intervals(START + 20 * SECOND, START + 23 * SECOND)) == [20, 21, 22]
    assert slots(reader.intervals(START + 20 * SECOND + 1, START + 22 * SECOND + 1)) == [20, 21, 22]
    assert lengths(reader.intervals(START + 61 * SECOND, START + 62 * SECOND, level_s=60)) == [40]
    assert slots(reader.intervals(start_ns=START + 98 * SECOND)) == [98, 99]


def test_a_clock_set_back_loses_nothing(tmp_path: Path) -> None:
    """Levels fit together by the number of the roll, not by the wall clock."""
    writer = HistoryWriter(tmp_path, {1: 60, 10: 120, 60: None})
    order = [*range(500, 700), *range(100, 400)]
    for at in order:
        writer.append(second(at))
    writer.close()
    assert sorted(slots(HistoryReader(tmp_path).intervals())) == sorted(order)


def test_retention_while_reading_takes_nothing_away(tmp_path: Path) -> None:
    """A reader that has begun reads on what is deleted meanwhile."""
    writer = write(tmp_path, 200, {1: 60, 10: None, 60: None})
    found = HistoryReader(tmp_path).intervals()
    first = next(found)
    for at in range(200, 800):
        writer.append(second(at))
    assert set(range(200)) <= set(slots(iter([first, *found])))
    writer.close()


def test_a_torn_second_is_left_out_and_counted(tmp_path: Path) -> None:
    """A half frame at the end of a segment ends it."""
    write(tmp_path, 30)
    (segment,) = tmp_path.glob("1s-*")
    os.truncate(segment, segment.stat().st_size - 1)
    reader = HistoryReader(tmp_path)
    assert slots(reader.intervals(level_s=1)) == list(range(29))
    assert reader.torn_bytes > 0


def test_keys_are_kept_once_and_in_order(tmp_path: Path) -> None:
    """Keys given again are not written again; kinds have indices of their own; a half line is left out."""
    keys = [
        SeriesKey(index=0, name="latency", kind="series", unit="ms", labels={"op": "read"}, ticks_per_unit=1e6),
        SeriesKey(index=0, name="done", kind="counter"),
    ]
    writer = HistoryWriter(tmp_path)
    writer.append(second(0), keys)
    keys.append(SeriesKey(index=1, name="size", kind="series", digits=2))
    writer.append(second(1), keys)
    path = tmp_path / "keys.jsonl"
    with path.open("ab") as file:
        file.write(b'{"index":2,"na')
    assert HistoryReader(tmp_path).keys() == keys
    assert json.loads(path.read_bytes().splitlines()[0]).items() >= {"schema_version": 1}.items()
    writer.close()


def test_another_level_is_refused(tmp_path: Path) -> None:
    """A level other than 0, 1, 10 and 60 is refused."""
    with pytest.raises(UsageError, match="level of 5 s"):
        HistoryReader(tmp_path).intervals(level_s=5)


def test_a_second_history_in_one_directory_is_refused(tmp_path: Path) -> None:
    """Rolls are numbered from 0, so a directory holds one history, unless that one is resumed."""
    write(tmp_path, 1).close()
    with pytest.raises(RunDirectoryError, match="already"):
        HistoryWriter(tmp_path)


def files(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.parametrize("first", [0, 1, 7, 10, 59, 60, 61, 119, 120, 125])
def test_a_resumed_history_is_one(tmp_path: Path, first: int, closed: bool) -> None:
    """Killed or closed, and resumed: to the last byte what one writer would have left, no second twice."""
    write(tmp_path / "whole", 150).close()
    writer = write(tmp_path / "parts", first)
    if closed:
        writer.close()
    writer = HistoryWriter(tmp_path / "parts", resume=True)
    assert (writer.rolls, writer.cut_bytes, writer.failed) == (first, 0, "")
    for at in range(first, 150):
        writer.append(second(at))
    writer.close()
    assert files(tmp_path / "parts") == files(tmp_path / "whole")


@pytest.mark.parametrize("first", [7, 60, 71])
def test_a_resumed_history_of_packed_intervals_is_one(
    tmp_path: Path, first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A resumed history of packed intervals equals one written at once.

    Short intervals are arrays, and a history may hold both.
    """
    monkeypatch.setattr("telemetry.store.intervals.levels._WORTH_IT_BYTES", 0)
    write(tmp_path / "whole", 80).close()
    write(tmp_path / "parts", first)
    writer = HistoryWriter(tmp_path / "parts", resume=True)
    assert (writer.rolls, writer.cut_bytes, writer.failed) == (first, 0, "")
    for at in range(first, 80):
        writer.append(second(at))
    writer.close()
    assert files(tmp_path / "parts") == files(tmp_path / "whole")
    monkeypatch.undo()
    writer = HistoryWriter(tmp_path / "parts", resume=True)
    for at in range(80, 90):
        writer.append(second(at))
    writer.close()
    for level in (0, *LEVELS):
        assert slots(HistoryReader(tmp_path / "parts").intervals(level_s=level)) == list(range(90))


def test_closing_again_after_a_resume_changes_nothing(tmp_path: Path) -> None:
    """The roll-ups of the end are taken back and written once more."""
    write(tmp_path, 75).close()
    before = files(tmp_path)
    HistoryWriter(tmp_path, resume=True).close()
    assert files(tmp_path) == before


def test_intervals_that_are_there_are_passed_over(tmp_path: Path) -> None:
    """A writer that fills up a history may begin anywhere before its end."""
    write(tmp_path / "whole", 100).close()
    write(tmp_path / "parts", 42)
    writer = HistoryWriter(tmp_path / "parts", resume=True)
    for at in range(13, 100):
        writer.append(second(at), number=at)
    writer.close()
    assert files(tmp_path / "parts") == files(tmp_path / "whole")


def test_a_number_that_is_missing_stays_missing(tmp_path: Path) -> None:
    """Seconds nobody knows of leave a hole on every level, and all others keep their place."""
    writer = HistoryWriter(tmp_path)
    order = [*range(5), *range(23, 70), 300]
    for at in order:
        writer.append(second(at), number=at)
    assert writer.rolls == 301
    writer.close()
    reader = HistoryReader(tmp_path)
    for level in (1, 10, 60):
        assert slots(reader.intervals(level_s=level)) == order
    begins = [(found.start_ns - START) // SECOND for found in reader.intervals(level_s=10)]
    assert begins == [0, 23, 30, 40, 50, 60, 300]
    assert slots(reader.intervals()) == order


@pytest.mark.parametrize("at", [4, 5, 23, 24, 70, 71])
def test_a_hole_survives_a_resume(tmp_path: Path, at: int) -> None:
    """Roll-ups that a hole ended early are the same after a kill before, in and after the hole."""
    order = [*range(5), *range(23, 70), 300]

    def fill(writer: HistoryWriter, numbers: list[int]) -> HistoryWriter:
        for number in numbers:
            writer.append(second(number), number=number)
        return writer

    fill(HistoryWriter(tmp_path / "whole"), order).close()
    fill(HistoryWriter(tmp_path / "parts"), [number for number in order if number < at])
    fill(HistoryWriter(tmp_path / "parts", resume=True), order).close()
    assert files(tmp_path / "parts") == files(tmp_path / "whole")


def test_a_missing_history_is_begun_where_it_is_asked_for(tmp_path: Path) -> None:
    """A resumed history without a directory is a new one, whatever its first number."""
    writer = HistoryWriter(tmp_path / "none", resume=True)
    assert (writer.rolls, writer.failed) == (0, "")
    for at in range(95, 130):
        writer.append(second(at), number=at)
    writer.close()
    reader = HistoryReader(tmp_path / "none")
    assert all(slots(reader.intervals(level_s=level)) == list(range(95, 130)) for level in (0, 1, 10, 60))


def test_retention_goes_on_after_a_resume(tmp_path: Path) -> None:
    """Segments of the writer before count, and are deleted in their turn."""
    retention = {1: 60, 10: 300, 60: None}
    write(tmp_path / "whole", 1_000, retention).close()
    write(tmp_path / "parts", 333, retention)
    writer = HistoryWriter(tmp_path / "parts", retention, resume=True)
    for at in range(333, 1_000):
        writer.append(second(at))
    writer.close()
    assert files(tmp_path / "parts") == files(tmp_path / "whole")


def test_what_can_not_be_read_is_cut_and_comes_again(tmp_path: Path) -> None:
    """Torn tails of every file, seconds that are lost, roll-ups without their seconds: filled up, all is there."""
    keys = [SeriesKey(index=at, name=f"s{at}", kind="series") for at in range(3)]
    for name in ("whole", "parts"):
        writer = HistoryWriter(tmp_path / name)
        for at in range(130):
            writer.append(second(at), keys)
        writer.close()
    (seconds,), (tens,) = (tmp_path / "parts").glob("1s-*"), (tmp_path / "parts").glob("10s-*")
    os.truncate(seconds, seconds.stat().st_size // 2)
    tens.write_bytes(tens.read_bytes()[:-3] + bytes(500))
    with (tmp_path / "parts" / "keys.jsonl").open("r+b") as file:
        file.truncate(file.seek(-5, os.SEEK_END))
    writer = HistoryWriter(tmp_path / "parts", resume=True)
    assert 50 < writer.rolls < 70
    assert writer.cut_bytes > 500
    for at in range(130):
        writer.append(second(at), keys, number=at)
    writer.close()
    assert files(tmp_path / "parts") == files(tmp_path / "whole")


def test_minutes_survive_the_loss_of_the_level_below(tmp_path: Path) -> None:
    """Minutes that are whole are kept, although no data on disk could make them again."""
    retention = {1: 60, 10: 60, 60: None}
    write(tmp_path, 600, retention)
    minutes = slots(HistoryReader(tmp_path).intervals(level_s=60))
    for path in tmp_path.glob("10s-*"):
        path.write_bytes(b"")
    writer = HistoryWriter(tmp_path, retention, resume=True)
    writer.close()
    assert slots(HistoryReader(tmp_path).intervals(level_s=60)) == minutes == list(range(600))


@pytest.mark.parametrize("name", ["keys.jsonl", "1s-0000000000-1700000000000000000.seg"])
def test_a_history_of_a_newer_version_is_not_resumed(tmp_path: Path, name: str) -> None:
    """The writer fails, and leaves the files as they are."""
    write(tmp_path, 3).close()
    path = tmp_path / name
    data = path.read_bytes()
    newer = b'{"schema_version":99}\n' if name == "keys.jsonl" else data[:8] + (99).to_bytes(8, "little")
    path.write_bytes(newer)
    before = files(tmp_path)
    writer = HistoryWriter(tmp_path, resume=True)
    writer.append(second(3))
    writer.close()
    assert "schema version 99" in writer.failed
    assert files(tmp_path) == before


def test_without_a_history_the_reader_says_so(tmp_path: Path) -> None:
    """A missing directory or a damaged key file is one clear error."""
    reader = HistoryReader(tmp_path / "none")
    with pytest.raises(RunDirectoryError, match="no history"):
        reader.keys()
    with pytest.raises(RunDirectoryError, match="can't read"):
        list(reader.intervals())
    (tmp_path / "keys.jsonl").write_bytes(b"{}\nbroken\n")
    with pytest.raises(RunDirectoryError, match="damaged"):
        HistoryReader(tmp_path).keys()


def test_a_full_disk_fails_the_history_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ENOSPC sets `failed`, raises nothing, also not at close, and what was written is readable."""
    writer = write(tmp_path, 12)

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "writev", full)
    writer.append(second(12))
    writer.append(second(13))
    writer.close()
    assert writer.failed == "No space left on device"
    assert slots(HistoryReader(tmp_path).intervals()) == list(range(12))


def test_a_directory_that_can_not_be_made_fails_the_history(tmp_path: Path) -> None:
    """A file in the way of the directory fails the writer, which goes on as if all were well."""
    (tmp_path / "file").touch()
    writer = HistoryWriter(tmp_path / "file" / "history")
    assert "Not a directory" in writer.failed
    writer.append(second(0))
    writer.close()


def test_what_has_been_read_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader of new seconds reads only from there. Damage in earlier seconds is not noticed."""
    monkeypatch.setattr("telemetry.store.history._MARK_BYTES", 1_000)
    writer = write(tmp_path, 100)
    reader = HistoryReader(tmp_path)
    assert slots(reader.intervals()) == list(range(100))
    [path] = tmp_path.glob("1s-*.seg")
    with path.open("r+b") as file:
        file.seek(200)
        file.write(b"XXXX")
    writer.append(second(100))
    assert slots(reader.intervals(START + 99 * SECOND)) == [99, 100]
    assert slots(HistoryReader(tmp_path).intervals(START + 99 * SECOND)) == []
    writer.close()


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(-5, 205), st.integers(0, 60)), max_size=8), st.integers(1, 3_000))
def test_a_reader_that_was_asked_before_answers_as_a_new_one(asked: list[tuple[int, int]], mark_bytes: int) -> None:
    """A reader gives the same answer as a new one, whatever was asked and written in between."""
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr("telemetry.store.history._MARK_BYTES", mark_bytes)
        directory = Path(folder) / "history"
        writer, reader = write(directory, 3, {1: 60, 10: 120, 60: None}), HistoryReader(directory)
        for start, written in asked:
            for _ in range(written):
                writer.append(second(writer.rolls))
            fresh = HistoryReader(directory)
            for level in (0, *LEVELS):
                question = START + start * SECOND, (1 << 63) - 1, level
                assert list(reader.intervals(*question)) == list(fresh.intervals(*question))
        writer.close()


@pytest.mark.parametrize("line", [1, 2, 3])
def test_a_damaged_key_is_named(tmp_path: Path, line: int) -> None:
    """A damaged key might stand for anything, so no keys are read. A writer that goes on writes it anew."""
    keys = [SeriesKey(index=at, name=f"s{at}", kind="series") for at in range(2)]
    writer = HistoryWriter(tmp_path)
    writer.append(second(0), keys)
    writer.close()
    path = tmp_path / "keys.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    lines[line - 1] = lines[line - 1].replace(b'"s', b'"t', 1)
    path.write_bytes(b"".join(lines))
    with pytest.raises(RunDirectoryError, match=rf"keys\.jsonl line {line} is damaged"):
        HistoryReader(tmp_path).keys()
    writer = HistoryWriter(tmp_path, resume=True)
    writer.append(second(1), keys)
    writer.close()
    assert HistoryReader(tmp_path).keys() == keys


def test_keys_of_an_older_version_are_read(tmp_path: Path) -> None:
    """Keys of an older version are read without a check, and new ones may follow them."""
    HistoryWriter(tmp_path).close()
    keys = [SeriesKey(index=at, name=f"s{at}", kind="series") for at in range(2)]
    (tmp_path / "keys.jsonl").write_bytes(b'{"schema_version":1}\n' + msgspec.json.encode(keys[0]) + b"\n")
    assert HistoryReader(tmp_path).keys() == keys[:1]
    writer = HistoryWriter(tmp_path, resume=True)
    writer.append(second(0), keys)
    writer.close()
    assert HistoryReader(tmp_path).keys() == keys

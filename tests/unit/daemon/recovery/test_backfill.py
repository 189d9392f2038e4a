"""Tests of the completion of files that a dead aggregator left short. Existing parts stay as they are."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from telemetry.aggregator import Aggregator, AggregatorConfig
from telemetry.daemon.numbers import Numbers
from telemetry.daemon.recovery.backfill import Backfill, first_segment
from telemetry.daemon.recovery.rebuild import Fold
from telemetry.daemon.write_ahead import WriteAheadLog
from telemetry.errors import RunDirectoryError
from telemetry.store.history import HistoryReader, HistoryWriter
from telemetry.store.journal import JournalReader, JournalWriter
from telemetry.store.records import RecordLog
from telemetry.testing import FakeClock, frame
from telemetry.wire.events import Count, Mark, StreamRecord
from telemetry.wire.history import Interval
from telemetry.wire.journal import RunState
from telemetry.wire.version import PROTOCOL

SECONDS = 12
SEGMENTS_AT = (4, 8)


class Whole:
    """A run of twelve seconds, two marks in each, with three segments of journal, and what its files hold."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        clock = FakeClock()
        now_ns, wall_ns = clock.monotonic_ns(), clock.wall_ns()
        run = RunState(
            run_id="r", name="job", started_ns=wall_ns, started_mono_ns=now_ns, rolled_wall_ns=wall_ns,
            rolled_mono_ns=now_ns,
        )  # fmt: skip
        numbers = Numbers(Aggregator(AggregatorConfig()), run)
        journal = JournalWriter(folder / "journal", numbers.checkpoint(), now_ns)
        book = WriteAheadLog(numbers, journal, clock, now_ns)
        self.intervals: list[Interval] = []
        self.records: list[StreamRecord] = []
        for second in range(SECONDS):
            if second in SEGMENTS_AT:
                journal.begin(numbers.checkpoint(), book.stamp())
            marks = [Mark(f"{second}a"), Mark(f"{second}b")]
            for item in book.turn([bytes(frame("p", second, 3 * second, records=[*marks, Count("n")]))]):
                self.records.append(
                    StreamRecord(PROTOCOL, "r", len(self.records), item.producer, item.wall_ns, item.record)
                )
            clock.advance(1.0)
            self.intervals.append(book.roll(0))
        self.keys = numbers.aggregator.keys()
        journal.close()

    def files(self, rolls: int, records: int) -> tuple[HistoryWriter, RecordLog]:
        """Write the files as far as the aggregator got."""
        history, log = HistoryWriter(self.folder / "history"), RecordLog(self.folder / "records")
        for interval in self.intervals[:rolls]:
            history.append(interval, self.keys)
        log.append(self.records[:records])
        return history, log

    def reader(self) -> JournalReader:
        return JournalReader(self.folder / "journal")


@pytest.fixture
def whole(tmp_path: Path) -> Whole:
    return Whole(tmp_path)


def fill(whole: Whole, history: HistoryWriter | None, log: RecordLog, segment: int | None) -> Backfill:
    fold = Fold(whole.reader(), segment)
    filler = Backfill(history, log)
    for entry in fold.entries():
        filler.take(fold.apply(entry), fold)
    filler.take(fold.end_interval(), fold)
    filler.end(fold)
    if history is not None:
        history.close()
    return filler


@pytest.mark.parametrize(
    ("rolls", "records", "segment"),
    [(12, 24, 2), (10, 19, 2), (9, 24, 2), (7, 24, 1), (12, 15, 1), (6, 3, None), (0, 0, None)],
)
def test_files_are_whole_again(whole: Whole, rolls: int, records: int, segment: int | None) -> None:
    """Files are filled from the newest checkpoint before all missing parts, and nothing is doubled."""
    history, log = whole.files(rolls, records)
    assert first_segment(whole.reader(), history, log) == segment
    filler = fill(whole, history, log, segment)
    assert list(HistoryReader(whole.folder / "history").intervals(level_s=1)) == whole.intervals
    keys = HistoryReader(whole.folder / "history").keys()
    assert [key.name for key in keys] == ["n"]
    assert RecordLog(whole.folder / "records").read(0, 100) == whole.records
    assert (filler.lost_records, filler.lost_seconds) == (0, 0)


@pytest.mark.parametrize(("rolls", "records"), [(0, 24), (12, 0)], ids=["history", "record log"])
def test_a_file_that_failed_asks_for_nothing(whole: Whole, rolls: int, records: int) -> None:
    """One failure hours ago does not make a restart read the whole journal; nothing of that file counts as lost."""
    history, log = whole.files(rolls, records)
    (log if rolls else history).failed = "No space left on device"
    assert first_segment(whole.reader(), history, log) == 2
    filler = fill(whole, history, log, 2)
    assert (history.rolls, log.next_seq) == (rolls, records)
    assert (filler.lost_records, filler.lost_seconds) == (0, 0)


@pytest.mark.parametrize(("back", "segment", "lost"), [(0, 2, 7), (1, 1, 3), (2, None, 0), (9, None, 0)])
def test_reading_back_has_a_bound(whole: Whole, back: int, segment: int | None, lost: int) -> None:
    """A restart can't wait for all of a long journal; the seconds it can't make again are counted."""
    history, log = whole.files(1, 24)
    assert first_segment(whole.reader(), history, log, back) == segment
    assert fill(whole, history, log, segment).lost_seconds == lost
    assert history.rolls == SECONDS


def test_behind_a_restart_records_are_numbered_as_in_the_log(whole: Whole) -> None:
    """The log may be ahead of the journal.

    A fold that begins before the restart takes no new record for a known one.
    """
    history, log = whole.files(12, 24)
    log.append([StreamRecord(PROTOCOL, "r", 24, "p", 1, Mark("lost by the journal"))])
    fold = Fold(whole.reader())
    for entry in fold.entries():
        fold.apply(entry)
    numbers = fold.numbers
    assert Backfill(history, log).unjournaled_records(fold) == 1
    numbers.run = replace(numbers.run, records=log.next_seq)
    clock = FakeClock(fold.now_ns + 1)
    journal = JournalWriter(whole.folder / "journal", numbers.checkpoint(), clock.monotonic_ns())
    batch = bytes(frame("p", SECONDS, 3 * SECONDS, records=[Mark("new")]))
    WriteAheadLog(numbers, journal, clock, fold.now_ns + 1).turn([batch])
    journal.close()
    filler = fill(whole, history, log, 1)
    assert [record.record for record in log.read(24, 9)] == [Mark("lost by the journal"), Mark("new")]
    assert filler.lost_records == 0


def test_without_a_history_only_records_count(whole: Whole) -> None:
    """A history that is off lacks nothing, so that only the records count."""
    _, log = whole.files(0, 24)
    assert first_segment(whole.reader(), None, log) == 2
    fill(whole, None, log, 2)
    assert log.next_seq == 24


def test_records_that_nobody_has_are_counted(whole: Whole) -> None:
    """The records after missing ones are numbered without a gap. Seconds that are nowhere are left out."""
    history, log = whole.files(2, 5)
    (whole.folder / "journal" / "00000000.seg").unlink()
    assert first_segment(whole.reader(), history, log) is None
    filler = fill(whole, history, log, None)
    assert (filler.lost_records, filler.lost_seconds) == (3, 2)
    found = RecordLog(whole.folder / "records").read(0, 100)
    assert [record.record for record in found] == [
        record.record for record in whole.records[:5] + whole.records[8:]
    ]
    assert [record.seq for record in found] == list(range(21))
    seconds = list(HistoryReader(whole.folder / "history").intervals(level_s=1))
    assert seconds == whole.intervals[:2] + whole.intervals[4:]


def test_a_checkpoint_that_is_damaged_is_passed_over(whole: Whole) -> None:
    """One further back does as well."""
    history, log = whole.files(12, 24)
    path = whole.folder / "journal" / "00000002.seg"
    path.write_bytes(path.read_bytes()[:40])
    assert first_segment(whole.reader(), history, log) == 1


def test_a_checkpoint_of_another_version_is_an_error(whole: Whole, monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint of another version is an error, because nothing may be guessed from it."""
    history, log = whole.files(12, 24)
    journal = JournalWriter(whole.folder / "journal", b"noise", 10**15)
    journal.close()
    with pytest.raises(RunDirectoryError, match="can't read a checkpoint of the journal"):
        first_segment(whole.reader(), history, log)

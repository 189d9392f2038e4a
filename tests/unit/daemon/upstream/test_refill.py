"""A killed leaf makes the batches that it had not written again from its journal, byte for byte."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from telemetry.aggregator import Aggregator, AggregatorConfig
from telemetry.daemon.numbers import Numbers
from telemetry.daemon.recovery.backfill import first_segment
from telemetry.daemon.recovery.rebuild import Fold
from telemetry.daemon.upstream.intervals import IntervalCollector, OutboxWriter, Refill
from telemetry.daemon.write_ahead import WriteAheadLog
from telemetry.limits import KIB
from telemetry.store.journal import JournalReader, JournalWriter
from telemetry.store.outbox import DiskOutbox
from telemetry.store.records import RecordLog
from telemetry.testing import FakeClock, frame
from telemetry.wire.codec import decode_batch, decode_record
from telemetry.wire.control import Hello
from telemetry.wire.events import Count, Define, Mark, Sample
from telemetry.wire.journal import RunState

SECONDS = 12
SEGMENTS_AT = (4, 8)


class Whole:
    """A leaf of twelve seconds, with a new instrument in each; a journal of three segments begun in mid-second."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        clock = FakeClock()
        now_ns, wall_ns = clock.monotonic_ns(), clock.wall_ns()
        run = RunState(
            run_id="r", name="job", started_ns=wall_ns, started_mono_ns=now_ns, rolled_wall_ns=wall_ns,
            rolled_mono_ns=now_ns,
        )  # fmt: skip
        numbers = Numbers(Aggregator(AggregatorConfig(leaf=True)), run)
        journal = JournalWriter(folder / "journal", numbers.checkpoint(), now_ns)
        book = WriteAheadLog(numbers, journal, clock, now_ns)
        outbox = DiskOutbox(folder / "whole", 256 * KIB)
        collector, writer = IntervalCollector(spans=False), OutboxWriter(outbox, "r")
        records = RecordLog(folder / "records")
        for second in range(SECONDS):
            book.hello(Hello(producer=f"p{second}"))
            for part in range(2):
                if second in SEGMENTS_AT and part:
                    journal.begin(numbers.checkpoint(), book.stamp())
                clock.advance(0.5)
                anchor = (clock.monotonic_ns(), clock.wall_ns())
                made = [Mark(f"{second}.{part}"), Count("n"), Sample(f"value{second}", 1.5 * second)]
                number = 2 * second + part
                collector.add(book.turn([bytes(frame("p0", number, 3 * number, records=made, anchor=anchor))]))
            roll = numbers.run.rolls
            interval = book.roll(0)
            collector.add(book.take_streamed())
            writer.take(collector.end(numbers, interval, roll, numbers.aggregator.node_account(roll)))
            writer.release()
        self.frames = frames(outbox)
        journal.close()
        outbox.close()
        records.close()

    def refilled(self, rolls: int) -> tuple[list[bytes], Refill]:
        """Frames of the outbox after it had only `rolls` intervals and was completed, and how."""
        shutil.rmtree(self.folder / "again", ignore_errors=True)
        shutil.copytree(self.folder / "whole", self.folder / "again")
        outbox = DiskOutbox(self.folder / "again", 256 * KIB)
        outbox.cut(rolls)
        reader = JournalReader(self.folder / "journal")
        refill = Refill(outbox, "r", spans=False)
        fold = Fold(reader, first_segment(reader, None, failed_log(self.folder), outbox=outbox))
        refill.begin(fold)
        for entry in fold.entries():
            refill.take(fold.apply(entry), fold)
        refill.end(fold)
        found = frames(outbox)
        outbox.close()
        return found, refill


def failed_log(folder: Path) -> RecordLog:
    """A record log that needs nothing of the journal."""
    log = RecordLog(folder / "none")
    log.failed = "gone"
    return log


def frames(outbox: DiskOutbox) -> list[bytes]:
    found: list[bytes] = []
    seq = 0
    while (stored := outbox.read(seq)) is not None:
        found.append(bytes(stored.frame))
        seq = stored.seq + 1
    return found


@pytest.fixture
def whole(tmp_path: Path) -> Iterator[Whole]:
    return Whole(tmp_path)


@pytest.mark.parametrize("rolls", range(SECONDS + 1))
def test_missing_intervals_are_made_again(whole: Whole, rolls: int) -> None:
    """Whichever the outbox lacks: numbers, definitions, sums, marks, producers and accounts are the same."""
    found, refill = whole.refilled(rolls)
    assert found == whole.frames
    assert refill.lost == 0


def test_a_leaf_with_closed_books_sends_nothing_more(whole: Whole) -> None:
    """The last account of such a leaf is on disk, and the root may have it already."""
    outbox = DiskOutbox(whole.folder / "whole", 256 * KIB)
    last = outbox.read(outbox.next_seq - 1)
    assert last is not None
    outbox.append([last._replace(seq=outbox.next_seq, first=outbox.emitted)], {}, closing=True)
    outbox.close()
    before = len(whole.frames) + 1
    found, refill = whole.refilled(SECONDS)
    assert (len(found), refill.lost) == (before, 0)


def test_after_a_hole_all_definitions_come_again(whole: Whole) -> None:
    """Intervals after a hole need the definitions again, and the lost intervals are counted."""
    for path in sorted((whole.folder / "journal").iterdir())[:2]:
        path.unlink()
    found, refill = whole.refilled(2)
    assert refill.lost == SEGMENTS_AT[1] - 2
    first = decode_batch(found[2])
    names = {record.name for raw in first.records if isinstance(record := decode_record(raw), Define)}
    assert {"n", "value0", f"value{SEGMENTS_AT[1]}"} <= names

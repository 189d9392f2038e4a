"""The way into a live run's numbers: in the journal first, and nothing twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from telemetry import limits
from telemetry.aggregator import Aggregator, AggregatorConfig
from telemetry.daemon.numbers import Numbers
from telemetry.daemon.recovery.rebuild import Fold
from telemetry.daemon.write_ahead import WriteAheadLog, no_more_nodes
from telemetry.store.journal import BATCH, CHECKPOINT, NOTE, JournalReader, JournalWriter
from telemetry.testing import FakeClock, frame
from telemetry.wire.codec import decode_checkpoint, decode_note
from telemetry.wire.control import CannotResend, End, Hello, TellBackend, Watch
from telemetry.wire.events import ClosedStep, Count, Scalars
from telemetry.wire.journal import BadFrames, Closed, Ending, Rolled, RunState
from telemetry.wire.snapshot import BackendStat


class Kept:
    """A logbook with a journal, and what is in it."""

    def __init__(self, folder: Path, segment_bytes: int = limits.JOURNAL_SEGMENT_BYTES) -> None:
        self.folder = folder
        self.clock = FakeClock()
        now_ns, wall_ns = self.clock.monotonic_ns(), self.clock.wall_ns()
        run = RunState(
            run_id="r", name="job", started_ns=wall_ns, started_mono_ns=now_ns, rolled_wall_ns=wall_ns,
            rolled_mono_ns=now_ns,
        )  # fmt: skip
        self.numbers = Numbers(Aggregator(AggregatorConfig()), run)
        self.journal = JournalWriter(folder, self.numbers.checkpoint(), now_ns, segment_bytes)
        self.book = WriteAheadLog(self.numbers, self.journal, self.clock, now_ns)

    def frames(self, kind: int) -> list[tuple[int, bytes]]:
        found = JournalReader(self.folder).frames()
        return [(item.time_ns, bytes(item.data)) for item in found if item.kind == kind]

    def notes(self) -> list[Any]:
        return [decode_note(data) for _, data in self.frames(NOTE)]


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return Kept(tmp_path / "j")


def count(producer: str, seq: int) -> bytes:
    return bytes(frame(producer, seq, seq, records=[Count("n")]))


def test_stamps_rise_though_the_clock_stands(kept: Kept) -> None:
    """Stamps rise although the clock stands, else two turns would be read back as one."""
    kept.book.turn([count("p", 0)])
    kept.book.turn([count("p", 1), count("q", 0)])
    stamps = [stamp for stamp, _ in kept.frames(BATCH)]
    assert stamps[0] < stamps[1] == stamps[2]
    assert kept.book.stamp() > stamps[2]


def test_a_batch_is_in_the_journal_before_it_is_applied(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is killed in between has lost nothing."""
    seen: list[int] = []
    apply = kept.numbers.aggregator.apply

    def look_then_apply(*arguments: Any) -> Any:
        seen.append(len(kept.frames(BATCH)))
        return apply(*arguments)

    monkeypatch.setattr(kept.numbers.aggregator, "apply", look_then_apply)
    kept.book.turn([count("p", 0), b"noise", count("p", 0), count("p", 1)])
    assert seen == [2]
    kept.book.turn([b"noise"])
    assert seen == [2], "there is nothing to apply"


def test_what_a_peer_repeats_is_written_once(kept: Kept) -> None:
    """Hello and end are said again until they are answered, and need no more room for that."""
    for number in range(100):
        assert kept.book.hello(Hello(id=number, producer="p", name="n", pid=7, mono_ns=number)) == ""
    for number in range(100):
        assert kept.book.end(End(id=number, producer="p", batches=3, emitted=3)) == ""
        kept.book.end(End(producer="p", batches=4, emitted=number))
        kept.book.cannot_resend(CannotResend(producer="p", first=1, last=1))
    assert kept.notes() == [
        Hello(id=0, producer="p", name="n", pid=7),
        End(id=0, producer="p", batches=3, emitted=3),
        End(producer="p", batches=4, emitted=0),
        CannotResend(producer="p", first=1, last=1),
    ]
    (warning,) = kept.numbers.aggregator._notes.warnings
    assert "ended twice" in warning


def test_a_backend_is_noted_when_it_is_new_and_when_its_writer_ends(kept: Kept) -> None:
    """A backend's progress is not noted: the writer repeats it to another aggregator.

    A checkpoint has all of it.
    """
    bare, other = BackendStat(name="w", kind="jsonl"), BackendStat(name="v", kind="otlp")
    failed = BackendStat(name="w", kind="jsonl", state="failed", next_record=4, last_error="no key")
    for stat in (bare, bare, other, replace(bare, state="idle", next_record=3, pid=7), failed, failed):
        kept.book.tell_backend(stat)
    assert kept.notes() == [TellBackend(stat=bare), TellBackend(stat=other), TellBackend(stat=failed)]
    kept.book.tell_backend(replace(bare, state="writing", next_record=4))
    assert kept.notes()[3:] == [TellBackend(stat=bare)]
    assert kept.numbers.run.backends == [bare, other]
    fold = Fold(JournalReader(kept.folder))
    for entry in fold.entries():
        fold.apply(entry)
    assert fold.numbers.run.backends == [bare, other]


def test_a_sign_of_life_is_no_note(kept: Kept) -> None:
    """A sign of life changes only values that no fold reads."""
    kept.book.hello(Hello(producer="p"))
    kept.clock.advance(5.0)
    kept.book.ping("p")
    kept.book.ping("nobody")
    assert kept.numbers.aggregator.book["p"].last_seen_ns == kept.clock.monotonic_ns()
    kept.clock.advance(5.0)
    kept.book.hello(Hello(producer="p"))
    assert kept.numbers.aggregator.book["p"].last_seen_ns >= kept.clock.monotonic_ns()
    assert len(kept.notes()) == 1


def test_a_producer_that_says_something_else_each_time_is_refused(kept: Kept) -> None:
    """A producer with ever new hellos is refused, else it could fill the disk with its names."""
    answers = [kept.book.hello(Hello(producer="p", name=f"{number}")) for number in range(1_000)]
    assert set(answers[:16]) == {""}
    assert set(answers[16:]) == {"more than 16 different hellos of one producer"}
    assert len(kept.notes()) == 16
    assert kept.numbers.aggregator.book["p"].name == "15"
    assert kept.book.hello(Hello(producer="q")) == ""


def test_producers_beyond_the_bound_leave_no_note(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """Producers beyond the bound are counted among the bad frames, whose note has all of them."""
    monkeypatch.setattr(limits, "PRODUCERS", 1)
    kept.book.hello(Hello(producer="p"))
    assert (
        kept.book.hello(Hello(producer="q"))
        == "the run already has 1 producers that have not ended, and accepts no more"
    )
    kept.book.end(End(producer="q", batches=1, emitted=1))
    kept.book.turn([count("q", 0)])
    kept.book.note_bad_frames()
    kept.book.note_bad_frames()
    assert kept.notes() == [Hello(producer="p"), BadFrames(counts={"too_many_producers": 3})]


def test_nodes_beyond_the_bound_are_refused(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """The result is lossy then. A leaf that is known may come back, and other producers have their own bound."""
    monkeypatch.setattr(limits, "NODES", 2)
    leaves = [Hello(producer=f"leaf{number}", node=f"n{number}") for number in range(3)]
    assert [kept.book.hello(leaf) for leaf in leaves] == ["", "", no_more_nodes()]
    assert no_more_nodes() == "the run already has 2 nodes, and accepts no more; add a level of leaves between"
    assert kept.book.hello(Hello(producer="p")) == ""
    assert kept.book.hello(Hello(producer="leaf1", node="n1", pid=8)) == ""
    kept.book.note_bad_frames()
    assert kept.notes()[-1] == BadFrames(counts={"too_many_producers": 1})


def test_batches_that_are_not_missing_are_no_news(kept: Kept) -> None:
    """A producer that can't send again batches that are not missing changes nothing."""
    kept.book.turn([count("p", 0), count("p", 3)])
    kept.book.cannot_resend(CannotResend(producer="p", first=3, last=9))
    kept.book.cannot_resend(CannotResend(producer="nobody", first=0, last=9))
    assert kept.notes() == []
    kept.book.cannot_resend(CannotResend(producer="p", first=0, last=1))
    assert kept.notes() == [CannotResend(producer="p", first=0, last=1)]
    assert kept.numbers.aggregator.book.gaps("p") == [(2, 2)]


def test_an_interval_is_noted_with_all_it_was_made_of(kept: Kept) -> None:
    """A reader of the note makes the same interval, and knows the clock from there on."""
    run = kept.numbers.run
    kept.clock.advance(1.0)
    interval = kept.book.roll(41)
    end_ns = run.rolled_wall_ns + 10**9
    (note,) = kept.notes()
    assert note == Rolled(start_wall_ns=run.rolled_wall_ns, end_wall_ns=end_ns, elapsed_ns=10**9, snapshot_seq=41)
    assert (interval.start_ns, interval.end_ns) == (note.start_wall_ns, note.end_wall_ns)


def test_how_the_run_ends_is_noted_when_it_changes(kept: Kept) -> None:
    """However often somebody asks."""
    for _ in range(3):
        kept.book.ending(Ending(reason="enough"))
    kept.book.ending(Ending(reason="stopped by SIGTERM", interrupted=True))
    assert [note.reason for note in kept.notes()] == ["enough", "stopped by SIGTERM"]
    assert kept.numbers.run.ending == kept.notes()[-1]


def test_a_segment_that_is_long_enough_is_followed_by_another(tmp_path: Path) -> None:
    """A new segment begins with a checkpoint of that moment, with the warnings so far."""
    kept = Kept(tmp_path / "j", limits.KIB)
    kept.book.renew(["careful"])
    assert len(kept.frames(CHECKPOINT)) == 1
    seq = 0
    while not kept.journal.full:
        kept.book.turn([count("p", seq)])
        seq += 1
    kept.book.turn([count("p", seq)])
    kept.book.renew(["careful"])
    _, (_, data) = kept.frames(CHECKPOINT)
    assert decode_checkpoint(data).run.warnings == ["careful"]
    assert Numbers.restore(data).aggregator.book.counted_events == seq + 1
    assert data == kept.numbers.checkpoint()


def test_without_a_journal_the_numbers_are_the_same(kept: Kept) -> None:
    """Off, or failed: nothing of this raises."""
    numbers = Numbers(Aggregator(AggregatorConfig()), kept.numbers.run)
    bare = WriteAheadLog(numbers, None, kept.clock, kept.clock.monotonic_ns())
    kept.journal.failed = "No space left on device"
    for book in (bare, kept.book):
        book.renew([])
        book.hello(Hello(producer="p"))
        book.turn([count("p", 0), b"noise"])
        book.cannot_resend(CannotResend(producer="p", first=0, last=9))
        book.end(End(producer="p", batches=1, emitted=1))
        book.note_bad_frames()
        book.ending(Ending(reason="enough"))
        book.roll(0)
    assert numbers.aggregator.checkpoint() == kept.numbers.aggregator.checkpoint()
    assert kept.notes() == []


def test_whom_the_run_belongs_to_is_noted_once(kept: Kept) -> None:
    """The next aggregator has to watch the same processes from its first tick on, before anybody tells it."""
    for pid in (11, 12, 11):
        kept.book.watch(Watch(pid=pid))
    assert [note.pid for note in kept.notes()] == [11, 12]
    assert kept.numbers.run.watched == [11, 12]


def test_what_is_repeated_raises_no_warning_that_no_note_tells(kept: Kept) -> None:
    """Repeated hellos and ends raise no warning that the fold of the journal lacks."""
    kept.book.hello(Hello(producer="p"))
    for number in range(60):  # more than there is room for
        kept.book.hello(Hello(producer=f"q{number}"))
        for emitted in (0, 1, 2, 3):
            kept.clock.advance(1.0)
            kept.book.end(End(producer=f"q{number}", batches=0, emitted=emitted))
        assert kept.numbers.aggregator.book[f"q{number}"].last_seen_ns >= kept.clock.monotonic_ns()
    fold = Fold(JournalReader(kept.folder))
    for entry in fold.entries():
        fold.apply(entry)
    assert fold.numbers.aggregator._notes.warnings == kept.numbers.aggregator._notes.warnings


def test_the_closing_of_the_books_is_in_the_journal(kept: Kept) -> None:
    """A fold of the closing gives exactly the steps that were open then. Rows that waited are given up."""
    kept.book.turn([bytes(frame("p", 0, 0, records=[Scalars("train", 1, {"x": 1.0})], rows=[(9, 1, 1.0)]))])
    kept.book.roll(0)
    kept.book.close()
    (said,) = kept.book.take_streamed()
    assert said.record == ClosedStep("train", 1, {"x": 1.0}, closed="run_end")
    assert kept.notes()[1:] == [Closed()]
    fold = Fold(JournalReader(kept.folder))
    streamed = [item for entry in fold.entries() for item in fold.apply(entry).streamed]
    assert streamed == [said]
    assert fold.numbers.run.records == kept.numbers.run.records == 1
    for numbers in (kept.numbers, fold.numbers):
        ledger = numbers.aggregator.book["p"].account.ledger
        assert (ledger.received, ledger.applied, ledger.by_reason()) == (2, 1, {"unknown_id": 1})
    assert (fold.last_notes(), fold.end_interval().interval) == ([], None)
    assert fold.close().streamed == ()


def test_a_name_for_the_run_is_told_once_and_is_in_the_journal(kept: Kept) -> None:
    """A producer that introduced itself before, by the same name, can name the run, too."""
    kept.numbers.run = replace(kept.numbers.run, takes_name=True)
    names: list[str] = []
    kept.book.on_named = names.append
    for hello in (Hello(producer="a", name="job.py"), *[Hello(producer="a", name="job.py", names_run=True)] * 2):
        assert kept.book.hello(hello) == ""
    assert names == ["job.py"]
    assert [note.names_run for note in kept.notes()] == [False, True]

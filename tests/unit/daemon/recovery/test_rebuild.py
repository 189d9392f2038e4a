"""The way back: a journal gives the numbers it was written for, to the last bit, from any of its checkpoints."""

from __future__ import annotations

import errno
import os
import random
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from telemetry import limits
from telemetry.aggregator import Aggregator, AggregatorConfig, SnapshotFacts
from telemetry.daemon.numbers import Numbers
from telemetry.daemon.recovery.rebuild import Fold, entries
from telemetry.daemon.run_status import RunStatus
from telemetry.daemon.write_ahead import WriteAheadLog
from telemetry.errors import RunDirectoryError
from telemetry.limits import KIB
from telemetry.store.journal import BATCH, JournalReader, JournalWriter
from telemetry.testing import FakeClock, frame
from telemetry.wire.control import CannotResend, End, Hello
from telemetry.wire.events import (
    Axis,
    ClosedStep,
    Count,
    Counted,
    Define,
    EventRecord,
    Expect,
    Gauge,
    Mark,
    Params,
    Sample,
    Scalars,
    StepClear,
    StepEnd,
    Uncounted,
)
from telemetry.wire.history import Interval, Slice
from telemetry.wire.journal import Ending, RunState
from telemetry.wire.snapshot import CommandFacts, MetricsSnapshot, SelfCost

SEGMENT_BYTES = 64 * KIB
TURNS = 400

Essence = Callable[..., dict[str, Any]]


class SteppedClock(FakeClock):
    """The wall clock is set now and then."""

    def step(self, step_ns: int) -> None:
        self._wall_ns += step_ns


class Live:
    """A run through the logbook, on a clock of its own; remembers what it told the history and the stream."""

    def __init__(self, folder: Path, seed: int = 1, *, segment_bytes: int = SEGMENT_BYTES) -> None:
        self.folder = folder
        self.clock = SteppedClock()
        self.rng = random.Random(seed)
        now_ns, wall_ns = self.clock.monotonic_ns(), self.clock.wall_ns()
        run = RunState(
            run_id="r", name="job", started_ns=wall_ns, started_mono_ns=now_ns, rolled_wall_ns=wall_ns,
            rolled_mono_ns=now_ns,
        )  # fmt: skip
        self.numbers = Numbers(Aggregator(AggregatorConfig(window_s=3, step_grace_s=1.0)), run)
        self.journal = JournalWriter(folder, self.numbers.checkpoint(), now_ns, segment_bytes, 1 << 30)
        self.book = WriteAheadLog(self.numbers, self.journal, self.clock, now_ns)
        self.senders = [Sender(self, f"p{number}") for number in range(4)]
        self.intervals: list[Interval] = []
        self.slices: list[Slice] = []
        self.streamed: list[Any] = []

    def turn(self, frames: Sequence[bytes]) -> None:
        self.book.renew([])
        self.streamed += self.book.turn(frames)

    def roll(self) -> None:
        self.clock.step(self.rng.randrange(-3_000_000, 3_000_000))
        self.intervals.append(self.book.roll(len(self.intervals)))
        self.slices += self.book.take_slices()

    def go(self, turns: int = TURNS) -> None:
        """A run with everything that can happen in one, in an order that the seed decides."""
        for turn in range(turns):
            self.clock.advance(self.rng.uniform(0.0, 0.1))
            for sender in self.rng.sample(self.senders, self.rng.randrange(1, 4)):
                sender.act()
            if turn % 10 == 9:
                self.roll()
            elif turn % 30 > 10 and turn % 3 == 1:  # a third of the intervals has no slices
                self.book.slice()
                self.slices += self.book.take_slices()
            self.rng.choice((self.book.note_bad_frames, lambda: None))()
        self.book.ending(Ending(reason="enough", command=CommandFacts(argv=["x"], exit_code=0)))
        for sender in self.senders[:-1]:
            sender.end()
        self.turn([self.senders[-1].batch(Scalars("train", 10**6, {"x": 1.0}))])
        self.book.note_bad_frames()
        self.streamed += self.book.take_streamed()

    def snapshot(self) -> dict[str, Any]:
        return snapshot_of(self.numbers, self.clock.monotonic_ns())


class Sender:
    """A producer that loses, repeats and delays batches, defines late, and says what nobody understands."""

    def __init__(self, live: Live, name: str) -> None:
        self.live = live
        self.name = name
        self.seq = self.events = 0
        self.kept: list[bytes] = []

    def act(self) -> None:
        rng, book = self.live.rng, self.live.book
        frames = [self.batch() for _ in range(rng.randrange(1, 4))]
        if rng.random() < 0.2:
            self.kept.append(frames.pop())
        if self.kept and rng.random() < 0.2:
            frames.append(self.kept.pop(0))
        if frames and rng.random() < 0.1:
            frames += [frames[0], b"noise", frame(self.name, 1 << 50, 0, records=[Count("n")])]
        if rng.random() < 0.3:
            assert book.hello(Hello(producer=self.name, name=self.name, pid=7, mono_ns=rng.randrange(9))) == ""
        if self.seq > 40 and rng.random() < 0.05:
            gaps = self.live.numbers.aggregator.book.gaps(self.name)
            for first, last in gaps[:1]:
                book.cannot_resend(CannotResend(producer=self.name, first=max(0, first - 1), last=last))
        rng.shuffle(frames)
        self.live.turn(frames)
        if rng.random() < 0.05:
            _ = self.live.snapshot()  # whoever asks changes nothing
            _ = self.live.numbers.aggregator.uncounted.take(60)  # nor does who takes

    def batch(self, *more: EventRecord) -> bytes:
        rng, now_ns = self.live.rng, self.live.clock.monotonic_ns()
        records: list[EventRecord] = [*more]
        if self.seq in (0, 3):
            records += [
                Define(1, "latency", "series", "ms", {"who": self.name}, within="latency"),
                Define(2, "bytes", "counter", "B", {"who": self.name}, within="latency"),
            ]
        if self.seq == 5:
            records += [Define(3, "load", "gauge"), Params({"x": rng.random()}), Expect("bytes", 1e6)]
        if rng.random() < 0.2:
            records += [Mark(f"mark {self.seq}"), Sample("free", rng.expovariate(0.1)), Count("n", rng.random())]
            records += [Gauge("g", rng.gauss(0.0, 1.0))]
        if rng.random() < 0.2:
            records += [Uncounted(f"text {self.seq}", "tokens"), Counted([rng.randrange(400) for _ in range(9)], 1)]
        if rng.random() < 0.3:
            records += self.steps(now_ns)
        rows = [
            (rng.choice((1, 1, 1, 2, 3)), now_ns - rng.randrange(10**8), rng.lognormvariate(0.0, 3.0))
            for _ in range(rng.randrange(60))
        ]
        made = frame(
            self.name, self.seq, self.events, records=records, rows=rows, anchor=(now_ns, self.live.clock.wall_ns())
        )
        self.seq += 1
        self.events += len(rows) + sum(not isinstance(record, Define) for record in records)
        return bytes(made)

    def steps(self, now_ns: int) -> list[EventRecord]:
        """Return the records of a step, not always the newest one; now and then they end a step."""
        rng, at = self.live.rng, self.seq // 3
        step = max(0, at - rng.choice((0, 0, 0, 1, 40)))
        records: list[EventRecord] = [Scalars("train", step, {"x": rng.random(), "y": rng.random()}, now_ns)]
        if rng.random() < 0.1:
            records += [Axis("train", "last", {"y": "sum"}), Scalars("eval", at // 10, {"z": rng.random()})]
        if rng.random() < 0.3:
            records.append(StepEnd("train", at))
        if rng.random() < 0.3:
            records += [Axis("job", closing="reported"), Scalars("job", at, {"v": rng.random()}, now_ns)]
            records.append(StepEnd("job", at) if rng.random() < 0.5 else StepClear("job", at - 3))
        return records

    def end(self) -> None:
        end = End(producer=self.name, batches=self.seq, emitted=self.events)
        self.live.book.end(end)
        self.live.book.end(end)
        self.live.book.end(End(producer=self.name, batches=self.seq + 1, emitted=self.events))
        self.live.book.cannot_resend(CannotResend(producer=self.name, first=0, last=self.seq))
        self.live.turn([self.batch()])


def snapshot_of(numbers: Numbers, now_ns: int) -> dict[str, Any]:
    facts = SnapshotFacts(run_id="r", name="job", state="LIVE")
    return dict(msgspec.to_builtins(numbers.aggregator.snapshot(facts, now_ns, numbers.wall_ns(now_ns))))


def closing_of(numbers: Numbers) -> tuple[Any, ...]:
    """Return the records that appear at the end of a run with these numbers, which stay as they are."""
    copy = Numbers.restore(numbers.checkpoint())
    copy.close()
    return tuple(copy.take_streamed())


def slices_of(folder: Path, first_segment: int | None = None) -> list[Slice]:
    fold = Fold(JournalReader(folder), first_segment)
    return [slice for entry in fold.entries() for slice in fold.apply(entry).slices]


def folded(folder: Path, first_segment: int | None = None) -> tuple[Fold, list[Interval], list[Any]]:
    fold = Fold(JournalReader(folder), first_segment)
    steps = [fold.apply(entry) for entry in fold.entries()]
    intervals = [step.interval for step in steps if step.interval is not None]
    return fold, intervals, [item for step in steps for item in step.streamed]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Live:
    """A run that is over, for who only reads it. Its folder may be copied."""
    live = Live(tmp_path_factory.mktemp("whole") / "j")
    live.go()
    return live


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (0, 2, 3, 4))])
def test_the_fold_of_a_journal_is_the_run(tmp_path: Path, whole: Live, essence: Essence, seed: int) -> None:
    """Numbers, intervals and records come out the same to the last bit, whichever checkpoint one begins with."""
    live = whole
    if seed != 1:
        live = Live(tmp_path / "j", seed)
        live.go()
    segments = sorted(int(path.stem) for path in live.folder.iterdir())
    assert len(segments) > 3, "there are checkpoints to begin with"
    expected = live.snapshot()
    account = expected["accounting"]
    assert account["duplicates"]
    assert account["bad_frames"]
    assert account["unrepairable"]
    assert account["repaired"]
    assert "after_end" in account["dropped"]
    assert expected["pending"]["deferred"]
    assert [series["extent"]["inside"] > 0 for series in expected["series"] if series["extent"]] == [True] * 4
    assert [counter["extent"]["inside"] > 0 for counter in expected["counters"] if counter["extent"]] == [True] * 4
    closed = {item.record.closed for item in live.streamed if isinstance(item.record, ClosedStep)}
    assert closed == {"ended", "timeout", "late"}
    run, closing = live.numbers.run, closing_of(live.numbers)
    assert {item.record.closed for item in closing} == {"run_end"}
    for segment in (segments[-1], segments[len(segments) // 2], segments[1], None):
        fold, intervals, streamed = folded(live.folder, segment)
        found = snapshot_of(fold.numbers, live.clock.monotonic_ns())
        assert essence(found) == essence(expected)
        assert msgspec.structs.replace(fold.numbers.run, warnings=[]) == run
        assert intervals == live.intervals[len(live.intervals) - len(intervals) :]
        slices = slices_of(live.folder, segment)
        assert slices == live.slices[len(live.slices) - len(slices) :]
        assert streamed == live.streamed[len(live.streamed) - len(streamed) :]
        assert fold.close().streamed == closing
        assert fold.numbers.run.records == run.records + len(closing)
    assert (len(intervals), len(streamed)) == (len(live.intervals), len(live.streamed))
    assert len(slices) == len(live.slices) == run.slices > 20


def test_a_run_that_goes_on_after_its_books_were_closed(tmp_path: Path, essence: Essence) -> None:
    """Values for steps that were closed correct them or are too late.

    The accounts hold, and the fold has the same numbers.
    """
    live = Live(tmp_path / "j")
    live.go(100)
    live.book.close()
    closing = live.book.take_streamed()
    live.streamed += closing
    steps = {item.record.step for item in closing if isinstance(item.record, ClosedStep)}
    assert 10**6 in steps
    sender = live.senders[-1]
    live.turn([sender.batch(Scalars("train", 10**6, {"x": 7.0}))])
    assert [item.record.closed for item in live.streamed[-1:]] == ["late"]  # type: ignore[union-attr]
    live.turn([sender.batch(Scalars("train", 10**6 + 1, {"x": 8.0}))])
    live.roll()
    live.book.close()
    live.streamed += live.book.take_streamed()
    expected = live.snapshot()
    for stat in expected["producers"]:
        assert stat["received"] == stat["applied"] + sum(stat["dropped"].values()) + stat["waiting"]
        assert not stat["waiting"]
    fold, intervals, streamed = folded(live.folder)
    assert essence(snapshot_of(fold.numbers, live.clock.monotonic_ns())) == essence(expected)
    assert (intervals, streamed) == (live.intervals, live.streamed)
    said = [item.record for item in streamed if isinstance(item.record, ClosedStep)]
    numbers = [(step.axis, step.step, step.revision) for step in said]
    assert len(numbers) == len(set(numbers))
    assert fold.close().streamed == ()


def test_a_fold_goes_on_as_the_run_would(tmp_path: Path, essence: Essence) -> None:
    """Later events change the fold and the run in the same way, so that the fold lacks nothing."""
    live = Live(tmp_path / "j")
    live.go(100)
    fold, _, _ = folded(live.folder)
    books = [live.book, WriteAheadLog(fold.numbers, None, live.clock, fold.now_ns)]
    for _ in range(20):
        live.clock.advance(0.5)
        live.clock.step(-1_000_000)
        frames = [sender.batch() for sender in live.senders]
        first, second = [(book.turn(frames), book.roll(0), book.take_streamed()) for book in books]
        assert first == second
    now_ns = live.clock.monotonic_ns()
    assert essence(snapshot_of(fold.numbers, now_ns)) == essence(live.snapshot())


def test_a_fold_begins_with_a_checkpoint(tmp_path: Path) -> None:
    """A fold without a checkpoint, or without a journal, is an error that names the problem."""
    with pytest.raises(RunDirectoryError, match="can't read"):
        Fold(JournalReader(tmp_path / "none"))
    JournalWriter(tmp_path / "j", b"noise", 5).close()
    with pytest.raises(RunDirectoryError, match="can't read a checkpoint of the journal"):
        Fold(JournalReader(tmp_path / "j"))


def flip(path: Path, at: int) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 255]))


def test_behind_damage_it_goes_on_from_the_next_checkpoint(tmp_path: Path, whole: Live, essence: Essence) -> None:
    """The numbers are right although the middle is lost; its seconds and records are not to be had."""
    folder = shutil.copytree(whole.folder, tmp_path / "j")
    second = sorted(folder.iterdir())[1]
    flip(second, second.stat().st_size // 2)
    fold, intervals, streamed = folded(folder)
    assert fold.reader.torn_bytes > fold.reader.tail_bytes == 0
    assert len(intervals) < len(whole.intervals)
    assert len(streamed) < len(whole.streamed)
    now_ns = whole.clock.monotonic_ns()
    assert essence(snapshot_of(fold.numbers, now_ns)) == essence(whole.snapshot())


@pytest.mark.parametrize("seed", range(10))
def test_a_fold_ends_where_the_journal_is_torn(tmp_path: Path, seed: int) -> None:
    """Killed at any byte: what is whole is folded, and the rest is counted."""
    live = Live(tmp_path / "j", seed)
    live.go(50)
    last = sorted(live.folder.iterdir())[-1]
    rng, size = random.Random(seed), last.stat().st_size
    cut = rng.randrange(16, size)
    with last.open("r+b") as file:
        file.truncate(cut)
    fold, _, _ = folded(live.folder)
    assert 0 <= fold.reader.tail_bytes < cut
    assert fold.numbers.aggregator.book.counted_events <= live.numbers.aggregator.book.counted_events
    account = snapshot_of(fold.numbers, fold.now_ns)["accounting"]
    assert account["emitted"] == account["received"] + account["missing"]
    assert account["received"] == account["applied"] + sum(account["dropped"].values()) + account["waiting"]


def test_the_interval_that_was_going_on(tmp_path: Path) -> None:
    """The open interval ends with the journal's last entry. An interval without entries does not exist."""
    live = Live(tmp_path / "j")
    live.go(25)
    fold, intervals, _ = folded(live.folder)
    step = fold.end_interval()
    assert (step.roll, len(intervals)) == (2, 2)
    assert step.interval is not None
    assert step.interval.start_ns == live.intervals[-1].end_ns
    assert step.interval.end_ns == fold.numbers.wall_ns(fold.now_ns)
    assert fold.end_interval().interval is None


def test_an_interval_that_a_checkpoint_has_begun(tmp_path: Path) -> None:
    """A journal may end with a checkpoint. What came before it in the same second is in the history, too."""
    live = Live(tmp_path / "j")
    live.go(25)
    now_ns = live.clock.monotonic_ns()
    JournalWriter(tmp_path / "k", live.numbers.checkpoint(), now_ns, SEGMENT_BYTES, 1 << 30).close()
    interval = folded(tmp_path / "k")[0].end_interval().interval
    assert interval is not None
    assert interval.start_ns == live.intervals[-1].end_ns
    assert interval.counters == folded(tmp_path / "j")[0].end_interval().interval.counters  # type: ignore[union-attr]


def test_a_checkpoint_leaves_closed_books_closed(tmp_path: Path) -> None:
    """It has the same numbers as what came before it. A batch that follows opens the books again."""
    live = Live(tmp_path / "j")
    live.go(5)
    live.book.close()
    live.journal.begin(live.numbers.checkpoint(), live.book.stamp())
    assert folded(live.folder)[0].is_closed
    live.turn([live.senders[-1].batch()])
    assert not folded(live.folder)[0].is_closed


def test_notes_of_a_newer_version_are_passed_over(tmp_path: Path) -> None:
    """Notes of a newer version are counted, and the notes that this version knows are read."""
    live = Live(tmp_path / "j")
    live.journal.note([msgspec.msgpack.encode({"type": "telepathy"})], live.book.stamp())
    live.turn([live.senders[0].batch()])
    fold, _, _ = folded(live.folder)
    assert fold.unreadable == 1
    assert snapshot_of(fold.numbers, 1)["accounting"]["received"] == live.senders[0].events


@pytest.mark.parametrize(
    ("ending", "waits", "interrupted", "reason"),
    [
        (Ending(reason="enough"), False, False, "enough"),
        (Ending(reason="enough"), True, True, "enough; the aggregator died; its journal ends at 2023-11-14 22:13:"),
        (Ending(reason="stopped by SIGTERM", interrupted=True), True, True, "stopped by SIGTERM"),
        (None, False, True, "the aggregator died; its journal ends at 2023-11-14 22:13:"),
    ],
)
def test_how_a_run_ended(tmp_path: Path, ending: Any, waits: bool, interrupted: bool, reason: str) -> None:
    """A run ended in order only if its end was asked for and no producer owed anything any more."""
    live = Live(tmp_path / "j")
    if waits:
        live.book.hello(Hello(producer="p0"))
    if ending is not None:
        live.book.ending(ending)
    found = folded(live.folder)[0].how_it_ended()
    assert found.interrupted is interrupted
    assert found.reason.startswith(reason)


def complete(numbers: Numbers) -> MetricsSnapshot:
    """The result if the run ended well."""
    run_status = RunStatus.of(numbers.run, epoch="", directory="")
    run_status.lifecycle.to("DRAINING")
    run_status.lifecycle.to("COMPLETE")
    return numbers.aggregator.snapshot(run_status.facts(1, SelfCost()), 1, 1)


def test_what_came_after_the_journal_failed_is_not_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A producer whose whole life is in no frame, though it was told that all of it was received: who reads the
    journal can't call the run complete, nor can who goes on from there."""
    live = Live(tmp_path / "j")
    live.turn([bytes(frame("alive", 0, 0, records=[Count("n")]))])
    with monkeypatch.context() as patch:
        patch.setattr(os, "writev", lambda *_: (_ for _ in ()).throw(OSError(errno.ENOSPC, "full")))
        live.book.hello(Hello(producer="gone"))
        live.turn([bytes(frame("gone", 0, 0, records=[Count("n")]))])
        live.book.end(End(producer="gone", batches=1, emitted=1))
    live.journal.close()
    numbers = folded(live.folder)[0].numbers
    now_ns = live.clock.monotonic_ns()
    JournalWriter(live.folder, numbers.checkpoint(), now_ns).close()
    (live.folder / "00000000-failed.seg").unlink()  # it passed the cap
    for found in (numbers, folded(live.folder)[0].numbers):
        found.take_note(End(producer="alive", batches=1, emitted=1), now_ns)
        result = complete(found)
        assert (result.accounting.lost, result.completeness) == (0, "incomplete")
        assert "the journal is incomplete" in result.warnings[0]


def test_behind_damage_the_failure_is_still_known(tmp_path: Path, whole: Live) -> None:
    """The checkpoint it goes on from was made before it."""
    folder = shutil.copytree(whole.folder, tmp_path / "j")
    first, second, *_, last = sorted(folder.iterdir())
    flip(second, second.stat().st_size // 2)
    last.rename(last.with_name(f"{last.stem}-failed.seg"))
    assert first.exists()
    assert folded(folder)[0].numbers.run.unaccounted


def test_an_entry_is_no_more_than_a_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file with one stamp on everything is not held in memory as a whole."""
    live = Live(tmp_path / "j")
    frames = [live.senders[0].batch() for _ in range(2 * limits.TURN_FRAMES + 1)]
    live.journal.append(frames, live.book.stamp())
    sizes = [len(entry.data) for entry in entries(JournalReader(live.folder)) if entry.kind == BATCH]
    assert sizes == [limits.TURN_FRAMES, limits.TURN_FRAMES, 1]
    monkeypatch.setattr(limits, "TURN_BYTES", 2 * max(map(len, frames)))
    found = [entry for entry in entries(JournalReader(live.folder)) if entry.kind == BATCH]
    assert [frame for entry in found for frame in entry.data] == frames
    assert max(entry.size - len(entry.data[-1]) for entry in found) < limits.TURN_BYTES
    assert min(entry.size for entry in found[:-1]) >= limits.TURN_BYTES


def test_a_run_whose_journal_is_damaged_at_its_end_did_not_end_in_order(tmp_path: Path) -> None:
    """An end in a damaged journal is none, even if all its events came: the damaged part is unknown."""
    live = Live(tmp_path / "j")
    live.turn([])
    live.book.ending(Ending(reason="enough"))
    live.roll()
    live.roll()
    (path,) = live.folder.iterdir()
    fold, _, _ = folded(live.folder)
    assert (fold.how_it_ended(), fold.numbers.run.unaccounted) == (Ending(reason="enough"), False)
    flip(path, path.stat().st_size - 1)
    fold, _, _ = folded(live.folder)
    ending = fold.how_it_ended()
    assert (ending.interrupted, fold.numbers.run.unaccounted) == (True, True)
    assert ending.reason.startswith("enough; the aggregator died; its journal is unreadable after 20")

"""A journal's time, and how fast it passes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from telemetry import limits
from telemetry.aggregator import Aggregator, AggregatorConfig
from telemetry.daemon.cost import CostMeter
from telemetry.daemon.numbers import Numbers
from telemetry.daemon.recovery.backfill import journal_losses
from telemetry.daemon.recovery.rebuild import Fold
from telemetry.daemon.replay import ClosedIngress, Playback
from telemetry.daemon.run_status import RunStatus
from telemetry.daemon.write_ahead import WriteAheadLog
from telemetry.store.journal import JournalReader, JournalWriter
from telemetry.store.request_log import RequestLogWriter
from telemetry.testing import FakeClock, frame
from telemetry.wire.control import CannotResend, End, Hello
from telemetry.wire.events import ClosedStep, Count, EventRecord, Mark, Scalars
from telemetry.wire.journal import Ending, RunState

SECOND_NS = 10**9


class Stream:
    def __init__(self) -> None:
        self.published: list[Any] = []

    def publish(self, streamed: Any) -> None:
        self.published += streamed


class TerminalMode:
    """A journal of one batch a second, and what a replay of it needs."""

    def __init__(
        self,
        folder: Path,
        *,
        silence_s: float = 1.0,
        ending: Ending | None = None,
        records: Sequence[EventRecord] = (),
    ) -> None:
        self.folder = folder
        made = FakeClock()
        now_ns, wall_ns = made.monotonic_ns(), made.wall_ns()
        run = RunState(
            run_id="r", name="job", started_ns=wall_ns, started_mono_ns=now_ns, rolled_wall_ns=wall_ns,
            rolled_mono_ns=now_ns,
        )  # fmt: skip
        numbers = Numbers(Aggregator(AggregatorConfig()), run)
        book = WriteAheadLog(numbers, JournalWriter(folder, numbers.checkpoint(), now_ns), made, now_ns)
        self.begin_ns = now_ns
        for seq in range(5):
            made.advance(silence_s if seq == 3 else 1.0)
            book.turn([bytes(frame("p", seq, 2 * seq, records=[Count("n"), Mark(f"{seq}")]))])
        if records:
            book.turn([bytes(frame("q", 0, 0, records=records))])
        if ending is not None:
            book.ending(ending)
        self.clock = FakeClock(7 * SECOND_NS)
        self.fold = Fold(JournalReader(folder))
        self.stream = Stream()
        self.run_status = RunStatus.of(run, "e", "/d")
        self.cost = CostMeter(0)

    def play(self, speed: float, ending: Ending | None = None) -> Playback:
        return Playback(
            fold=self.fold,
            journal=self.folder,
            ending=ending,
            speed=speed,
            clock=self.clock,
            run_status=self.run_status,
            stream=self.stream,  # type: ignore[arg-type]
            history=None,
            requests=RequestLogWriter(self.folder / "requests"),
            cost=self.cost,
        )

    @property
    def applied(self) -> int:
        return self.fold.numbers.aggregator.book.counted_events // 2


def test_batches_come_at_the_pace_of_their_stamps(tmp_path: Path) -> None:
    """Twice as fast is half the time; in between, the journal's clock goes on as well."""
    stage = TerminalMode(tmp_path)
    feed = stage.play(2.0)
    feed.turn(readable=False)
    assert (stage.applied, feed.now_ns(), feed.due_s()) == (0, stage.begin_ns, 0.5)
    stage.clock.advance(0.25)
    assert (feed.now_ns(), feed.due_s()) == (stage.begin_ns + SECOND_NS // 2, 0.25)
    stage.clock.advance(0.25)
    feed.turn(readable=False)
    assert (stage.applied, feed.due_s()) == (1, 0.5)
    stage.clock.advance(1.0)
    assert feed.now_ns() == stage.begin_ns + 2 * SECOND_NS, "not beyond what is still to come"
    feed.turn(readable=False)
    assert stage.applied == 3
    assert [item.record.text for item in stage.stream.published] == ["0", "1", "2"]
    assert stage.cost.frames == 3


def test_a_long_silence_is_shortened(tmp_path: Path) -> None:
    """A replay does not wait for a day if the run had no aggregator for a day."""
    stage = TerminalMode(tmp_path, silence_s=86_400.0)
    feed = stage.play(1.0)
    for _ in range(3):
        stage.clock.advance(1.0)
        feed.turn(readable=False)
    assert stage.applied == 3
    assert feed.due_s() == pytest.approx(5.0)
    stage.clock.advance(5.0)
    feed.turn(readable=False)
    assert stage.applied == 4
    assert feed.due_s() == pytest.approx(1.0)


def test_as_fast_as_possible_a_turn_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn is bounded, so that ticks and signals wait for none."""
    monkeypatch.setattr(limits, "TURN_FRAMES", 2)
    stage = TerminalMode(tmp_path)
    feed = stage.play(math.inf)
    assert feed.due_s() == 0.0
    feed.turn(readable=False)
    assert (stage.applied, feed.now_ns()) == (2, stage.begin_ns + 2 * SECOND_NS)
    monkeypatch.setattr(limits, "TURN_FRAMES", 256)
    monkeypatch.setattr(limits, "TURN_BYTES", 1)
    feed.turn(readable=False)
    assert stage.applied == 3


def test_it_ends_with_the_journal(tmp_path: Path) -> None:
    """The run drains when the journal says so, and for as long as it did."""
    stage = TerminalMode(tmp_path, ending=Ending(reason="enough"))
    feed = stage.play(math.inf)
    assert not stage.run_status.ending
    while feed.due_s() == 0.0:
        feed.turn(readable=False)
    assert (stage.run_status.reason, stage.run_status.interrupted, feed.drained()) == ("enough", False, True)
    assert feed.obstacle() == ""
    feed.turn(readable=False)
    assert stage.applied == 5


def test_an_interruption_is_told_when_all_is_played(tmp_path: Path) -> None:
    """The loop reads no more then."""
    stage = TerminalMode(tmp_path, ending=Ending(reason="stopped by SIGTERM", interrupted=True))
    feed = stage.play(math.inf)
    while feed.due_s() == 0.0:
        assert not stage.run_status.ending
        feed.turn(readable=False)
    assert (stage.run_status.reason, stage.run_status.interrupted) == ("stopped by SIGTERM", True)


def test_how_it_is_known_to_have_ended_counts_more(tmp_path: Path) -> None:
    """A result tells what a journal can't: that a drain came to its deadline."""
    stage = TerminalMode(tmp_path)
    feed = stage.play(math.inf, Ending(reason="all producers have been gone for 5 s"))
    while feed.due_s() == 0.0:
        feed.turn(readable=False)
    assert (stage.run_status.reason, stage.run_status.interrupted) == (
        "all producers have been gone for 5 s",
        False,
    )


def test_who_stops_it_interrupts_it(tmp_path: Path) -> None:
    """Half a run is no result of it."""
    stage = TerminalMode(tmp_path)
    feed = stage.play(1.0)
    stage.run_status.end("stopped on request")
    assert feed.begin_drain() is None
    feed.drained()
    assert (stage.run_status.reason, stage.run_status.interrupted) == ("stopped on request", True)
    assert feed.obstacle() == "the replay was stopped before the end of the journal"


def test_the_steps_that_are_open_at_the_end_are_said(tmp_path: Path) -> None:
    """Open steps are published as they were when the run's books were closed."""
    stage = TerminalMode(tmp_path, records=[Scalars("train", 1, {"loss": 1.0})])
    feed = stage.play(math.inf)
    while feed.due_s() == 0.0:
        feed.turn(readable=False)
    assert [type(item.record) for item in stage.stream.published] == [Mark] * 5
    feed.close()
    assert stage.stream.published[5].record == ClosedStep("train", 1, {"loss": 1.0}, closed="run_end")


def test_a_closed_door_lets_nobody_in() -> None:
    """Each is told why; what needs no answer changes nothing."""
    ingress = ClosedIngress("this is a replay")
    assert ingress.hello(Hello(producer="p")) == "this is a replay"
    assert ingress.end(End(producer="p", batches=1, emitted=1)) == "this is a replay"
    ingress.ping("p")
    ingress.cannot_resend(CannotResend(producer="p", first=0, last=1))


@pytest.mark.parametrize(("tail", "unaccounted"), [(b"half", False), (b"noise" * 9, True)])
def test_what_can_not_be_read_of_the_journal_is_said(tmp_path: Path, tail: bytes, unaccounted: bool) -> None:
    """A replay reports the unreadable part of the journal as a recovery does."""
    stage = TerminalMode(tmp_path)
    (path,) = tmp_path.iterdir()
    with path.open("ab") as file:
        file.write(tail)
    feed = stage.play(math.inf)
    while feed.due_s() == 0.0:
        feed.turn(readable=False)
    (said,) = stage.run_status.warnings
    assert said == next(journal_losses(stage.fold))
    assert stage.run_status.unaccounted == unaccounted
    assert feed.obstacle() == ("45 bytes of the journal are damaged" if unaccounted else "")

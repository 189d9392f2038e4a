"""How a run ends, and what a snapshot says of it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from telemetry import limits
from telemetry.daemon.run_status import RunStatus
from telemetry.wire.journal import RunState
from telemetry.wire.snapshot import BackendStat, CommandFacts, SelfCost


@pytest.fixture
def course() -> RunStatus:
    return RunStatus(
        name="job", run_id="r", epoch="e", directory="/d", started_ns=5, started_mono_ns=7, refresh_hz=10.0
    )


def test_restarts_are_said_once_with_their_number() -> None:
    """Whatever earlier ones had said of theirs."""
    run = RunState(run_id="r", name="job", started_ns=1, started_mono_ns=1, rolled_wall_ns=1, rolled_mono_ns=1)
    assert RunStatus.of(run, "e", "/d").warnings == []
    once = RunStatus.of(replace(run, restarts=1, died=7), "e", "/d").warnings
    assert once == ["the aggregator was restarted once, after process 7 had died"]
    again = RunStatus.of(replace(run, restarts=1_000, died=8, warnings=["careful", *once]), "e", "/d").warnings
    said = "the aggregator was restarted 1,000 times, the last time after process 8 had died"
    assert again == ["careful", said]


def test_the_first_reason_stays(course: RunStatus) -> None:
    """Whoever ends a run a second time does not change why it ended."""
    course.end("enough")
    course.end("all producers are gone")
    assert (course.ending, course.interrupted, course.reason) == (True, False, "enough")


def test_an_interruption_overrides_a_drain(course: RunStatus) -> None:
    """It changes how the run ends; a second one changes nothing but is noticed."""
    course.end("enough")
    course.end("stopped by SIGTERM", interrupted=True)
    assert (course.interrupted, course.reason) == (True, "stopped by SIGTERM")
    assert course.interruptions == 1
    course.end("stopped by SIGINT", interrupted=True)
    assert (course.reason, course.interruptions) == ("stopped by SIGTERM", 2)


def test_an_interruption_after_the_drain_is_only_counted(course: RunStatus) -> None:
    """Once the run is being completed, a signal can hurry it, and not make another run of it."""
    course.end("enough")
    course.decided = True
    course.end("stopped by SIGTERM", interrupted=True)
    assert (course.interrupted, course.reason, course.interruptions) == (False, "enough", 1)


def test_the_bill_of_the_command_is_kept(course: RunStatus) -> None:
    """Whichever request brings it."""
    bill = CommandFacts(argv=["x"])
    course.end("the command exited", command=bill)
    course.end("again")
    assert course.command is bill


def test_warnings_are_said_once_and_bounded(course: RunStatus) -> None:
    """A warning of every tick is one warning."""
    course.warn(["a", "a"])
    course.warn(["a", "b"])
    assert course.warnings == ["a", "b"]
    course.warn(str(number) for number in range(1_000))
    assert len(course.warnings) == limits.WARNINGS_KEPT


def test_a_warning_can_always_be_published(course: RunStatus) -> None:
    """A path of bytes that are no text is marked, and does not stop every snapshot that follows."""
    course.warn(["the final file is /a\udcffb"])
    assert course.warnings == ["the final file is /a\ufffdb"]


def test_the_facts_of_a_snapshot(course: RunStatus) -> None:
    """What the aggregator can't know by itself, and the time left to drain, never below zero."""
    cost = SelfCost(ticks=3)
    facts = course.facts(1_000, cost)
    assert (facts.run_id, facts.name, facts.epoch, facts.directory) == ("r", "job", "e", "/d")
    assert (facts.started_ns, facts.started_mono_ns, facts.refresh_hz, facts.cost) == (5, 7, 10.0, cost)
    assert (facts.state, facts.exact, facts.exact_reason) == ("INITIALIZE", False, "the run goes on")
    assert facts.pending_deadline_s is None
    course.drain_deadline_ns = 2_500_000_000
    assert course.facts(1_000_000_000, cost).pending_deadline_s == 1.5
    assert course.facts(9_000_000_000, cost).pending_deadline_s == 0.0
    course.warn(["w"])
    facts = course.facts(0, cost)
    course.warn(["later"])
    assert facts.warnings == ["w"], "facts are of one moment"


def test_the_newest_word_of_each_writer_counts(course: RunStatus) -> None:
    """In the order in which they began; there is a bound to how many there are."""
    for number in range(limits.BACKENDS):
        assert course.tell(BackendStat(name=f"w{number}"), 5)
    assert not course.tell(BackendStat(name="late"), 5)
    assert course.tell(BackendStat(name="w0", state="idle"), 6)
    stats = course.backend_stats(7, 0)
    assert [stat.name for stat in stats] == [f"w{number}" for number in range(limits.BACKENDS)]
    assert stats[0].state == "idle"


def test_what_a_silent_writer_lacks_is_known_without_it(course: RunStatus) -> None:
    """One that still speaks knows best, until the run is over."""
    told = BackendStat(name="w", next_record=10, queued=2)
    course.tell(told, 0)
    silent_ns = int(limits.BACKEND_SILENT_S * 1e9)
    assert course.backend_stats(silent_ns, 500) == [told]
    assert course.backend_stats(silent_ns + 1, 500) == [replace(told, queued=490)]
    assert course.backend_stats(silent_ns + 1, 3) == [replace(told, queued=0)]
    course.lifecycle.to("DRAINING")
    course.lifecycle.to("COMPLETE")
    assert course.backend_stats(0, 500) == [replace(told, queued=490)]
    facts = course.facts(0, SelfCost(), course.backend_stats(0, 500))
    assert [stat.queued for stat in facts.backends] == [490]

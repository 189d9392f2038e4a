"""Tests of the end of a run, and of its facts in a snapshot."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from telemetry import limits
from telemetry.daemon.run_status import RunStatus
from telemetry.wire.journal import RunState
from telemetry.wire.snapshot import BackendStat, CommandFacts, SelfCost


@pytest.fixture
def run_status() -> RunStatus:
    return RunStatus(
        name="job", run_id="r", epoch="e", directory="/d", started_ns=5, started_mono_ns=7, refresh_hz=10.0
    )


def test_restarts_are_said_once_with_their_number() -> None:
    """The newest number of restarts replaces the warnings about earlier ones."""
    run = RunState(run_id="r", name="job", started_ns=1, started_mono_ns=1, rolled_wall_ns=1, rolled_mono_ns=1)
    assert RunStatus.of(run, "e", "/d").warnings == []
    once = RunStatus.of(replace(run, restarts=1, died=7), "e", "/d").warnings
    assert once == ["the aggregator was restarted once, after process 7 had died"]
    again = RunStatus.of(replace(run, restarts=1_000, died=8, warnings=["careful", *once]), "e", "/d").warnings
    said = "the aggregator was restarted 1,000 times, the last time after process 8 had died"
    assert again == ["careful", said]


def test_the_first_reason_stays(run_status: RunStatus) -> None:
    """A second end of a run does not change the reason of the first one."""
    run_status.end("enough")
    run_status.end("all producers are gone")
    assert (run_status.ending, run_status.interrupted, run_status.reason) == (True, False, "enough")


def test_an_interruption_overrides_a_drain(run_status: RunStatus) -> None:
    """An interruption changes how the run ends. A second one changes nothing but is counted."""
    run_status.end("enough")
    run_status.end("stopped by SIGTERM", interrupted=True)
    assert (run_status.interrupted, run_status.reason) == (True, "stopped by SIGTERM")
    assert run_status.interruptions == 1
    run_status.end("stopped by SIGINT", interrupted=True)
    assert (run_status.reason, run_status.interruptions) == ("stopped by SIGTERM", 2)


def test_an_interruption_after_the_drain_is_only_counted(run_status: RunStatus) -> None:
    """A signal can only hurry a run that is being completed, and does not change its end."""
    run_status.end("enough")
    run_status.decided = True
    run_status.end("stopped by SIGTERM", interrupted=True)
    assert (run_status.interrupted, run_status.reason, run_status.interruptions) == (False, "enough", 1)


def test_the_bill_of_the_command_is_kept(run_status: RunStatus) -> None:
    """Whichever request brings it."""
    bill = CommandFacts(argv=["x"])
    run_status.end("the command exited", command=bill)
    run_status.end("again")
    assert run_status.command is bill


def test_warnings_are_said_once_and_bounded(run_status: RunStatus) -> None:
    """A warning of every tick is one warning."""
    run_status.warn(["a", "a"])
    run_status.warn(["a", "b"])
    assert run_status.warnings == ["a", "b"]
    run_status.warn(str(number) for number in range(1_000))
    assert len(run_status.warnings) == limits.WARNINGS_KEPT


def test_a_warning_can_always_be_published(run_status: RunStatus) -> None:
    """A path of bytes that are no text is marked, and does not stop every snapshot that follows."""
    run_status.warn(["the final file is /a\udcffb"])
    assert run_status.warnings == ["the final file is /a\ufffdb"]


def test_the_facts_of_a_snapshot(run_status: RunStatus) -> None:
    """The facts are those that the aggregator can't know by itself. The time left to drain is never below zero."""
    cost = SelfCost(ticks=3)
    facts = run_status.facts(1_000, cost)
    assert (facts.run_id, facts.name, facts.epoch, facts.directory) == ("r", "job", "e", "/d")
    assert (facts.started_ns, facts.started_mono_ns, facts.refresh_hz, facts.cost) == (5, 7, 10.0, cost)
    assert (facts.state, facts.exact, facts.exact_reason) == ("INITIALIZE", False, "the run is still going")
    assert facts.pending_deadline_s is None
    run_status.drain_deadline_ns = 2_500_000_000
    assert run_status.facts(1_000_000_000, cost).pending_deadline_s == 1.5
    assert run_status.facts(9_000_000_000, cost).pending_deadline_s == 0.0
    run_status.warn(["w"])
    facts = run_status.facts(0, cost)
    run_status.warn(["later"])
    assert facts.warnings == ["w"], "facts are of one moment"


def test_the_newest_word_of_each_writer_counts(run_status: RunStatus) -> None:
    """The writers are in the order in which they began, and their number is bounded."""
    for number in range(limits.BACKENDS):
        assert run_status.tell(BackendStat(name=f"w{number}"), 5)
    assert not run_status.tell(BackendStat(name="late"), 5)
    assert run_status.tell(BackendStat(name="w0", state="idle"), 6)
    stats = run_status.backend_stats(7, 0)
    assert [stat.name for stat in stats] == [f"w{number}" for number in range(limits.BACKENDS)]
    assert stats[0].state == "idle"


def test_what_a_silent_writer_lacks_is_known_without_it(run_status: RunStatus) -> None:
    """The queue of a writer is the reported one, and is computed once the writer is silent or the run over."""
    told = BackendStat(name="w", next_record=10, queued=2)
    run_status.tell(told, 0)
    silent_ns = int(limits.BACKEND_SILENT_S * 1e9)
    assert run_status.backend_stats(silent_ns, 500) == [told]
    assert run_status.backend_stats(silent_ns + 1, 500) == [replace(told, queued=490)]
    assert run_status.backend_stats(silent_ns + 1, 3) == [replace(told, queued=0)]
    run_status.lifecycle.to("DRAINING")
    run_status.lifecycle.to("COMPLETE")
    assert run_status.backend_stats(0, 500) == [replace(told, queued=490)]
    facts = run_status.facts(0, SelfCost(), run_status.backend_stats(0, 500))
    assert [stat.queued for stat in facts.backends] == [490]

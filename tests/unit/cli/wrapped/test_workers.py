"""Workers that outlive the command: who is worth waiting for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from telemetry.cli.wrapped.workers import await_workers, open_workers
from telemetry.testing.aggregator import FakeAggregator
from telemetry.wire.snapshot import MetricsSnapshot, ProducerStat

HERE = os.uname().nodename
NOW_NS = 100_000_000_000


def stat(name: str, **facts: Any) -> ProducerStat:
    given = {"producer": name, "host": HERE, "pid": os.getpid(), "last_seen_ns": NOW_NS - 200_000_000}
    return ProducerStat(**given | facts)


def names(*stats: ProducerStat, besides: tuple[int, ...] = ()) -> tuple[list[str], list[str]]:
    """Return the names of the producers that are recording, and of those that have vanished."""
    found = open_workers(MetricsSnapshot(run_id="r", name="n", time_ns=NOW_NS, producers=list(stats)), besides)
    return [one.producer for one in found.recording], [one.producer for one in found.vanished]


@pytest.fixture
def dead() -> int:
    """The pid of a process that is gone."""
    with subprocess.Popen([sys.executable, "-S", "-c", ""]) as child:
        child.wait(30)
    return child.pid


def test_producers_that_have_not_ended_are_waited_for() -> None:
    """A producer of this or another host is waited for until it ends, also while it is silent."""
    far = stat("far", host="elsewhere", pid=1, status="late")
    assert names(stat("a"), far, stat("done", status="ended")) == (["a", "far"], [])


@pytest.mark.parametrize("facts", [{"status": "ended"}, {"status": "lost"}, {"completeness": "unknown"}])
def test_who_says_no_end_is_not_waited_for(facts: dict[str, Any]) -> None:
    """A producer from which no end will come is not waited for. Neither is the aggregator's own."""
    assert names(stat("a", **facts), stat("telemetry.tokens")) == ([], [])


def test_a_process_that_is_gone_is_waited_for_while_its_last_word_may_come(dead: int) -> None:
    """A dead process that was heard of a moment ago is waited for.

    After that it counts as ended without a last word.
    """
    assert names(stat("a", pid=dead)) == ([], ["a"])
    assert names(stat("a", pid=dead, last_seen_ns=NOW_NS - 1_600_000_000)) == ([], [])


def test_feeds_are_not_workers() -> None:
    """Feeds are told to end after the workers, so they don't count as workers."""
    assert names(stat("feed"), besides=(os.getpid(),)) == ([], [])


def test_nobody_is_waited_for_in_a_run_that_is_over(short_dir: Path) -> None:
    """Nor where the aggregator is gone."""
    said: list[str] = []
    with FakeAggregator(short_dir) as aggregator:
        keeper: Any = SimpleNamespace(aggregator=aggregator, deserted=False)
        aggregator.state = "COMPLETE"
        await_workers(keeper, 60.0, said.append)
        keeper.deserted = True
        aggregator.state = "LIVE"
        await_workers(keeper, 60.0, said.append)
    assert said == []

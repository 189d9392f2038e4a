"""Results of the gates, from the run directory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from telemetry.store.final_snapshot import write_final
from telemetry.store.gate_results import GATES, write_gates, write_gates_so_far
from telemetry.tui.feed.disk import DiskFeed
from telemetry.tui.feed.local_files import GatesWatch
from telemetry.tui.feed.news import GatesOf
from telemetry.wire.gates import GateResult

WAIT_S = 30.0
FAILED = GateResult(expression="p99(a) < 1ms", outcome="fail", reason="2 ms")


def test_a_finished_run_has_its_gates(run: Any, told: Any, snapshot_of: Callable[..., Any]) -> None:
    """The gates of a finished run come at once, with its result."""
    write_final(snapshot_of(state="COMPLETE"), [run.final])
    write_gates(run.path, [FAILED])
    feed = DiskFeed(run)
    feed.start(told)
    assert told.of(GatesOf) == [GatesOf((FAILED,))]
    feed.close()


def test_gates_of_a_live_run_are_told_when_they_are_decided(
    run: Any, told: Any, wait_until: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gates of a live run come when they are decided. Before that, the results so far come whenever they change."""
    monkeypatch.setattr("telemetry.tui.feed.local_files._PERIOD_S", 0.01)
    passed, so_far = replace(FAILED, outcome="pass"), []
    watch = GatesWatch(run.path)
    assert watch.look() is None
    watch.start(told)
    for result in (passed, FAILED):
        write_gates_so_far(run.path, [result])
        so_far.append(GatesOf((result,), final=False))
        wait_until(lambda: told.of(GatesOf)[-1:] == so_far[-1:], WAIT_S)
    write_gates(run.path, [FAILED])
    wait_until(lambda: told.of(GatesOf)[-1].final, WAIT_S)
    assert told.of(GatesOf) == [*so_far, GatesOf((FAILED,))]
    watch.close()
    watch.close()


def test_a_damaged_file_is_no_news(run: Any) -> None:
    """The report names the problem."""
    (run.path / GATES).write_text("{")
    assert GatesWatch(run.path).look() is None

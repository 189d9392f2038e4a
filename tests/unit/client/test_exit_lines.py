"""The end of a program that started its own run."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from telemetry.client.exit_lines import exit_lines, write_exit_lines
from telemetry.wire.report import Report
from telemetry.wire.snapshot import (
    Accounting,
    AxisStat,
    Completeness,
    CounterStat,
    MarkStat,
    MetricsSnapshot,
    SeriesStat,
)


def report(applied: int = 1_000, lost: int = 0, completeness: Completeness = "complete", **more: Any) -> Report:
    account = Accounting(emitted=applied + lost, received=applied, applied=applied, missing=lost)
    facts: dict[str, Any] = {"run_id": "39a8e0e2", "name": "load-test", "state": "COMPLETE", "elapsed_s": 2.5}
    snapshot = MetricsSnapshot(**{**facts, "completeness": completeness, "accounting": account, **more})
    return Report(snapshot=snapshot, source="pubsub")


LATENCY = SeriesStat(name="latency", unit="ms", count=500, max=7.0, percentiles={"50": 3, "99": 5})


def test_figures_and_how_to_open_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run opens by its id if the commands look in its folder, else by its path."""
    monkeypatch.chdir(tmp_path)
    here, below, away = f"{tmp_path}/runs/load", f"{tmp_path}/a b/load", "/elsewhere/load"
    first, second = exit_lines(report(series=[LATENCY], directory=here))
    assert (
        first == "load-test complete, 1,000 events in 2.50 s · 200 req/s · p50 3.00 ms · p99 5.00 ms · max 7.00 ms"
    )
    assert second == "open it with `telemetry report 39a8e0e2` or `telemetry top 39a8e0e2`"
    assert "report 'a b/load'`" in exit_lines(report(directory=below))[1]
    assert "report /elsewhere/load`" in exit_lines(report(directory=away))[1]
    assert len(exit_lines(report(series=[LATENCY]))) == 1


def test_an_unknown_rate_is_left_out() -> None:
    """One value has no rate, and the time of a step is none of a request."""
    one = SeriesStat(name="latency", unit="ms", count=1, max=42.5, percentiles={"50": 42.5, "99": 42.5}, began_ns=1)
    for stat in (one, replace(one, name="step_latency_ms")):
        (line,) = exit_lines(report(13, series=[stat]))
        assert line == "load-test complete, 13 events in 2.50 s · p50 42.5 ms · p99 42.5 ms · max 42.5 ms"


def test_warnings_take_the_place_of_lesser_figures() -> None:
    """Failures are never left out."""
    failed = CounterStat(name="errors", value=3, events=3)
    (line,) = exit_lines(report(series=[LATENCY], counters=[failed]))
    assert line.endswith(" · 200 req/s · errors 3 (0.6 %) · p50 3.00 ms · p99 5.00 ms")


def test_a_program_that_failed_says_so_first() -> None:
    """The line begins with the failure and its exception. Whether the data are complete is another statement."""
    marks = [MarkStat(text="ValueError: boom", time_ns=1)]
    (line,) = exit_lines(report(2, reason="the program failed", marks=marks))
    assert line == "load-test failed: ValueError: boom · data complete, 2 events in 2.50 s"


def test_a_result_that_is_not_complete_says_so() -> None:
    """An incomplete result is described with the words of the report."""
    (line,) = exit_lines(report(lost=5, completeness="lossy"))
    assert line == "lossy: load-test, 1,000 of 1,005 events applied, 5 lost"
    assert exit_lines(report(0)) == ["load-test: nothing was recorded"]


def test_events_of_killed_processes_are_named() -> None:
    """The run is complete, but not because all went well."""
    (line,) = exit_lines(report(accounting=Accounting(emitted=1_000, applied=1_000, salvaged=12)))
    assert line == "load-test complete (12 events salvaged), 1,000 events in 2.50 s"


def test_a_training_run() -> None:
    """The last line of a training has its newest step and the loss, but no speed, which only curves give."""
    (line,) = exit_lines(report(axes=[AxisStat(name="step", closed=50, newest=50, values={"loss": 0.312})]))
    assert line.endswith(" · step 50 · loss 0.312")


def test_names_are_safe_to_show() -> None:
    """Names are made safe to show, since they may come from anywhere."""
    (line,) = exit_lines(report(name="\x1b[2J"))
    assert line.isprintable()


def test_only_stderr_and_only_if_there_is_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program without stderr, or one whose reader has gone, ends as always."""
    write_exit_lines(report())
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "telemetry: load-test complete, 1,000 events in 2.50 s\n")
    for gone in (None, closed()):
        monkeypatch.setattr(sys, "stderr", gone)
        write_exit_lines(report())


def closed() -> io.StringIO:
    stream = io.StringIO()
    stream.close()
    return stream

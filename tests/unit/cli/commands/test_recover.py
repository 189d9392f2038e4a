"""`telemetry recover`: what it says, and where."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from telemetry.cli.commands.recover import ProgressLine
from telemetry.cli.main import main
from telemetry.daemon.recovery import recover as daemon
from telemetry.daemon.recovery.recover import Recovered
from telemetry.errors import RunDirectoryError
from telemetry.transport.keeper_lock import KeeperLock
from telemetry.wire.report import Report
from telemetry.wire.snapshot import Accounting, MetricsSnapshot

FOUND = MetricsSnapshot(
    run_id="r1",
    name="job",
    state="INTERRUPTED",
    completeness="interrupted",
    reason="the aggregator died",
    exact=True,
    accounting=Accounting(emitted=8, received=7, applied=7, missing=1),
    warnings=["careful"],
    directory="/d",
)


@pytest.fixture
def asked(make_run: Any, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return a list of the fake `recover`: its result, then the `exact` flag of each call.

    The run is the one that `job` means.
    """
    directory = make_run("job", "r1", ended=False)
    found: list[Any] = [Recovered(FOUND, written=True)]

    def recover(run: Any, config: Any, *, exact: bool, on_progress: Any) -> Recovered:
        assert run.path == directory.path
        on_progress("reading the journal", 0.5)
        found.append(exact)
        return found[0]  # type: ignore[no-any-return]

    monkeypatch.setattr(daemon, "recover", recover)
    return found


def test_a_run_that_is_about_to_go_on_is_left_alone(asked: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    """A result would end it under the program that still records. Once nobody keeps it, it is recovered."""
    keeping = KeeperLock("r1")
    assert main(["recover", "job"]) == 1
    assert f"process {os.getpid()} is restarting it" in capsys.readouterr().err
    assert len(asked) == 1
    keeping.end()
    assert main(["recover", "job"]) == 0


def test_it_says_what_came_of_it(asked: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    """The outcome is in words on stderr, and stdout stays empty."""
    assert main(["recover", "job"]) == 0
    assert main(["recover", "r1", "--exact"]) == 0
    assert asked[1:] == [False, True]
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines()[:4] == [
        f"telemetry: {Report(snapshot=FOUND, source='file').headline()}",
        "telemetry: the aggregator died",
        "telemetry: careful",
        "telemetry: /d",
    ]


def test_json_is_the_result_itself(asked: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    """The JSON is the result itself, as in the final file."""
    assert main(["recover", "job", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["run_id"], document["accounting"]["applied"]) == ("r1", 7)


def test_nothing_to_recover(asked: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    """Says so, and how to make a rough result exact."""
    asked[0] = Recovered(FOUND, written=False)
    assert main(["recover", "job"]) == 0
    assert (
        capsys.readouterr().err.splitlines()[-1] == "telemetry: nothing to recover: the run already has its result"
    )
    rough = replace(FOUND, exact=False, exact_reason="too little time")
    asked[0] = Recovered(rough, written=False, refinable=True)
    assert main(["recover", "job"]) == 0
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.endswith(
        "nothing to recover: the run already has its result; `--exact` computes its exact percentiles"
    )
    asked[0] = Recovered(rough, written=False)
    assert main(["recover", "job"]) == 0
    assert capsys.readouterr().err.splitlines()[-2:] == [
        "telemetry: nothing to recover: the run already has its result",
        "telemetry: not exact: too little time",
    ]


def test_what_is_not_exact_says_why(asked: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    """A result that is not exact tells why, after all that could be done."""
    asked[0] = Recovered(replace(FOUND, exact=False, exact_reason="the journal is damaged"), written=True)
    assert main(["recover", "job"]) == 0
    assert "telemetry: not exact: the journal is damaged\n" in capsys.readouterr().err


def test_what_cannot_be_recovered_is_one_line(
    asked: list[Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run nobody knows, or one that is alive."""
    assert main(["recover", "nobody"]) == 1

    def fail(*_: object, **__: object) -> None:
        raise RunDirectoryError("it is alive", hint="wait")

    monkeypatch.setattr(daemon, "recover", fail)
    assert main(["recover", "job", "--json"]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines()[1] == "telemetry: it is alive (wait)"
    assert main(["recover"]) == 2


class Clock:
    now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.mark.parametrize("terminal", [True, False])
def test_progress(terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Progress shows after a second, five times a second, on a terminal. The line is gone in the end."""
    clock = Clock()
    monkeypatch.setattr("telemetry.cli.commands.recover.time", clock)
    monkeypatch.setattr("sys.stderr.isatty", lambda: terminal)
    with ProgressLine() as progress:
        for _ in range(110):
            clock.now += 0.01
            progress("reading the journal", 0.25)
        clock.now += 1.0
        progress("computing exact percentiles", math.nan)
    said = capsys.readouterr().err
    if not terminal:
        assert said == ""
        return
    assert said == (
        "\rtelemetry: reading the journal … 25%\x1b[K\rtelemetry: computing exact percentiles … 2 s\x1b[K\r\x1b[K"
    )


def test_quick_work_shows_no_progress(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Quick work shows no progress, so that the terminal does not flicker."""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with ProgressLine() as progress:
        progress("reading the journal", 1.0)
    assert capsys.readouterr().err == ""


def test_the_folder_of_runs_can_be_given(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The folder of runs can be given, as in every command that takes a run."""
    assert main(["recover", "job", "--dir", "elsewhere"]) == 1
    assert "elsewhere" in capsys.readouterr().err

"""`telemetry replay`: from the command line to a replay."""

from __future__ import annotations

import math
from typing import Any

import pytest

from telemetry.cli.main import main
from telemetry.daemon import replay as daemon
from telemetry.wire.snapshot import MetricsSnapshot

HERE = {"name": "replay of job", "run_id": "abc", "dir": "/r", "endpoint": "ipc:///c"}


@pytest.fixture
def played(make_run: Any, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, Any, float]]:
    """(options, original, speed) of each replay; the run that `job` means."""
    make_run("job", "r1")
    found: list[tuple[Any, Any, float]] = []

    def run_replay(options: Any, original: Any, speed: float, on_ready: Any) -> tuple[bool, MetricsSnapshot]:
        found.append((options, original, speed))
        on_ready(HERE)
        return True, MetricsSnapshot(run_id="abc", name="replay of job", state="COMPLETE", directory="/r")

    monkeypatch.setattr(daemon, "run_replay", run_replay)
    return found


def test_flags_and_defaults(played: list[Any], root: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """A replay goes at the pace of the run, beside its directory, with a new id.

    The command says how to watch it.
    """
    assert main(["replay", "job"]) == 0
    options, original, speed = played[0]
    assert (original.run_id, speed, options.name, options.root) == ("r1", 1.0, "replay of job", root)
    assert options.run_id != "r1"
    assert options.resume is None
    said = capsys.readouterr()
    assert said.out == ""
    where, how, outcome, directory = said.err.splitlines()
    assert where == "telemetry: replay of job (abc) in /r"
    assert how == "telemetry: watch it with: telemetry top abc"
    assert "0 of 0 events applied" in outcome
    assert directory == "telemetry: /r"


@pytest.mark.parametrize(("word", "speed"), [("max", math.inf), ("0.5", 0.5), ("100", 100.0), ("1e3", 1_000.0)])
def test_speeds(played: list[Any], word: str, speed: float) -> None:
    """A number, or as fast as possible."""
    assert main(["replay", "job", "--speed", word, "--bind", "ipc:///c", "--insecure"]) == 0
    options, _, found = played[0]
    assert (found, options.config.transport.bind, options.config.transport.insecure) == (speed, "ipc:///c", True)


@pytest.mark.parametrize("word", ["0", "-1", "nan", "inf", "fast", ""])
def test_no_speeds(played: list[Any], capsys: pytest.CaptureFixture[str], word: str) -> None:
    """Usage errors."""
    assert main(["replay", "job", f"--speed={word}"]) == 2
    assert "is not a speed: give a number above 0, or `max`" in capsys.readouterr().err
    assert played == []


def test_no_file_is_an_error(played: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit 1: the result is nowhere on disk."""
    nowhere = MetricsSnapshot(run_id="r1", name="job")
    monkeypatch.setattr(daemon, "run_replay", lambda *_, **__: (False, nowhere))
    assert main(["replay", "job"]) == 1

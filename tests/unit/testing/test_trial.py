"""Real writers of a small run, and what is seen of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from telemetry.testing import backends as trials
from telemetry.testing.backends import Trial
from telemetry.testing.faulty import Fault
from telemetry.testing.sample import record_run


def made(folder: Path, **environment: str) -> Trial:
    return Trial(folder, record_run(folder, steps=3), "jsonl", environment)


def test_its_processes_see_what_they_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The plug-in first, then what is in PYTHONPATH; no settings of whoever runs the tests."""
    monkeypatch.setenv("PYTHONPATH", "/outer")
    monkeypatch.setenv("TELEMETRY_RUN__NAME", "x")
    found = made(tmp_path, PYTHONPATH="/own", HOME="/h").environment
    assert found["PYTHONPATH"].split(os.pathsep) == [str(tmp_path / "plug"), "/own", "/outer"]
    assert found["HOME"] == "/h"
    assert not [name for name in found if name.startswith("TELEMETRY_")]


@pytest.mark.slow
def test_a_writer_runs_to_its_end_or_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is asked to end, one that takes too long, one that is through."""
    trial = made(tmp_path)
    assert trial.status().pid == 0
    trial.faults.plan(Fault(what="away", times=0))
    end = trial.wait(trial.start(), until=lambda stat: stat.state == "retrying")
    assert (end.code, trial.status().state) == (6, "undelivered")
    monkeypatch.setattr(trials, "WAIT_S", 0.5)
    process = trial.start()
    with pytest.raises(TimeoutError):
        trial.wait(process)
    assert process.returncode == -9
    monkeypatch.undo()
    end = trial.write()
    assert (end.code, trial.status().state) == (0, "done")
    assert trial.until(process, lambda stat: stat.state == "idle") is None

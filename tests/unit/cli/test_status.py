"""The status of runs that have ended."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from telemetry.cli.main import main
from telemetry.store.rundir import RunDirectory

STARTED_NS = 1_772_366_400_000_000_000
MakeRun = Callable[..., RunDirectory]


def test_status_of_a_finished_run(make_run: MakeRun, capsys: pytest.CaptureFixture[str]) -> None:
    """Status falls back to the disk: text in few lines, JSON whole."""
    make_run("job", "aaaa1111")
    assert main(["status"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("complete: job COMPLETE")
    assert len(lines) < 8
    assert main(["status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["run_id"] == "aaaa1111"

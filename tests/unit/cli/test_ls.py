"""The list of runs: what is on disk, and what is left of aggregators that died."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from telemetry.cli.main import main
from telemetry.store.liveruns import LiveRun, announce
from telemetry.store.rundir import RunDirectory
from telemetry.transport import runtime_directory

STARTED_NS = 1_772_366_400_000_000_000
MakeRun = Callable[..., RunDirectory]


def test_ls_of_nothing(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without runs the list is empty and valid, and a person is told so."""
    assert main(["ls", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []
    assert main(["ls"]) == 0
    assert capsys.readouterr() == ("", "telemetry: no runs\n")


def test_ls_lists_finished_and_dead_runs(make_run: MakeRun, capsys: pytest.CaptureFixture[str]) -> None:
    """Each run has the promised keys; one whose aggregator died without a result is DEAD."""
    make_run("job", "aaaa1111")
    make_run("killed", "bbbb2222", ended=False)
    assert main(["ls", "--json"]) == 0
    found = {item["run_id"]: item for item in json.loads(capsys.readouterr().out)}
    assert found["aaaa1111"]["state"] == "COMPLETE"
    assert found["aaaa1111"]["completeness"] == "complete"
    assert found["bbbb2222"]["state"] == "DEAD"
    assert found["bbbb2222"]["name"] == "killed"
    for item in found.values():
        assert {"name", "run_id", "state", "pid", "endpoint", "dir"} <= set(item)
        assert (item["pid"], item["endpoint"]) == (None, None)
        assert Path(item["dir"]).is_dir()
    assert main(["ls"]) == 0
    assert "killed" in capsys.readouterr().out
    assert main(["ls", "--live", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []


def test_a_dead_aggregators_announcement_is_not_a_live_run(
    make_run: MakeRun, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file left behind by a killed aggregator neither lists nor resolves as live."""
    directory = make_run("killed", "bbbb2222", ended=False)
    gone = LiveRun(
        run_id="bbbb2222",
        name="killed",
        pid=2**22 + 1,
        endpoint="ipc:///nowhere",
        dir=str(directory.path),
        state="LIVE",
        started_ns=STARTED_NS,
    )
    announce(runtime_directory(), gone)
    assert main(["ls", "--live", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []
    assert main(["stop", "killed"]) == 1
    assert "has died" in capsys.readouterr().err

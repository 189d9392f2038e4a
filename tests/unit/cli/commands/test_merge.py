"""`telemetry merge`: what it takes, what it says, and where."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.unit.cli.terminals import Desk

from telemetry.cli.main import main
from telemetry.history import load_report
from telemetry.store.final_snapshot import write_final
from telemetry.store.run_directory import RunDirectory
from telemetry.wire.snapshot import CommandFacts

MakeRun = Callable[..., RunDirectory]


def test_the_result_is_a_run(make_run: MakeRun, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The result is a run, with its directory on stdout for the next command and the rest on stderr."""
    make_run("job", "r1")
    make_run("job", "r2", completeness="lossy")
    assert main(["merge", "r1", "r2", "--name", "both"]) == 0
    said = capsys.readouterr()
    (path,) = said.out.splitlines()
    assert Path(path).parent == root
    assert said.err.startswith("telemetry: lossy: both, 14 of 14 events applied, 0 lost\n")
    assert main(["report", path, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["name"], report["counters"][0]["value"]) == ("both", 14)


def test_json_is_the_report(make_run: MakeRun, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The JSON is the report with its sources, and stdout has nothing else."""
    make_run("one", "r1")
    make_run("two", "r2")
    assert main(["merge", "r1", "r2", "--json", "-o", str(root / "here")]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["directory"] == str(root / "here")
    assert [source["label"] for source in document["sources"]] == ["one", "two"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["r1"], "a merge needs at least two runs (give two or more runs)"),
        (["r1", "job"], "run r1 would be counted twice: it is in "),
        (["r1", "ipc:///tmp/x"], "ipc:///tmp/x is a live run (only runs that have ended can be"),
        (["r1", "nobody"], "no run 'nobody'"),
        (["r1", "dead"], "has no final result"),
        (["r1", "dead"], "telemetry recover"),
    ],
)
def test_what_cannot_be_merged_is_said(
    make_run: MakeRun, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    """Runs that can't be merged are an error in one line, and nothing is made."""
    make_run("dead", "r2", ended=False, journal=True)
    before = sorted(make_run("job", "r1").path.parent.iterdir())
    assert main(["merge", *words]) in (1, 2)
    said = capsys.readouterr()
    assert message in said.err
    assert said.out == ""
    assert sorted(before[0].parent.iterdir()) == before


def unrelated(make_run: MakeRun) -> None:
    """Leave two runs of different names and programs."""
    for name, run_id, program in (("one", "r1", "./apples"), ("two", "r2", "./pears")):
        directory = make_run(name, run_id)
        snapshot = load_report(directory.path).snapshot
        write_final(replace(snapshot, command=CommandFacts(argv=[program])), [directory.final])


def test_unrelated_runs_need_force(
    make_run: MakeRun, root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Unrelated runs need `--force` without a terminal, since nobody can be asked there."""
    unrelated(make_run)
    before = sorted(root.iterdir())
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    assert main(["merge", "r1", "r2"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == (
        "telemetry: the runs seem unrelated: the runs have different names and programs: apples, pears "
        "(give --force to merge them nevertheless)\n"
    )
    assert sorted(root.iterdir()) == before
    assert main(["merge", "r1", "r2", "--force"]) == 0


@pytest.mark.parametrize(("answer", "code"), [(b"y\n", 0), (b"n\n", 1), (b"\n", 1)])
def test_a_user_is_asked(
    make_run: MakeRun, root: Path, monkeypatch: pytest.MonkeyPatch, answer: bytes, code: int
) -> None:
    """A user on a terminal is asked, and any answer but yes is no."""
    unrelated(make_run)
    before = len(list(root.iterdir()))
    desk = Desk()
    try:
        with os.fdopen(os.dup(desk.near), "r+b", buffering=0) as terminal:
            desk.type(answer)
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(terminal, write_through=True))
            monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(terminal, write_through=True))
            assert main(["merge", "r1", "r2"]) == code
            desk.wait_for(b"Merge them nevertheless? [y/N] ")
            if code:
                desk.wait_for(b"nothing was merged")
    finally:
        desk.close()
    assert len(list(root.iterdir())) - before == (not code)

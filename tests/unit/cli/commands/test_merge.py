"""`telemetry merge`: what it takes, what it says, and where."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from telemetry.cli.main import main
from telemetry.store.run_directory import RunDirectory

MakeRun = Callable[..., RunDirectory]


def test_the_result_is_a_run(make_run: MakeRun, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its directory goes to stdout, for the next command; what it came to is talk."""
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
    """With its sources, and nothing else on stdout."""
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
    """In one line, and nothing is made."""
    make_run("dead", "r2", ended=False, journal=True)
    before = sorted(make_run("job", "r1").path.parent.iterdir())
    assert main(["merge", *words]) in (1, 2)
    said = capsys.readouterr()
    assert message in said.err
    assert said.out == ""
    assert sorted(before[0].parent.iterdir()) == before

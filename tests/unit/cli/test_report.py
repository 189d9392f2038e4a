"""The report of runs that have ended."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from telemetry.cli.main import main
from telemetry.store.rundir import RunDirectory

STARTED_NS = 1_772_366_400_000_000_000
MakeRun = Callable[..., RunDirectory]


def test_report_formats(make_run: MakeRun, capsys: pytest.CaptureFixture[str]) -> None:
    """JSON carries the names of the final file; `--json` and the suffix of -o choose it too."""
    directory = make_run("job", "aaaa1111")
    assert main(["report", "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["source"] == "file"
    assert document["counters"][0]["value"] == 7
    assert main(["report", "--json", "-o", "out.json"]) == 0
    assert json.loads(Path("out.json").read_text()) == document
    assert main(["report", "-o", "out.md"]) == 0
    assert Path("out.md").read_text().startswith("**complete: job")
    assert set(document) - {"source", "source_reason"} == set(json.loads(directory.final.read_text()))
    assert capsys.readouterr().out == ""


def test_strict_report(make_run: MakeRun) -> None:
    """`--strict` turns a lossy result into exit code 4, and leaves a complete one alone."""
    make_run("good", "aaaa1111")
    make_run("bad", "bbbb2222", completeness="lossy")
    assert main(["report", "good", "--strict"]) == 0
    assert main(["report", "bad", "--strict"]) == 4
    assert main(["report", "bad"]) == 0


def test_a_run_without_a_result_says_why(make_run: MakeRun, capsys: pytest.CaptureFixture[str]) -> None:
    """A killed run has a directory but no final file: that is said, not a traceback."""
    directory = make_run("killed", "bbbb2222", ended=False, journal=True)
    assert main(["report", "killed"]) == 1
    said = capsys.readouterr().err
    assert "no final result: its aggregator died" in said
    assert f"`telemetry recover {directory.path}` makes one of it" in said


def test_report_cannot_write(make_run: MakeRun, capsys: pytest.CaptureFixture[str]) -> None:
    """An output file that can't be written is one line, and so is a histogram log without a file."""
    make_run("job", "aaaa1111")
    assert main(["report", "-o", "missing/dir/out.md"]) == 1
    assert "out.md can't be written" in capsys.readouterr().err
    assert main(["report", "--format", "hlog"]) == 2
    assert "-o FILE" in capsys.readouterr().err

"""The report of runs that have ended."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from telemetry.cli.main import main
from telemetry.report.json import json_schema
from telemetry.store.run_directory import RunDirectory
from telemetry.wire.snapshot import CounterStat, SeriesStat

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
    assert set(json.loads(directory.final.read_text())) - {"crc"} <= set(document)
    assert document["verdict"] == "complete"
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
    assert f"`telemetry recover {directory.path}` makes a result from it" in said


def test_report_cannot_write(make_run: MakeRun, capsys: pytest.CaptureFixture[str]) -> None:
    """An output file that can't be written is one line, and so is a histogram log without a file."""
    make_run("job", "aaaa1111")
    assert main(["report", "-o", "missing/dir/out.md"]) == 1
    assert "can't write missing/dir/out.md" in capsys.readouterr().err
    assert main(["report", "--format", "hlog"]) == 2
    assert "-o FILE" in capsys.readouterr().err


def test_several_forms_at_once(make_run: MakeRun, capsys: pytest.CaptureFixture[str]) -> None:
    """Each file has the form of its suffix; a folder, which is made, has all that are named."""
    make_run("job", "aaaa1111")
    assert main(["report", "-o", "a.html", "-o", "b.csv", "-o", "c.xml", "-o", "d.txt"]) == 0
    heads = {name: Path(name).read_text()[:14] for name in ("a.html", "b.csv", "c.xml", "d.txt")}
    assert heads == {
        "a.html": "<!DOCTYPE html",
        "b.csv": '"kind","name",',
        "c.xml": "<?xml version=",
        "d.txt": "complete: job,",
    }
    assert main(["report", "-o", "out/deep/", "--format", "html", "--json", "--format", "junit"]) == 0
    names = {path.name for path in Path("out/deep").iterdir()}
    assert names == {"report.html", "report.json", "report.xml"}
    assert capsys.readouterr().out == ""


def test_a_distribution_is_of_one_series(make_run: MakeRun, capsys: pytest.CaptureFixture[str]) -> None:
    """A file holds one; stdout and a folder take all of them, and nobody guesses which was meant."""
    stats = [SeriesStat(name="latency", labels={"op": op}, count=2, min=1, max=3) for op in ("r/w", "r w")]
    make_run("job", "aaaa1111", series=[*stats, SeriesStat(name="ttft")])
    assert main(["report", "-o", "x.hgrm"]) == 2
    assert "x.hgrm can hold one series, but the run has 3 (choose one with --series NAME" in capsys.readouterr().err
    assert main(["report", "-o", "x.hgrm", "--series", "latency{op=r w}"]) == 0
    assert Path("x.hgrm").read_text().startswith("#[Series  = latency{op=r w}, Unit = 1]\n")
    assert main(["report", "--format", "hgrm", "--series", "latency"]) == 0
    assert capsys.readouterr().out.count("#[Series  = latency{") == 2
    assert main(["report", "--format", "hgrm", "-o", "out/"]) == 0
    assert "the history lacks values for 3 of 3 series" in capsys.readouterr().err
    names = {path.name for path in Path("out/report").iterdir()}
    assert names == {"latency-op-r-w.hgrm", "latency-op-r-w-2.hgrm", "ttft.hgrm"}
    Path("out/report/mine.txt").write_text("not theirs")
    Path("out/report/ttft.hgrm").write_text("")
    assert main(["report", "--format", "hgrm", "-o", "out/"]) == 0
    assert Path("out/report/ttft.hgrm").read_text().startswith("#[Series")
    assert Path("out/report/mine.txt").exists()
    assert main(["report", "--format", "hgrm", "--series", "latenzy"]) == 2
    assert "the run has no series 'latenzy' (did you mean latency?)" in capsys.readouterr().err


def test_a_series_is_picked_for_its_distribution_only(
    make_run: MakeRun, capsys: pytest.CaptureFixture[str]
) -> None:
    """A form that has all series all the same says so, rather than to look as if it had one."""
    make_run("job", "aaaa1111", series=[SeriesStat(name="ttft", unit="ms"), SeriesStat(name="latency", unit="ms")])
    for flags in ([], ["--json"], ["-o", "x.html"]):
        assert main(["report", "--series", "ttft", *flags]) == 2
        assert "--series works only with the format hgrm" in capsys.readouterr().err
    assert main(["report", "--series", "ttft", "-o", "x.hgrm", "-o", "x.json"]) == 0


def test_a_kind_is_picked_for_the_form_of_endpoints_only(
    make_run: MakeRun, capsys: pytest.CaptureFixture[str]
) -> None:
    """A kind is selected only for the form of endpoints, whose summary is of one kind.

    The error says how to name it.
    """
    issued = [CounterStat(name=f"{kind}.issued", unit="requests", value=3) for kind in ("chat", "embed")]
    make_run("job", "aaaa1111", counters=issued)
    assert main(["report", "--format", "endpoints"]) == 2
    assert "chat, embed (choose one with --requests NAME" in capsys.readouterr().err
    assert main(["report", "--format", "endpoints", "--requests", "embed"]) == 0
    assert '"n_samples_issued": 3' in capsys.readouterr().out
    assert main(["report", "--json", "--requests", "embed"]) == 2
    assert "add --format endpoints" in capsys.readouterr().err


def test_a_run_without_series_has_no_distribution(make_run: MakeRun, capsys: pytest.CaptureFixture[str]) -> None:
    """A file without anything in it would be a riddle."""
    make_run("job", "aaaa1111")
    assert main(["report", "-o", "x.hgrm"]) == 2
    assert "the run has no series" in capsys.readouterr().err
    assert not Path("x.hgrm").exists()


def test_the_schema_needs_no_run(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The schema is that of the code and needs no run."""
    assert main(["report", "--schema"]) == 0
    assert json.loads(capsys.readouterr().out) == json_schema()

"""Tests of which run RUN means, and of where its report comes from."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from telemetry.cli import find_run
from telemetry.cli.main import main
from telemetry.errors import EndpointError, RunDirectoryError
from telemetry.history.run import with_history
from telemetry.store.final_snapshot import read_final
from telemetry.store.gate_results import write_gates
from telemetry.store.live_runs import LiveRun, announce
from telemetry.store.run_directory import RunDirectory
from telemetry.transport import runtime_directory
from telemetry.wire.gates import GateResult
from telemetry.wire.report import Report
from telemetry.wire.snapshot import SeriesStat

STARTED_NS = 1_772_366_400_000_000_000
MakeRun = Callable[..., RunDirectory]


@pytest.mark.parametrize("spec", ["latest", "aaaa1111", "job", "directory", "file"])
def test_report_finds_the_run_however_it_is_named(
    make_run: MakeRun, spec: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """`latest`, a run id, a name, a directory and the final file all mean the same run."""
    directory = make_run("job", "aaaa1111")
    spec = {"directory": str(directory.path), "file": str(directory.final)}.get(spec, spec)
    assert main(["report", spec]) == 0
    assert capsys.readouterr().out.startswith("complete: job, 7 of 7 events applied, 0 lost\n")


@pytest.mark.parametrize("command", [["report"], ["status"], ["stop"], ["tail"], ["tail", "--records"]])
def test_an_unknown_run_is_one_line(
    make_run: MakeRun, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """An unknown run gives exit code 1 and one line that helps, whatever the command is."""
    make_run("load-test", "aaaa1111")
    assert main([command[0], "lod-test", *command[1:]]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1


def test_an_address_nobody_answers_at(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """RUN may be a control address; if it is silent, the error names it."""
    monkeypatch.setattr("telemetry.limits.CONTROL_TIMEOUT_S", 0.2)
    assert main(["tail", f"ipc://{os.getcwd()}/nobody"]) == 1
    assert "nobody" in capsys.readouterr().err


def test_who_has_a_result_is_asked_nothing(make_run: MakeRun, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An aggregator that is about to go does not answer, and that is nobody's concern; without a result it is."""
    asked: list[str] = []

    def silent(endpoint: str) -> None:
        asked.append(endpoint)
        raise EndpointError("no answer within 5 s")

    monkeypatch.setattr(find_run, "ask", silent)
    directory = make_run("job", "aaaa1111")
    live = LiveRun(
        run_id="aaaa1111",
        name="job",
        pid=os.getpid(),
        endpoint="ipc:///nowhere",
        dir=str(directory.path),
        state="LIVE",
        started_ns=STARTED_NS,
    )
    report = find_run.report_of(find_run.RunTarget("job", root, live.endpoint, live))
    assert (report.source, report.source_reason, asked) == ("file", "", [])
    directory.final.unlink()
    lock = directory.lock()
    with pytest.raises(EndpointError, match="no answer"):
        find_run.report_of(find_run.RunTarget("job", root, live.endpoint, live))
    lock.release()
    with pytest.raises(RunDirectoryError, match="its aggregator died"):
        find_run.report_of(find_run.RunTarget("job", root, live.endpoint, live))


def alive(directory: RunDirectory) -> LiveRun:
    return LiveRun(
        run_id="aaaa1111",
        name="job",
        pid=os.getpid(),
        endpoint="ipc:///nowhere",
        dir=str(directory.path),
        state="LIVE",
        started_ns=STARTED_NS,
    )


def test_a_run_that_has_ended_is_read_though_its_aggregator_is_still_there(
    make_run: MakeRun, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk has more than the aggregator knows, such as what the gates came to; by an address too."""
    directory = make_run("job", "aaaa1111")
    gates = [GateResult(expression="lost == 0", outcome="pass", reason="0 == 0")]
    write_gates(directory.path, gates)
    ended = read_final(directory.final)
    monkeypatch.setattr(find_run, "ask", lambda _: ended)
    live = alive(directory)
    report = find_run.report_of(find_run.RunTarget("job", root, live.endpoint, live))
    assert (report.source, report.gates) == ("file", gates)
    monkeypatch.setattr(find_run, "ask", lambda _: replace(ended, directory=str(directory.path)))
    report = find_run.report_of(find_run.RunTarget(live.endpoint, root, live.endpoint))
    assert (report.source, report.gates) == ("file", gates)
    monkeypatch.setattr(find_run, "ask", lambda _: replace(ended, state="DRAINING", directory=str(directory.path)))
    assert find_run.report_of(find_run.RunTarget(live.endpoint, root, live.endpoint)).source == "status"


@pytest.mark.parametrize("left", ["nothing", "another run"])
def test_a_run_that_has_ended_elsewhere_is_reported_by_its_aggregator(
    make_run: MakeRun, root: Path, monkeypatch: pytest.MonkeyPatch, left: str
) -> None:
    """The report comes from the aggregator, since no directory here holds the result of the run."""
    ended = read_final(make_run("job", "aaaa1111").final)
    there = str(make_run("job", "bbbb2222").path) if left == "another run" else ""
    monkeypatch.setattr(find_run, "ask", lambda _: replace(ended, directory=there))
    report = find_run.report_of(find_run.RunTarget("tcp://there:5555", root, "tcp://there:5555"))
    assert (report.source, report.snapshot.run_id) == ("status", "aaaa1111")


def test_what_is_read_in_place_of_a_silent_aggregator_is_all_there_is(make_run: MakeRun, root: Path) -> None:
    """Gates too."""
    directory = make_run("job", "aaaa1111")
    gates = [GateResult(expression="lost == 0", outcome="pass", reason="0 == 0")]
    write_gates(directory.path, gates)
    live = alive(directory)
    report = find_run.from_disk(find_run.RunTarget("job", root, live.endpoint, live), EndpointError("no answer"))
    assert (report.gates, report.source_reason) == (gates, "")


def test_latest_prefers_this_folder(make_run: MakeRun, root: Path) -> None:
    """A live run elsewhere is `latest` only where no run has ever been made."""
    elsewhere = LiveRun(
        run_id="bbbb2222",
        name="training",
        pid=os.getpid(),
        endpoint="ipc:///there",
        dir="/elsewhere",
        state="LIVE",
        started_ns=STARTED_NS,
    )
    announce(runtime_directory(), elsewhere)
    args = argparse.Namespace(target="latest", dir=None)
    assert find_run.find(args).endpoint == "ipc:///there"
    make_run("job", "aaaa1111")
    assert find_run.find(args).endpoint == ""
    args.target = "training"
    assert find_run.find(args).endpoint == "ipc:///there"


def test_a_result_gets_what_its_directory_adds(make_run: MakeRun, tmp_path: Path) -> None:
    """Bounds say where too few values carry a percentile. Without a directory it stays as it is."""
    directory = make_run("job", "aaaa1111")
    few = SeriesStat(name="a", count=3, min=1, max=1, percentiles={"99": 1}, histogram=[(1, 3)], cell_unit=1.0)
    snapshot = replace(read_final(directory.final), directory=str(directory.path), series=[few])
    result = Report(snapshot=snapshot, source="pubsub")
    whole = with_history(result)
    assert (whole.source, whole.snapshot, len(whole.bounds)) == ("pubsub", snapshot, 1)
    assert whole.findings == ["too few values for any percentile of a: 3 samples"]
    for elsewhere in ("", str(tmp_path / "gone")):
        alone = replace(result, snapshot=replace(result.snapshot, directory=elsewhere))
        assert with_history(alone) is alone

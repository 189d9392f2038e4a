"""The list of runs: what is on disk, and what is left of aggregators that died."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from msgspec.structs import replace

from telemetry.cli.main import main
from telemetry.store.final_snapshot import read_final, write_final
from telemetry.store.gate_results import GATES, write_gates
from telemetry.store.live_runs import LiveRun, announce
from telemetry.store.run_directory import RunDirectory
from telemetry.transport import runtime_directory
from telemetry.transport.keeper_lock import KeeperLock
from telemetry.wire.gates import GateResult
from telemetry.wire.snapshot import AxisStat, CommandFacts, MarkStat, MetricsSnapshot, SeriesStat

STARTED_NS = 1_772_366_400_000_000_000
MakeRun = Callable[..., RunDirectory]


def test_ls_of_nothing(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A list without runs is empty and valid, and a person is told so."""
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
    assert "died (pid" in capsys.readouterr().err


def died(directory: RunDirectory) -> LiveRun:
    """The announcement of an aggregator that was killed."""
    gone = LiveRun(
        run_id=directory.run_id,
        name=directory.slug,
        pid=2**22 + 1,
        endpoint="ipc:///nowhere",
        dir=str(directory.path),
        state="LIVE",
        started_ns=STARTED_NS,
    )
    announce(runtime_directory(), gone)
    return gone


def test_a_dead_run_is_offered_for_recovery(
    make_run: MakeRun, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """JSON says that there is a journal, people get the command to copy; stdout stays a table or JSON."""
    monkeypatch.setenv("COLUMNS", "400")
    directory = make_run("killed", "bbbb2222", ended=False, journal=True)
    make_run("empty", "cccc3333", ended=False)
    make_run("job", "aaaa1111", journal=True)
    assert main(["ls", "--json"]) == 0
    captured = capsys.readouterr()
    found = {item["run_id"]: item["recoverable"] for item in json.loads(captured.out)}
    assert found == {"aaaa1111": False, "bbbb2222": True, "cccc3333": False}
    assert captured.err == ""
    assert main(["ls"]) == 0
    captured = capsys.readouterr()
    command = f"`telemetry recover {directory.path}`"
    assert (
        captured.err
        == f"telemetry: the aggregator of killed died; run {command} to make a result from its journal\n"
    )
    assert "recover" not in captured.out


def test_a_run_that_is_about_to_go_on_is_not_dead(make_run: MakeRun, capsys: pytest.CaptureFixture[str]) -> None:
    """Somebody sees to another aggregator: `recover` is not offered meanwhile."""
    make_run("killed", "bbbb2222", ended=False, journal=True)
    keeping = KeeperLock("bbbb2222")
    assert main(["ls", "--json"]) == 0
    (item,) = json.loads(capsys.readouterr().out)
    assert (item["state"], item["recoverable"]) == ("RESTARTING", False)
    assert main(["ls"]) == 0
    assert "recover" not in capsys.readouterr().err
    keeping.end()


def test_many_dead_runs_take_few_lines(
    make_run: MakeRun, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder of dead runs does not bury the table."""
    monkeypatch.setenv("COLUMNS", "400")
    for number in range(8):
        make_run("killed", f"r{number}", ended=False, journal=True)
    assert main(["ls"]) == 0
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 6
    assert said[-1] == "telemetry: and 3 more"


def test_a_run_that_somebody_has_is_not_dead(make_run: MakeRun, capsys: pytest.CaptureFixture[str]) -> None:
    """A run that a process holds is not dead: it begins this moment or is on another host.

    No user is told to recover it.
    """
    directory = make_run("job", "bbbb2222", ended=False, journal=True)
    lock = directory.lock()
    assert main(["ls", "--json"]) == 0
    (item,) = json.loads(capsys.readouterr().out)
    assert (item["state"], item["recoverable"], item["endpoint"]) == ("LIVE", False, None)
    lock.release()


def test_a_dead_run_elsewhere_is_listed_until_it_has_a_result(
    make_run: MakeRun, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A killed aggregator of another folder is DEAD here too; once there is a result, or nothing, its files go."""
    directory = make_run("killed", "bbbb2222", ended=False, journal=True)
    died(directory)
    assert main(["ls", "--json", "--dir", "elsewhere"]) == 0
    assert json.loads(capsys.readouterr().out) == []  # a folder that is asked for has only its own runs
    monkeypatch.setenv("TELEMETRY_RUN__DIR", "elsewhere")
    assert main(["ls", "--json"]) == 0
    (item,) = json.loads(capsys.readouterr().out)
    assert (item["run_id"], item["state"], item["dir"]) == ("bbbb2222", "DEAD", str(directory.path))
    assert (runtime_directory() / "bbbb2222").exists()
    directory.final.write_text('{"run_id":"bbbb2222","name":"killed","state":"COMPLETE","completeness":"lossy"}')
    died(RunDirectory(Path("/nowhere"), "cccc3333", "gone"))
    assert main(["ls", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []
    assert [path.name for path in runtime_directory().iterdir()] == []


def test_a_result_that_went_elsewhere_is_listed(
    make_run: MakeRun, root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run whose directory could not be written is not dead."""
    directory = make_run("job", "aaaa1111")
    monkeypatch.setenv("TELEMETRY_RUN__FALLBACK_DIRS", str(root.parent / "spare"))
    (root.parent / "spare").mkdir()
    directory.final.rename(root.parent / "spare" / "telemetry-aaaa1111-final_snapshot.json")
    assert main(["ls", "--json"]) == 0
    (item,) = json.loads(capsys.readouterr().out)
    assert (item["state"], item["completeness"]) == ("COMPLETE", "complete")
    assert main(["report", "job"]) == 0
    assert "can't write to the run directory" in capsys.readouterr().out


def test_what_has_no_room_is_said(
    make_run: MakeRun, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A column does not vanish silently."""
    directory = make_run("job", "aaaa1111")
    monkeypatch.setenv("COLUMNS", "40")
    assert main(["ls"]) == 0
    said = capsys.readouterr()
    assert directory.path.name not in said.out
    assert said.err == "telemetry: hidden columns: exit, figures, started (UTC); use a wider terminal or --json\n"
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["ls"]) == 0
    said = capsys.readouterr()
    assert all(len(line) <= 80 for line in said.out.splitlines())
    assert (directory.path.name in said.out, said.err) == (False, "")
    monkeypatch.setenv("COLUMNS", "500")
    assert main(["ls"]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert f" runs/{directory.path.name}\n" in said.out


def test_the_figures_of_a_run_are_listed(make_run: MakeRun, capsys: pytest.CaptureFixture[str]) -> None:
    """The table has the rate and the p99; JSON has all figures of the headline."""
    latency = SeriesStat(name="latency", unit="ms", count=830, min=1, max=9, percentiles={"50": 2, "99": 4.5})
    directory = make_run("job", "aaaa1111", series=[latency])
    write_final(replace(read_final(directory.final), elapsed_s=83.0), [directory.final])
    assert main(["ls"]) == 0
    assert " req/s · p99 4.50 ms" in capsys.readouterr().out
    assert main(["ls", "--json"]) == 0
    (item,) = json.loads(capsys.readouterr().out)
    assert item["summary"].endswith(" req/s · p99 4.50 ms")
    figures = {one["title"]: one for one in item["figures"]}
    assert figures["requests/s"]["value"] > 0
    assert figures["latency p99"] == {"title": "latency p99", "text": "4.50 ms", "value": 4.5, "unit": "ms"}


def test_the_loss_of_a_training_is_listed(make_run: MakeRun, capsys: pytest.CaptureFixture[str]) -> None:
    """Steps say less than the first of their values."""
    directory = make_run("train", "aaaa1111")
    axis = AxisStat(name="train", newest=9, closed=10, values={"loss": 0.25})
    write_final(replace(read_final(directory.final), axes=[axis]), [directory.final])
    assert main(["ls", "--json"]) == 0
    (item,) = json.loads(capsys.readouterr().out)
    assert item["summary"] == "loss 0.25"


def test_a_loss_that_was_nan_is_marked(
    make_run: MakeRun, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A NaN loss is marked in yellow beside the result, in the table, on the page and in JSON. The figure stays."""
    directory = make_run("train", "aaaa1111")
    axis = AxisStat(name="train", newest=9, closed=10, values={"loss": 0.25}, not_finite={"loss": 7})
    write_final(replace(read_final(directory.final), axes=[axis]), [directory.final])
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert main(["ls"]) == 0
    out = capsys.readouterr().out
    assert "\x1b[33mcomplete, loss NaN or infinite\x1b[0m" in out
    assert "loss 0.25" in out
    page = tmp_path / "runs.html"
    assert main(["ls", "--html", str(page)]) == 0
    html = page.read_text()
    assert '"result":"complete, loss NaN or infinite","health":"warn"' in html
    assert '<p class="banner warn" id="verdict">1 run · 1 complete, loss NaN or infinite</p>' in html
    assert main(["ls", "--json"]) == 0
    (item,) = json.loads(capsys.readouterr().out)
    assert (item["summary"], item["concern"]) == ("loss 0.25", "loss NaN or infinite")


def test_an_ended_run_is_not_live(make_run: MakeRun, capsys: pytest.CaptureFixture[str]) -> None:
    """An aggregator stays for a moment after its result, which is no reason to list the run under --live."""
    directory = make_run("job", "aaaa1111")
    announce(runtime_directory(), replace(died(directory), pid=os.getpid()))
    assert main(["ls", "--live", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []


def ended(make_run: MakeRun, run_id: str, started_s: int, command: str, completeness: str = "complete") -> None:
    """A run of 83 s with 1,234,567 events whose command ended so."""
    directory = make_run("job", run_id)
    directory.final.write_text(
        f'{{"run_id":"{run_id}","name":"job","state":"COMPLETE","completeness":"{completeness}",'
        f'"started_ns":{STARTED_NS + started_s * 10**9},"elapsed_s":83.0,"accounting":{{"applied":1234567}},'
        f'"command":{command}}}'
    )


def test_failed_runs_are_shown_as_failed(
    make_run: MakeRun, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Failed runs have their exit code or signal, duration and events.

    The newest run is first, and colours come only where wanted.
    """
    ended(make_run, "aaaa1111", 0, '{"exit_code":3,"signal":null}')
    ended(make_run, "bbbb2222", 120, '{"exit_code":null,"signal":"SIGSEGV"}', "lossy")
    ended(make_run, "cccc3333", 60, '{"exit_code":0,"signal":null}')
    ended(make_run, "dddd4444", 180, "null", "interrupted")
    make_run("killed", "eeee5555", ended=False)
    monkeypatch.setenv("COLUMNS", "100")
    assert main(["ls"]) == 0
    lines = [line.split("  ") for line in capsys.readouterr().out.splitlines()]
    rows = {cells[1]: [cell.strip() for cell in cells[2:] if cell.strip()] for cells in map(stripped, lines[1:])}
    assert rows["aaaa1111"][:5] == ["failed", "3", "–", "83.0 s", "03-01 12:00"]
    assert rows["bbbb2222"][:2] == ["failed", "SIGSEGV"]
    assert rows["cccc3333"][:2] == ["complete", "0"]
    assert rows["dddd4444"][:2] == ["interrupted", "–"]
    assert rows["eeee5555"][:4] == ["DEAD", "–", "–", "–"]
    assert [run_id for run_id in rows if run_id != "eeee5555"] == ["dddd4444", "bbbb2222", "cccc3333", "aaaa1111"]
    assert main(["ls", "--json"]) == 0
    found = {item["run_id"]: item for item in json.loads(capsys.readouterr().out)}
    shown = [found["bbbb2222"][key] for key in ("failed", "exit_code", "signal", "duration_s", "events")]
    assert shown == [True, None, "SIGSEGV", 83.0, 1234567]
    assert (found["aaaa1111"]["failed"], found["aaaa1111"]["exit_code"]) == (True, 3)
    assert not found["cccc3333"]["failed"]
    assert [found["eeee5555"][key] for key in ("failed", "duration_s", "events")] == [False, None, None]
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert main(["ls"]) == 0
    painted = capsys.readouterr().out
    for words in ("\x1b[31mfailed\x1b[0m", "\x1b[32mcomplete\x1b[0m", "\x1b[31mDEAD\x1b[0m"):
        assert words in painted


def stripped(cells: list[str]) -> list[str]:
    return [cell.strip() for cell in cells if cell.strip()]


def test_a_directory_elsewhere_is_shown_whole(
    make_run: MakeRun, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One below the working directory is short, and can be copied all the same."""
    directory = make_run("job", "aaaa1111")
    monkeypatch.setenv("COLUMNS", "500")
    monkeypatch.chdir(tmp_path)
    assert main(["ls", "--dir", str(directory.path.parent)]) == 0
    assert f" {directory.path}\n" in capsys.readouterr().out


def test_the_sockets_of_a_dead_run_that_nothing_can_be_made_of_go(
    make_run: MakeRun, capsys: pytest.CaptureFixture[str]
) -> None:
    """Sockets of a dead run that can't be recovered are removed, as no process will listen there.

    A recoverable run keeps its sockets.
    """
    died(make_run("killed", "bbbb2222", ended=False))
    died(make_run("kept", "cccc3333", ended=False, journal=True))
    assert main(["ls", "--json"]) == 0
    assert [item["state"] for item in json.loads(capsys.readouterr().out)] == ["DEAD", "DEAD"]
    assert [path.name for path in runtime_directory().iterdir()] == ["cccc3333"]


@pytest.mark.parametrize(
    ("outcomes", "word", "color"),
    [
        (["pass", "fail"], "complete, gate failed", "31"),
        (["inconclusive"], "complete, gate inconclusive", "33"),
        (["pass"], "complete", "32"),
    ],
)
def test_gates_that_did_not_pass_are_in_the_list(
    outcomes: list[Any],
    word: str,
    color: str,
    *,
    make_run: MakeRun,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A complete result may have failed a gate: its command ended with another exit code than 0."""
    directory = make_run("job", "aaaa1111")
    write_gates(directory.path, [GateResult(expression="e", outcome=each, reason="r") for each in outcomes])
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert main(["ls"]) == 0
    assert f"\x1b[{color}m{word}\x1b[0m" in capsys.readouterr().out
    assert main(["ls", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["gates"] == next(
        each for each in ("fail", "inconclusive", "pass") if each in outcomes
    )


def test_gates_that_cannot_be_read_are_unknown(make_run: MakeRun, capsys: pytest.CaptureFixture[str]) -> None:
    """The list shows the run all the same."""
    (make_run("job", "aaaa1111").path / GATES).write_text("{")
    assert main(["ls", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["gates"] is None


def test_runs_are_chosen_by_name_id_or_directory(make_run: MakeRun, capsys: pytest.CaptureFixture[str]) -> None:
    """A name may be a pattern; a run that does not exist is an error."""
    make_run("train-a", "aaaa1111")
    make_run("train-b", "bbbb2222")
    other = make_run("load", "cccc3333")
    for words, wanted in (
        (["train-*"], {"aaaa1111", "bbbb2222"}),
        (["bbbb2222", "train-b"], {"bbbb2222"}),
        ([str(other.path)], {"cccc3333"}),
    ):
        assert main(["ls", "--json", *words]) == 0
        assert {item["run_id"] for item in json.loads(capsys.readouterr().out)} == wanted
    assert main(["ls", "nope"]) == 1
    assert "no run nope" in capsys.readouterr().err
    assert main(["ls", "laod"]) == 1
    assert "no run laod (did you mean load?)" in capsys.readouterr().err


def test_runs_are_chosen_as_by_other_commands(
    make_run: MakeRun, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`latest`, links, files of a run and its control address. A directory may be anywhere."""
    older = make_run("load", "aaaa1111")
    newest = make_run("load", "bbbb2222")
    beside = root.with_name("beside")
    beside.mkdir()
    moved = older.path.rename(beside / older.path.name)
    for word, wanted in (
        ("latest", "bbbb2222"),
        (str(root / "latest"), "bbbb2222"),
        (str(newest.final), "bbbb2222"),
        (str(moved), "aaaa1111"),
    ):
        assert main(["ls", "--json", word]) == 0
        assert [item["run_id"] for item in json.loads(capsys.readouterr().out)] == [wanted]
    assert main(["ls", "latest"]) == 0
    assert "bbbb2222" in capsys.readouterr().out
    for word in ("latest", str(moved)):
        assert main(["ls", "--live", word]) == 1
        assert f"no live run {word} (`telemetry ls` shows the runs)" in capsys.readouterr().err
    assert main(["ls", str(beside)]) == 1
    assert f"it holds 1 run: name one of them, and add --dir {beside}" in capsys.readouterr().err


def test_latest_is_a_live_run_where_no_run_was_made(
    make_run: MakeRun, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`latest` is a live run if the folder has no run, as in other commands. A run below the folder goes first."""
    there = LiveRun(
        run_id="bbbb2222",
        name="training",
        pid=os.getpid(),
        endpoint="ipc:///there",
        dir=str(root.with_name("there")),
        state="LIVE",
        started_ns=STARTED_NS + 1,
    )
    announce(runtime_directory(), there)
    in_empty = ["--dir", str(root.with_name("empty"))]
    for words in (["latest"], ["ipc:///there"], ["--live", "latest"], [*in_empty, "--live", "training"]):
        assert main(["ls", "--json", *words]) == 0
        assert [item["run_id"] for item in json.loads(capsys.readouterr().out)] == ["bbbb2222"]
    make_run("job", "aaaa1111")
    assert main(["ls", "--json", "latest"]) == 0
    assert [item["run_id"] for item in json.loads(capsys.readouterr().out)] == ["aaaa1111"]


def test_a_live_run_of_another_folder_says_so(
    make_run: MakeRun, root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A live run of another folder is marked and leaves the list when it ends.

    The page has its parameters only if it was asked for.
    """
    make_run("job", "aaaa1111")
    there = LiveRun(
        run_id="bbbb2222",
        name="training",
        pid=os.getpid(),
        endpoint="ipc:///there",
        dir="/other/runs/training",
        state="LIVE",
        started_ns=STARTED_NS + 1,
    )
    announce(runtime_directory(), there)
    now = MetricsSnapshot(run_id="bbbb2222", name="training", state="LIVE", params={"lr": 3})
    monkeypatch.setattr("telemetry.cli.listed_runs.find_run.ask", lambda *_: now)
    assert main(["ls", "--json"]) == 0
    assert [item["elsewhere"] for item in json.loads(capsys.readouterr().out)] == [True, False]
    assert main(["ls"]) == 0
    assert "live, elsewhere" in capsys.readouterr().out
    assert main(["ls", "-o", "all.html"]) == 0
    page = Path("all.html").read_text()
    assert "1 live, in /other/runs" in page
    assert '"lr"' not in page
    assert main(["ls", "training", "-o", "one.html"]) == 0
    assert '"lr"' in Path("one.html").read_text()


def test_a_page_links_to_the_reports_of_runs(
    make_run: MakeRun, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Reports are made once, also of names that are special in addresses; a dead run has a row without one."""
    make_run("job #1", "aaaa1111")
    make_run("killed", "bbbb2222", ended=False)
    assert main(["ls", "--html", "out/runs.html", "--reports"]) == 0
    assert capsys.readouterr().err == (
        "telemetry: wrote out/runs.html\ntelemetry: wrote out/runs-reports: 1 new report\n"
    )
    html = Path("out/runs.html").read_text()
    (report,) = Path("out/runs-reports").iterdir()
    assert f'"link":"runs-reports/{quote(report.name)}"' in html
    assert '"result":"DEAD"' in html
    assert main(["ls", "-o", "out/runs.html", "--reports"]) == 0
    assert capsys.readouterr().err == (
        "telemetry: wrote out/runs.html\ntelemetry: no new reports in out/runs-reports\n"
    )
    (root / make_run("own", "dddd4444").path.name / "report.html").write_text("x")
    assert main(["ls", "own", "-o", "own.html"]) == 0
    assert re.search(r'"link":"runs/own-[^/]*/report.html"', Path("own.html").read_text())
    elsewhere = root.rename(root.with_name(os.fsdecode(b"caf\xe9")))
    assert main(["ls", "own", "--dir", str(elsewhere), "-o", "own.html"]) == 0
    assert re.search(r'"link":"caf%E9/own-[^/]*/report.html"', Path("own.html").read_text())


def test_a_page_needs_a_name_of_a_page(make_run: MakeRun, capsys: pytest.CaptureFixture[str]) -> None:
    """A page with another name is refused and no file is written. `--reports` needs a page as well."""
    make_run("job", "aaaa1111")
    for given, offered in (("runs.txt", "runs.html"), (".", "runs.html"), ("/", "/runs.html")):
        assert main(["ls", "-o", given]) == 2
        assert f"name it {offered}" in capsys.readouterr().err
    assert main(["ls", "--reports"]) == 2
    assert "--html FILE" in capsys.readouterr().err
    assert not Path("runs.txt").exists()


def test_a_failed_run_says_why(make_run: MakeRun, capsys: pytest.CaptureFixture[str]) -> None:
    """The exception that its program recorded; the exit code is that of the command."""
    marks = [MarkStat(text="KeyError: 'shard'", time_ns=5), MarkStat(text="saved", time_ns=9)]
    changed(make_run("job", "aaaa1111"), command=CommandFacts(argv=["x"], exit_code=1), marks=marks)
    assert main(["ls", "--json"]) == 0
    (item,) = json.loads(capsys.readouterr().out)
    assert (item["failed"], item["failure"]) == (True, "KeyError: 'shard'")
    assert main(["ls"]) == 0
    assert "failed: KeyError: 'shard'" in capsys.readouterr().out


def test_a_program_that_failed_without_a_command_says_why(
    make_run: MakeRun, capsys: pytest.CaptureFixture[str]
) -> None:
    """A failed program without a command shows its exception, or what is known of its process."""
    directory = make_run("job", "aaaa1111")
    changed(directory, reason="the program failed: process 7 was killed, or ended without finish()")
    assert main(["ls", "--json"]) == 0
    (item,) = json.loads(capsys.readouterr().out)
    assert (item["failed"], item["failure"]) == (True, "process 7 was killed, or ended without finish()")
    changed(directory, reason="the program failed", marks=[MarkStat(text="ValueError: boom", time_ns=5)])
    assert main(["ls"]) == 0
    assert "failed: ValueError: boom" in capsys.readouterr().out


def test_a_failed_gate_gives_the_exit_code(make_run: MakeRun, capsys: pytest.CaptureFixture[str]) -> None:
    """The command exited with 0, `telemetry run` with 99."""
    directory = make_run("job", "aaaa1111")
    changed(directory, command=CommandFacts(argv=["x"], exit_code=0))
    write_gates(directory.path, [GateResult(expression="e", outcome="fail", reason="r")])
    assert main(["ls"]) == 0
    row = capsys.readouterr().out.splitlines()[1].split()
    assert row[2:6] == ["complete,", "gate", "failed", "99"]


def changed(directory: RunDirectory, **facts: Any) -> None:
    """Write the result of a run again, with other facts."""
    write_final(replace(read_final(directory.final), **facts), [directory.final])

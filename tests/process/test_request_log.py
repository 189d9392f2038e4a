"""The request log of real runs: what the program saw, once, whoever is killed."""

from __future__ import annotations

import csv
import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars
import pytest
from tests.process import leaves
from tests.process.conftest import DEADLINE_S, Ground
from tests.process.request_truth import Line, log_lines

from telemetry.history.request_log import LoggedRequest, RequestLog, facts
from telemetry.store.request_log import FILE_NAME
from telemetry.store.run_directory import RunDirectory

LOAD = str(Path(__file__).parents[2] / "examples" / "llm_load.py")
SERVER = [*("--first-ms", "20"), *("--gap-ms", "2"), *("--tokens", "12"), *("--busy", "0.05"), *("--cut", "0.05")]
PACED = """
import os, sys, time, telemetry
run = telemetry.start("paced")
requests = run.requests("llm", expire_s=0.2)
print("up", flush=True)
made = 0
while not os.path.exists("go"):
    request = requests.issue(input_tokens=made)
    request.first()
    request.chunk(2)
    if made % 50 == 49:
        pass  # never ends, so it expires
    elif made % 5:
        request.complete(finish_reason="stop")
    else:
        request.fail("cut")
    made += 1
    time.sleep(0.001)
while requests.in_flight:
    time.sleep(0.01)
run.finish()
print(made, flush=True)
"""
FLOOD = """
import sys, telemetry
run = telemetry.start("flood")
requests = run.requests("llm")
for number in range(int(sys.argv[1])):
    requests.issue(input_tokens=number).complete(output_tokens=1)
run.finish()
"""
WaitUntil = Callable[..., Any]


def latest(ground: Ground) -> RunDirectory:
    return RunDirectory.open(ground.folder / "runs" / "latest")


def logged(directory: RunDirectory) -> list[LoggedRequest]:
    log = RequestLog(directory)
    found = list(log)
    assert log.damage == ""
    return found


def counters(final: dict[str, Any]) -> Counter[str]:
    """Value of each word, over all windows and reasons."""
    found: Counter[str] = Counter()
    for stat in final["counters"]:
        found[stat["name"].removeprefix("llm.")] += stat["value"]
    return found


def check_counts(found: list[LoggedRequest], final: dict[str, Any]) -> None:
    """Each request that ended is in the log, once, with the outcome that was counted."""
    outcomes = Counter(one.entry.outcome for one in found)
    words = counters(final)
    assert outcomes == {word: words[word] for word in ("completed", "failed", "expired") if words[word]}
    assert len({(one.producer, one.entry.number) for one in found}) == len(found)
    assert final["request_log"] == {"kept": len(found), "left_out": 0, "cap_bytes": 0}


# --- a whole run ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def load(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A load of three seconds that has ended, and the program's own lines."""
    ground = Ground()
    log = ground.folder / "log.jsonl"
    words = ["--rate", "100", "--seconds", "3", "--window", "warm:1", "--window", "rest:2", *SERVER]
    code, _, err = ground.run("run", "--name", "llm", "--", sys.executable, LOAD, "--log", str(log), *words)
    assert code == 0, err
    yield ground, [line for line in log_lines(log) if line["ended"] is not None]
    ground.close()


def check_line(entry: Any, line: Line) -> None:
    times = [time for time, _ in line["pieces"]]
    tokens = [count for _, count in line["pieces"]]
    assert (entry.issued_ns, entry.planned_ns, entry.ended_ns) == (line["issued"], line["planned"], line["ended"])
    assert entry.first_ns == (times[0] if times else None)
    assert entry.gaps_ns == [after - before for before, after in pairwise(times)]
    assert (entry.chunk_tokens or [1] * len(entry.gaps_ns)) == tokens[1:]
    assert entry.first_tokens == (tokens[0] if tokens else None)
    assert entry.outcome == ("completed" if line["reason"] is None else "failed")
    assert entry.reason == (line["reason"] or line["finish"] or "")
    assert entry.input_tokens == line["input_tokens"]


def test_the_log_has_what_the_program_saw(load: Any) -> None:
    """Every time, piece and token of every request, to the nanosecond; and as many as the counters say."""
    ground, lines = load
    found = logged(latest(ground))
    check_counts(found, ground.final())
    by_issue = {(one.entry.issued_ns, one.entry.ended_ns): one for one in found}
    assert len(by_issue) == len(found) == len(lines)
    for line in lines:
        one = by_issue[line["issued"], line["ended"]]
        check_line(one.entry, line)
        assert (one.kind, one.labels) == ("llm", {"window": line["window"]} if line["window"] else {})
    final = ground.final()
    for one in found:
        assert final["started_ns"] < one.entry.issued_ns + one.shift_ns < final["time_ns"]


def test_files_of_requests_have_the_programs_figures(load: Any) -> None:
    """The command writes all three forms; other programs read them and find the same latencies and gaps."""
    ground, lines = load
    names = ("r.csv", "r.jsonl", "r.parquet")
    code, out, err = ground.run("export", "latest", *(word for name in names for word in ("--requests", name)))
    assert (code, out) == (0, ""), err
    assert [line for line in err.splitlines() if "request" in line] == [
        f"telemetry: wrote {name}: {len(lines)} requests" for name in names
    ]
    expected = sorted(
        (line["ended"] - line["issued"], [b - a for (a, _), (b, _) in pairwise(line["pieces"])]) for line in lines
    )
    with (ground.folder / "r.csv").open() as file:
        rows = list(csv.DictReader(file))
    found = [(int(row["latency_ns"]), [int(gap) for gap in row["gaps_ns"].split(";") if gap]) for row in rows]
    assert sorted(found) == expected
    objects = [json.loads(line) for line in (ground.folder / "r.jsonl").read_text().splitlines()]
    assert sorted((one["latency_ns"], one["gaps_ns"]) for one in objects) == expected
    table = polars.read_parquet(ground.folder / "r.parquet")
    assert sorted(zip(table["latency_ns"].to_list(), table["gaps_ns"].to_list(), strict=True)) == expected


def test_a_replay_writes_the_same_log(load: Any) -> None:
    """A replay writes the same request log to the byte."""
    ground, _ = load
    code, _, err = ground.run("replay", "latest", "--speed", "max")
    assert code == 0, err
    (replayed,) = (ground.folder / "runs").glob("replay-of-llm-*")
    written = (replayed / "requests" / FILE_NAME).read_bytes()
    assert written == (latest(ground).requests / FILE_NAME).read_bytes()


def test_a_run_without_requests_has_no_log(ground: Ground) -> None:
    """The command says so, and what makes one."""
    program = ground.program("none.py", "import telemetry\nrun = telemetry.start('none')\nrun.counter('n').add()\n")
    code, _, err = ground.run("run", "--name", "none", "--", sys.executable, program)
    assert code == 0, err
    assert not latest(ground).requests.exists()
    assert ground.final()["request_log"] is None
    code, _, err = ground.run("export", "latest", "--requests", "r.csv")
    assert code != 0
    assert "the run has no request log" in err
    assert not (ground.folder / "r.csv").exists()


# --- faults --------------------------------------------------------------------------------------


class Paced:
    """A program with requests that complete, fail and expire, until it is told to end."""

    def __init__(self, ground: Any, endpoint: str) -> None:
        self._ground = ground
        program = ground.program("paced.py", PACED)
        self.child = ground.popen(sys.executable, program, environ={"TELEMETRY_ENDPOINT": endpoint})
        assert self.child.stdout.readline() == "up\n"

    def end(self) -> int:
        (self._ground.folder / "go").touch()
        out, err = self.child.communicate(timeout=DEADLINE_S)
        assert self.child.returncode == 0, err
        return int(out)


def kept(ground: Ground) -> int:
    code, out, err = ground.run("status", "job", "--json")
    assert code == 0, err
    stat = json.loads(out)["request_log"]
    return 0 if stat is None else int(stat["kept"])


def kill(child: subprocess.Popen[str]) -> None:
    child.send_signal(signal.SIGKILL)
    child.communicate()


def resume(ground: Any) -> subprocess.Popen[str]:
    child: subprocess.Popen[str] = ground.telemetry("serve", "--resume", "latest")
    assert child.stderr is not None
    said = [child.stderr.readline() for _ in range(2)]
    assert "TELEMETRY_ENDPOINT=" in said[-1], said
    return child


def wait_for(ground: Ground, wait_until: WaitUntil, more: int) -> None:
    seen = kept(ground)
    wait_until(lambda: kept(ground) >= seen + more, DEADLINE_S, "requests in the log")


def test_a_killed_aggregator_costs_the_log_nothing(ground: Any, wait_until: WaitUntil) -> None:
    """Killed twice in mid-run and resumed: each request is there once, and a replay makes the same file."""
    child, endpoint = ground.serve()
    paced = Paced(ground, endpoint)
    for _ in range(2):
        wait_for(ground, wait_until, 300)
        kill(child)
        child = resume(ground)
    wait_for(ground, wait_until, 100)
    made = paced.end()
    assert ground.run("stop", "job")[0] == 0
    child.communicate(timeout=DEADLINE_S)
    final = ground.final()
    assert (final["state"], final["completeness"]) == ("COMPLETE", "complete"), final["warnings"]
    found = logged(latest(ground))
    check_counts(found, final)
    assert sorted(one.entry.number for one in found) == list(range(len(found)))
    assert len(found) == made
    code, _, err = ground.run("replay", "latest", "--speed", "max")
    assert code == 0, err
    (replayed,) = (ground.folder / "runs").glob("replay-of-job-*")
    assert (replayed / "requests" / FILE_NAME).read_bytes() == (latest(ground).requests / FILE_NAME).read_bytes()


def test_recovery_makes_the_log_of_the_journal(ground: Any, wait_until: WaitUntil) -> None:
    """Aggregator and program are killed, and the end of the file is gone: the log has what the counters have."""
    child, endpoint = ground.serve()
    paced = Paced(ground, endpoint)
    wait_for(ground, wait_until, 500)
    kill(child)
    kill(paced.child)
    path = latest(ground).requests / FILE_NAME
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 3])
    code, _, err = ground.run("recover", "latest")
    assert code == 0, err
    final = ground.final()
    assert path.read_bytes().startswith(data)
    found = logged(latest(ground))
    assert final["request_log"] == {"kept": len(found), "left_out": 0, "cap_bytes": 0}
    assert len(found) >= 500
    assert sorted(one.entry.number for one in found) == list(range(len(found)))


def test_a_killed_program_leaves_the_requests_that_it_had_sent(ground: Any, wait_until: WaitUntil) -> None:
    """A killed program leaves its requests from the first on, without a gap, and each of them whole."""
    child, endpoint = ground.serve()
    paced = Paced(ground, endpoint)
    wait_for(ground, wait_until, 300)
    kill(paced.child)
    assert ground.run("stop", "job")[0] == 0
    child.communicate(timeout=DEADLINE_S)
    found = logged(latest(ground))
    assert sorted(one.entry.number for one in found) == list(range(len(found)))
    ended = [one.entry.input_tokens for one in found if one.entry.outcome != "expired"]
    assert ended == [number for number in range(ended[-1] + 1) if number % 50 != 49]
    assert all(len(one.entry.gaps_ns) == 1 for one in found)


def test_a_full_log_has_the_first_requests_and_says_so(ground: Any) -> None:
    """A full log costs the numbers nothing, and the run is complete.

    The report and the export name the cap and the numbers.
    """
    program = ground.program("flood.py", FLOOD)
    environ = {"TELEMETRY_RUN__REQUEST_LOG_CAP": "65536"}
    code, _, err = ground.run("run", "--", sys.executable, program, "5000", environ=environ)
    assert code == 0, err
    final = ground.final()
    assert final["completeness"] == "complete"
    assert counters(final)["completed"] == 5_000
    found = logged(latest(ground))
    assert [one.entry.number for one in found] == list(range(len(found)))
    assert 500 < len(found) < 2_500
    assert (latest(ground).requests / FILE_NAME).stat().st_size <= 65_536
    assert final["request_log"] == {"kept": len(found), "left_out": 5_000 - len(found), "cap_bytes": 65_536}
    has = f"the request log has the first {len(found):,} of 5,000 requests"
    said = f"{has}: it is full (run.request_log_cap, 64.0 KiB)"
    known = facts(latest(ground))
    assert known is not None
    assert known.reason == said
    assert said in json.loads(ground.run("report", "latest", "--json")[1])["findings"]
    assert said in ground.run("export", "latest", "--requests", "r.csv")[2]


def test_a_program_may_keep_its_requests_out_of_the_log(ground: Any) -> None:
    """A setting of the program keeps its requests out of the log, and the figures are the same."""
    program = ground.program("flood.py", FLOOD)
    environ = {"TELEMETRY_EMIT__REQUEST_LOG": "false"}
    code, _, err = ground.run("run", "--", sys.executable, program, "100", environ=environ)
    assert code == 0, err
    assert counters(ground.final())["completed"] == 100
    assert not latest(ground).requests.exists()


def test_the_log_stays_on_the_node(ground: Any) -> None:
    """Counters travel to the root; requests are in the log of the leaf that their program sends to."""
    nodes = leaves.Cluster(ground)
    root = nodes.root("--nodes", "gpu-1")
    leaf = nodes.leaf("gpu-1", root)
    program = ground.program("flood.py", FLOOD)
    child = ground.popen(sys.executable, program, "100", environ={"TELEMETRY_ENDPOINT": leaf.endpoint})
    _, err = child.communicate(timeout=DEADLINE_S)
    assert child.returncode == 0, err
    nodes.stop(leaf)
    root.wait()
    final = root.final()
    assert counters(final)["completed"] == 100
    assert final["request_log"] is None
    assert not (root.directory / "requests").exists()
    assert len(logged(RunDirectory.open(leaf.directory))) == 100

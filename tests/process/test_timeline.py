"""Trace files of real runs: each step's own spans, whatever happens to the writer."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.process.conftest import DEADLINE_S, Ground
from tests.process.leaves import Cluster
from tests.trace_checker import problems

STEPS = 30
RANKS = 3
SPANS = 4

RANK = f"""
import os, sys, time, telemetry
rank, pause_s = int(sys.argv[1]), float(sys.argv[2])
os.environ["RANK"] = str(rank)
with telemetry.start(f"rank-{{rank}}") as run:
    for step in range({STEPS}):
        for part in range({SPANS}):
            with run.span(f"part {{part}}", track="loop", step=step, flow_out=f"{{rank}}.{{step}}.{{part}}"):
                pass
        time.sleep(pause_s)
        run.log({{"loss": 1 / (step + 1)}}, step=step)
        run.end_step(step)
    run.mark("done")
"""
JOB = f"""
import subprocess, sys
ranks = [subprocess.Popen([sys.executable, sys.argv[1], str(rank), sys.argv[2]]) for rank in range({RANKS})]
sys.exit(max(rank.wait() for rank in ranks))
"""


def read(path: Path) -> dict[str, Any]:
    """Read a trace file that the checker has no objection to."""
    data = path.read_bytes()
    assert problems(data) == [], path
    return dict(json.loads(data))


def slices(whole: dict[str, Any]) -> list[dict[str, Any]]:
    return [event for event in whole["traceEvents"] if event["ph"] == "X" and event["cat"] == "span"]


def job(ground: Ground, pause_s: float = 0.0) -> list[str]:
    return [sys.executable, ground.program("job.py", JOB), ground.program("rank.py", RANK), str(pause_s)]


def check_steps(folder: Path, name: str = "timeline_step_{}.json") -> None:
    """Each file has the spans of its step, of all ranks, each once."""
    assert len(list(folder.glob("*step_*.json"))) == STEPS
    for step in range(STEPS):
        whole = read(folder / name.format(step))
        assert whole["otherData"]["step"] == step
        found = Counter((event["pid"], event["name"]) for event in slices(whole))
        assert set(found.values()) == {1}, f"step {step}: {found}"
        assert len(found) == RANKS * SPANS, f"step {step}: {found}"
        assert {event["args"]["step"] for event in slices(whole)} == {str(step)}


def test_each_step_has_a_file_of_its_own(ground: Ground) -> None:
    """Each step has a file in the folder that the user named. The file of the run has all steps and the marks."""
    code, _, err = ground.run("run", "--timeline-dir", "traces", "--strict", "--", *job(ground, 0.02))
    assert code == 0, err
    folder = ground.folder / "traces"
    check_steps(folder)
    whole = read(folder / "timeline.json")
    assert len(slices(whole)) == STEPS * RANKS * SPANS
    assert [event["name"] for event in whole["traceEvents"] if event["ph"] == "i"] == RANKS * ["done"]
    names = [event["args"]["name"] for event in whole["traceEvents"] if event["name"] == "process_name"]
    assert {name.partition(" (")[0] for name in names} == {"run", *(f"rank {n} · rank-{n}" for n in range(RANKS))}
    report = ground.final()
    durations = {stat["name"]: stat["count"] for stat in report["series"]}
    assert durations == {f"span.part {part}": STEPS * RANKS for part in range(SPANS)}


def test_an_empty_folder_means_no_files(ground: Ground) -> None:
    """Nor a writer."""
    code, _, err = ground.run("run", "--timeline-dir", "", "--", *job(ground))
    assert code == 0, err
    assert not (ground.folder / "runs" / "latest" / "backends").exists()


def test_a_writer_that_is_killed_loses_no_span(ground: Ground) -> None:
    """The next one goes on, and the files are those of an undisturbed writer."""
    child = ground.telemetry("run", "--to", "timeline", "--strict", "--", *job(ground, 0.1))
    status = ground.folder / "runs" / "latest" / "backends" / "timeline" / "status.json"
    killed: set[int] = set()
    deadline = time.monotonic() + DEADLINE_S
    while len(killed) < 2 and child.poll() is None:
        assert time.monotonic() < deadline
        pid = json.loads(status.read_bytes())["status"]["pid"] if status.exists() else 0
        steps = list((ground.folder / "runs" / "latest" / "timeline").glob("step_*.json"))
        if pid and pid not in killed and len(steps) > 3 * len(killed):
            os.kill(pid, signal.SIGKILL)
            killed.add(pid)
        time.sleep(0.05)
    _, err = child.communicate(timeout=DEADLINE_S)
    assert (child.returncode, len(killed)) == (0, 2), err
    folder = ground.folder / "runs" / "latest" / "timeline"
    check_steps(folder, "step_{}.json")
    assert len(slices(read(folder / "timeline.json"))) == STEPS * RANKS * SPANS


def test_a_finished_run_can_be_written_later(ground: Ground) -> None:
    """A finished run can be written later by the command `timeline` and by an export. The newest files are kept."""
    code, _, err = ground.run("run", "--", *job(ground, 0.01))
    assert code == 0, err
    code, out, err = ground.run("timeline", "latest", "-o", "-")
    assert code == 0, err
    assert problems(out.encode()) == []
    assert len(slices(json.loads(out))) == STEPS * RANKS * SPANS
    code, _, err = ground.run("export", "latest", "--to", "timeline:keep=5,dir=few")
    assert code == 0, err
    kept = sorted(int(path.stem.rpartition("_")[2]) for path in (ground.folder / "few").glob("*_step_*"))
    assert kept == list(range(STEPS - 5, STEPS))


LOAD = """
import telemetry, time
with telemetry.start("load") as run:
    requests = run.requests("llm")
    for number in range(4):
        one = requests.issue(planned=time.monotonic_ns() - 1_000_000)
        one.chunk()
        one.chunk()
        one.fail("http_503") if number == 3 else one.complete()
"""


SPANNING = """
import telemetry
with telemetry.start("worker") as run:
    with run.span("forward"):
        pass
"""


@pytest.mark.parametrize("sends_spans", [True, False])
def test_the_timeline_of_a_root(ground: Ground, sends_spans: bool) -> None:
    """Its processes have the names that they have on their nodes. Without spans, the error says how to get them."""
    cluster = Cluster(ground)
    root = cluster.root("--nodes", "2")
    settings = {"TELEMETRY_UPSTREAM__SPANS": str(sends_spans).lower(), "TELEMETRY_ENDPOINT": ""}
    program = ground.program("spanning.py", SPANNING)
    commands = [
        ground.telemetry(
            *("run", "--quiet", "--upstream", root.endpoint, "--node", node, "--", sys.executable, program),
            environ={**settings, "RANK": str(rank)},
        )
        for rank, node in enumerate("ab")
    ]
    for command in commands:
        _, err = command.communicate(timeout=DEADLINE_S)
        assert command.returncode == 0, err
    root.wait()
    code, _, err = ground.run("timeline", root.run_id, "-o", "root.json")
    if not sends_spans:
        assert code == 1
        assert "no timeline was written" in err
        assert "set upstream.spans = true on the leaves" in err
        return
    assert code == 0, err
    whole = read(ground.folder / "root.json")
    names = [event["args"]["name"] for event in whole["traceEvents"] if event["name"] == "process_name"]
    assert {name.partition(" (")[0] for name in names} == {"run", "rank 0 · worker", "rank 1 · worker"}
    assert [event["name"] for event in slices(whole)] == ["forward", "forward"]


def test_requests_have_a_track_for_each_slot(ground: Ground) -> None:
    """Requests of the request log have a track for each slot: queue, first output and the rest.

    A failed request is one slice with its reason.
    """
    code, _, err = ground.run("run", "--", sys.executable, ground.program("load.py", LOAD))
    assert code == 0, err
    assert ground.run("timeline", "latest", "-o", "run.json")[0] == 0
    whole = read(ground.folder / "run.json")
    names = Counter(event["name"] for event in slices(whole))
    assert names == {"queue": 4, "first output": 3, "receiving": 3, "failed": 1}
    assert [event["args"] for event in slices(whole) if event["name"] == "failed"] == [{"reason": "http_503"}]
    tracks = {event["args"]["name"] for event in whole["traceEvents"] if event["name"] == "thread_name"}
    assert {"slot 1", "slot 2"} <= tracks


def test_traces_of_a_profiler_are_on_the_same_clock(ground: Ground) -> None:
    """A slice that began with the run stands at its beginning."""
    code, _, err = ground.run("run", "--", *job(ground))
    assert code == 0, err
    started_ns = ground.final()["started_ns"]
    events = [{"ph": "X", "name": "aten::mm", "cat": "cpu_op", "pid": 9, "tid": 1, "ts": 250.0, "dur": 10.0}]
    trace = {"traceEvents": events, "baseTimeNanoseconds": started_ns, "distributedInfo": {"rank": 1}}
    (ground.folder / "rank1.json").write_text(json.dumps(trace))
    code, _, err = ground.run("timeline", "latest", "--merge", "rank1.json", "-o", "deep/all.json")
    assert code == 0, err
    whole = json.loads((ground.folder / "deep" / "all.json").read_bytes())
    [found] = [event for event in whole["traceEvents"] if event["name"] == "aten::mm"]
    assert (found["ts"], found["dur"]) == (250.0, 10.0)
    assert len(slices(whole)) == STEPS * RANKS * SPANS


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("timeline", "nothing"), "no run"),
        (("timeline", "latest"), "the run has no spans and no request log, so no timeline was written"),
        (("timeline", "latest", "--merge", "missing.json"), "can't read the trace"),
        (("export", "latest", "--to", "timeline:kepe=3"), "keep"),
    ],
)
def test_errors_name_what_is_wrong(ground: Ground, words: tuple[str, ...], message: str) -> None:
    """Errors say what is wrong before anything is written."""
    code, _, err = ground.run("run", "--quiet", "--", sys.executable, "-c", "")
    assert code == 0, err
    code, _, err = ground.run(*words)
    assert code != 0
    assert message in err
    assert not (ground.folder / "timeline.json").exists()

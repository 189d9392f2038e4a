"""The examples and the demo, as a reader would run them, only smaller."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
JOB = str(ROOT / "examples" / "multiprocess_job.py")
TRAINING = str(ROOT / "examples" / "training.py")
HTTP = str(ROOT / "examples" / "http_benchmark.py")
WORKERS, STEPS = 3, 200
SIZES = ["--workers", str(WORKERS), "--steps", str(STEPS)]


def check_job(final: dict[str, Any]) -> None:
    """One series and one counter of all workers, a gauge of each, and an account of each."""
    assert (final["state"], final["completeness"], final["exact"]) == ("COMPLETE", "complete", True)
    (steps,) = final["counters"]
    assert (steps["name"], steps["value"], steps["events"]) == ("steps_done", WORKERS * STEPS, WORKERS * STEPS)
    (step_time,) = final["series"]
    assert (step_time["name"], step_time["unit"], step_time["count"]) == ("step_time", "us", WORKERS * STEPS)
    assert step_time["min"] <= step_time["percentiles"]["50"] <= step_time["percentiles"]["99"] <= step_time["max"]
    assert sorted(gauge["labels"]["rank"] for gauge in final["gauges"]) == ["0", "1", "2"]
    assert final["progress"] == [{"name": "steps_done", "done": WORKERS * STEPS, "total": WORKERS * STEPS}]
    assert final["params"] == {"workers": WORKERS, "steps": STEPS}
    assert len(final["producers"]) == WORKERS + 1
    assert {producer["completeness"] for producer in final["producers"]} == {"complete"}
    ranks = [producer["rank"] for producer in final["producers"] if producer["rank"] is not None]
    assert sorted(ranks) == [0, 1, 2]
    account = final["accounting"]
    assert account["emitted"] == account["applied"] == 3 * WORKERS * STEPS + 2


def test_a_job_of_several_processes_by_itself(ground: Any) -> None:
    """A job of several processes starts an aggregator of its own, and ends with what was recorded."""
    job = ground.popen(sys.executable, JOB, *SIZES)
    out, err = job.communicate(timeout=90)
    assert (job.returncode, out) == (0, ""), err
    assert err.startswith("telemetry: job complete, ")
    assert len(err.splitlines()) == 2
    check_job(ground.final())


def test_a_job_of_several_processes_under_run(ground: Any) -> None:
    """The same numbers, with the bill of the command."""
    code, out, err = ground.run("run", "--name", "job", "--", sys.executable, JOB, *SIZES)
    assert code == 0, err
    assert "complete: job, " in err
    assert out == ""
    assert err.count(": job, ") == 1, "there is one report"
    final = ground.final()
    check_job(final)
    assert final["command"]["exit_code"] == 0
    assert final["command"]["cpu_user_s"] > 0


def test_a_training_loop_of_several_ranks(ground: Any) -> None:
    """Each step is one record of all ranks, and it learns; what belongs to a step comes along with it."""
    steps, ranks = 300, 2
    sizes = ["--ranks", str(ranks), "--steps", str(steps), "--eval-every", "100"]
    job = ground.popen(sys.executable, TRAINING, *sizes, environ={"OPENBLAS_NUM_THREADS": "1"})
    out, err = job.communicate(timeout=90)
    assert (job.returncode, out) == (0, ""), err
    assert err.startswith("telemetry: training complete, ")
    [log] = (ground.folder / "runs" / "latest" / "records").iterdir()
    said = [json.loads(line) for line in log.read_text().splitlines()[1:]]
    train, judged = (
        {record["step"]: record for record in said if record["type"] == "step" and record["axis"] == axis}
        for axis in ("train", "eval")
    )
    assert list(train) == list(range(steps))
    assert {record["producers"] for record in train.values()} == {ranks}
    closed = [record["closed"] for record in train.values()]
    corrected = closed.count("late")  # the first steps do not wait for a rank that has not logged yet
    assert closed == ["late"] * corrected + ["ended"] * (steps - corrected)
    assert corrected < steps
    assert {record["values"]["samples"] for record in train.values()} == {ranks * 128}
    assert train[0]["values"]["loss"] > 0.5 > train[steps - 1]["values"]["loss"]
    assert list(judged) == [99, 199, 299]
    assert judged[299]["values"]["accuracy"] > 0.75
    spans = [record["track"] for record in said if record["type"] == "span"]
    assert {track: spans.count(track) for track in spans} == {"rank 0": 3 * steps, "rank 1": 3 * steps}
    for kind in ("table", "bins", "artifact"):
        assert [record["step"] for record in said if record["type"] == kind] == [99, 199, 299]
    pictures = [Path(record["uri"]) for record in said if record["type"] == "artifact"]
    assert all(picture.read_bytes().startswith(b"\x89PNG") for picture in pictures)


def check_http(final: dict[str, Any], requests: int, connections: int) -> None:
    """Every request is in one of two latency series, in the counter and in the progress."""
    assert (final["state"], final["completeness"], final["exact"]) == ("COMPLETE", "complete", True)
    counters = {counter["name"]: counter["value"] for counter in final["counters"]}
    assert counters["requests"] == requests
    latency = {series["labels"]["route"]: series for series in final["series"] if series["name"] == "latency"}
    assert sorted(latency) == ["/fast", "/slow"]
    assert latency["/slow"]["count"] == (requests + 3) // 4
    assert latency["/fast"]["count"] + latency["/slow"]["count"] == requests
    assert latency["/slow"]["percentiles"]["50"] > latency["/fast"]["min"] > 0
    (body,) = (series for series in final["series"] if series["name"] == "body")
    assert (body["unit"], body["count"]) == ("B", requests)
    assert 200 <= body["min"] <= body["max"] < 2_000
    assert final["progress"] == [{"name": "requests", "done": requests, "total": requests}]
    assert final["params"] == {"requests": requests, "connections": connections}
    assert [mark["text"] for mark in final["marks"]] == ["load begins", "load ends"]
    (gauge,) = final["gauges"]
    assert (gauge["name"], gauge["value"], gauge["max"]) == ("connections", 0, connections)


def test_the_http_benchmark_by_itself(ground: Any) -> None:
    """A program that ends without a word leaves a whole result on disk."""
    program = ground.popen(sys.executable, HTTP, "--requests", "200", "--connections", "4")
    _, err = program.communicate(timeout=90)
    assert program.returncode == 0, err
    check_http(ground.final(), 200, 4)


@pytest.mark.parametrize("where", [[], ["--dir", "elsewhere"]])
def test_the_demo(ground: Any, where: list[str]) -> None:
    """One command from nothing to a report; stdout stays empty."""
    code, out, err = ground.run("demo", "--requests", "300", *where)
    assert (code, out) == (0, ""), err
    assert "complete: demo, " in err
    for word in ("latency", "route=/slow", "requests", "p99"):
        assert word in err, word
    tried = err.partition("Try next:")[2]
    commands = [line.strip() for line in tried.splitlines() if line.strip() and "#" not in line]
    assert len(commands) == 3
    for command in commands:
        done = ground.popen("sh", "-c", command.replace(" top ", " top --plain "))
        said, trouble = done.communicate(timeout=60)
        if " gate " in command:  # a machine under load may miss the limit
            assert said.startswith(("pass: ", "fail: ", "inconclusive: "))
        else:
            assert done.returncode == 0, (command, trouble)
    assert "<html" in (ground.folder / "demo.html").read_text()
    root = ground.folder / (where[1] if where else "runs")
    final = json.loads((root / "latest" / "final_snapshot.json").read_text())
    check_http(final, 300, 16)
    assert final["command"]["argv"][1:] == [
        *("-P", "-m", "telemetry.cli.demo.http_benchmark"),
        *("--requests", "300", "--connections", "16"),
    ]


def test_the_example_is_the_demo() -> None:
    """The example that a reader opens is the demo that runs."""
    assert Path(HTTP).resolve().read_text() == (ROOT / "src/telemetry/cli/demo/http_benchmark.py").read_text()

"""`telemetry calibrate` and `telemetry compare` over runs that were really made."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

PROGRAM = """
import sys, telemetry
run = telemetry.start("x")
latency = run.series("latency", unit="ms")
for value in range(1, 101):
    latency.record(value * float(sys.argv[1]))
print("some result")
"""
ROOT = Path(__file__).parents[2]


def test_calibrate_repeats_a_command_and_compare_uses_what_it_found(ground: Any) -> None:
    """The noise of three runs that are the same, then one that is twice as slow: no verdict, but beyond noise."""
    program = ground.program("job.py", PROGRAM)
    code, out, err = ground.run(
        "calibrate", "--runs", "3", "--name", "bench", "--json", "--", sys.executable, program, "1"
    )
    assert code == 0, err
    calibration = json.loads(out)
    assert (calibration["name"], calibration["runs"]) == ("bench", 3)
    assert len(calibration["directories"]) == 3
    assert all((ground.folder / "runs" / name).is_dir() for name in calibration["directories"])
    found = {(m["of"], m["statistic"]): m for m in calibration["metrics"]}
    assert found["series", "p50"]["values"] == [50.0] * 3
    assert found["series", "p50"]["cv"] == 0
    assert ("series", "p99") not in found
    assert found["command", "wall"]["cv"] > 0
    (path,) = (ground.folder / "runs" / "calibrations").glob("bench-*.json")
    assert json.loads(path.read_text()) == calibration
    assert err.count("some result") == 3
    assert "run 3 of 3" in err
    code, _, err = ground.run("run", "--quiet", "--name", "slow", "--", sys.executable, program, "2")
    assert code == 0, err
    code, out, err = ground.run("compare", "bench", "--last", "1", "--vs", "slow", "--json", "--fail-on", "worse")
    assert code == 3, err
    comparison = json.loads(out)
    assert comparison["calibration"] == "bench"
    (p50,) = [m for m in comparison["metrics"] if (m["of"], m["statistic"]) == ("series", "p50")]
    assert (p50["verdict"], p50["difference"], p50["noise"]["exceeded"]) == ("differs", 1.0, True)
    assert p50["before_within"]["low"] < 50 < p50["before_within"]["high"]


def test_runs_by_turns_are_compared_as_pairs(ground: Any) -> None:
    """Values 20 % larger in every one of five runs are called worse, with exit code 99, on every form."""
    program = ground.program("job.py", PROGRAM)
    for number in range(5):
        for name, factor in (("old", 1), ("new", 1.2)):
            value = str(factor * (1 + number / 1000))
            code, _, err = ground.run("run", "--quiet", "--name", name, "--", sys.executable, program, value)
            assert code == 0, err
    words = ("compare", "old", "--vs", "new", "--metric", "latency:p50", "--fail-on", "worse")
    code, out, err = ground.run(*words, "--json")
    assert code == 99, err
    (p50,) = json.loads(out)["metrics"]
    assert (p50["verdict"], p50["method"]) == ("worse", "pairs")
    assert p50["difference"] == pytest.approx(0.2, rel=0.01)
    code, out, _ = ground.run(*words)
    assert (code, out.splitlines()[0]) == (99, "worse: 1 figure, 5 runs against 5")
    code, _, _ = ground.run(*words, "-o", "c.html")
    assert code == 99
    assert (ground.folder / "c.html").read_text().startswith("<!DOCTYPE html>")


REQUESTS = """
import sys, time, telemetry
with telemetry.start("load") as run:
    llm = run.requests("llm")
    for window in ("w1", "w2"):
        with run.tracking(window):
            for number in range(10):
                with llm.issue(conversation="c") as request:
                    time.sleep(0.001)
                    request.chunk(tokens=2)
                    request.chunk()
            time.sleep(0.05)
"""


def test_requests_are_compared_by_the_rates_of_the_report(ground: Any) -> None:
    """Requests are compared by the report's rates, to the last digit, and by the names printed there.

    A name without figures is an error, and a figure named by --metric is shown even if two runs can't tell whether
    it differs.
    """
    program = ground.program("load.py", REQUESTS)
    for name in ("old", "new"):
        code, _, err = ground.run("run", "--quiet", "--name", name, "--", sys.executable, program)
        assert code == 0, err
    code, out, err = ground.run("compare", "old", "--vs", "new", "--json", "--metric", "llm.*:rate")
    assert code == 0, err
    found = {
        (metric["name"], metric["labels"]["window"]): (metric["before"], metric["after"])
        for metric in json.loads(out)["metrics"]
    }
    shown = []
    for name in ("old", "new"):
        code, out, err = ground.run("report", name, "--json")
        assert code == 0, err
        (kind,) = json.loads(out)["requests"]
        shown.append({part["window"]: part["rates"]["overall"] for part in kind["windows"]})
    assert found == {
        (f"llm.{word}", window): tuple(rates[window][field] for rates in shown)
        for word, field in (("latency", "requests_per_s"), ("output_tokens", "tokens_per_s"))
        for window in ("w1", "w2")
    }
    printed = "llm.latency{window=w1}"
    code, out, err = ground.run("compare", "old", "--vs", "new", "--metric", printed)
    assert code == 0, err
    assert printed in out, "whether their bounds overlap or not"
    assert "w2" not in out
    code, out, err = ground.run("compare", "old", "--vs", "new", "--metric", "llm.latncy{window=w1}:p50")
    assert (code, out) == (2, "")
    assert "did you mean llm.latency{window=w1}:p50" in err


def test_a_command_that_fails_ends_a_calibration_with_its_code(ground: Any) -> None:
    """A command that fails ends the calibration the first time, and nothing is stored."""
    code, out, err = ground.run(
        "calibrate", "--runs", "5", "--name", "bad", "--", "sh", "-c", "echo why >&2; exit 7"
    )
    assert (code, out) == (7, "")
    assert err.count("why") == 1
    assert "run 1 of 5 exited with code 7; no calibration was written" in err
    assert not (ground.folder / "runs" / "calibrations").exists()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_calibration_that_is_ended_ends_its_command(ground: Any, wait_until: Any, number: int, code: int) -> None:
    """The run leaves its result, nothing goes on, and no calibration is made of a part."""
    child = ground.telemetry(
        "calibrate", "--name", "long", "--", "sh", "-c", "echo $$ > pid; exec sleep 60", start_new_session=True
    )
    pid = ground.folder / "pid"
    wait_until(lambda: pid.exists() and pid.read_text().strip(), what="the command")
    if number == signal.SIGINT:
        os.killpg(child.pid, number)  # as a terminal does it
    else:
        child.send_signal(number)
    _, err = child.communicate(timeout=60)
    assert child.returncode == code, err
    assert not Path(f"/proc/{pid.read_text().strip()}").exists()
    assert ground.final()["command"]["signal"] == signal.Signals(number).name
    assert not (ground.folder / "runs" / "calibrations").exists()


def test_the_benchmark_of_comparisons_runs() -> None:
    """The benchmark with `--tiny` does all its work once and prints its table. The figures mean nothing."""
    command = [sys.executable, "-m", "benchmarks.compare", "--tiny"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode in (0, 1), done.stderr
    assert "10 % more work: found" in done.stdout

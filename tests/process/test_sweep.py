"""`telemetry sweep` and `telemetry curve` with real programs, and parameters of single runs."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
from typing import Any

import pytest

pytestmark = pytest.mark.timeout(300)

LOAD = """
import sys, time, telemetry
users = int(sys.argv[1])
if users == int(sys.argv[2]):
    sys.exit(7)
with telemetry.start("load") as run:
    kind = run.requests("chat", slo="e2el:50")
    for number in range(400):
        request = kind.issue(at_ns=(at := time.monotonic_ns()) - (60 if users == 8 else 5) * 1_000_000)
        request.complete(at_ns=at)
        time.sleep(0.001 / users)
"""
ENVIRON = """
import os, telemetry
run = telemetry.start("env")
run.gauge("size").set(float(os.environ["TELEMETRY_PARAM_SIZE"]))
"""
SLOW = """
import sys, time, telemetry
run = telemetry.start("slow")
run.counter("begun").add(1)
print("begun", flush=True)
time.sleep(0.01 if sys.argv[1] == "1" else 300)
"""
DEADLINE_S = 60.0


def test_three_points_with_a_failing_one(ground: Any) -> None:
    """Each point is a run with its parameter; the failing one is reported and the sweep goes on."""
    program = ground.program("load.py", LOAD)
    words = (
        "sweep",
        "--name",
        "load",
        "--param",
        "users=1,2,8",
        "--json",
        "--",
        sys.executable,
        program,
        "{users}",
        "2",
    )
    code, out, err = ground.run(*words)
    assert code == 1, err
    sweep = json.loads(out)
    assert [point["params"] for point in sweep["points"]] == [{"users": 1}, {"users": 2}, {"users": 8}]
    assert [point["verdict"] for point in sweep["points"]] == ["pass", "failed", "fail"]
    assert sweep["points"][1]["reason"] == "exit code 7"
    assert sweep["knee"]["params"] == {"users": 1}
    assert (sweep["flavour"], sweep["subject"], sweep["slo"]) == ("load", "chat", "e2el:50ms")
    assert "run 2 of 3: users = 2" in err
    assert "users = 2: nothing recorded" in err
    assert "command failed: exit code 7" in err
    assert "fail: attainment below 99 %" in err
    first = json.loads(ground.run("report", sweep["points"][0]["runs"][0]["run_id"], "--json")[1])
    assert first["params"] == {"users": 1, "slo.chat": "e2el:50ms"}

    code, out, err = ground.run("curve", "load")
    assert code == 0, err
    assert out.startswith("knee: users = 1 with ")
    assert re.findall(r"^  (\d+) {2,}", out, re.MULTILINE) == ["1", "2", "8"]
    code, out, err = ground.run("curve", "load", "--by", "user")
    assert (code, out) == (2, "")
    assert "did you mean users?" in err


def test_resume_runs_only_what_is_missing(ground: Any) -> None:
    """A complete run counts; a failed one is made again."""
    program = ground.program("load.py", LOAD)
    words = ("sweep", "--name", "load", "--param", "users=1,2", "--json", "--", sys.executable, program, "{users}")
    code, out, err = ground.run(*words, "2")
    assert code == 1, err
    before = [point["runs"][0]["run_id"] for point in json.loads(out)["points"]]
    code, out, err = ground.run("sweep", "--resume", *words[1:], "0")
    assert code == 0, err
    after = [point["runs"][0]["run_id"] for point in json.loads(out)["points"]]
    assert after[0] == before[0]
    assert after[1] != before[1]
    assert "users = 1, done before" in err


@pytest.mark.parametrize("flag", ["--strict", "--stop-on-fail"])
def test_a_failure_can_end_the_sweep(flag: str, ground: Any) -> None:
    """`--strict` after a failed command, `--stop-on-fail` after a run out of its limits."""
    program = ground.program("load.py", LOAD)
    failing = "8" if flag == "--strict" else "0"
    command = (sys.executable, program, "{users}", failing)
    code, out, err = ground.run("sweep", flag, "--param", "users=1,8,2", "--json", "--", *command)
    assert code == (7 if flag == "--strict" else 0), err
    sweep = json.loads(out)
    assert [point["params"]["users"] for point in sweep["points"]] == [1, 8]


def test_the_environment_has_the_values(ground: Any) -> None:
    """The environment has the values as they were written.

    The flag `--env` says that the command reads them, and `{NAME}` names the runs.
    """
    program = ground.program("env.py", ENVIRON)
    words = (
        "sweep",
        "--param",
        "size=1e1,20",
        "--env",
        "--name",
        "s{size}",
        "--json",
        "--",
        sys.executable,
        program,
    )
    code, out, err = ground.run(*words)
    assert code == 0, err
    sweep = json.loads(out)
    assert [point["params"]["size"] for point in sweep["points"]] == [10.0, 20]
    assert [point["figures"]["size"]["value"] for point in sweep["points"]] == [10.0, 20.0]
    assert [point["runs"][0]["name"] for point in sweep["points"]] == ["s1e1", "s20"]


def test_an_interrupted_sweep_reports_what_is_there(ground: Any) -> None:
    """SIGINT ends the run, which has its result, and then the sweep."""
    program = ground.program("slow.py", SLOW)
    child = ground.telemetry("sweep", "--param", "n=1,2,3", "--json", "--", sys.executable, program, "{n}")
    assert child.stderr is not None
    begun, lines = 0, []
    while begun < 2:
        line = child.stderr.readline()
        assert line, lines
        lines.append(line)
        begun += line == "begun\n"
    os.kill(child.pid, signal.SIGINT)
    out, err = child.communicate(timeout=DEADLINE_S)
    assert child.returncode == 130, err
    sweep = json.loads(out)
    assert [point["params"]["n"] for point in sweep["points"]] == [1, 2]
    assert sweep["points"][1]["verdict"] == "failed"
    assert "the sweep was stopped" in err
    assert ground.live() == []


def test_a_command_that_does_not_exist_ends_the_sweep(ground: Any) -> None:
    """A command that does not exist ends the sweep, because it would fail for each value.

    A usage error of a run ends it too.
    """
    code, _, err = ground.run("sweep", "--param", "n=1,2", "--", "no-such-program", "{n}")
    assert code == 127
    assert "run 2 of 2" not in err
    code, out, err = ground.run("sweep", "--param", "n=1,2", "--gate", "p99(", "--", "true", "{n}")
    assert (code, out) == (2, "")
    assert "run 2 of 2" not in err


def test_a_parameter_survives_the_aggregator(ground: Any) -> None:
    """A recovered run has its parameters, because the journal has them from the first moment on."""
    child, _ = ground.serve("--param", "users=4", "--param", "mode=fast")
    deadline = time.monotonic() + DEADLINE_S
    while not (live := ground.live()):
        assert time.monotonic() < deadline
    child.kill()
    child.wait()
    code, _, err = ground.run("recover", live[0]["run_id"])
    assert code == 0, err
    assert ground.final("latest")["params"] == {"users": 4, "mode": "fast"}


def test_run_refuses_a_parameter_without_a_value(ground: Any) -> None:
    """The command `run` refuses a parameter without a value before anything is started."""
    code, _, err = ground.run("run", "--param", "users", "--", "true")
    assert code == 2
    assert "'users' is not a parameter with a value" in err
    assert not (ground.folder / "runs").exists()

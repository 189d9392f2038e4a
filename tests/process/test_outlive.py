"""Producers that record longer than the command, the program or the run they belong to."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from typing import Any

from tests.processes import KILLED

WORKER = """
import os, sys, time
import telemetry

name, until_s = sys.argv[1], float(sys.argv[2])
run = telemetry.start(name)
value = run.series("value", unit="1", who=name)
count, end_at = 0, time.monotonic() + until_s
while time.monotonic() < end_at and not os.path.exists("enough"):
    value.record(count)
    count += 1
    if count == 1:
        open(f"{name}.pid", "w").write(str(os.getpid()))
    time.sleep(0.002)
run.finish(timeout=10)
open(f"{name}.count", "w").write(str(count))
"""
"""Records 0, 1, 2, … for so many seconds under a name of its own; says how many when it has finished."""

LAUNCHER = """
import os, subprocess, sys, time
apart = "apart" in sys.argv
workers = dict(word.split("=") for word in sys.argv[1:] if "=" in word)
for name, until_s in workers.items():
    command = [sys.executable, "worker.py", name, until_s]
    subprocess.Popen(command, start_new_session=apart, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
while not all(os.path.exists(f"{name}.pid") for name in workers):
    time.sleep(0.01)
if "killed" in sys.argv:
    os.kill(os.getpid(), 9)
"""
"""Starts workers and leaves once each of them records."""


def launch(ground: Any, *words: str, flags: tuple[str, ...] = (), **options: Any) -> subprocess.Popen[str]:
    """`telemetry run` around a launcher of the workers `NAME=SECONDS`."""
    ground.program("worker.py", WORKER)
    launcher = ground.program("launcher.py", LAUNCHER)
    child: subprocess.Popen[str] = ground.telemetry(
        "run", "--name", "job", *flags, "--", sys.executable, launcher, *words, **options
    )
    return child


def recorded(ground: Any, name: str) -> int:
    """Return how many values a finished worker recorded."""
    return int((ground.folder / f"{name}.count").read_text())


def in_result(ground: Any, name: str) -> int:
    """Return how many values of a worker are in the result, and check that they are its first ones."""
    (series,) = (one for one in ground.final()["series"] if one["labels"]["who"] == name)
    count = int(series["count"])
    assert series["total"] == count * (count - 1) // 2
    return count


def test_workers_that_outlive_the_command_are_waited_for(ground: Any) -> None:
    """All that they record until they finish is in the result, which is complete; who is waited for is said."""
    wrapper = launch(ground, "a=2.5", "b=2", flags=("--strict", "--gate", "lost == 0"))
    _, err = wrapper.communicate(timeout=60)
    assert wrapper.returncode == 0, err
    pids = {name: (ground.folder / f"{name}.pid").read_text() for name in "ab"}
    said = re.findall("waiting up to .*", err)
    assert len(said) == 1, err
    assert sorted(re.findall(r"(\w) \(pid (\d+)\)", said[0])) == sorted(pids.items())
    assert said[0].startswith("waiting up to 10 s for 2 workers still recording: ")
    assert ground.final()["completeness"] == "complete"
    assert [in_result(ground, name) for name in "ab"] == [recorded(ground, name) for name in "ab"]


def test_workers_of_a_killed_command_that_outlive_the_grace_are_named(ground: Any, wait_until: Any) -> None:
    """The result lacks what they record afterwards: it is incomplete, and says of whom."""
    flags = ("--strict", "--gate", "lost == 0", "--worker-grace", "1")
    wrapper = launch(ground, "a=60", "b=60", "killed", "apart", flags=flags)
    _, err = wrapper.communicate(timeout=60)
    assert wrapper.returncode == 128 + signal.SIGKILL, err
    final = ground.final()
    assert (final["state"], final["completeness"]) == ("COMPLETE", "incomplete")
    assert "incomplete: job" in err
    assert "2 of 2 producers were still recording" in err
    assert [(one["unfinished"], one["completeness"]) for one in final["producers"]] == [(True, "incomplete")] * 2
    for name in "ab":
        pid = (ground.folder / f"{name}.pid").read_text()
        assert any(f"{name} (pid {pid})" in warning for warning in final["warnings"])
    assert any("events recorded afterwards are not in the result" in warning for warning in final["warnings"])
    assert "lost == 0" in err
    assert "inconclusive" in err
    (ground.folder / "enough").touch()
    wait_until((ground.folder / "b.count").exists, 30.0, "the end of the last worker")
    wait_until((ground.folder / "a.count").exists, 30.0, "the end of the other worker")
    assert all(0 < in_result(ground, name) <= recorded(ground, name) for name in "ab")


def test_a_worker_that_is_killed_in_the_grace_does_not_cost_all_of_it(ground: Any, wait_until: Any) -> None:
    """The run does not wait for a process of this host that is dead."""
    wrapper = launch(ground, "a=60", flags=("--worker-grace", "40"))
    lines = iter(wrapper.stderr.readline, "")  # type: ignore[union-attr]
    assert any("waiting up to 40 s for 1 worker still recording: a (pid" in line for line in lines)
    os.kill(int((ground.folder / "a.pid").read_text()), signal.SIGKILL)
    begun = time.monotonic()
    _, err = wrapper.communicate(timeout=60)
    assert time.monotonic() - begun < 20
    assert wrapper.returncode == 0, err
    (producer,) = ground.final()["producers"]
    assert (producer["completeness"], producer["unfinished"]) == (KILLED, False)


def test_a_worker_that_comes_in_the_grace_is_waited_for_as_well(ground: Any, wait_until: Any) -> None:
    """The run also waits for a worker that said hello while the run waited for others."""
    wrapper = launch(ground, "a=60", flags=("--worker-grace", "40"))
    lines = iter(wrapper.stderr.readline, "")  # type: ignore[union-attr]
    assert any("waiting up to 40 s" in line for line in lines)
    (live,) = ground.live()
    late = ground.popen(sys.executable, "worker.py", "late", "3", environ={"TELEMETRY_ENDPOINT": live["endpoint"]})
    wait_until((ground.folder / "late.pid").exists, 30.0, "another worker")
    first = int((ground.folder / "a.pid").read_text())
    os.kill(first, signal.SIGKILL)
    late.communicate(timeout=60)
    _, err = wrapper.communicate(timeout=60)
    assert in_result(ground, "late") == recorded(ground, "late"), err
    assert {one["name"]: one["completeness"] for one in ground.final()["producers"]} == {
        "a": KILLED,
        "late": "complete",
    }


def test_a_signal_ends_the_waiting(ground: Any) -> None:
    """The report comes, and the exit code is the command's."""
    wrapper = launch(ground, "a=60", flags=("--worker-grace", "50"))
    lines = iter(wrapper.stderr.readline, "")  # type: ignore[union-attr]
    assert any("waiting up to 50 s" in line for line in lines)
    begun = time.monotonic()
    wrapper.send_signal(signal.SIGTERM)
    _, err = wrapper.communicate(timeout=60)
    assert time.monotonic() - begun < 30
    assert wrapper.returncode == 0, err
    assert "incomplete: job" in err
    assert ground.final()["command"]["exit_code"] == 0
    (ground.folder / "enough").touch()


def test_a_run_that_is_stopped_under_its_producers_is_incomplete(ground: Any) -> None:
    """`telemetry stop` while a program goes on recording: whatever that adds is in no result, and that is said."""
    ground.program("worker.py", WORKER)
    server, endpoint = ground.serve("--strict")
    worker = ground.popen(sys.executable, "worker.py", "a", "60", environ={"TELEMETRY_ENDPOINT": endpoint})
    while not (ground.folder / "a.pid").exists():
        time.sleep(0.01)
    assert ground.run("stop", "job")[0] == 0
    _, err = server.communicate(timeout=60)
    assert server.returncode == 4, err
    assert "1 of 1 producer was still recording" in err
    assert f"a (pid {worker.pid}) was still recording when the run ended; events recorded afterwards" in err
    (ground.folder / "enough").touch()
    worker.communicate(timeout=60)
    assert recorded(ground, "a") >= in_result(ground, "a")
    assert json.loads(ground.run("report", "latest", "--json")[1])["completeness"] == "incomplete"


def test_a_program_that_finishes_before_its_children_has_an_incomplete_result(ground: Any) -> None:
    """The run ends with the program that started it, whoever else records."""
    ground.program("worker.py", WORKER)
    program = ground.program(
        "own.py",
        "import os, subprocess, sys, time, telemetry\n"
        "run = telemetry.start('own')\nrun.counter('n').add()\n"
        "child = subprocess.Popen([sys.executable, 'worker.py', 'a', '60'])\n"
        "while not os.path.exists('a.pid'): time.sleep(0.01)\n"
        "print(run.finish().headline())\nopen('enough', 'w').close()\nchild.wait()\n",
    )
    out, err = ground.popen(sys.executable, program).communicate(timeout=60)
    assert out.startswith("incomplete: own, "), err
    assert "1 of 2 producers was still recording" in out
    own, child = ground.final()["producers"]
    assert (own["completeness"], own["unfinished"]) == ("complete", False)
    assert (child["completeness"], child["unfinished"]) == ("incomplete", True)

"""The flight recorder of real commands: killed, failed, stalled, or asked from inside."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Any

from tests.process.conftest import Ground
from tests.trace_checker import problems

SLEWED_NS = 100_000_000
"""Most that the wall clock is adjusted during a test."""

KILLED = """
import os, signal, time, telemetry
run = telemetry.start("job")
steps, latency, depth = run.counter("steps"), run.series("latency", unit="ms", route="/a"), run.gauge("depth")
begun, number = time.monotonic(), 0
with open("truth.txt", "w") as truth:
    while time.monotonic() - begun < 4.0:
        number += 1
        with run.span("work", track="loop"):
            time.sleep(0.002)
        truth.write(f"{number} {time.time_ns()}\\n")
        latency.record(number)
        depth.set(-number)
        steps.add(number)
run.mark("the end is near", step="last")
time.sleep(0.5)
os.kill(os.getpid(), signal.SIGKILL)
"""

ASKING = """
import pathlib, sys, time, telemetry
run = telemetry.start("job")
errors = run.counter("errors")
def await_file(word):
    deadline = time.monotonic() + 30
    while not list(pathlib.Path("runs/latest/flight").glob(f"*-{word}.json")):
        assert time.monotonic() < deadline, word
        time.sleep(0.05)
        if word != "stall":
            errors.add(0)
errors.add(1)
telemetry.mark("loss is NaN", flight="dump")
await_file("mark")
errors.add(6)
await_file("gate")
await_file("stall")
run.finish()
sys.exit(3)
"""


def recordings(ground: Ground, err: str) -> dict[str, dict[str, Any]]:
    """Return the recordings by the word in their names. The checker accepts them, and a line names each."""
    found = {}
    for path in sorted((ground.folder / "runs" / "latest").resolve().glob("flight/*")):
        data = path.read_bytes()
        assert problems(data) == [], path
        word = path.stem.partition("-")[2]
        whole = json.loads(data)
        facts = whole["otherData"]
        line = f"telemetry: flight recording: {path} ({facts['reason']}, last {facts['seconds']:g} s)\n"
        assert line in err
        found[word] = whole
    assert err.count("flight recording: ") == len(found)
    return found


def values(whole: dict[str, Any], name: str) -> list[tuple[float, int]]:
    """Return values and times in Unix nanoseconds."""
    start_ns = whole["otherData"]["start_unix_ns"]
    return [
        (next(iter(one["args"].values())), start_ns + round(one["ts"] * 1_000))
        for one in whole["traceEvents"]
        if (one["ph"], one["name"]) == ("C", name)
    ]


def test_a_killed_command_leaves_its_last_seconds(ground: Ground) -> None:
    """Every value of them is there and equal to what the command recorded, and no older one is."""
    code, _, err = ground.run(
        "run", "--quiet", "--flight-recorder", "2s", "--", sys.executable, ground.program("job.py", KILLED)
    )
    assert code == 128 + signal.SIGKILL, err
    whole = recordings(ground, err)["killed"]
    assert whole["otherData"]["reason"] == "killed by SIGKILL"
    since_ns = whole["otherData"]["until_unix_ns"] - 2 * 10**9
    truth = [line.split() for line in (ground.folder / "truth.txt").read_text().splitlines()]
    expected = [int(number) for number, _ in truth]
    for name, sign in (("latency{route=/a} (ms)", 1), ("depth", -1), ("steps", 1)):
        recorded = values(whole, name)
        assert [value * sign for value, _ in recorded] == expected[-len(recorded) :], name
        assert all(time_ns >= since_ns - SLEWED_NS for _, time_ns in recorded), name
        missed = [number for number, time_ns in truth[: -len(recorded)] if int(time_ns) > since_ns + SLEWED_NS]
        assert (missed, len(recorded) < len(expected)) == ([], True), name
    spans = [one for one in whole["traceEvents"] if (one["ph"], one["name"]) == ("X", "work")]
    assert abs(len(spans) - len(values(whole, "depth"))) <= 1
    assert [one["args"] for one in whole["traceEvents"] if one["name"] == "the end is near"] == [{"step": "last"}]


def test_marks_gates_stalls_and_exit_codes_make_recordings(ground: Ground) -> None:
    """Marks, gates, stalls and exit codes make recordings while the command runs and at its end.

    The command's exit code stays.
    """
    program = ground.program("job.py", ASKING)
    words = ("--flight-recorder", "2", "--gate", "value(errors) < 5", "--quiet")
    code, _, err = ground.run("run", *words, "--", sys.executable, program)
    assert code == 3, err
    found = recordings(ground, err)
    assert {word: whole["otherData"]["reason"] for word, whole in found.items()} == {
        "mark": 'mark "loss is NaN"',
        "gate": "gate failed: value(errors) < 5",
        "stall": "no new event for 2 s",
        "failed": "exit code 3",
    }
    marks = [one["args"] for one in found["mark"]["traceEvents"] if one["name"] == "loss is NaN"]
    assert marks == [{"flight": "dump"}]
    assert 1.0 in [value for value, _ in values(found["mark"], "errors")]
    assert 6.0 in [value for value, _ in values(found["gate"], "errors")]
    assert values(found["stall"], "errors") != []


def test_an_aggregator_that_was_killed_costs_no_recording(ground: Ground) -> None:
    """The journal of a killed aggregator remains, and the next one goes on with it."""
    program = """
import json, os, pathlib, signal, sys, time, telemetry
run = telemetry.start("job")
x = run.series("x")
x.record(1.0)
time.sleep(0.5)
os.kill(json.loads(pathlib.Path("runs/latest/manifest.json").read_bytes())["pid"], signal.SIGKILL)
time.sleep(0.5)
x.record(2.0)
time.sleep(2.0)
sys.exit(1)
"""
    command = (sys.executable, ground.program("job.py", program))
    code, _, err = ground.run("run", "--quiet", "--flight-recorder", "1m", "--", *command)
    assert code == 1, err
    whole = recordings(ground, err)["failed"]
    assert [value for value, _ in values(whole, "x")] == [1.0, 2.0]


def test_a_recorder_without_a_journal_is_refused(ground: Ground) -> None:
    """A flight recorder without a journal is refused before anything is started."""
    code, _, err = ground.run("run", "--flight-recorder", "30s", "--no-journal", "--", "touch", "started")
    assert code == 2, err
    assert "--flight-recorder reads the journal, and the journal is off" in err
    assert not (ground.folder / "started").exists()
    assert not Path(ground.folder / "runs").exists()

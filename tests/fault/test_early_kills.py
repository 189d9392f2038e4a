"""SIGKILL of programs so early that their hello did not reach the aggregator: their rings are found all the same.

This needs the compiled recorder. Without a compiler at installation, nobody knows of these programs.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.ports import free_port

pytestmark = pytest.mark.usefixtures("native")

CHILDREN = 30
CHILD = """
import os, random, signal, sys, time, telemetry
chance = random.Random(sys.argv[1])
run = telemetry.start("parent")
record, calls = run.series("value", unit="1").record, run.counter("calls")
record(0)
calls.add()
print("up", flush=True)
sys.stdin.readline()
events = [chance.choice([1, 2, chance.randint(1, 20_000)]) for _ in range(int(sys.argv[2]))]
for many in events:
    child = os.fork()
    if child == 0:
        for number in range(many):
            record(number)
        calls.add(many)
        os.kill(os.getpid(), signal.SIGKILL)
    if chance.random() < 0.5:
        os.waitpid(child, 0)
print(events, flush=True)
sys.stdin.readline()
run.finish()
"""
LATE = """
import os, signal, sys, telemetry
record = telemetry.series("value", unit="1").record
for number in range(int(sys.argv[1])):
    record(number)
print("done", flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def rings(ground: Any) -> set[Path]:
    """The rings of all programs of this user, of other tests too."""
    folders = [Path(ground.environ["XDG_RUNTIME_DIR"]) / "telemetry", Path(f"/dev/shm/telemetry-{os.geteuid()}")]
    return {path for folder in folders for path in folder.glob("*.ring")}


def rings_of(ground: Any, pid: int) -> list[Path]:
    """The rings of a process."""
    found = []
    for path in rings(ground):
        try:
            head = path.read_bytes()[:64]
        except OSError:
            continue
        if int.from_bytes(head[48:56], "little") == pid:
            found.append(path)
    return found


def count_of(final: dict[str, Any]) -> int:
    """The number of values."""
    return sum(one["count"] for one in final["series"] if one["name"] == "value")


@pytest.mark.parametrize("is_stopped", [False, True])
def test_children_that_are_killed_at_once(
    ground: Any, faults: Any, chance: random.Random, is_stopped: bool
) -> None:
    """Dozens of forked children record and are killed, while the aggregator reads or is stopped: all that they
    committed is in the result, once."""
    aggregator, endpoint = ground.serve()
    parent = ground.popen(
        sys.executable,
        ground.program("children.py", CHILD),
        str(chance.random()),
        str(CHILDREN),
        environ={"TELEMETRY_ENDPOINT": endpoint},
        stdin=subprocess.PIPE,
    )
    assert parent.stdout.readline() == "up\n"
    if is_stopped:
        aggregator.send_signal(signal.SIGSTOP)
    parent.stdin.write("\n")
    parent.stdin.flush()
    events = json.loads(parent.stdout.readline())
    aggregator.send_signal(signal.SIGCONT)
    parent.stdin.close()
    assert parent.wait(60) == 0, parent.stderr.read()
    faults.stop(endpoint, aggregator)
    final = ground.final()
    faults.check_books(final)
    assert final["completeness"] == "complete"
    assert (count_of(final), final["counters"][0]["value"]) == (sum(events) + 1, sum(events) + 1)
    assert len(final["producers"]) == CHILDREN + 1
    assert final["accounting"]["missing"] == 0
    assert final["accounting"]["salvaged"] > 0


def test_a_run_that_goes_on_finds_them_within_seconds(
    ground: Any, crew: Any, faults: Any, chance: random.Random
) -> None:
    """A program that was killed while the aggregator was stopped. Then the aggregator dies; the journal has it."""
    aggregator, endpoint = ground.serve()
    events = chance.randint(1, 5_000)
    aggregator.send_signal(signal.SIGSTOP)
    program = kill_after(ground, endpoint, events)
    assert rings_of(ground, program.pid)
    aggregator.send_signal(signal.SIGCONT)
    crew.wait_until(lambda: faults.status(endpoint).accounting.applied == events, 60.0, "its events are there")
    assert not rings_of(ground, program.pid)
    (stat,) = faults.status(endpoint).producers
    assert (stat.pid, stat.status, stat.completeness, stat.salvaged) == (program.pid, "ended", "complete", events)
    aggregator.kill()
    aggregator.wait()
    assert ground.run("recover", "latest")[0] == 0
    final = ground.final()
    (stat,) = final["producers"]
    assert (count_of(final), stat["salvaged"], stat["completeness"]) == (events, events, "complete")


def kill_after(ground: Any, endpoint: str, events: int) -> subprocess.Popen[str]:
    """A program that has recorded so many events and was killed."""
    program: subprocess.Popen[str] = ground.popen(
        sys.executable, ground.program("late.py", LATE), str(events), environ={"TELEMETRY_ENDPOINT": endpoint}
    )
    assert program.stdout is not None
    assert program.stdout.readline() == "done\n", program.communicate()
    assert program.wait(60) == -signal.SIGKILL
    return program


def test_a_command_and_its_children_are_killed_at_once(ground: Any, chance: random.Random) -> None:
    """The command of `telemetry run` ends before anybody heard of its child."""
    events = chance.randint(1, 3_000)
    script = ground.program("late.py", LATE)
    code, _, err = ground.run("run", "--quiet", "--no-collect", "--", sys.executable, script, str(events))
    assert code == 128 + signal.SIGKILL, err
    final = ground.final()
    assert (count_of(final), final["completeness"]) == (events, "complete")


@pytest.mark.parametrize("kind", ["tcp", "ipc"])
def test_what_an_earlier_run_left_at_the_same_address_stays_there(
    ground: Any, crew: Any, faults: Any, chance: random.Random, kind: str
) -> None:
    """A run takes only what was meant for it. `localhost` is the same address as 127.0.0.1."""
    port = free_port()
    bind = f"tcp://127.0.0.1:{port}" if kind == "tcp" else f"ipc://{ground.folder}/own"
    aggregator, endpoint = ground.serve("--bind", bind)
    aggregator.send_signal(signal.SIGSTOP)
    earlier = kill_after(ground, endpoint, chance.randint(1, 100))
    aggregator.kill()
    aggregator.wait()
    (left,) = rings_of(ground, earlier.pid)
    before = left.read_bytes()
    aggregator, endpoint = ground.serve("--bind", bind)
    assert endpoint == bind
    aggregator.send_signal(signal.SIGSTOP)
    events = chance.randint(1, 100)
    kill_after(ground, f"tcp://localhost:{port}" if kind == "tcp" else endpoint, events)
    aggregator.send_signal(signal.SIGCONT)
    crew.wait_until(lambda: faults.status(endpoint).accounting.applied == events, 60.0, "its events are there")
    faults.stop(endpoint, aggregator)
    final = ground.final()
    assert (count_of(final), len(final["producers"]), final["completeness"]) == (events, 1, "complete")
    assert left.read_bytes() == before
    left.unlink()
    left.with_suffix(".defs").unlink()

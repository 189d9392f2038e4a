"""A root, leaves and producers as real processes, for tests of a run on several nodes."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

DEADLINE_S = 120.0

RECORDING = """
import os, sys, time, telemetry
name, stop, most = sys.argv[1], sys.argv[2], int(sys.argv[3])
run = telemetry.start(name)
n, part, level = run.counter("n"), run.counter("part"), run.gauge("level")
value = run.series("value", unit="ms")
print("up", flush=True)
made = 0
while made < most or (not most and not os.path.exists(stop)):
    for _ in range(20):
        n.add(1)
        part.add(0.5)
        value.record(made % 997 + 0.25)
        level.set(made)
        made += 1
    if made % 200 == 0:
        run.mark(f"{name} {made}")
        run.log({"loss": made}, step=made // 200)
        run.end_step(made // 200)
    time.sleep(0.002)
run.finish()
print(made, flush=True)
"""
"""Records MOST values of each kind, or goes on until the file STOP exists; prints how many it recorded."""

WaitUntil = Callable[..., Any]


class Served:
    """An aggregator as a process."""

    def __init__(self, child: subprocess.Popen[str], said: list[str]) -> None:
        self.child = child
        joined = "".join(said)
        endpoint = re.search(r"TELEMETRY_ENDPOINT='?([^'\s]+)", joined)
        directory = re.search(r" in (/\S+)", joined)
        run_id = re.search(r"\(([0-9a-f]{8})\)", joined)
        assert endpoint is not None
        assert directory is not None
        assert run_id is not None
        self.endpoint, self.directory, self.run_id = endpoint[1], Path(directory[1]), run_id[1]

    def kill(self) -> None:
        self.child.send_signal(signal.SIGKILL)
        self.child.communicate()

    def wait(self) -> str:
        """Wait for the end. Return what it wrote to stderr."""
        _, err = self.child.communicate(timeout=DEADLINE_S)
        assert self.child.returncode == 0, err
        return err

    def final(self) -> dict[str, Any]:
        return dict(json.loads((self.directory / "final_snapshot.json").read_text()))


class Cluster:
    """A root with leaves on one machine. Each node has a name."""

    def __init__(self, ground: Any) -> None:
        self.ground = ground
        self._producers: list[subprocess.Popen[str]] = []

    def root(self, *words: str, **options: Any) -> Served:
        return self._serve("serve", "--name", "root", *words, **options)

    def leaf(self, node: str, root: Served, *words: str, **options: Any) -> Served:
        names = ("--name", f"leaf-{node}", "--upstream", root.endpoint, "--node", node)
        return self._serve("serve", *names, *words, **options)

    def resume(self, dead: Served, *words: str, **options: Any) -> Served:
        return self._serve("serve", "--resume", str(dead.directory), *words, **options)

    def _serve(self, *words: str, **options: Any) -> Served:
        child = self.ground.telemetry(*words, **options)
        return Served(child, [child.stderr.readline() for _ in range(2)])

    def record(self, name: str, where: Served, most: int = 0) -> None:
        """Start a producer that records `most` values, or goes on until `made`."""
        program = self.ground.program("recording.py", RECORDING)
        child = self.ground.popen(
            sys.executable, program, name, "stop", str(most), environ={"TELEMETRY_ENDPOINT": where.endpoint}
        )
        assert child.stdout.readline() == "up\n"
        self._producers.append(child)

    def made(self) -> list[int]:
        """Let all producers finish. Return how many values each of them has recorded."""
        (self.ground.folder / "stop").touch()
        found = []
        for child in self._producers:
            out, err = child.communicate(timeout=DEADLINE_S)
            assert child.returncode == 0, err
            found.append(int(out))
        self._producers.clear()
        (self.ground.folder / "stop").unlink()
        return found

    def status(self, where: Served) -> dict[str, Any]:
        code, out, err = self.ground.run("status", where.run_id, "--json")
        assert code == 0, err
        return dict(json.loads(out))

    def stop(self, where: Served) -> dict[str, Any]:
        """Stop a run and wait for its process. Return its result."""
        code, _, err = self.ground.run("stop", where.run_id)
        assert code == 0, err
        where.wait()
        return where.final()


def counter(snapshot: dict[str, Any], name: str) -> float:
    return float(next((item["value"] for item in snapshot["counters"] if item["name"] == name), 0))


def count(snapshot: dict[str, Any], name: str) -> int:
    return int(next((item["count"] for item in snapshot["series"] if item["name"] == name), 0))


def reached(cluster: Cluster, root: Served, wait_until: WaitUntil, more: int = 500) -> None:
    """Wait until `more` values have reached the root."""
    before = counter(cluster.status(root), "n")
    wait_until(lambda: counter(cluster.status(root), "n") >= before + more, DEADLINE_S, "values at the root")


def check_whole(final: dict[str, Any], made: list[int]) -> None:
    """Check that all that was recorded is in the numbers, once."""
    facts = {key: final[key] for key in ("accounting", "nodes", "warnings")}
    assert (final["state"], final["completeness"]) == ("COMPLETE", "complete"), facts
    total = sum(made)
    assert counter(final, "n") == total, facts
    assert counter(final, "part") == total * 0.5
    assert count(final, "value") == total
    assert final["accounting"]["missing"] == 0
    assert final["accounting"]["dropped"] == final["accounting"]["dropped_by_producer"] == {}
    assert final["accounting"]["emitted"] == final["accounting"]["applied"]


def exact_percentiles(made: list[int]) -> dict[str, float]:
    """Return the percentiles of what producers of `RECORDING` recorded."""
    values = sorted(number % 997 + 0.25 for count in made for number in range(count))
    size = len(values)
    return {p: values[-(-int(float(p) * 1_000) * size // 100_000) - 1] for p in ("50", "90", "99", "99.9")}

"""A Ray cluster of several nodes on this machine, and what its tests look at."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

import telemetry
import telemetry.integrations.ray
from telemetry.integrations.ray import RayRun
from telemetry.integrations.ray.names import NAMESPACE
from telemetry.wire.report import Report
from telemetry.wire.snapshot import NodeStat

with warnings.catch_warnings(action="ignore"):  # Ray's own, about pydantic
    import ray
    from ray.cluster_utils import Cluster

PROGRAMS = Path(__file__).parent / "programs"
DEADLINE_S = 90.0
NODES = 4
_NODE = {"num_cpus": 0, "object_store_memory": 80_000_000}


@ray.remote(num_cpus=0)
class Recorder:
    """An actor that records, on one node."""

    def record(self, values: int, first: int = 0) -> int:
        """Record values of a series, and as many increments. Return this process."""
        latency, done = telemetry.series("latency", "ms"), telemetry.counter("done")
        for value in range(first, first + values):
            latency.record(value)
            done.add()
        return os.getpid()

    def record_until(self, end: str) -> int:
        """Record until a file exists. Return the number of values."""
        latency, done = telemetry.series("latency", "ms"), telemetry.counter("done")
        made = 0
        while not os.path.exists(end):
            for _ in range(20):
                latency.record(made)
                done.add()
                made += 1
            time.sleep(0.02)
        return made

    def go_on(self, until: str) -> None:
        """Record one value, then work until a file exists."""
        telemetry.counter("done").add()
        while not os.path.exists(until):
            time.sleep(0.05)

    def leave_open(self) -> None:
        """Record a value without the process's end."""
        telemetry.counter("done").add()


class RayNodes:
    """The cluster, and the folder for the sockets of all its nodes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        head = {**_NODE, "include_dashboard": False, "temp_dir": str(folder)}
        self.cluster = Cluster(initialize_head=True, head_node_args=head)
        for _ in range(NODES - 1):
            self.add()

    def add(self) -> Any:
        """Add a node and return it."""
        return self.cluster.add_node(**_NODE)

    def remove(self, node: Any) -> None:
        """Kill a node."""
        self.cluster.remove_node(node, allow_graceful=False)

    @property
    def address(self) -> str:
        return str(self.cluster.address)

    @contextmanager
    def run(self, job: str) -> Iterator[RayRun]:
        """Yield the run of a job whose driver is this process, and check that it leaves nothing behind."""
        try:
            with telemetry.integrations.ray.run(job, address=self.address, log_to_driver=False) as run:
                yield run
            until(lambda: not named_actors(), lambda: f"actors are left: {named_actors()}")
        finally:
            ray.shutdown()
        until(lambda: not self.leftovers(), lambda: f"left behind: {self.leftovers()}")

    def leftovers(self) -> list[str]:
        """Return sockets, private files and aggregators of runs."""
        runtime = self.folder / "telemetry"
        files = [str(path) for path in runtime.iterdir()] if runtime.exists() else []
        return files + [f"aggregator with pid {process.pid}" for process in self.aggregators()]

    def aggregators(self) -> list[psutil.Process]:
        """Return the aggregators of this cluster: they have its folder in their environment."""
        found = []
        for process in psutil.process_iter():
            try:
                is_serve = "serve" in process.cmdline() and "telemetry" in process.cmdline()
                if is_serve and process.environ().get("XDG_RUNTIME_DIR") == str(self.folder):
                    found.append(process)
            except psutil.Error:
                continue
        return found

    def driver(self, program: str, *arguments: str, **variables: str) -> subprocess.Popen[str]:
        """Start a program as a driver of this cluster."""
        return subprocess.Popen(
            [sys.executable, str(PROGRAMS / program), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "RAY_ADDRESS": self.address, **variables},
        )


@contextmanager
def started_nodes() -> Iterator[RayNodes]:
    """Yield a cluster, and end all of it."""
    folder = Path(tempfile.mkdtemp(prefix="ry", dir="/tmp"))
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith(("TELEMETRY_", "RAY_"))]:
            patch.delenv(name)
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_health_check_initial_delay_ms", "500")
        patch.setenv("RAY_health_check_period_ms", "500")
        patch.setenv("XDG_RUNTIME_DIR", str(folder))
        Path("/tmp/ray").mkdir(exist_ok=True)  # Ray writes the newest address there, whatever `temp_dir` is
        nodes = RayNodes(folder)
        try:
            yield nodes
        finally:
            ray.shutdown()
            nodes.cluster.shutdown()
            for process in nodes.aggregators():
                process.kill()
            shutil.rmtree(folder, ignore_errors=True)


def on_node(node_id: str) -> Any:
    """Return a scheduling strategy for one node."""
    return ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node_id, soft=False)


def node_ids() -> list[str]:
    return [str(node["NodeID"]) for node in ray.nodes() if node["Alive"]]


def recorders(count: int) -> list[Any]:
    """Return actors that record, `count` on each node."""
    places = [on_node(node_id) for node_id in node_ids() for _ in range(count)]
    return [Recorder.options(scheduling_strategy=place).remote() for place in places]


def until(look: Callable[[], Any], what: str | Callable[[], str]) -> Any:
    """Return the first true value of `look`. Fail after the deadline."""
    deadline = time.monotonic() + DEADLINE_S
    while not (found := look()):
        assert time.monotonic() < deadline, what() if callable(what) else what
        time.sleep(0.05)
    return found


def named_actors() -> list[str]:
    actors = ray.util.list_named_actors(all_namespaces=True)
    return [actor["name"] for actor in actors if actor["namespace"] == NAMESPACE]


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def counter_of(report: Report, name: str) -> float:
    return next((counter.value for counter in report.snapshot.counters if counter.name == name), 0)


def stat_of(report: Report, node_id: str) -> NodeStat:
    return next(stat for stat in report.snapshot.nodes if stat.node.endswith(node_id[:12]))


def line_of(driver: subprocess.Popen[str]) -> dict[str, Any]:
    """Return the next line of JSON that a driver writes. Ray may write other lines between."""
    assert driver.stdout is not None
    line = next((line for line in driver.stdout if line.startswith("{")), "")
    assert line, "the driver ended early"
    found: dict[str, Any] = json.loads(line)
    return found

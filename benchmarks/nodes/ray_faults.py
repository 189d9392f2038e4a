"""Faults of runs on a Ray cluster, at random moments: `python -m benchmarks.nodes.ray_faults [--times 20]`.

All nodes are on this machine. Actors record meanwhile. Afterwards what remains must be complete, what is lost must
be named, and nothing of the run may be left. Run it in the environment of `make homes`, which has Ray.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import telemetry
import telemetry.integrations.ray
from telemetry.integrations.ray import RayRun
from telemetry.wire.report import Report

# packages in the environment of Ray have a `tests` of their own, which hides ours
sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "homes"))
from ray_nodes import (
    RayNodes,
    Recorder,
    counter_of,
    kill,
    line_of,
    node_ids,
    on_node,
    ray,
    started_nodes,
    stat_of,
    until,
)


class Job:
    """A run with an actor on each node that records until it is told to stop."""

    def __init__(self, nodes: RayNodes, run: RayRun, folder: Path) -> None:
        self.nodes = nodes
        self.run = run
        self._stop = folder / "stop"
        self._work: dict[str, tuple[Any, Any]] = {}
        for node_id in node_ids():
            self.record_on(node_id)

    def record_on(self, node_id: str) -> None:
        actor = Recorder.options(scheduling_strategy=on_node(node_id)).remote()
        self._work[node_id] = actor, actor.record_until.remote(str(self._stop))
        until(lambda: self.applied_on(node_id), "nothing arrives")

    def applied_on(self, node_id: str) -> int:
        stats = self.run.live_report().snapshot.nodes
        return next((stat.account.applied for stat in stats if stat.node.endswith(node_id[:12])), 0)

    def kill_a_worker(self) -> str:
        """Kill an actor. Return its node."""
        node_id = random.choice(list(self._work))
        actor, _ = self._work.pop(node_id)
        ray.kill(actor)
        return node_id

    def forget(self, node_id: str) -> None:
        del self._work[node_id]

    def leaf(self) -> dict[str, Any]:
        return random.choice([facts for facts in self.run.leaves() if facts["pid"]])

    def finish(self) -> int:
        """Let all actors finish. Return how many values they have recorded."""
        self._stop.touch()
        return sum(ray.get([work for _, work in self._work.values()], timeout=60))


def some_time(most_s: float = 3.0) -> None:
    time.sleep(random.uniform(0.0, most_s))


def whole(report: Report, made: int) -> None:
    """Check that all that was recorded is in the result, once."""
    assert report.completeness == "complete", report.snapshot.warnings
    assert counter_of(report, "done") == report.series("latency").count == made
    assert report.snapshot.accounting.lost == 0
    assert report.snapshot.exact, report.snapshot.exact_reason


def lacking(report: Report, node_id: str) -> None:
    """Check that the result is not called complete, and names the node."""
    assert report.completeness == "incomplete", report.snapshot.warnings
    stat = stat_of(report, node_id)
    assert stat.completeness != "complete", stat
    assert any(stat.node in warning for warning in report.snapshot.warnings), report.snapshot.warnings


# --- faults --------------------------------------------------------------------------------------


def killed(process: str, of_root: bool) -> Callable[[RayNodes, Path], None]:
    """Return a fault that kills a process of the root or of a leaf, which is then resumed."""

    def fault(nodes: RayNodes, folder: Path) -> None:
        with nodes.run("killed") as run:
            job = Job(nodes, run, folder)
            some_time()
            kill((run.root() if of_root else job.leaf())[process])
            some_time()
            made = job.finish()
        whole(run.result(), made)

    return fault


def worker_killed(nodes: RayNodes, folder: Path) -> None:
    with nodes.run("worker") as run:
        job = Job(nodes, run, folder)
        some_time()
        node_id = job.kill_a_worker()
        some_time()
        made = job.finish()
    lacking(run.result(), node_id)
    assert counter_of(run.result(), "done") >= made


def node_lost(nodes: RayNodes, folder: Path) -> None:
    before = node_ids_of(nodes)
    node = nodes.add()
    with nodes.run("lost") as run:
        job = Job(nodes, run, folder)
        [node_id] = set(node_ids()) - before
        some_time()
        nodes.remove(node)
        job.forget(node_id)
        some_time()
        made = job.finish()
    report = run.result()
    assert counter_of(report, "done") >= made
    if report.completeness == "complete":  # its leaf may have ended in order before it was gone
        assert stat_of(report, node_id).completeness == "complete"
    else:
        lacking(report, node_id)


def node_ids_of(nodes: RayNodes) -> set[str]:
    return {str(node.node_id) for node in nodes.cluster.list_all_nodes()}


def late_node(nodes: RayNodes, folder: Path) -> None:
    with nodes.run("late") as run:
        job = Job(nodes, run, folder)
        before = set(node_ids())
        some_time()
        node = nodes.add()
        job.record_on(until(lambda: set(node_ids()) - before, "no further node").pop())
        some_time()
        made = job.finish()
    whole(run.result(), made)
    nodes.remove(node)


def driver_killed(nodes: RayNodes, folder: Path) -> None:
    driver = nodes.driver("ray_driver.py", "dead", "100")
    facts = line_of(driver)
    some_time()
    driver.kill()
    driver.communicate()
    result = Path(facts["directory"]) / "final_snapshot.json"
    until(result.exists, "the run of a dead driver has no result")
    report = telemetry.load_report(result.parent)
    assert report.completeness == "incomplete"
    assert counter_of(report, "done") == 200
    until(lambda: not nodes.leftovers(), lambda: f"left behind: {nodes.leftovers()}")


def two_jobs(nodes: RayNodes, folder: Path) -> None:
    other = nodes.driver("ray_driver.py", "other", "100")
    line_of(other)
    with telemetry.integrations.ray.run("this", address=nodes.address, log_to_driver=False) as run:
        job = Job(nodes, run, folder)
        some_time()
        made = job.finish()
    whole(run.result(), made)
    ray.shutdown()
    result = other.communicate("\n")[0]
    assert '"complete"' in result, result
    assert '"done": 200' in result, result
    until(lambda: not nodes.leftovers(), lambda: f"left behind: {nodes.leftovers()}")


FAULTS: Final[dict[str, Callable[[RayNodes, Path], None]]] = {
    "leaf_process": killed("pid", of_root=False),
    "leaf_actor": killed("actor_pid", of_root=False),
    "root_process": killed("pid", of_root=True),
    "root_actor": killed("actor_pid", of_root=True),
    "worker": worker_killed,
    "node": node_lost,
    "late_node": late_node,
    "driver": driver_killed,
    "two_jobs": two_jobs,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--only", action="append", default=[], choices=list(FAULTS))
    args = parser.parse_args()
    failed = 0
    os.environ["TELEMETRY_RUN__DRAIN_TIMEOUT_S"] = "8"
    with tempfile.TemporaryDirectory(dir="/var/tmp") as ground, started_nodes() as nodes:
        os.chdir(ground)
        for name, fault in FAULTS.items():
            if args.only and name not in args.only:
                continue
            took = []
            for number in range(args.times):
                random.seed(f"{name} {number}")
                folder = Path(ground) / f"{name}{number}"
                folder.mkdir()
                began = time.monotonic()
                try:
                    fault(nodes, folder)
                except Exception:  # noqa: BLE001 – one failed trial must not hide the others
                    failed += 1
                    print(f"{name} {number}", traceback.format_exc(), flush=True)
                ray.shutdown()
                telemetry.start(required=False).finish()
                took.append(time.monotonic() - began)
            print(f"{name:16} {args.times} times, longest {max(took):.1f} s", flush=True)
        os.chdir("/")
    print(f"{failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

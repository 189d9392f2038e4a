"""Exact percentiles of a run on several nodes, with real leaves: as one aggregator, and what a lost node costs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.process.leaves import DEADLINE_S, Cluster, Served, WaitUntil

NODES = 3
VALUES = 20_000
RECORDING = """
import random, sys, telemetry
number, size = int(sys.argv[1]), int(sys.argv[2])
rng = random.Random(number)
run = telemetry.start(f"producer {number}", policy="block")
latency, narrow = run.series("latency", unit="ms"), run.series("narrow", unit="ms")
own = run.series(f"own {number}")
for _ in range(size):
    latency.record(rng.lognormvariate(3.0, 1.0))
    narrow.record(1.0 + rng.random() * 1e-5)
    own.record(rng.random())
run.finish()
"""
"""Records two series that all producers have, and one of its own."""
HELD = """
import pathlib, time
from telemetry.daemon.exact_percentiles import JournalValues

feed = JournalValues.feed

def hold(self, one_pass, stops):
    pathlib.Path("searching").touch()
    while not pathlib.Path("go").exists():
        stops()
        time.sleep(0.01)
    return feed(self, one_pass, stops)

JournalValues.feed = hold
"""
"""Makes a leaf search until a file exists."""
LITTLE = """
from telemetry import limits
limits.EXACT_MEMORY_BYTES = 100_000
"""
"""Leaves an exact pass so little memory that it has to search several times."""


@pytest.fixture
def cluster(ground: Any) -> Cluster:
    return Cluster(ground)


def site(cluster: Cluster, text: str) -> dict[str, str]:
    """Return the environment of a process that runs `text` at its start."""
    folder = cluster.ground.folder / "site"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(text)
    return {"PYTHONPATH": str(folder)}


def record(cluster: Cluster, where: list[Served]) -> None:
    """Run one producer for each aggregator, all at once."""
    program = cluster.ground.program("exact.py", RECORDING)
    children: list[subprocess.Popen[str]] = [
        cluster.ground.popen(
            *(sys.executable, program, str(number), str(VALUES)), environ={"TELEMETRY_ENDPOINT": served.endpoint}
        )
        for number, served in enumerate(where)
    ]
    for child in children:
        _, err = child.communicate(timeout=DEADLINE_S)
        assert child.returncode == 0, err


def percentiles(final: dict[str, Any], *, exact: bool = True) -> dict[str, Any]:
    return {stat["name"]: stat["percentiles"] for stat in final["series"] if stat["exact"] is exact}


def has_all_values(cluster: Cluster, root: Served) -> bool:
    """Check whether the root has the values of all producers."""
    return sum(stat["count"] for stat in cluster.status(root)["series"]) == 3 * VALUES * NODES


@pytest.mark.parametrize("memory", ["plenty", "little"])
def test_percentiles_are_those_of_one_aggregator(cluster: Cluster, memory: str) -> None:
    """The same values, all to one aggregator and to a leaf each: the same percentiles to the last bit."""
    little = {"environ": site(cluster, LITTLE)} if memory == "little" else {}
    root = cluster.root("--nodes", ",".join(f"n{number}" for number in range(NODES)), **little)
    leaves = [cluster.leaf(f"n{number}", root, **little) for number in range(NODES)]
    record(cluster, leaves)
    over_nodes = cluster.stop(root)
    for leaf in leaves:
        leaf.wait()
    alone = cluster._serve("serve", "--name", "alone")
    record(cluster, [alone] * NODES)
    at_once = cluster.stop(alone)
    for final in (over_nodes, at_once):
        assert (final["state"], final["completeness"], final["exact"]) == ("COMPLETE", "complete", True), final
        assert (final["exact_reason"], final["warnings"]) == ("", [])
    assert percentiles(over_nodes) == percentiles(at_once)
    assert len(percentiles(over_nodes)) == 2 + NODES


def test_a_leaf_that_was_killed_costs_its_own_series(cluster: Cluster, wait_until: WaitUntil) -> None:
    """The root names the node; series without values of it are exact."""
    hasty = {"environ": {"TELEMETRY_RUN__DRAIN_TIMEOUT_S": "5"}}  # the other two need a part of it to end
    root = cluster.root(**hasty)
    leaves = [cluster.leaf(f"n{number}", root) for number in range(NODES)]
    record(cluster, leaves)
    wait_until(lambda: has_all_values(cluster, root), DEADLINE_S, "values of all nodes")
    leaves[1].kill()
    final = cluster.stop(root)
    assert final["completeness"] == "incomplete"
    assert (final["exact"], final["exact_reason"]) == (False, "node n1 has not ended")
    assert set(percentiles(final)) == {"own 0", "own 2"}
    assert set(percentiles(final, exact=False)) == {"latency", "narrow", "own 1"}
    assert "latency: node n1 has not ended" in final["warnings"]
    for leaf in (leaves[0], leaves[2]):
        leaf.wait()


def test_a_journal_that_was_deleted_costs_its_own_series(cluster: Cluster, wait_until: WaitUntil) -> None:
    """The leaf tells the root why it can't answer, and its own result says the same."""
    root = cluster.root()
    leaves = [cluster.leaf(f"n{number}", root) for number in range(NODES)]
    record(cluster, leaves)
    wait_until(lambda: has_all_values(cluster, root), DEADLINE_S, "values of all nodes")
    for segment in (leaves[1].directory / "journal").iterdir():
        segment.unlink()
    final = cluster.stop(root)
    for leaf in leaves:
        leaf.wait()
    assert final["completeness"] == "complete"
    assert not final["exact"]
    assert final["exact_reason"].startswith("node n1: there is no journal")
    assert set(percentiles(final)) == {"own 0", "own 2"}
    assert not leaves[1].final()["exact"]


def test_a_root_that_is_killed_while_its_leaves_search(cluster: Cluster, wait_until: WaitUntil) -> None:
    """The next root asks again, and leaves answer the new search."""
    root = cluster.root()
    leaves = [cluster.leaf("n0", root), cluster.leaf("n1", root, environ=site(cluster, HELD))]
    record(cluster, leaves)
    assert cluster.ground.run("stop", root.run_id, "--no-wait")[0] == 0
    folder: Path = cluster.ground.folder
    wait_until((folder / "searching").exists, DEADLINE_S, "the search")
    root.kill()
    again = cluster.resume(root)
    (folder / "go").touch()
    again.wait()
    for leaf in leaves:
        leaf.wait()
    final = again.final()
    assert (final["completeness"], final["exact"], final["exact_reason"]) == ("complete", True, "")
    assert len(percentiles(final)) == 4


def test_a_middle_level_passes_the_search_on(cluster: Cluster) -> None:
    """Leaves of a leaf stay until the root has its values; the middle level has an exact result too."""
    root = cluster.root("--nodes", "rack")
    middle = cluster.leaf("rack", root, "--nodes", "n0,n1")
    leaves = [cluster.leaf(f"n{number}", middle) for number in range(2)]
    record(cluster, [*leaves, middle])
    final = cluster.stop(root)
    for served in (middle, *leaves):
        served.wait()
    for result in (final, middle.final()):
        assert (result["completeness"], result["exact"], result["exact_reason"]) == ("complete", True, ""), result
    assert percentiles(final) == percentiles(middle.final())
    assert len(percentiles(final)) == 5

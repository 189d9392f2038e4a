"""Leaves and roots that are killed, stopped or cut off: every event is in the root's numbers once."""

from __future__ import annotations

import random
import re
import shutil
import signal
import sys
import time
from typing import Any

import pytest
from tests.process.leaves import (
    DEADLINE_S,
    Cluster,
    WaitUntil,
    check_whole,
    count,
    counter,
    exact_percentiles,
    reached,
)

FLOOD = """
import os, random, sys, telemetry, time
run = telemetry.start("flood")
series = [run.series("wide", unit="ms", of=number) for number in range(40)]
n = run.counter("n")
chance = random.Random(7)
print("up", flush=True)
made = 0
while not os.path.exists("stop"):
    for one in series:
        for _ in range(20):
            one.record(chance.lognormvariate(0, 3))
    n.add(1)
    made += 1
    time.sleep(0.02)
run.finish()
print(made, flush=True)
"""
"""Fills an outbox fast: 40 series of wide spread."""


@pytest.fixture
def cluster(ground: Any) -> Cluster:
    return Cluster(ground)


def added_up(status: dict[str, Any]) -> int:
    """Number of intervals that wait as one, by the warning of a leaf."""
    said = [re.search(r"the root is behind: .*\((\d+) intervals?\)", warning) for warning in status["warnings"]]
    return max((int(found[1]) for found in said if found), default=0)


@pytest.mark.slow
def test_a_leaf_that_is_killed_and_resumed_loses_nothing(cluster: Cluster, wait_until: WaitUntil) -> None:
    """Five deaths at random moments: the root has every value once, and exact percentiles."""
    chance = random.Random()
    root = cluster.root("--nodes", "a,b")
    leaf, other = cluster.leaf("a", root), cluster.leaf("b", root)
    for who in range(2):
        cluster.record(f"a{who}", leaf)
    cluster.record("b0", other)
    reached(cluster, root, wait_until)
    for _ in range(5):
        until = time.monotonic() + chance.uniform(0.0, 1.5)
        wait_until(lambda until=until: time.monotonic() >= until, DEADLINE_S)
        leaf.kill()
        leaf = cluster.resume(leaf)
    reached(cluster, root, wait_until)
    made = cluster.made()
    final = cluster.stop(root)
    check_whole(final, made)
    assert final["exact"], final["exact_reason"]
    [value] = final["series"]
    wanted = exact_percentiles(made)
    assert {p: value["percentiles"][p] for p in wanted} == wanted
    assert {node["completeness"] for node in final["nodes"]} == {"complete"}
    leaf.wait()
    other.wait()


@pytest.mark.slow
def test_a_root_that_is_killed_and_resumed_loses_nothing(cluster: Cluster, wait_until: WaitUntil) -> None:
    """Leaves go on and send what the dead root had not acknowledged."""
    root = cluster.root("--nodes", "a,b")
    leaves = [cluster.leaf(node, root) for node in "ab"]
    for at, leaf in enumerate(leaves):
        cluster.record(f"p{at}", leaf)
    reached(cluster, root, wait_until)
    for _ in range(3):
        root.kill()
        root = cluster.resume(root)
        reached(cluster, root, wait_until)
    made = cluster.made()
    final = cluster.stop(root)
    check_whole(final, made)
    assert [node["status"] for node in final["nodes"]] == ["ended", "ended"]
    for leaf in leaves:
        leaf.wait()
        assert leaf.final()["completeness"] == "complete"


@pytest.mark.slow
def test_a_leaf_with_a_full_outbox_adds_up(cluster: Cluster, wait_until: WaitUntil) -> None:
    """A leaf with a full outbox adds seconds up while the root is away.

    Only the resolution of these seconds is lost.
    """
    root = cluster.root("--nodes", "a")
    leaf = cluster.leaf("a", root, environ={"TELEMETRY_UPSTREAM__CAP_BYTES": str(64 * 1_024)})
    program = cluster.ground.program("flood.py", FLOOD)
    child = cluster.ground.popen(sys.executable, program, environ={"TELEMETRY_ENDPOINT": leaf.endpoint})
    assert child.stdout.readline() == "up\n"
    wait_until(lambda: counter(cluster.status(root), "n") > 0, DEADLINE_S, "values at the root")
    root.kill()
    wait_until(lambda: added_up(cluster.status(leaf)) >= 3, DEADLINE_S, "a full outbox")
    size = sum(path.stat().st_size for path in (leaf.directory / "upstream").iterdir())
    assert size < 1_000_000, "the cap holds, but for the interval that exceeds it"
    root = cluster.resume(root)
    reached(cluster, root, wait_until, more=50)
    (cluster.ground.folder / "stop").touch()
    out, err = child.communicate(timeout=DEADLINE_S)
    assert child.returncode == 0, err
    final = cluster.stop(root)
    assert (final["state"], final["completeness"]) == ("COMPLETE", "complete"), final["nodes"]
    assert counter(final, "n") == int(out)
    assert {series["count"] for series in final["series"]} == {20 * int(out)}
    assert final["exact"], final["exact_reason"]
    leaf.wait()
    assert not any("behind" in said for said in leaf.final()["warnings"]), "it no longer holds"


@pytest.mark.slow
def test_a_leaf_that_is_killed_while_the_root_is_away(cluster: Cluster, wait_until: WaitUntil) -> None:
    """Both are resumed, in either order: what waited on the disk of the leaf arrives once."""
    root = cluster.root("--nodes", "a")
    leaf = cluster.leaf("a", root)
    cluster.record("a0", leaf)
    reached(cluster, root, wait_until)
    root.kill()
    before = counter(cluster.status(leaf), "n")
    wait_until(lambda: counter(cluster.status(leaf), "n") >= before + 2_000, DEADLINE_S, "values at the leaf")
    leaf.kill()
    leaf = cluster.resume(leaf)
    root = cluster.resume(root)
    reached(cluster, root, wait_until)
    made = cluster.made()
    check_whole(cluster.stop(root), made)
    leaf.wait()


def test_an_interrupted_leaf_says_so(cluster: Cluster, wait_until: WaitUntil) -> None:
    """SIGTERM to a leaf: its last account reaches the root, which names it."""
    root = cluster.root("--nodes", "a")
    leaf = cluster.leaf("a", root)
    cluster.record("a0", leaf, 1_000)
    cluster.made()
    leaf.child.send_signal(signal.SIGTERM)
    leaf.child.communicate(timeout=DEADLINE_S)
    assert leaf.final()["state"] == "INTERRUPTED"
    root.wait()
    final = root.final()
    assert final["reason"] == "all nodes have ended"
    [node] = final["nodes"]
    assert (node["completeness"], counter(final, "n"), count(final, "value")) == ("interrupted", 1_000, 1_000)
    assert "SIGTERM" in node["reason"]
    assert final["completeness"] != "complete"


def test_a_killed_leaf_that_stays_away_is_missing(cluster: Cluster, wait_until: WaitUntil) -> None:
    """The root waits for it until the deadline of its drain, and is not complete."""
    root = cluster.root("--nodes", "a", environ={"TELEMETRY_RUN__DRAIN_TIMEOUT_S": "1"})
    leaf = cluster.leaf("a", root)
    cluster.record("a0", leaf, 1_000)
    cluster.made()
    wait_until(lambda: counter(cluster.status(root), "n") == 1_000, DEADLINE_S, "values at the root")
    leaf.kill()
    final = cluster.stop(root)
    assert (final["completeness"], counter(final, "n")) == ("incomplete", 1_000)
    assert final["exact_reason"] == "node a has not ended", "the search does not wait for it"
    assert any("node a has not ended" in warning for warning in final["warnings"]), final["warnings"]


def test_a_root_that_is_interrupted_ends_its_leaves(cluster: Cluster, wait_until: WaitUntil) -> None:
    """Leaves notice, end their own runs, and say what the root has not taken."""
    root = cluster.root("--nodes", "a")
    leaf = cluster.leaf("a", root, environ={"TELEMETRY_UPSTREAM__FINISH_TIMEOUT_S": "2"})
    cluster.record("a0", leaf)
    reached(cluster, root, wait_until)
    root.child.send_signal(signal.SIGTERM)
    root.child.communicate(timeout=DEADLINE_S)
    wait_until(lambda: cluster.status(leaf)["state"] != "LIVE", DEADLINE_S, "the end of the leaf")
    made = cluster.made()
    leaf.wait()
    own = leaf.final()
    assert (own["state"], own["reason"]) == ("COMPLETE", "the root's run is ending")
    assert counter(own, "n") <= sum(made)
    assert any("has not taken" in said and "telemetry merge" in said for said in own["warnings"]), own["warnings"]


@pytest.mark.slow
def test_a_new_run_at_the_address_of_a_dead_root_has_no_old_nodes(cluster: Cluster, wait_until: WaitUntil) -> None:
    """The leaf of the dead root tells that it is gone, then that another run has its address. It ends alone."""
    bind = ("--bind", f"ipc://{cluster.ground.folder / 'root'}")
    root = cluster.root(*bind)
    leaf = cluster.leaf("a", root)
    cluster.record("a0", leaf)
    reached(cluster, root, wait_until)
    root.kill()
    gone = "no longer answers: no process listens there"
    wait_until(lambda: any(gone in said for said in cluster.status(leaf)["warnings"]), DEADLINE_S, "the warning")
    new = cluster.root(*bind)
    moved = f"is now the address of run {new.run_id}"
    wait_until(lambda: any(moved in said for said in cluster.status(leaf)["warnings"]), DEADLINE_S, "the refusal")
    made = cluster.made()
    final = cluster.stop(new)
    assert (final["completeness"], final["nodes"], counter(final, "n")) == ("complete", [], 0)
    own = cluster.stop(leaf)
    assert (own["completeness"], counter(own, "n")) == ("complete", sum(made))


@pytest.mark.slow
def test_a_leaf_that_can_not_write_its_outbox_says_what_the_root_lacks(
    cluster: Cluster, wait_until: WaitUntil
) -> None:
    """The root is not complete, and the leaf, whose own result is, tells how both are added up."""
    root = cluster.root("--nodes", "a")
    leaf = cluster.leaf("a", root, environ={"TELEMETRY_UPSTREAM__CAP_BYTES": str(64 * 1_024)})
    program = cluster.ground.program("flood.py", FLOOD)
    child = cluster.ground.popen(sys.executable, program, environ={"TELEMETRY_ENDPOINT": leaf.endpoint})
    assert child.stdout.readline() == "up\n"
    wait_until(lambda: counter(cluster.status(root), "n") > 0, DEADLINE_S, "values at the root")
    shutil.rmtree(leaf.directory / "upstream")
    failed = "can't write the outbox for the root"
    wait_until(lambda: any(failed in said for said in cluster.status(leaf)["warnings"]), DEADLINE_S, "the failure")
    (cluster.ground.folder / "stop").touch()
    child.communicate(timeout=DEADLINE_S)
    final = cluster.stop(root)
    assert final["completeness"] == "incomplete"
    leaf.wait()
    own = leaf.final()
    assert own["completeness"] == "complete"
    [said] = [said for said in own["warnings"] if failed in said]
    assert re.search(r"has not taken the last \d+ intervals? of this node", said)
    assert "`telemetry merge " in said

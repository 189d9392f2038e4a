"""A slow rank of one node, named by the root, which hears no rank itself."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from tests.process.leaves import DEADLINE_S, Cluster, WaitUntil

pytestmark = pytest.mark.slow

START_S = 30.0
STEPS = 200
SLOW = 2
RANK = """
import os, sys, time, telemetry
rank = int(sys.argv[1])
run = telemetry.start(f"rank {rank}")
run.stragglers(work="compute_ms", wait="sync_ms")
for step in range(STEPS):
    slow = rank == SLOW
    run.log({"compute_ms": 200.0 if slow else 100.0, "sync_ms": 1.0 if slow else 101.0}, step=step)
    while not os.path.exists("all"):
        time.sleep(0.01)
    run.end_step(step)
run.finish()
""".replace("STEPS", str(STEPS)).replace("SLOW", str(SLOW))
"""A rank that logs its work and wait. Rank 2 works twice as long, so that the others wait for it.

No rank ends its first step before all have begun: a step does not wait for nodes that have not logged yet.
"""


def producers(status: dict[str, Any]) -> list[int]:
    """List how many producers the next step of each axis waits for."""
    return [axis["producers"] for axis in status["axes"]]


def test_the_root_names_a_slow_rank_of_a_node(ground: Any, wait_until: WaitUntil) -> None:
    """Two ranks on each of two nodes. Their waits and their groups reach the root."""
    cluster = Cluster(ground)
    root = cluster.root("--nodes", "a,b")
    a, b = cluster.leaf("a", root), cluster.leaf("b", root)
    program = ground.program("rank.py", RANK)
    ranks: list[subprocess.Popen[str]] = [
        ground.popen(
            sys.executable,
            program,
            str(rank),
            environ={
                "TELEMETRY_ENDPOINT": where.endpoint,
                "RANK": str(rank),
                "TELEMETRY_GROUPS": f"dp={rank},node=n{rank // 2}",
            },
        )
        for rank, where in enumerate([a, a, b, b])
    ]
    for served in (a, b, root):  # each waits for two: its ranks, or its leaves
        wait_until(lambda: producers(cluster.status(served)) == [2], START_S, "the first values")  # noqa: B023
    (ground.folder / "all").touch()
    for child in ranks:
        _, err = child.communicate(timeout=DEADLINE_S)
        assert child.returncode == 0, err
    final = cluster.stop(root)
    assert (final["state"], final["completeness"]) == ("COMPLETE", "complete"), final["warnings"]
    for leaf in (a, b):
        leaf.wait()
    [found] = json.loads(ground.run("report", root.run_id, "--format", "json")[1])["stragglers"]
    assert (found["axis"], found["ranks"], found["steps"]) == ("step", 4, STEPS)
    [slow] = found["slow"]
    assert (slow["rank"], slow["always"]) == (SLOW, True)
    assert slow["lag_s"] == pytest.approx(0.1)
    assert (slow["work_s"], slow["others_s"]) == (pytest.approx(0.2), pytest.approx(0.1))
    assert slow["groups"] == {"dp": SLOW, "node": "n1"}
    assert {fold["dimension"]: fold["ranks"] for fold in found["map"]["folds"]}["node"] == ["node n0", "node n1"]
    assert "rank 2 (dp 2) costs " in ground.run("report", root.run_id)[1]

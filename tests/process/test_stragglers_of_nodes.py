"""A slow rank of one node, named by the root, which hears no rank itself."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from tests.process.leaves import DEADLINE_S, Cluster

pytestmark = pytest.mark.slow

STEPS = 200
"""Fewer than a step waits for: the ranks of one node may all have ended before those of the other one begin."""
SLOW = 2
RANK = """
import sys, telemetry
rank = int(sys.argv[1])
run = telemetry.start(f"rank {rank}")
run.stragglers(work="compute_ms", wait="sync_ms")
for step in range(STEPS):
    slow = rank == SLOW
    run.log({"compute_ms": 200.0 if slow else 100.0, "sync_ms": 1.0 if slow else 101.0}, step=step)
    run.end_step(step)
run.finish()
""".replace("STEPS", str(STEPS)).replace("SLOW", str(SLOW))
"""A rank that logs its work and wait. Rank 2 works twice as long, so that the others wait for it."""


def test_the_root_names_a_slow_rank_of_a_node(ground: Any) -> None:
    """Two ranks on each of two nodes. Their waits travel as values of ranks, in the parts of steps."""
    cluster = Cluster(ground)
    root = cluster.root("--nodes", "a,b")
    a, b = cluster.leaf("a", root), cluster.leaf("b", root)
    program = ground.program("rank.py", RANK)
    ranks: list[subprocess.Popen[str]] = [
        ground.popen(
            sys.executable, program, str(rank), environ={"TELEMETRY_ENDPOINT": where.endpoint, "RANK": str(rank)}
        )
        for rank, where in enumerate([a, a, b, b])
    ]
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
    assert "rank 2 costs " in ground.run("report", root.run_id)[1]

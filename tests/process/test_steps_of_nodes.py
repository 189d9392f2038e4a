"""Steps over several nodes, of real leaves and their root: values, ranks and reports."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from tests.process.leaves import DEADLINE_S, Cluster, Served, WaitUntil

from telemetry.store.records import RecordLog
from telemetry.wire.events import ClosedStep, Spread

STEPS = 5
LOGGING = """
import sys, telemetry
rank = int(sys.argv[1])
run = telemetry.start(f"rank {rank}")
run.axis("train", reductions={"tokens": "sum"}, ranked=["wait"])
run.axis("job", reduce="last", closing="reported")
for step in range(STEPS):
    norm = float("nan") if (rank, step) == (1, 3) else 2.0
    values = {"loss": step + rank / 10, "wait": rank * 0.001, "tokens": 100, "norm": norm}
    run.log(values, step=step, axis="train")
    run.end_step(step, axis="train")
run.log({f"reward/{rank}": float(rank)}, step=7, axis="job")
print("logged", flush=True)
sys.stdin.readline()
if rank == 3:
    run.end_step(7, axis="job")
run.finish()
""".replace("STEPS", str(STEPS))
"""A rank that logs steps, waits for a line, and on rank 3 reports the step of the job."""


@pytest.fixture
def cluster(ground: Any) -> Cluster:
    return Cluster(ground)


def rank(cluster: Cluster, number: int, where: Served) -> subprocess.Popen[str]:
    program = cluster.ground.program("logging_steps.py", LOGGING)
    environ = {"TELEMETRY_ENDPOINT": where.endpoint, "RANK": str(number)}
    child: subprocess.Popen[str] = cluster.ground.popen(
        sys.executable, program, str(number), environ=environ, stdin=subprocess.PIPE
    )
    return child


def steps_of(where: Served, axis: str) -> list[ClosedStep]:
    records = (item.record for item in RecordLog(where.directory / "records").read(0, 100_000))
    return [record for record in records if isinstance(record, ClosedStep) and record.axis == axis]


def last_of(steps: list[ClosedStep]) -> dict[int, ClosedStep]:
    """Return each step with the values, spreads and ranks after all corrections."""
    found: dict[int, ClosedStep] = {}
    for step in steps:
        before = found.get(step.step)
        if before is not None:
            step.values.update({name: before.values[name] for name in before.values if name not in step.values})
            step.spread.update({name: before.spread[name] for name in before.spread if name not in step.spread})
            step.ranks.update({name: before.ranks[name] for name in before.ranks if name not in step.ranks})
        found[step.step] = step
    return found


def test_steps_of_a_root_have_the_values_of_all_nodes(cluster: Cluster, wait_until: WaitUntil) -> None:
    """Two ranks on each of two nodes, and one that the root hears itself. A rank of one node reports for all."""
    root = cluster.root("--nodes", "a,b")
    a, b = cluster.leaf("a", root), cluster.leaf("b", root)
    homes = [a, a, b, b, root]
    ranks = [rank(cluster, number, where) for number, where in enumerate(homes)]
    for child in ranks:
        assert child.stdout is not None
        assert child.stderr is not None
        assert child.stdout.readline() == "logged\n", child.stderr.read()

    def all_in() -> bool:
        (axis,) = (axis for axis in cluster.status(root)["axes"] if axis["name"] == "train")
        steps = last_of(steps_of(root, "train"))
        return axis["closed"] == STEPS and all(step.producers == len(homes) for step in steps.values())

    wait_until(all_in, DEADLINE_S, "the steps of all nodes")
    for child in ranks:
        _, err = child.communicate("go\n", timeout=DEADLINE_S)
        assert child.returncode == 0, err
    wait_until(lambda: steps_of(root, "job"), DEADLINE_S, "the reported step")
    final = cluster.stop(root)
    assert (final["state"], final["completeness"]) == ("COMPLETE", "complete"), final["warnings"]
    for leaf in (a, b):
        leaf.wait()
    steps = last_of(steps_of(root, "train"))
    assert sorted(steps) == [*range(STEPS)]
    for number, step in steps.items():
        producers = [step.spread["loss"].lowest, step.spread["loss"].highest]
        assert step.spread["loss"] == Spread(5, number, number + 0.4, pytest.approx(number + 0.2), *producers)
        values = {"loss": step.spread["loss"].mean, "wait": pytest.approx(0.002), "tokens": 500.0, "norm": 2.0}
        assert step.values == values
        assert step.ranks == {"wait": [(who, who * 0.001) for who in range(5)]}
        assert step.producers == 5
    job = last_of(steps_of(root, "job"))
    assert job[7].values == {f"reward/{who}": float(who) for who in range(5)}
    assert steps_of(root, "job")[0].closed == "ended"
    [train] = [axis for axis in final["axes"] if axis["name"] == "train"]
    assert (train["open"], train["timeouts"]) == (0, 0)
    assert train["not_finite"] == {"norm": 3}, "one rank of a node had NaN, and the others a number"
    own = last_of(steps_of(a, "train"))
    assert own[0].values["tokens"] == 200.0, "a leaf has the steps of its node"

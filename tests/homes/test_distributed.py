"""`telemetry run --capture distributed`: fits of two ranks, of which one is slow, on one machine and on two."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from benchmarks.nodes.fleet import Fleet
from tests.homes.trained import DEADLINE_S, PROGRAMS, Trained, trained
from tests.namespaces import can_separate

from telemetry.history.run import open_run
from telemetry.wire.report import Stragglers
from telemetry.wire.stragglers import WAIT, WORK

pytestmark = pytest.mark.timeout(600)

TORCHRUN = str(Path(sys.executable).parent / "torchrun")
FIT = str(PROGRAMS / "fit_distributed.py")
STEPS = {"slow": 280, "even": 500}
"""A step takes 0.1 s with a slow rank, and 0.05 s without: both are enough for a verdict on two ranks."""
ENVIRON = {"OMP_NUM_THREADS": "1"}
KIB = 1024


def run_ranks(folder: Path, ranks: int, *command: str) -> Trained:
    folder.mkdir(exist_ok=True)
    words = (TORCHRUN, "--standalone", f"--nproc-per-node={ranks}", *command)
    return trained(folder, "distributed", *words, more=ENVIRON)


@pytest.fixture(scope="module")
def fits(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Trained]:
    """Fits of two kinds, with a slow rank and without. Two run at a time."""
    folder = tmp_path_factory.mktemp("fits")

    def fit(kind: str, ranks: str) -> Trained:
        slow = "1" if ranks == "slow" else "-1"
        return run_ranks(folder / f"{kind}-{ranks}", 2, FIT, kind, slow, str(STEPS[ranks]))

    wanted = [(kind, ranks) for ranks in STEPS for kind in ("ddp", "fsdp")]
    with ThreadPoolExecutor(2) as pool:
        return dict(zip(wanted, pool.map(lambda each: fit(*each), wanted), strict=True))


def stragglers(run: Path) -> Stragglers:
    [verdict] = open_run(run).report().stragglers
    return verdict


@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_the_slow_rank_is_named(fits: dict[tuple[str, str], Trained], kind: str) -> None:
    """Name the rank that loads its batches slowly, without a line of the program's code, and what it costs."""
    verdict = stragglers(fits[kind, "slow"].folder / "runs" / "latest")
    assert (verdict.axis, verdict.ranks, verdict.steps) == ("optimizer", 2, STEPS["slow"] - 1)
    [slow] = verdict.slow
    assert (slow.rank, slow.now) == (1, True)
    assert slow.lag_s == pytest.approx(0.05, rel=0.3)


@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_no_rank_is_named_if_none_is_slow(fits: dict[tuple[str, str], Trained], kind: str) -> None:
    """Both ranks have work and wait in each step, and neither is named."""
    verdict = stragglers(fits[kind, "even"].folder / "runs" / "latest")
    assert (verdict.ranks, verdict.steps, verdict.slow) == (2, STEPS["even"] - 1, [])


def test_times_of_a_step_say_where_the_slow_rank_loses_it(fits: dict[tuple[str, str], Trained]) -> None:
    """The slow rank has the longest time of loading data. Its backward pass is not blamed on the other rank."""
    run = fits["ddp", "slow"]
    ranks = {producer.producer: producer.rank for producer in run.report.snapshot.producers}
    steps = [record for record in run.records("step") if record["step"] > 0]
    slowest = [ranks[record["spread"]["time/data_s"][5]] for record in steps]
    assert slowest.count(1) > 0.95 * len(slowest)
    longest = sorted(record["spread"]["time/backward_s"][2] for record in steps)
    assert longest[len(longest) // 2] < 0.04  # the other rank waits 0.05 s in it


def test_gradients_of_a_model_are_counted(fits: dict[tuple[str, str], Trained]) -> None:
    """DistributedDataParallel reduces the gradients in C++, once a step in each rank."""
    gradients = 3 * (64 * 64 + 64) * 4
    assert traffic(fits["ddp", "even"])["world", "ddp"] == (2 * STEPS["even"], 2 * STEPS["even"] * gradients)


def counters(run: Trained, name: str) -> dict[tuple[str, str], float]:
    """Return a counter of the capture by group and call."""
    return {
        (each.labels["group"], each.labels["call"]): each.value
        for each in run.report.snapshot.counters
        if each.name == f"distributed.{name}"
    }


def traffic(run: Trained) -> dict[tuple[str, str], tuple[float, float]]:
    """Return calls and bytes by group and call."""
    sizes = counters(run, "bytes")
    return {key: (calls, sizes.get(key, 0)) for key, calls in counters(run, "calls").items()}


def test_every_call_is_counted_by_its_group(tmp_path: Path) -> None:
    """Calls and bytes of four ranks have the name of their group, or its size if it has none.

    Two optimizers take turns, and only the first one ends steps.
    """
    run = run_ranks(tmp_path, 4, str(PROGRAMS / "call_collectives.py"))
    counted = traffic(run)
    objects = counted.pop(("world", "all_gather"))
    assert objects[0] == 4 * 4  # two of tensors, and two of an object: its size and its bytes
    assert objects[1] > 4 * 8 * KIB
    assert counted == {
        ("world", "all_reduce"): (8, 8 * KIB),
        ("tp", "all_reduce"): (4 + 4 * 6, 4 * KIB + 4 * 6 * 8),
        ("3 ranks", "all_reduce"): (3, 3 * KIB),
        ("world", "broadcast"): (4, 4 * KIB),
        ("world", "reduce"): (4, 4 * KIB),
        ("world", "gather"): (4, 4 * KIB + 3 * KIB),
        ("world", "scatter"): (4, 4 * KIB + 3 * KIB),
        ("world", "reduce_scatter"): (8, 8 * 4 * KIB),
        ("world", "all_to_all"): (4, 4 * 4 * KIB),
        ("world", "barrier"): (12, 0),
        ("pp", "send"): (8, 8 * KIB),
        ("pp", "recv"): (8, 8 * KIB),
        ("pp", "broadcast"): (4, 4 * KIB),  # the tensor is spread
        ("tp", "scatter"): (4, 3 * KIB),
        ("functional", "wait"): (4, 4 * KIB),  # and gathered
    }
    assert len(run.steps("optimizer")) == 3
    assert counters(run, "wait").keys() >= counted.keys()  # in ms, and none is 0


def test_coordinates_are_those_of_the_mesh(tmp_path: Path) -> None:
    """Each rank knows where it is. Groups that combine dimensions are none."""
    result = tmp_path / "found.json"
    subprocess.run(
        [TORCHRUN, "--standalone", "--nproc-per-node=4", str(PROGRAMS / "mesh_coordinates.py"), str(result)],
        check=True,
        timeout=DEADLINE_S,
        env=os.environ | ENVIRON,
    )
    found = json.loads(result.read_text())
    assert [each["before"] for each in found] == [{}] * 4
    assert [each["own"] for each in found] == [[0, 0], [0, 1], [1, 0], [1, 1]]
    assert [[each["found"]["pp"], each["found"]["dp_shard"]] for each in found] == [each["own"] for each in found]
    assert all(each["found"].keys() == {"pp", "dp_shard"} for each in found)


def test_the_capture_can_be_removed_and_never_fails_the_program(tmp_path: Path) -> None:
    """Restore torch's functions. A fault of the capture is printed once and counted; the fit goes on.

    A program may count steps itself, with the waits of the capture.
    """
    done = subprocess.run(
        [sys.executable, str(PROGRAMS / "capture_by_hand.py"), "found.json"],
        cwd=tmp_path,
        env=os.environ | {"XDG_RUNTIME_DIR": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "found.json").read_text())
    assert (found["installed"], found["restored"]) == ([True] * 4, True)
    assert "does not require grad" in found["raised"]
    assert found["weight"] == pytest.approx([1 - 0.1 * sum(range(1, 21))] * 2)  # gradients add up over 20 steps
    assert done.stderr.count("was not recorded") == 1
    run = Trained(tmp_path, done.stdout, done.stderr)
    assert run.report.snapshot.accounting.dropped_by_producer == {"unencodable": 5}
    assert sorted(run.steps("optimizer")) == list(range(5 + 3 + 2))  # none without the capture or with a fault
    assert [sorted(values) for values in run.steps("own").values()] == [[WAIT, WORK]] * 2  # not the first step
    assert traffic(run) == {("world", "all_reduce"): (15, 15 * 8), ("1 rank", "all_reduce"): (2, 2 * 8)}
    assert done.stderr.count("no rank can be named as slow") == 1  # a device was seen, so waits mean nothing
    assert WAIT not in run.steps("optimizer")[9]
    assert len(run.report.snapshot.producers) == 1  # and none is the forked child


@pytest.mark.skipif(not can_separate(), reason="only root may make namespaces")
@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_the_root_names_the_slow_rank_of_a_node(tmp_path: Path, kind: str) -> None:
    """One rank on each of two machines that share no network, memory or clock. The root hears no rank itself."""
    with Fleet(tmp_path, 2, 0) as fleet:
        root = fleet.start_root("--nodes", "node1,node2")
        first = fleet.machines[0].address
        torchrun = [TORCHRUN, "--nnodes=2", "--nproc-per-node=1", f"--master-addr={first}", "--master-port=29511"]
        nodes = []
        for rank, machine in enumerate(fleet.machines):
            telemetry_run = [sys.executable, "-m", "telemetry", "run", "--quiet", "--strict"]
            upstream = ["--node", machine.name, "--upstream", root.address, "--capture", "distributed", "--"]
            command = [*telemetry_run, *upstream, *torchrun, f"--node-rank={rank}", FIT, kind, "1", "280"]
            environ = fleet.environment(
                ENVIRON | {"GLOO_SOCKET_IFNAME": "eth0", "TELEMETRY_COLLECT__NAMES": "none"}
            )
            nodes.append(machine.start(command, environ, stderr=subprocess.PIPE, text=True))
        for node in nodes:
            _, err = node.communicate(timeout=DEADLINE_S)
            assert node.returncode == 0, err
        root.process.communicate(timeout=DEADLINE_S)
    report = open_run(root.folder).report()
    assert (report.completeness, report.snapshot.accounting.missing) == ("complete", 0)
    [verdict] = report.stragglers
    assert (verdict.axis, verdict.ranks, verdict.steps) == ("optimizer", 2, 279)
    assert [slow.rank for slow in verdict.slow] == [1]

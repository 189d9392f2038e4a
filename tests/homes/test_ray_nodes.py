"""A run on a real Ray cluster of four nodes: its events, its failures and its end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from tests.backends.otlp_receiver import HttpReceiver
from tests.backends.reading_otlp import requests
from tests.homes.ray_nodes import (
    NODES,
    RayNodes,
    Recorder,
    counter_of,
    kill,
    line_of,
    named_actors,
    node_ids,
    on_node,
    ray,
    recorders,
    started_nodes,
    stat_of,
    until,
)
from tests.ports import free_port
from tests.process.samples import sample
from tests.processes import KILLED

import telemetry
import telemetry.integrations.ray
from telemetry.compat import rl_insight
from telemetry.errors import UsageError
from telemetry.integrations.ray.driver import RayRun

pytestmark = pytest.mark.timeout(600)


def applied_on(run: RayRun, node_id: str) -> int:
    """Return the events of a node that are in the numbers of a live run."""
    stats = run.live_report().snapshot.nodes
    return next((stat.account.applied for stat in stats if stat.node.endswith(node_id[:12])), 0)


def has_result(leaf: dict[str, Any]) -> bool:
    return (Path(leaf["directory"]) / "final_snapshot.json").exists()


@pytest.fixture(scope="module")
def nodes() -> Iterator[RayNodes]:
    """A cluster of four nodes, for all tests of this file."""
    with started_nodes() as found:
        yield found


@pytest.fixture(autouse=True)
def of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Give each test a folder for its runs, and leave no run of this process behind."""
    monkeypatch.chdir(tmp_path)
    yield
    ray.shutdown()
    telemetry.start(required=False).finish()


def test_every_event_of_32_actors_on_4_nodes_is_counted_once(nodes: RayNodes) -> None:
    """All events of all nodes and of the driver are in the result, with exact percentiles, and nothing is lost."""
    with nodes.run("whole") as run:
        actors = recorders(8)
        telemetry.counter("done").add()
        ray.get([actor.record.remote(500, 500 * number) for number, actor in enumerate(actors)])
        live = run.leaves()
    report = run.result()
    assert run.live_report() is report
    assert run.root()["directory"] == run.directory
    assert {leaf["directory"] for leaf in run.leaves()} == {leaf["directory"] for leaf in live}
    assert all(has_result(leaf) for leaf in run.leaves())
    snapshot, latency = report.snapshot, report.series("latency")
    assert report.completeness == "complete", snapshot.warnings
    assert len(snapshot.nodes) == NODES
    assert {stat.completeness for stat in snapshot.nodes} == {"complete"}
    assert counter_of(report, "done") == 32 * 500 + 1
    assert latency.count == 32 * 500
    assert latency.total == sum(range(32 * 500))
    assert (latency.percentiles["50"], latency.percentiles["99"]) == (7_999, 15_839)
    assert snapshot.accounting.lost == 0
    assert snapshot.accounting.emitted == snapshot.accounting.applied
    assert sum(stat.producers for stat in snapshot.nodes) == 32 + 1
    leaves = [path for path in Path("runs/leaves").iterdir() if not path.is_symlink()]
    assert len(leaves) == NODES
    assert Path("runs/latest").resolve() == Path(run.directory).resolve()


def test_nothing_is_lost_if_processes_of_telemetry_are_killed(nodes: RayNodes) -> None:
    """A leaf, its actor, the root and the root's actor may die: each is resumed, and the result is complete."""
    with nodes.run("killed") as run:
        actors = recorders(1)
        expected = 0

        def record() -> None:
            nonlocal expected
            ray.get([actor.record.remote(200) for actor in actors])
            expected += 200 * len(actors)

        def leaf() -> dict[str, Any]:
            return next((facts for facts in run.leaves() if facts["pid"]), {})

        def kill_and_wait(look: Callable[[], dict[str, Any]], process: str) -> None:
            before = until(look, "it does not run")
            kill(before[process])
            record()
            until(lambda: look().get(process) not in (0, None, before[process]), f"no other {process}")

        record()
        kill_and_wait(leaf, "pid")
        kill_and_wait(leaf, "actor_pid")
        kill_and_wait(run.root, "pid")
        kill_and_wait(run.root, "actor_pid")
        record()
    report = run.result()
    assert report.completeness == "complete", report.snapshot.warnings
    assert counter_of(report, "done") == expected
    assert report.series("latency").count == expected
    assert report.snapshot.accounting.lost == 0


def test_worker_in_the_middle_of_a_task_makes_the_run_incomplete(nodes: RayNodes, tmp_path: Path) -> None:
    """A worker that is silent when the run ends might still record more, so the run is incomplete.

    An idle worker beside it is complete.
    """
    with nodes.run("busy") as run:
        node_id = node_ids()[0]
        idle, busy = (Recorder.options(scheduling_strategy=on_node(node_id)).remote() for _ in range(2))
        ray.get(idle.record.remote(100))
        _work = busy.go_on.remote(str(tmp_path / "never"))
        until(lambda: applied_on(run, node_id) == 201, "the events do not arrive")
    report = run.result()
    assert report.completeness == "incomplete"
    assert len(stat_of(report, node_id).owing) == 1
    assert counter_of(report, "done") == 101


def test_late_node_takes_part_and_what_dies_is_named(nodes: RayNodes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that joins during the run has a leaf. If it dies, or a worker is killed, the result names the node."""
    monkeypatch.setenv("TELEMETRY_RUN__DRAIN_TIMEOUT_S", "4")  # settings of the driver apply to root and leaves
    with nodes.run("late") as run:
        before = node_ids()
        worker = Recorder.options(scheduling_strategy=on_node(before[1])).remote()
        killed = ray.get(worker.record.remote(100))
        until(lambda: applied_on(run, before[1]) == 200, "the events of the worker do not arrive")
        ray.kill(worker)
        until(lambda: not os.path.exists(f"/proc/{killed}"), "the worker lives")

        node = nodes.add()
        node_id = until(lambda: set(node_ids()) - set(before), "no further node").pop()
        late_worker = Recorder.options(scheduling_strategy=on_node(node_id)).remote()
        pid = ray.get(late_worker.record.remote(100))
        until(lambda: applied_on(run, node_id) == 200, "the events of the late node do not arrive")
        leaf = next(facts for facts in run.leaves() if facts["node"].endswith(node_id[:12]))
        for process in (leaf["actor_pid"], leaf["pid"], pid):  # as if the machine had lost its power
            kill(process)
        nodes.remove(node)
        until(lambda: node_id not in node_ids(), "the node lives")
    report = run.result()
    assert report.completeness == "incomplete"
    assert len(report.snapshot.nodes) == NODES + 1
    lacking = {stat.node: stat for stat in report.snapshot.nodes if stat.completeness != "complete"}
    of_worker = stat_of(report, before[1])
    assert set(lacking) == {leaf["node"]} | ({of_worker.node} if KILLED == "incomplete" else set())
    assert len(of_worker.owing) == (KILLED == "incomplete")
    assert all(any(name in warning for warning in report.snapshot.warnings) for name in lacking)


def test_jobs_are_separate_and_a_dead_driver_ends_its_own_run(nodes: RayNodes) -> None:
    """Jobs on one cluster don't see each other. A name is taken while its job runs. Nothing outlives a driver."""
    drivers = [nodes.driver("ray_driver.py", name, values) for name, values in (("one", "100"), ("two", "200"))]
    facts = [line_of(driver) for driver in drivers]
    again = nodes.driver("ray_driver.py", "one", "1")
    refusal = line_of(again)
    again.communicate()
    assert "one" in refusal["error"]
    assert "choose another name" in refusal["error"]

    drivers[1].kill()
    drivers[1].communicate()
    directory = Path(facts[1]["directory"])
    until((directory / "final_snapshot.json").exists, "the run of a dead driver has no result")
    of_dead = telemetry.load_report(directory)
    assert counter_of(of_dead, "done") == 400
    assert of_dead.completeness == KILLED  # neither the driver nor its workers have said their end
    until(lambda: all(has_result(leaf) for leaf in facts[1]["leaves"]), "a leaf has no result")

    result = json.loads(drivers[0].communicate("\n")[0])
    assert (result["done"], result["completeness"]) == (200, "complete")
    until(lambda: not nodes.leftovers(), lambda: f"left behind: {nodes.leftovers()}")
    ray.init(address=nodes.address, log_to_driver=False)
    until(lambda: not named_actors(), lambda: f"actors are left: {named_actors()}")


def test_driver_that_knows_nothing_runs_under_telemetry_run(nodes: RayNodes, tmp_path: Path) -> None:
    """`telemetry run --ray` places leaves and records in workers, although the driver only calls `ray.init`."""
    program = Path(__file__).parent / "programs" / "plain_ray_driver.py"
    done = subprocess.run(
        [sys.executable, "-m", "telemetry", "run", "--ray", "--strict", "--", sys.executable, str(program)],
        env={**os.environ, "RAY_ADDRESS": nodes.address},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    report = telemetry.load_report(tmp_path / "runs" / "latest")
    assert counter_of(report, "done") == 4 * 500
    assert len(report.snapshot.nodes) == NODES
    assert nodes.leftovers() == []


def test_metrics_of_all_workers_of_rl_insight_are_in_one_place(nodes: RayNodes) -> None:
    """The hub of RL-Insight's interface is a run of the Ray job: workers join it without an address or a hook."""

    @ray.remote(num_cpus=0)
    class Trainer:
        def train(self) -> None:
            rl_insight.init()
            rl_insight.metric_count("samples", 5)
            rl_insight.finish()

    ray.init(address=nodes.address, log_to_driver=False)
    rl_insight.init(project="p", experiment_name="e")
    run = rl_insight.api.MONITOR.run
    assert isinstance(run, RayRun)
    trainers = [Trainer.options(scheduling_strategy=on_node(node_id)).remote() for node_id in node_ids()]
    ray.get([trainer.train.remote() for trainer in trainers])
    rl_insight.metric_count("samples", 1)
    rl_insight.finish()
    report = run.result()
    assert report.snapshot.name == "e", "as without Ray: the experiment, not the id of the job"
    assert sum(counter.value for counter in report.snapshot.counters if counter.name == "samples") == 5 * NODES + 1
    assert report.completeness == "complete", report.snapshot.warnings


def test_the_documented_monitor_of_rl_insight_exports_from_its_hub(nodes: RayNodes, tmp_path: Path) -> None:
    """The monitor has its metrics at its port and its spans at its receiver while the run goes on."""
    port, stop = free_port(), tmp_path / "stop"
    wait = f"import time, pathlib\nwhile not pathlib.Path({str(stop)!r}).exists():\n    time.sleep(0.05)\n"
    with HttpReceiver(tmp_path / "otlp") as receiver:
        text = sample(
            "rl_insight_monitor",
            {
                "http://<server-ip>:4318": receiver.endpoint,
                "insight.init()": f'insight.init({{"prometheus": {{"metrics_report_port": {port}}}}})',
                "127.0.0.1:9092": f"127.0.0.1:{port}",
                "/path/to/prometheus.yml": str(tmp_path / "prometheus.yml"),
                '"mode": "ray"': '"mode": "none"',
            },
        )
        program = tmp_path / "train.py"
        program.write_text(text + wait)
        line = 'rl_insight_monitor_reward_mean{worker="trainer_0"} 1.23'
        with nodes.driver(str(program), XDG_STATE_HOME=str(tmp_path / "state")) as driver:
            until(lambda: line in page(port), f"{line} at port {port}")
            stop.touch()
            assert driver.wait(timeout=120) == 0
        sent = [one for group in requests(receiver.folder, "traces") for one in group.resource_spans]
        assert {span.name for group in sent for scope in group.scope_spans for span in scope.spans} == {
            "rollout",
            "update_model",
        }
    assert "trainer_metrics" in (tmp_path / "prometheus.yml").read_text()
    until(lambda: not nodes.leftovers(), lambda: f"left behind: {nodes.leftovers()}")


def page(port: int) -> str:
    """Return what a scrape gets; nothing before the writer listens."""
    try:
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            return str(answer.read().decode())
    except OSError:
        return ""


def test_environment_of_another_job_is_refused(nodes: RayNodes) -> None:
    """A driver whose workers record for another job gets an error before anything is started."""
    ray.init(address=nodes.address, log_to_driver=False, runtime_env=telemetry.integrations.ray.env("this"))
    with pytest.raises(UsageError, match="'this'"):
        telemetry.integrations.ray.run("other")
    assert named_actors() == []

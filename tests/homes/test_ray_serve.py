"""The gateway on a real local Ray Serve: two replicas of one run, their ends, and the program that deploys them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tests.homes.step_caller import DEADLINE_S, Caller, is_recorded, is_reported
from tests.ports import free_port
from tests.processes import KILLED

import telemetry
from telemetry.compat.relax import get_serve_url
from telemetry.errors import EndpointError, UsageError
from telemetry.gateway import ray_serve
from telemetry.gateway.ray_serve import cluster
from telemetry.wire.report import Report

with warnings.catch_warnings(action="ignore"):  # Ray's own, about pydantic
    import ray
    from ray import serve

PROGRAMS = Path(__file__).parent / "programs"
STEPS = 200
THREADS = 4
KILL_AT = 60

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def ray_address() -> Iterator[str]:
    """A small Ray with Serve on a free port, for all tests of this file."""
    folder = tempfile.mkdtemp(prefix="ry", dir="/tmp")
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith(("TELEMETRY_", "RAY_"))]:
            patch.delenv(name)
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("XDG_RUNTIME_DIR", folder)
        context = ray.init(
            num_cpus=2,
            object_store_memory=80_000_000,
            include_dashboard=False,
            log_to_driver=False,
            _temp_dir=folder,
        )
        try:
            serve.start(http_options={"port": free_port()})
            yield context.address_info["gcs_address"]
        finally:
            serve.shutdown()
            ray.shutdown()
            shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(autouse=True)
def of_its_own(tmp_path: Path, ray_address: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Give each test a folder for its run, and leave no run and no application behind."""
    monkeypatch.chdir(tmp_path)
    yield
    for name in serve.status().applications:
        serve.delete(name)
    telemetry.start(required=False).finish()


class Progress:
    """Counts the threads that have logged a step, and calls a function once, in the middle."""

    def __init__(self, in_the_middle: Callable[[], object]) -> None:
        self._lock = threading.Lock()
        self._logged: Counter[int] = Counter()
        self._reported = 0
        self._in_the_middle = in_the_middle

    def is_last(self, step: int) -> bool:
        """Count a thread. Return True for the last one of a step."""
        with self._lock:
            self._logged[step] += 1
            return self._logged[step] == THREADS

    def reported(self) -> None:
        with self._lock:
            self._reported += 1
            if self._reported == KILL_AT:
                self._in_the_middle()


def log_all(url: str, thread: int, progress: Progress) -> None:
    """Log this thread's values of all steps, and report each step that is whole."""
    with Caller(url) as caller:
        for step in range(STEPS):
            if thread % 2:
                body: dict[str, Any] = {"metric_name": f"m{thread}", "metric_value": value_of(step, thread)}
                caller.until(is_recorded, "/log_metric", {"step": step, **body})
            else:
                body = {"metrics": {f"m{thread}": value_of(step, thread), f"n{thread}": -1.0}}
                caller.until(is_recorded, "/log_metrics_batch", {"step": step, **body})
            if progress.is_last(step):
                caller.until(is_reported, "/report_step", {"step": step, "wait_s": 0})
                progress.reported()


def value_of(step: int, thread: int) -> float:
    return step + thread / 8


def values_of(step: int) -> dict[str, float]:
    """All values that a step was given."""
    return {f"m{thread}": value_of(step, thread) for thread in range(THREADS)} | {
        f"n{thread}": -1.0 for thread in range(0, THREADS, 2)
    }


def replicas() -> list[str]:
    """Names of the actors of all live replicas."""
    named = ray.util.list_named_actors(all_namespaces=True)
    return [one["name"] for one in named if cluster.DEPLOYMENT in one["name"]]


def running() -> int:
    """The number of replicas that answer."""
    application = serve.status().applications["metrics"]
    return int(application.deployments[cluster.DEPLOYMENT].replica_states.get("RUNNING", 0))


def wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline_s = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline_s, what
        time.sleep(0.05)


def gateways(report: Report) -> list[Any]:
    """Return the run's accounts of its replicas."""
    return [one for one in report.snapshot.producers if one.name == "gateway"]


def steps_of(folder: str) -> list[tuple[int, dict[str, Any]]]:
    """All records of closed steps, in their order."""
    lines = (Path(folder) / "records" / "records.jsonl").read_text().splitlines()
    records = [record for line in lines if (record := json.loads(line)).get("type") == "step"]
    return [(record["step"], record["values"]) for record in records if record["axis"] == "step"]


def test_replicas_share_steps_and_a_killed_one_loses_nothing_acknowledged(tmp_path: Path) -> None:
    """Each step is in the run and in TensorBoard once with all its values, although one replica was killed."""
    url = ray_serve.deploy(replicas=2, to=[f"tensorboard:logdir={tmp_path / 'tb'}"])
    run = telemetry.start()
    before: list[Report] = []

    def kill_one() -> None:
        before.append(run.live_report(30.0))
        ray.kill(ray.get_actor(replicas()[0], namespace="serve"))

    progress = Progress(kill_one)
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(lambda thread: log_all(url, thread, progress), range(THREADS)))
    wait_until(lambda: running() == 2 and len(gateways(run.live_report(30.0))) == 3, "no replica took its place")
    report = run.finish()

    assert [producer.emitted > 0 for producer in gateways(before[0])] == [True, True]
    with Caller(url) as caller:
        assert caller.call("/log_metric", {"step": 1, "metric_name": "m", "metric_value": 1.0})[0] == 410
    assert sorted(steps_of(run.directory)) == [(step, values_of(step)) for step in range(STEPS)]
    tags = {tag: dict.fromkeys(range(STEPS), 1) for tag in values_of(0)}
    assert tracked(tmp_path / "tb") == tags
    accounts = Counter(producer.completeness for producer in gateways(report))
    assert accounts == Counter(["complete", "complete", KILLED])
    assert report.completeness == KILLED


def tracked(folder: Path) -> dict[str, dict[int, int]]:
    """Tag → step → the number of times that TensorBoard has it."""
    found: dict[str, Counter[int]] = {}
    for file in folder.rglob("events.out.tfevents.*"):
        accumulator = EventAccumulator(str(file), size_guidance={"scalars": 0})
        accumulator.Reload()
        for tag in accumulator.Tags()["scalars"]:
            if tag in values_of(0):
                found.setdefault(tag, Counter()).update(event.step for event in accumulator.Scalars(tag))
    return {tag: dict(steps) for tag, steps in found.items()}


def test_a_service_that_is_bound_as_in_relax(monkeypatch: pytest.MonkeyPatch) -> None:
    """`bind` takes Relax's arguments and starts the run; a deleted service leaves the run complete."""
    monkeypatch.setenv("METRICS_SERVE_MAX_ONGOING_REQUESTS", "33")
    args = Namespace(use_tensorboard=True, tb_project_name="mine", tb_experiment_name="first", use_wandb=False)
    bound = ray_serve.MetricsService.bind(healthy=None, pg=None, config=args, role="metrics")
    handle = serve.run(bound, name="metrics", route_prefix="/metrics")
    run = telemetry.start()

    assert run.name == "first"
    url = ray_serve.url()
    assert url == get_serve_url("/metrics")
    assert urlsplit(url).hostname == "127.0.0.1", "Serve listens on this machine only"
    deployments = serve.context._get_global_client().get_serve_details()["applications"]["metrics"]["deployments"]
    assert deployments["MetricsService"]["deployment_config"]["max_ongoing_requests"] == 33
    with Caller(url) as caller:
        body = {"step": 3, "metric_name": "loss", "metric_value": 0.5, "tags": {"role": "actor"}}
        caller.until(is_recorded, "/log_metric", body)
    wait_until(lambda: handle.get_service_metrics.remote().result()["buffered_steps"] == 1, "no open step")
    assert handle.get_service_metrics.remote().result() == {
        "adapters": ["tensorboard"],
        "use_wandb": False,
        "buffered_steps": 1,
    }
    with Caller(url) as caller:
        caller.until(lambda status, _: status == 200, "/report_step", {"step": 3, "wait_s": 30})
    for path in ("", "/"):
        with urlopen(url + path, timeout=DEADLINE_S) as page:
            assert b"loss" in page.read(), "the route itself is the page for Prometheus"
    assert ray_serve.delete()
    assert not ray_serve.delete()
    with pytest.raises(EndpointError, match="no application at /metrics"):
        ray_serve.url()

    report = run.finish()
    assert report.completeness == "complete"
    assert [producer.completeness for producer in gateways(report)] == ["complete"]
    assert steps_of(run.directory) == [(3, {"loss{role=actor}": 0.5})]
    assert list(Path("tensorboard_log/mine/first").rglob("events.out.tfevents.*"))


def test_options_that_cannot_work_are_refused_before_anything_is_deployed(short_dir: Path) -> None:
    """A run that is not there and zero replicas are errors of the call."""
    with pytest.raises(EndpointError, match="no aggregator listens at ipc://"):
        ray_serve.deploy(f"ipc://{short_dir}/none")
    with pytest.raises(UsageError, match="replicas is 0"):
        ray_serve.deploy(replicas=0)
    assert not serve.status().applications


def program(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the program that deploys the service."""
    return subprocess.run(
        [sys.executable, "-m", "telemetry.gateway.ray_serve", *arguments],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )


def test_the_program_deploys_shows_and_stops(ray_address: str) -> None:
    """A service for a run of somebody else stays until `--stop`, and takes the steps of both demonstrations."""
    run = telemetry.start("theirs")
    joined = {"RAY_ADDRESS": ray_address}
    deployed = program("--deploy-only", "--replicas", "2", **joined)
    assert deployed.returncode == 0, deployed.stderr
    assert "it stays on Ray Serve; --stop deletes it" in deployed.stdout
    shown = program("--api-demo", **joined)
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert "/metrics/report_step: 200" in shown.stdout
    logged = program("--demo-only", "--url", ray_serve.url())
    assert logged.returncode == 0, logged.stdout + logged.stderr
    stopped = program("--stop", **joined)
    assert (stopped.returncode, stopped.stdout) == (0, "metrics is deleted\n"), stopped.stderr
    assert not serve.status().applications

    report = run.finish()
    assert report.completeness == "complete"
    assert [step for step, _ in steps_of(run.directory)] == [100, 0, 1, 2, 3]


def test_the_demonstration_ends_what_it_started(ray_address: str, tmp_path: Path) -> None:
    """The program starts a run if there is none, and deletes the service at the end.

    It delivers four steps to TensorBoard.
    """
    done = program("--replicas", "2", RAY_ADDRESS=ray_address)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "the run is complete; its result is in" in done.stdout
    assert not serve.status().applications
    [folder] = [path for path in (tmp_path / "runs").iterdir() if path.name != "latest"]
    assert [step for step, _ in steps_of(str(folder))] == [0, 1, 2, 3]
    assert list(tmp_path.rglob("events.out.tfevents.*"))


def test_a_program_that_just_ends_leaves_a_complete_run(short_dir: Path, tmp_path: Path) -> None:
    """The replicas of a Ray that ends with the program leave the run before they are killed."""
    command = (sys.executable, str(PROGRAMS / "deploy_ray_serve.py"), str(free_port()), str(short_dir))
    done = subprocess.run(
        [sys.executable, "-m", "telemetry", "run", "--quiet", "--name", "job", "--", *command],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert (done.returncode, done.stdout.split()[:1]) == (0, ["success"]), done.stdout + done.stderr
    report = telemetry.load_report(tmp_path / "runs" / "latest")
    assert report.completeness == "complete"
    assert [producer.completeness for producer in gateways(report)] == ["complete"]

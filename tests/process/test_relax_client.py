"""Programs of Relax's metrics service with only their imports changed: in a run, and against a service."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.process.conftest import DEADLINE_S, Ground
from tests.unit.compat.relax_service import Received, RelaxService, Reply

OPTIONS = """
class args:
    use_metrics_service = True
    use_tensorboard = True
    tb_project_name = "my-project"
    tb_experiment_name = "experiment-1"
    use_wandb = False
    use_clearml = False
"""

DEMO = """
import sys
from telemetry.compat.relax.client import MetricsClient

client = MetricsClient(*sys.argv[1:])
for step in range(3):
    client.log_metric(step, "train/loss", 0.5 + step * 0.1)
    client.log_metric(step, "train/accuracy", 0.8 - step * 0.05)
    client.log_metric(step, "train/lr", 0.001)
    client.log_metric(step, "perf/throughput", 100 + step * 10)
    client.log_metric(step, "perf/latency", 50 - step * 5)
batch_metrics = {
    "train/loss": 0.42,
    "train/accuracy": 0.92,
    "train/lr": 0.0005,
    "perf/throughput": 150,
    "perf/latency": 35,
    "custom/metric1": 123.45,
    "custom/metric2": "some_value",
}
client.log_metrics_batch(3, batch_metrics)
for step in range(4):
    result = client.report_step(step)
    print(f"  Step {step}: {result.get('status')} - {result.get('message')}")
    for backend, backend_result in result["results"].items():
        print(f"    {backend}: {backend_result}")
print(client.get_buffered_metrics_count())
client.clear_buffer()
"""

DEMO_VALUES = {
    (0, "train/loss"): 0.5,
    (1, "train/lr"): 0.001,
    (2, "perf/throughput"): 120.0,
    (3, "custom/metric1"): 123.45,
    (3, "perf/latency"): 35.0,
}


@pytest.fixture
def service() -> Iterator[RelaxService]:
    with RelaxService() as made:
        yield made


def delivered(ground: Ground, name: str = "out.jsonl") -> list[dict[str, Any]]:
    """Return the items of the file of the backend `jsonl`."""
    return [json.loads(line) for line in (ground.folder / name).read_text().splitlines()]


def steps(items: list[dict[str, Any]]) -> list[tuple[str, int, dict[str, float]]]:
    return [(item["axis"], item["step"], item["values"]) for item in items if item["item"] == "step"]


def test_the_demo_runs_in_a_run(ground: Ground) -> None:
    """All values arrive, the text among them as a text of its step."""
    program = ground.program("demo.py", DEMO)
    code, out, err = ground.run("run", "--to", "jsonl:path=out.jsonl", "--", sys.executable, program)
    assert code == 0, err
    assert "  Step 0: success - Reported 5 metrics for step 0\n" in out
    assert "  Step 3: success - Reported 7 metrics for step 3\n" in out
    items = delivered(ground)
    found = {(step, name): value for _, step, values in steps(items) for name, value in values.items()}
    assert len(found) == 21
    assert {place: found[place] for place in DEMO_VALUES} == DEMO_VALUES
    [text] = [item for item in items if item["item"] == "text"]
    assert (text["name"], text["text"], text["step"]) == ("custom/metric2", "some_value", 3)


def test_the_demo_runs_against_a_service(ground: Ground, service: RelaxService) -> None:
    """The same program with a URL prints what the service answers."""
    message = "Reported by the service"
    service.answer = lambda request: Reply(
        body={"status": "success", "message": message, "results": {"tensorboard": "success"}}
    )
    child = ground.popen(sys.executable, ground.program("demo.py", DEMO), service.url)
    out, err = child.communicate(timeout=DEADLINE_S)
    assert (child.returncode, err) == (0, "")
    assert out.count(f"success - {message}\n    tensorboard: success\n") == 4
    found = {
        (body["step"], name): value
        for body in service.of("log_metrics_batch")
        for name, value in body["metrics"].items()
    }
    assert len(found) == 22
    assert {place: found[place] for place in DEMO_VALUES} == DEMO_VALUES


def test_a_primary_process_starts_the_run_with_its_backends(ground: Ground) -> None:
    """The options of a program choose the backends without `telemetry run`, in both ways to log."""
    text = (
        OPTIONS
        + """
import sys
from telemetry.compat.relax import flush_metrics, get_service_metrics, init_tracking, log

args.use_metrics_service = sys.argv[1] == "new"
args.save = sys.argv[1]
init_tracking(args, primary=True)
for step in range(5):
    log(args, {"step": step, "train/loss": 0.5}, "step")
    flush_metrics(args, step)
"""
    )
    program = ground.program("primary.py", text)
    for way in ("new", "old"):
        child = ground.popen(sys.executable, program, way)
        _, err = child.communicate(timeout=DEADLINE_S)
        assert child.returncode == 0, err
        files = list((ground.folder / way / "tensorboard_log").rglob("step/events.out.tfevents.*"))
        assert len(files) == 1, err
        assert scalars(files[0]) == [(step, 0.5) for step in range(5)]


def scalars(file: Path) -> list[tuple[int, float]]:
    """Return the points of `train/loss` of an event file."""
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
    from tensorboard.util import tensor_util

    return [
        (event.step, float(tensor_util.make_ndarray(value.tensor).item()))
        for event in EventFileLoader(str(file)).Load()
        for value in event.summary.value
        if value.tag == "train/loss"
    ]


def test_a_service_that_hangs_holds_up_nothing(ground: Ground, service: RelaxService) -> None:
    """A thousand steps go on, and the end of the program waits for a bounded time and counts what is left."""
    text = """
import sys, time
from telemetry.compat.relax import MetricsClient

client = MetricsClient(sys.argv[1], report_timeout_s=0.5)
begun = time.monotonic()
for step in range(1_000):
    client.log_metric(step, "loss", 0.5)
    client.log_metric(step, "lr", 0.5)
    assert client.report_step(step)["status"] == "pending"
print(time.monotonic() - begun)
"""
    service.open.clear()
    begun = time.monotonic()
    child = ground.popen(sys.executable, ground.program("hung.py", text), service.url)
    out, err = child.communicate(timeout=DEADLINE_S)
    assert child.returncode == 0, err
    assert float(out) < 20.0
    assert time.monotonic() - begun < 40.0
    assert "2,000 values and 1,000 reports of steps did not reach" in err


def test_the_end_of_a_program_sends_what_waits(ground: Ground, service: RelaxService) -> None:
    """The end of a program sends the values that wait.

    Children of multiprocessing, which skip `atexit`, and a forked child that ends by itself do so too.
    """
    text = """
import multiprocessing, os, sys
from telemetry.compat.relax import MetricsClient

client = MetricsClient(sys.argv[1])

def work(name):
    for step in range(20):
        client.log_metric(step, name, 0.5, immediate=True)

if __name__ == "__main__":
    client.log_metric(0, "held by the parent", 1.0)
    client.log_metric(0, "first", 1.0, immediate=True)
    for method in ("fork", "spawn"):
        child = multiprocessing.get_context(method).Process(target=work, args=(method,))
        child.start()
        child.join()
        assert child.exitcode == 0
    pid = os.fork()
    work("parent" if pid else "os.fork")
    if pid:
        assert os.waitpid(pid, 0)[1] == 0
"""
    service.answer = slowly
    child = ground.popen(sys.executable, ground.program("exit.py", text), service.url)
    _, err = child.communicate(timeout=DEADLINE_S)
    assert child.returncode == 0
    held = "report_step was not called for them: 1 value of 1 step"
    assert [held in line for line in err.splitlines()] == [True], err
    names = [body["metric_name"] for body in service.of("log_metric")]
    assert {name: names.count(name) for name in names} == {
        "first": 1,
        "fork": 20,
        "spawn": 20,
        "os.fork": 20,
        "parent": 20,
    }


def slowly(request: Received) -> Reply:
    time.sleep(0.005)
    return Reply()


def test_a_service_that_is_replaced_gets_each_step(ground: Ground) -> None:
    """The program does not notice. Steps arrive in order; a batch that was on its way may arrive twice."""
    text = """
import sys, time
from telemetry.compat.relax import MetricsClient

client = MetricsClient(sys.argv[1], report_timeout_s=0.2)
is_first = True
for step in range(200):
    client.log_metric(step, "loss", float(step))
    answer = client.report_step(step)
    time.sleep(0.005)
    if step == 20:
        print("going", flush=True)
        sys.stdin.readline()
    if step > 20 and is_first and answer["status"] == "pending":
        is_first = False
        print("away", flush=True)
"""
    program = ground.program("replaced.py", text)
    with RelaxService() as first:
        child = ground.popen(sys.executable, program, first.url, stdin=-1)
        assert child.stdout is not None
        assert child.stdin is not None
        assert child.stdout.readline() == "going\n"
        before = [body["step"] for body in first.of("report_step")]
    child.stdin.write("on\n")
    child.stdin.flush()
    assert child.stdout.readline() == "away\n"
    with RelaxService(first.port) as second:
        _, err = child.communicate(timeout=DEADLINE_S)
        after = [body["step"] for body in second.of("report_step")]
        values = {body["step"]: body["metric_value"] for body in second.of("log_metric")}
    assert child.returncode == 0, err
    assert before == sorted(before)
    assert after == sorted(after)
    assert set(before) | set(after) == set(range(200))
    assert values == {step: float(step) for step in values}
    assert "did not reach" not in err


def test_values_that_are_never_reported_are_told(ground: Ground) -> None:
    """The last line of the program has the number of values that were never reported.

    A forked child does not repeat the number of its parent.
    """
    text = """
import os
from telemetry.compat.relax import MetricsClient

client = MetricsClient()
for step in range(5):
    client.log_metrics_batch(step, {"loss": 0.5, "lr": 0.1})
client.report_step(0)
pid = os.fork()
if pid:
    os.waitpid(pid, 0)
"""
    code, _, err = ground.run("run", "--", sys.executable, ground.program("rest.py", text))
    assert code == 0, err
    assert [line for line in err.splitlines() if "not recorded" in line] == [
        "telemetry: not recorded, because report_step was not called for them: 8 values of 4 steps"
    ]

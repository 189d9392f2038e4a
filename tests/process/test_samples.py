"""Programs that other systems document, run with only their import changed, and what their owners see then."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, build_opener

import pytest
from tests.backends.otlp_receiver import HttpReceiver
from tests.backends.reading_otlp import plain, requests
from tests.ports import free_port
from tests.process.conftest import Ground
from tests.process.samples import sample
from tests.process.stacks import SOON_S
from tests.processes import end_group
from tests.trace_checker import problems

WaitUntil = Callable[..., Any]

UNTIL_STOPPED = """
import time
from pathlib import Path
while not Path("stop").exists():
    time.sleep(0.02)
"""
WITHOUT_RAY = {
    "import ray\n": "",
    'ray.init(address="auto", namespace="rl-insight-monitor")\n': "",
}


def asked(url: str) -> str:
    with build_opener(ProxyHandler({})).open(url, timeout=10) as answer:
        return str(answer.read().decode())


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[HttpReceiver]:
    with HttpReceiver(tmp_path / "otlp") as started:
        yield started


class Prometheus:
    """A Prometheus of the user, with a configuration file that it reads again when it is asked to."""

    def __init__(self, ground: Ground) -> None:
        self.port = free_port()
        self.file = ground.folder / "prometheus.yml"
        self.file.write_text("global:\n  scrape_interval: 1s\nscrape_configs:\n- job_name: others\n")
        address = f"--web.listen-address=127.0.0.1:{self.port}"
        self.process = subprocess.Popen(
            [
                *("prometheus", address, "--web.enable-lifecycle"),
                *(f"--config.file={self.file}", f"--storage.tsdb.path={ground.folder / 'tsdb'}"),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def ask(self, path: str) -> Any:
        """Return what it answers; None before it listens."""
        try:
            return json.loads(asked(f"http://127.0.0.1:{self.port}/api/v1/{path}"))["data"]
        except OSError:
            return None

    def value(self, query: str) -> str | None:
        """Return the newest value of a query; None if it has no value yet."""
        found = (self.ask(f"query?query={query}") or {}).get("result")
        return found[0]["value"][1] if found else None


@pytest.fixture
def prometheus(ground: Ground, require_tool: Callable[[str], str], wait_until: WaitUntil) -> Iterator[Prometheus]:
    require_tool("prometheus")
    started = Prometheus(ground)
    try:
        wait_until(lambda: started.ask("targets"), SOON_S, "Prometheus")
        yield started
    finally:
        end_group(started.process)


def test_the_monitor_of_rl_insight_reaches_its_prometheus_and_its_tempo(
    ground: Ground, prometheus: Prometheus, receiver: HttpReceiver, wait_until: WaitUntil
) -> None:
    """The monitor reaches its Prometheus and its Tempo without a word about exporters.

    The file of Prometheus keeps its other jobs, and is read again.
    """
    port = free_port()
    text = sample(
        "rl_insight_monitor",
        {
            **WITHOUT_RAY,
            "http://<server-ip>:4318": receiver.endpoint,
            "insight.init()": f'insight.init({{"prometheus": {{"metrics_report_port": {port}}}}})',
            "127.0.0.1:9092": f"127.0.0.1:{port}",
            "/path/to/prometheus.yml": str(prometheus.file),
            "9090": str(prometheus.port),
        },
    )
    program = ground.popen(sys.executable, ground.program("train.py", text + UNTIL_STOPPED))
    wait_until(lambda: prometheus.value("rl_insight_monitor_reward_mean") == "1.23", SOON_S, "a scrape")
    jobs = {target["labels"]["job"] for target in prometheus.ask("targets")["activeTargets"]}
    assert jobs == {"trainer_metrics"}
    assert "job_name: others" in prometheus.file.read_text()
    (ground.folder / "stop").touch()
    _, err = program.communicate(timeout=SOON_S)
    assert program.returncode == 0, err

    spans = {
        span.name: (plain(span.attributes), span.parent_span_id)
        for request in requests(receiver.folder, "traces")
        for group in request.resource_spans
        for scope in group.scope_spans
        for span in scope.spans
    }
    assert spans.keys() == {"rollout", "update_model"}
    rollout, parent = spans["rollout"]
    assert (rollout["state_lane_id"], rollout["step"], parent) == ("trainer_0", "10", b"")
    assert spans["update_model"][0]["stage"] == "optimizer"
    code, out, _ = ground.run("report", "latest", "--full")
    assert code == 0
    assert "step_latency_ms" in out
    assert [stat["kind"] for stat in ground.final()["backends"]] == ["prometheus", "otlp"]


def test_init_alone_has_a_page_for_prometheus(ground: Ground, wait_until: WaitUntil) -> None:
    """The page is at the port of RL-Insight's hub, or at another one that a message names.

    The end of the program waits for no scrape.
    """
    text = "import telemetry.compat.rl_insight as insight\ninsight.init()\ninsight.metric_count('steps')\n"
    program = ground.popen(sys.executable, ground.program("train.py", text + UNTIL_STOPPED))
    folder = ground.folder / "state" / "telemetry" / "targets"
    (file,) = wait_until(lambda: list(folder.glob("*.json")), SOON_S, "the targets of the run")
    (address,) = json.loads(file.read_text())[0]["targets"]
    line = "rl_insight_monitor_steps_total 1.0"

    def is_there() -> bool:
        try:
            return line in asked(f"http://{address}/metrics")
        except OSError:
            return False  # before the first snapshot

    wait_until(is_there, SOON_S, "the count")
    (ground.folder / "stop").touch()
    _, err = program.communicate(timeout=SOON_S)
    assert program.returncode == 0
    assert address == "127.0.0.1:9092" or f"port 9092 is in use, so the metrics are at http://{address}" in err
    assert "final values" not in err


def test_a_run_that_is_joined_names_the_exporters_that_it_lacks(ground: Ground) -> None:
    """A joined run names only those missing exporters which the program asks for.

    The names are words for the command that starts the run.
    """
    text = "import telemetry.compat.rl_insight as insight\ninsight.init()\ninsight.metric_count('steps')\n"
    words = ("run", "--quiet", "--", sys.executable, ground.program("train.py", text))
    _, _, err = ground.run(*words)
    assert "exporters" not in err
    variable = {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:9/v1/traces"}
    _, _, err = ground.run(*words, environ=variable)
    assert "telemetry run --to 'prometheus:port=9092,namespace=rl_insight_monitor" in err
    assert "--to 'otlp:metrics=false,roots=true" in err


# --- Relax -------------------------------------------------------------------------------------------


def delivered(ground: Ground) -> list[dict[str, Any]]:
    """Return the steps in the file of the backend `jsonl`."""
    items = [json.loads(line) for line in (ground.folder / "out.jsonl").read_text().splitlines()]
    return [item for item in items if item["item"] == "step"]


def test_the_steps_of_relax_start_their_own_run(ground: Ground) -> None:
    """The steps of Relax start a run with the backends of the program's options.

    The run has the name of the experiment.
    """
    child = ground.popen(sys.executable, ground.program("train.py", sample("relax_steps")))
    _, err = child.communicate(timeout=SOON_S)
    assert child.returncode == 0, err
    folder = ground.folder / "tensorboard_log" / "my-project" / "experiment-1"
    assert list(folder.rglob("events.out.tfevents.*"))
    code, out, _ = ground.run("report", "latest", "--full")
    assert code == 0
    assert "train/accuracy" in out
    _, out, _ = ground.run("ls")
    assert "experiment-1" in out


def test_the_steps_of_relax_go_to_a_service_that_is_there(ground: Ground) -> None:
    """The run of the service has them, and its backends. The options of the program start nothing."""
    gateway = ("run", "--gateway", "127.0.0.1:0", "--to", "jsonl:path=out.jsonl", "--")
    program = ground.program("train.py", sample("relax_steps"))
    code, _, err = ground.run(*gateway, "env", "-u", "TELEMETRY_ENDPOINT", sys.executable, program)
    assert code == 0, err
    steps = delivered(ground)
    assert [item["step"] for item in steps] == [0, 1, 2]
    assert steps[1]["values"] == {"train/loss": 0.5, "train/accuracy": 1 / 3}
    assert not (ground.folder / "tensorboard_log").exists()


def test_the_debug_mode_of_relax_says_where_values_go(ground: Ground) -> None:
    """The log has the health of the service; the client in a run needs no service."""
    text = sample("relax_health") + sample("relax_timeline")
    words = ("run", "--gateway", "127.0.0.1:0", "--timeline-dir", "timeline_traces", "--", sys.executable)
    code, out, err = ground.run(*words, ground.program("train.py", text))
    assert code == 0, err
    assert "Service health: {'status': 'healthy', 'service': 'metrics'" in out
    assert "DEBUG:telemetry.compat.relax:health: {'status': 'healthy'" in err
    assert "DEBUG:telemetry.compat.relax:report of step 100" in err
    trace = (ground.folder / "timeline_traces" / "timeline_step_100.json").read_bytes()
    assert problems(trace) == []
    [span] = [event for event in json.loads(trace)["traceEvents"] if event.get("cat") == "span"]
    assert (span["name"], span["args"]) == ("forward_pass", {"step": "100"})
    assert span["dur"] >= 20_000


def test_relax_without_a_run_and_a_service_says_that_nothing_is_recorded(ground: Ground) -> None:
    """The program says once that nothing is recorded, and goes on."""
    nowhere = {"TELEMETRY_GATEWAY_URL": "http://127.0.0.1:9"}
    child = ground.popen(sys.executable, ground.program("train.py", sample("relax_timeline")), environ=nowhere)
    _, err = child.communicate(timeout=SOON_S)
    assert child.returncode == 0
    assert err.count("nothing is recorded: this process has no run") == 1
    assert "no metrics service answers at http://127.0.0.1:9/metrics" in err


# --- Tracelet ----------------------------------------------------------------------------------------


def test_parts_of_tracelets_document_run_unchanged(ground: Ground) -> None:
    """The backend gets every value in order, between its start and its end; the run has them, too."""
    settings = {f"TRACELET_TRACK_{name}": "false" for name in ("TENSORBOARD", "LIGHTNING")}
    child = ground.popen(
        sys.executable,
        ground.program("train.py", sample("tracelet_parts")),
        environ={**settings, "HOME": str(ground.folder)},
    )
    _, err = child.communicate(timeout=SOON_S)
    assert child.returncode == 0, err
    lines = [tuple(json.loads(line)) for line in (ground.folder / "parts.jsonl").read_text().splitlines()]
    assert lines[0] == ("start", "digits", "vision")
    assert lines[-1] == ("end",)
    metrics = [line[1:] for line in lines if line[0] == "metric" and line[1] in ("accuracy", "loss", "clock")]
    assert sorted(metrics) == [
        ("accuracy", 0.95, 100),
        ("accuracy", 0.97, 101),
        ("clock", 1.5, 0),
        ("loss", 0.5, 1),
    ]
    assert ("params", {"lr": 0.1}) in lines
    assert ("artifact", "model.pt", "model.pt") in lines
    assert (ground.folder / "cleaned").exists()
    code, out, _ = ground.run("report", "latest", "--full")
    assert code == 0
    assert "accuracy" in out
    assert ground.final()["params"]["lr"] == 0.1


def test_a_backend_of_tracelet_logs_by_itself(ground: Ground) -> None:
    """The class starts an experiment of its own, whose values the tracker has at the end.

    MLflow creates its database first, which takes longer than the usual wait on a machine that is busy.
    """
    child = ground.popen(
        sys.executable,
        ground.program("train.py", sample("tracelet_backend")),
        environ={f"TELEMETRY_{section}__FINISH_TIMEOUT_S": "100" for section in ("BACKENDS", "EMIT")},
    )
    out, err = child.communicate(timeout=SOON_S)
    assert child.returncode == 0, err
    assert ground.final()["run_id"] == out.strip()
    read = """
import sys
from mlflow.tracking import MlflowClient
client = MlflowClient(f"sqlite:///{sys.argv[1]}/mlruns/mlflow.db")
(run,) = client.search_runs([client.get_experiment_by_name("vision").experiment_id])
(point,) = client.get_metric_history(run.info.run_id, "accuracy")
print(run.info.run_name, run.data.params["lr"], point.step, point.value)
"""
    child = ground.popen(sys.executable, ground.program("read.py", read), str(ground.folder))
    out, err = child.communicate(timeout=SOON_S)
    assert out.split() == ["digits", "0.1", "100", "0.95"], err

"""Programs of RL-Insight and verl that nobody changed, captured by their own seams."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.backends.otlp_receiver import HttpReceiver
from tests.backends.reading_otlp import plain, requests
from tests.backends.reading_prometheus import TEXT, Key, get, samples

import telemetry.integrations.rl_insight as capture
from telemetry.backends.backend import RunFacts
from telemetry.backends.items import Live
from telemetry.backends.prometheus import PrometheusBackend
from telemetry.backends.prometheus.backend import PrometheusOptions
from telemetry.history.result import load_report
from telemetry.wire.report import Report

PROGRAMS = Path(__file__).parent / "programs"
DEADLINE_S = 240.0
IDENTITY = (("experiment_name", "e"), ("project", "p"))

pytestmark = pytest.mark.timeout(300)


@dataclass(frozen=True)
class Ended:
    """A run that is over, and its program."""

    out: str
    err: str
    directory: Path
    report: Report

    def records(self, kind: str) -> list[dict[str, Any]]:
        lines = (self.directory / "records" / "records.jsonl").read_text().splitlines()
        return [each for each in map(json.loads, lines) if each.get("type") == kind]

    def span(self, name: str) -> dict[str, Any]:
        (found,) = (each for each in self.records("span") if each["name"] == name)
        return found

    def steps(self) -> dict[int, dict[str, float]]:
        return {each["step"]: each["values"] for each in self.records("step") if each["axis"] == "step"}

    def gauges(self, name: str) -> dict[tuple[tuple[str, str], ...], float | None]:
        gauges = self.report.snapshot.gauges
        return {tuple(sorted(stat.labels.items())): stat.value for stat in gauges if stat.name == name}


def environment(folder: Path, **more: str) -> dict[str, str]:
    own = {key: value for key, value in os.environ.items() if not key.startswith(("TELEMETRY_", "RL_INSIGHT_"))}
    own["TELEMETRY_COLLECT__NAMES"] = "none"
    return own | {"VERL_RL_INSIGHT_ENABLE": "1", "VERL_FILE_LOGGER_ROOT": str(folder), "HF_HUB_OFFLINE": "1"} | more


def captured(folder: Path, names: str, program: str, *words: str, **more: str) -> Ended:
    """Run a program; `names` are the captures, or empty where the program finds its own way."""
    flags = ["--capture", names] if names else []
    command = [sys.executable, "-m", "telemetry", "run", "--quiet", "--name", "job", *flags, "--", sys.executable]
    done = subprocess.run(
        [*command, str(PROGRAMS / program), *words],
        cwd=folder,
        env=environment(folder, **more),
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (directory,) = (folder / "runs").glob("job-*")
    return Ended(done.stdout, done.stderr, directory, load_report(directory))


@pytest.fixture(scope="module")
def insight(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    return captured(tmp_path_factory.mktemp("insight"), "rl_insight", "insight_events.py")


@pytest.fixture(scope="module")
def verl(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    return captured(tmp_path_factory.mktemp("verl"), "rl_insight,verl", "track_verl.py", "--remove")


def test_the_program_sees_no_difference(insight: Ended, tmp_path: Path) -> None:
    """The program's return values and exceptions are the same with and without the capture.

    Nothing else can be compared, because without a capture and a server RL-Insight is off.
    """
    alone = subprocess.run(
        [sys.executable, str(PROGRAMS / "insight_events.py")],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=True,
    )
    assert insight.out == alone.stdout
    assert "8 waited\nValueError: " in insight.out
    assert "connections: []" in insight.out
    assert "[rl-insight]" in alone.stderr
    assert "[rl-insight]" not in insight.err


def test_metrics_arrive_with_their_labels(insight: Ended) -> None:
    """Metrics arrive with their labels through the client that RL-Insight chooses by default."""
    snapshot = insight.report.snapshot
    (steps,) = (stat for stat in snapshot.counters if stat.name == "train_step")
    assert (steps.value, steps.labels) == (3.0, {"project": "p", "experiment_name": "e", "worker": "w0"})
    assert insight.gauges("actor_lr") == {IDENTITY: 0.001, (*IDENTITY, ("worker", "3")): 0.002}
    latency = insight.report.series("step_latency_ms", project="p", experiment_name="e")
    assert (latency.count, latency.percentiles["50"], latency.max) == (3, 300.0, 900.0)
    below = insight.report.series("step_latency_ms.below_zero", project="p", experiment_name="e")
    assert (below.count, below.max) == (1, 5.0)
    assert insight.gauges("too_late") == {}
    assert insight.report.completeness == "complete"


def test_traces_arrive_as_spans(insight: Ended) -> None:
    """Traces arrive as spans with the attributes that RL-Insight's queries use."""
    rollout = insight.span("rollout")
    assert rollout["track"] == "replica-0"
    assert rollout["end_ns"] - rollout["start_ns"] >= 10_000_000
    assert rollout["labels"]["monitor.trace_segment"] == "state_interval"
    assert (rollout["labels"]["project"], rollout["labels"]["step"]) == ("p", "3")
    double = insight.span("double")
    assert (double["labels"]["number"], double["labels"]["phase"]) == ("4", "static")
    assert double["labels"]["monitor.trace_segment"] == "duration"
    assert insight.span("wait")["labels"].keys() == double["labels"].keys() - {"number", "phase"}
    assert "monitor.trace_segment" not in insight.span("direct")["labels"]
    session = insight.span("agent_session")
    assert session["track"] == "experiment=e/sample=3/session=1/traj=0"
    assert len(insight.gauges("agent_loop_traj_info")) == 1


def test_scrape_targets_are_parameters(insight: Ended) -> None:
    """Scrape targets are recorded as parameters, and no server is asked."""
    params = insight.report.snapshot.params
    assert params["rl_insight.scrape.vllm.10.0.0.1:8000"] == "replica=0"
    assert params["rl_insight.scrape.vllm.10.0.0.2:8000"] == ""
    assert "rl_insight.scrape.vllm.h:1" not in params


def test_a_trace_receiver_gets_root_spans_with_these_attributes(insight: Ended, tmp_path: Path) -> None:
    """Root spans have the attributes for which RL-Insight's dashboards ask.

    The dashboards ask by text, by number and by service.
    """
    with HttpReceiver(tmp_path / "got") as receiver:
        to = f"otlp:endpoint={receiver.endpoint},service=rl_insight_monitor,roots=true,integers=global_steps+turn"
        command = [sys.executable, "-m", "telemetry", "export", str(insight.directory), "--to", to]
        subprocess.run(command, check=True, timeout=DEADLINE_S, capture_output=True)
    groups = [group for request in requests(tmp_path / "got", "traces") for group in request.resource_spans]
    found = {span.name: span for group in groups for scope in group.scope_spans for span in scope.spans}
    assert {plain(group.resource.attributes)["service.name"] for group in groups} == {"rl_insight_monitor"}
    assert found.keys() == {"rollout", "double", "wait", "direct", "agent_session"}
    assert {span.parent_span_id for span in found.values()} == {b""}
    assert len({span.trace_id for span in found.values()}) == len(found)
    rollout, session = plain(found["rollout"].attributes), plain(found["agent_session"].attributes)
    assert rollout["state_lane_id"] == "replica-0"
    assert rollout["monitor.trace_segment"] == "state_interval"
    assert rollout["process_id"].isdecimal()
    assert (session["global_steps"], session["sample"]) == (7, "3")
    assert plain(found["direct"].attributes)["turn"] == 1


def test_prometheus_gets_the_names_that_dashboards_know(insight: Ended, verl: Ended, tmp_path: Path) -> None:
    """Metrics of RL-Insight and values of verl's steps."""
    found = scraped(insight, tmp_path)
    names = {name for name, _ in found}
    assert {"rl_insight_monitor_train_step_total", "rl_insight_monitor_actor_lr"} <= names
    assert {f"rl_insight_monitor_step_latency_ms_{end}" for end in ("bucket", "sum", "count")} <= names
    assert found["rl_insight_monitor_actor_lr", frozenset(IDENTITY)] == 0.001
    assert scraped(verl, tmp_path)["rl_insight_monitor_actor_loss", frozenset({("axis", "step")})] == 1 / 3


def scraped(ended: Ended, folder: Path) -> dict[Key, float]:
    """Return what a scrape with RL-Insight's namespace gets."""
    backend = PrometheusBackend(PrometheusOptions(port=0, namespace="rl_insight_monitor"), folder)
    backend.open(RunFacts("r1", "job", 0, None, host="here"), {})
    try:
        backend.write([Live(key="s", time_ns=0, snapshot=ended.report.snapshot)])
        return samples(*get(backend.where(), TEXT))
    finally:
        backend.close(final=False)


def test_verl_has_its_names_and_steps(verl: Ended) -> None:
    """Steps of verl have verl's names and any number type, and texts arrive as texts."""
    steps = verl.steps()
    assert steps.keys() == {1, 2, 3, 10, 11}
    for step in (1, 2):
        assert steps[step] == {
            "actor/loss": 1 / step,
            "critic/score": step / 2,
            "perf/tokens": 100.0 * step,
            "training/global_step": step,
        }
    assert steps[3].keys() == {*steps[1], "val/acc"}
    assert (steps[10], steps[11]) == ({"actor/kl": 0.1}, {"actor/kl": 0.11})
    texts = [(each["step"], each["name"], each["text"]) for each in verl.records("text")]
    assert texts == [(step, "note", f"step {step}") for step in (1, 2, 3)]


def test_verl_is_not_recorded_twice(verl: Ended) -> None:
    """A value that verl's capture records is not recorded as RL-Insight's gauge as well.

    The only gauge was logged after verl's own capture had been removed.
    """
    names = {stat.name for stat in verl.report.snapshot.gauges}
    assert names == {"actor_entropy"}
    assert verl.gauges("actor_entropy") == {(("experiment_name", "three"), ("project", "p")): 0.5}


def test_verl_itself_sees_no_difference(verl: Ended) -> None:
    """The console and the file of verl get what they always got."""
    assert "step:10 - actor/kl:0.1\nstep:11 - actor/kl:0.11\n" in verl.out
    file = verl.directory.parents[1] / "p" / "two.jsonl"
    assert [json.loads(line) for line in file.read_text().splitlines()] == [
        {"step": step, "data": {"actor/kl": step / 100}} for step in (10, 11)
    ]
    params = verl.report.snapshot.params
    assert (params["verl.project_name"], params["trainer.total_epochs"]) == ("p", 2)
    assert verl.report.completeness == "complete"


def test_verl_finds_the_capture_where_the_path_is_replaced(tmp_path: Path) -> None:
    """The capture is loaded through the variable that verl reads. The capture's own folder is not in the path."""
    ended = captured(
        tmp_path,
        "",
        "track_verl.py",
        TELEMETRY_CAPTURE="verl",
        VERL_USE_EXTERNAL_MODULES="telemetryd_plugins",
        VERL_RL_INSIGHT_ENABLE="0",
    )
    assert ended.steps().keys() == {1, 2, 3, 10, 11}


@pytest.fixture
def rl_insight() -> Iterator[Any]:
    """The library in this process, which has no run."""
    import rl_insight
    import rl_insight.client

    capture.uninstall()
    yield rl_insight
    rl_insight.finish()
    capture.uninstall()


def test_it_is_installed_and_removed_by_hand(rl_insight: Any) -> None:
    """Any number of times; afterwards everything is what it was."""
    from rl_insight.client.base import MONITOR_CLIENT_REGISTRY as REGISTRY
    from rl_insight.utils import monitor_config_loader as loader

    def state() -> tuple[Any, ...]:
        functions = (rl_insight.update_prometheus_config, rl_insight.utils.update_prometheus_config)
        return (*REGISTRY.items(), *functions, loader.load_monitor_config().server.url)

    before = state()
    for _ in range(2):
        capture.install()
        changed = state()
        capture.install()
        assert state() == changed
        assert len(set(map(str, before)) & set(map(str, changed))) == 0
        rl_insight.init(project="p")
        rl_insight.metric_gauge("no_run", 1.0)
        rl_insight.finish()
        capture.uninstall()
        capture.uninstall()
        assert all(now is then or now == then for now, then in zip(state(), before, strict=True))


def test_a_server_that_the_program_names_gets_every_event_too(
    rl_insight: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The capture takes nothing away."""
    from rl_insight.client.base import MONITOR_CLIENT_REGISTRY as REGISTRY

    got: list[dict[str, Any]] = []

    class Client:
        def apply_event(self, event: dict[str, Any]) -> None:
            got.append(event)

    monkeypatch.setitem(REGISTRY, "ray", lambda conf: Client())
    monkeypatch.setenv(capture.SERVER_VARIABLE, "http://127.0.0.1:9")
    capture.install()
    rl_insight.init(project="p", experiment_name="e")
    rl_insight.metric_gauge("actor_lr", 0.5)
    with rl_insight.trace_state("rollout"):
        pass
    capture.uninstall()
    assert [(event["kind"], event["name"]) for event in got] == [("gauge", "actor_lr"), ("trace", "rollout")]

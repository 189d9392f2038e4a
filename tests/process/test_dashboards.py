"""Every query of every dashboard, asked of a Prometheus that scrapes real runs with the files of the stack."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.process.conftest import Ground
from tests.process.dashboards import (
    Prometheus,
    choose,
    dashboards,
    filled,
    panel_queries,
    prometheus_of,
    variables,
)
from tests.process.leaves import Cluster

from telemetry.stack.layout import RULES, StackLayout
from telemetry.stack.settings import StackSettings

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
WaitUntil = Callable[..., Any]
JOB = Path(__file__).with_name("dashboard_job.py")
DEADLINE_S = 120.0
OF_SEVERAL_MACHINES = frozenset({"run: Nodes"})
"""Panels that only a run of several nodes fills."""

LOSSY = """
import telemetry
with telemetry.start("short") as run:
    run.series("latency", unit="ms").record(-1.0)
"""

RL_INSIGHT = """
import os, sys, time
from types import SimpleNamespace
import telemetry.compat.rl_insight as rl_insight
from telemetry.compat.rl_insight.traces import agent_loop_session

rl_insight.init(project="gsm8k", experiment_name="grpo")
step = 0
while not os.path.exists(sys.argv[1]):
    with rl_insight.trace_state("rollout", state_lane_id="replica-0", step=step):
        rl_insight.metric_histogram("step_latency_ms", 20.0 + step % 7)
        time.sleep(0.01)
    rl_insight.metric_count("train_step")
    rl_insight.metric_gauge("reward_mean", step % 10 / 10)
    if step % 50 == 0:
        session = agent_loop_session(
            project="gsm8k", experiment_name="grpo", sample=1, session=0, global_steps=step
        )
        session.finish(trajectories=[SimpleNamespace(reward_score=0.5, num_turns=3)], status="done")
    step += 1
rl_insight.finish()
"""

OF_RL_INSIGHT = (
    "rl_insight_monitor_train_step_total",
    "rl_insight_monitor_reward_mean",
    "rl_insight_monitor_step_latency_ms_bucket",
    'max_over_time(rl_insight_monitor_agent_loop_traj_info{project=~"gsm8k",experiment_name=~"grpo"}[120s])',
    'max_over_time(rl_insight_monitor_agent_loop_session_info{project=~"gsm8k",experiment_name=~"grpo"}[120s])',
    'max_over_time(rl_insight_monitor_agent_loop_sample_info{project=~"gsm8k",experiment_name=~"grpo"}[120s])',
    'rl_insight_monitor_agent_loop_run_info{project=~"gsm8k",experiment_name=~"grpo"}',
)
"""Queries of metrics in the dashboards of RL-Insight 0.3: its quick start, and its trajectories."""


class Site:
    """A Prometheus that finds runs by itself, with the configuration of the stack."""

    def __init__(self, ground: Ground, prometheus: Prometheus, targets: Path) -> None:
        self.prometheus = prometheus
        self.targets = targets
        self.ground = ground

    def run(self, name: str, *command: str, to: str = "", **environ: str) -> Any:
        """Start a run that Prometheus scrapes."""
        words = ("run", "--name", name, "--quiet", "--no-report", "--to", self.to(to), "--to", "jsonl", "--")
        return self.ground.telemetry(*words, sys.executable, *command, environ=environ)

    def to(self, more: str = "") -> str:
        return f"prometheus:port=0,targets={self.targets}{more}"

    def ids(self, *names: str) -> Mapping[str, str]:
        """Name → id, once all these runs are known; else empty."""
        try:
            known = [dict(labels) for labels in self.prometheus.numbers("last_over_time(telemetry_run_info[2m])")]
        except OSError:
            return {}
        found = {labels["name"]: labels["run"] for labels in known}
        return found if set(names) <= found.keys() else {}


@pytest.fixture
def site(ground: Ground, require_tool: Callable[[str], str]) -> Iterator[Site]:
    program, targets = require_tool("prometheus"), ground.folder / "targets"
    layout = StackLayout(ground.folder / "stack", StackSettings(targets=str(targets)))
    layout.directory.mkdir()
    layout.rules_yml.write_text(RULES.read_text())
    with prometheus_of(program, ground.folder / "data", layout.prometheus_text()) as prometheus:
        yield Site(ground, prometheus, targets)


@pytest.mark.parametrize("more", ["", ",namespace=mine"], ids=["plain", "namespace"])
def test_every_query_has_an_answer(site: Site, wait_until: WaitUntil, more: str) -> None:
    """A run with requests, steps of ranks and collectors fills all panels, a run of two levels that of nodes.

    Variables have the values that Grafana chooses when a dashboard opens. Gauges of what this
    machine may not have, such as GPUs, Ray and limits of containers, come from the job.
    """
    stop = site.ground.folder / "stop-job"
    job = site.run("job", str(JOB), str(stop), to=more, TELEMETRY_COLLECT__NAMES="host")
    cluster = Cluster(site.ground)
    root = cluster.root("--nodes", "1", "--bind", "tcp://127.0.0.1:0", "--to", site.to())
    cluster.record("recorder", cluster.leaf("a", root))
    ids = wait_until(lambda: site.ids("job", "root"), DEADLINE_S, "both runs in Prometheus")
    missing: dict[str, str] = {}

    def are_there() -> bool:
        missing.clear()
        for name, dashboard in dashboards().items():
            chosen = choose(site.prometheus, dashboard, {"run": ids["job"]})
            for title, query in panel_queries(name, dashboard):
                run = ids["root" if title in OF_SEVERAL_MACHINES else "job"]
                asked = filled(query, {**chosen, "run": run})
                if not site.prometheus.numbers(asked):
                    missing[title] = asked
        return not missing

    try:
        wait_until(are_there, DEADLINE_S)
    except pytest.fail.Exception:
        pytest.fail(f"no answer: {missing}")
    newest = site.prometheus.values(variables(dashboards()["run"])[0], {})
    assert set(newest) == {ids["job"], ids["root"]}
    stop.touch()
    _, err = job.communicate(timeout=DEADLINE_S)
    assert job.returncode == 0, err


def test_a_run_that_ended_with_losses_is_shown_and_alerted(site: Site, wait_until: WaitUntil) -> None:
    """The verdict of a run with losses stays after its end, and the alert names it."""
    job = site.run("short", site.ground.program("short.py", LOSSY))
    _, err = job.communicate(timeout=DEADLINE_S)
    assert job.returncode == 0, err
    run = wait_until(lambda: site.ids("short"), DEADLINE_S, "the run in Prometheus")["short"]
    alert = f'ALERTS{{alertname="TelemetryRunNotComplete",alertstate="firing",run="{run}"}}'
    wait_until(lambda: site.prometheus.numbers(alert), DEADLINE_S, "the alert")
    wait_until(lambda: not site.prometheus.numbers("up"), DEADLINE_S, "the end of the target")
    shown = {}
    for title, query in panel_queries("run", dashboards()["run"]):
        labels = [dict(one) for one in site.prometheus.numbers(filled(query, {"run": run}))]
        shown[title] = [one.get("state", one.get("completeness")) for one in labels]
    assert shown["run: State"] == ["COMPLETE"]
    assert shown["run: Completeness"] == ["lossy"]


def test_dashboards_of_rl_insight_find_their_metrics(site: Site, wait_until: WaitUntil) -> None:
    """The dashboards of RL-Insight find their metrics with the namespace that they expect."""
    stop = site.ground.folder / "stop-rl"
    program = site.ground.program("rl.py", RL_INSIGHT)
    job = site.run("rl", program, str(stop), to=",namespace=rl_insight_monitor")
    wait_until(lambda: site.ids("rl"), DEADLINE_S, "the run in Prometheus")
    for query in OF_RL_INSIGHT:
        wait_until(lambda query=query: site.prometheus.numbers(query), DEADLINE_S, query)
    stop.touch()
    _, err = job.communicate(timeout=DEADLINE_S)
    assert job.returncode == 0, err

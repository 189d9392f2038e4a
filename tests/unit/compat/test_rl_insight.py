"""Programs of RL-Insight with only their import changed, read back from the files of their runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from telemetry.history.result import load_report
from telemetry.wire.report import Report

PROGRAM = """
import asyncio, os, sys, threading, time, warnings
from types import SimpleNamespace
import telemetry.compat.rl_insight as rl_insight

rl_insight.metric_gauge("too_early", 1.0)
with rl_insight.trace_state("too_early"):
    pass

@rl_insight.trace_op("double", extra_labels=lambda number: {"number": number, "phase": "extra"}, phase="static")
def double(number):
    assert number < 5, "too large"
    return 2 * number

@rl_insight.trace_op()
async def wait(seconds):
    await asyncio.sleep(seconds)
    return "waited"

@rl_insight.trace_op("odd", extra_labels=lambda number: 1 / 0, phase="static")
def odd(number):
    return number

assert double(1) == 2  # before init

rl_insight.init(project="p", experiment_name="e", config={"server": {"namespace": "mine"}})
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    rl_insight.init(project="other")
assert [each.category for each in caught] == [RuntimeWarning], caught
assert caught[0].filename == "<string>", caught[0].filename

rl_insight.metric_count("steps")
rl_insight.metric_count("steps", 2, "Steps so far", worker=0)
rl_insight.metric_gauge("depth", -2)
rl_insight.metric_gauge("depth", 3, project="another")
rl_insight.metric_histogram("latency_ms", 12)
rl_insight.metric_histogram("latency_ms", 900)
rl_insight.metric_value("old_gauge", 4.0)
rl_insight.metric_distribution("old_series", 5.0)

with rl_insight.trace_state("outer", state_lane_id="lane", step=1):
    with rl_insight.trace_state("inner", state_lane_id="lane"):
        with rl_insight.trace_state("outer", state_lane_id="lane", step=2):
            pass
try:
    with rl_insight.trace_state("raises"):
        raise KeyError("x")
except KeyError:
    pass

entered, left = threading.Event(), threading.Event()
def overlap():
    with rl_insight.trace_state("shared", state_lane_id=7):
        entered.set()
        left.wait(10)
thread = threading.Thread(target=overlap)
thread.start()
entered.wait(10)
with rl_insight.trace_state("shared", state_lane_id="7"):
    left.set()
    thread.join()

assert double(3) == 6
try:
    double(9)
except AssertionError as error:
    assert str(error) == "too large"
assert asyncio.iscoroutinefunction(wait)
assert asyncio.run(wait(0.001)) == "waited"
async def cancelled():
    task = asyncio.ensure_future(wait(60))
    await asyncio.sleep(0.01)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        return "cancelled"
assert asyncio.run(cancelled()) == "cancelled"
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    assert odd(4) == 4
assert [(each.category, each.filename) for each in caught] == [(RuntimeWarning, "<string>")], caught

now = time.time_ns()
attributes = {"turn": 1, "none": None}
rl_insight.trace_span(name="direct", start_time_ns=now - 5_000, end_time_ns=now, attributes=attributes)
session = rl_insight.agent_loop_session(project="p", experiment_name="e", sample=3, session=1, global_steps=7)
assert session.identity["state_lane_id"] == "experiment=e/sample=3/session=1/traj=0"
session.finish(
    trajectories=[SimpleNamespace(chain_id=1, reward_score=0.5, num_turns=4), object()],
    status="ok", runner_name="runner", finished=True,
)

rl_insight.update_prometheus_config(["h:8000"], "vllm", [{"replica": 0}], project="p")
rl_insight.update_prometheus_config({"server": {}}, ["h:9000"], "old", reload_mode="none")
try:
    rl_insight.update_prometheus_config(["h:1"], labels=[])
except ValueError:
    rl_insight.metric_count("refused_targets")
rl_insight.finish()
assert "TELEMETRY_ENDPOINT" not in os.environ
rl_insight.metric_gauge("too_late", 1.0)

rl_insight.init({"namespace": "older"})
rl_insight.metric_gauge("second", 1.0)
rl_insight.close()
"""

JOINS = """
import sys, telemetry
from telemetry.compat import rl_insight
with telemetry.start("mine", dir=sys.argv[1]) as run:
    rl_insight.init(project="p")
    rl_insight.metric_count("steps")
    rl_insight.finish()
    rl_insight.init()
    rl_insight.metric_count("steps")
    rl_insight.finish()
    assert not run.finished
assert run.report.completeness == "complete"
"""

NO_AGGREGATOR = """
from telemetry.compat import rl_insight
rl_insight.init(project="p")
rl_insight.metric_count("steps")
with rl_insight.trace_state("rollout"):
    print("went on")
rl_insight.update_prometheus_config(["h:8000"])
rl_insight.finish()
"""


def run(program: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program, str(folder)],
        cwd=folder,
        env={key: value for key, value in os.environ.items() if key != "TELEMETRY_ENDPOINT"} | environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@dataclass
class Ran:
    report: Report
    second: Report
    records: list[dict[str, Any]]

    def spans(self, name: str) -> list[dict[str, Any]]:
        return [each for each in self.records if (each.get("type"), each.get("name")) == ("span", name)]

    def gauges(self, name: str) -> dict[tuple[tuple[str, str], ...], float | None]:
        gauges = self.report.snapshot.gauges
        return {tuple(sorted(stat.labels.items())): stat.value for stat in gauges if stat.name == name}


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    folder = tmp_path_factory.mktemp("face")
    done = run(PROGRAM, folder)
    assert done.returncode == 0, done.stderr
    (first,) = (folder / "runs").glob("e-*")
    (second,) = (path for path in (folder / "runs").iterdir() if path not in (first, folder / "runs" / "latest"))
    lines = (first / "records" / "records.jsonl").read_text().splitlines()
    return Ran(load_report(first), load_report(second), [json.loads(line) for line in lines])


def test_calls_outside_init_and_finish_have_no_effect(ran: Ran) -> None:
    """Calls outside `init` and `finish` have no effect, as in RL-Insight. No event in between is lost."""
    names = {stat.name for report in (ran.report, ran.second) for stat in report.snapshot.gauges}
    assert names.isdisjoint({"too_early", "too_late"})
    assert not ran.spans("too_early")
    assert len(ran.spans("double")) == 2
    assert ran.report.completeness == ran.second.completeness == "complete"


def test_the_first_init_counts(ran: Ran) -> None:
    """The first `init` counts until `finish`. After that another one begins another run."""
    params = ran.report.snapshot.params
    assert (params["rl_insight.project"], params["rl_insight.experiment_name"]) == ("p", "e")
    assert params["rl_insight.namespace"] == "mine"
    assert ran.second.snapshot.params == {"rl_insight.namespace": "older"}


def test_metrics_have_the_labels_of_init_and_their_own(ran: Ran) -> None:
    """A label of the call wins."""
    identity = (("experiment_name", "e"), ("project", "p"))
    counters = ran.report.snapshot.counters
    steps = {tuple(sorted(stat.labels.items())): stat.value for stat in counters if stat.name == "steps"}
    assert steps == {identity: 1.0, (*identity, ("worker", "0")): 2.0}
    another = (("experiment_name", "e"), ("project", "another"))
    assert ran.gauges("depth") == {identity: -2.0, another: 3.0}
    latency = ran.report.series("latency_ms", project="p", experiment_name="e")
    assert (latency.count, latency.percentiles["50"], latency.max) == (2, 12.0, 900.0)


def test_the_older_names_work(ran: Ran) -> None:
    """The older names record the same values as the new ones."""
    assert list(ran.gauges("old_gauge").values()) == [4.0]
    assert ran.report.series("old_series", project="p", experiment_name="e").count == 1


def test_states_that_overlap_on_a_lane_are_kept(ran: Ran) -> None:
    """Overlapping states on a lane are kept, also states of different names, which RL-Insight drops."""
    (outer,), (inner,) = ran.spans("outer"), ran.spans("inner")
    assert outer["start_ns"] < inner["start_ns"] < inner["end_ns"] < outer["end_ns"]
    assert outer["track"] == inner["track"] == "lane"
    labels = dict(outer["labels"])
    assert labels.pop("process_id").isdecimal()
    assert labels == {
        "project": "p",
        "experiment_name": "e",
        "step": "1",
        "monitor.trace_segment": "state_interval",
        "state_name": "outer",
        "state_lane_id": "lane",
    }


def test_states_of_one_name_become_one_span(ran: Ran) -> None:
    """Threads may share a lane."""
    (shared,) = ran.spans("shared")
    assert shared["track"] == "7"


def test_the_lane_is_the_process_by_default(ran: Ran) -> None:
    """A block that raises has a span, too."""
    (raises,) = ran.spans("raises")
    assert raises["track"] == raises["labels"]["process_id"] == raises["labels"]["state_lane_id"]


def test_each_call_of_an_operation_has_a_span(ran: Ran) -> None:
    """Each call of a function or coroutine has a span.

    This holds also if it raises, is cancelled, or has labels that can't be made.
    """
    first, second = ran.spans("double")
    assert (first["labels"]["number"], second["labels"]["number"]) == ("3", "9")
    assert first["labels"]["phase"] == "extra"
    assert first["labels"]["monitor.trace_segment"] == "duration"
    assert first["track"] == ""
    waits = ran.spans("wait")
    assert len(waits) == 2
    assert all(each["end_ns"] - each["start_ns"] >= 1_000_000 for each in waits)
    (odd,) = ran.spans("odd")
    assert odd["labels"]["phase"] == "static"


def test_a_direct_span_is_kept_as_it_is(ran: Ran) -> None:
    """A direct span is kept as it is, and no segment is added."""
    (direct,) = ran.spans("direct")
    assert direct["end_ns"] - direct["start_ns"] == 5_000
    assert direct["labels"].keys() == {"process_id", "project", "experiment_name", "turn"}


def test_a_session_of_agents_has_what_the_dashboard_reads(ran: Ran) -> None:
    """A span, and a gauge for each trajectory."""
    (span,) = ran.spans("agent_session")
    assert span["track"] == "experiment=e/sample=3/session=1/traj=0"
    labels = span["labels"]
    assert (labels["monitor.trace_source"], labels["status"], labels["num_trajectories"]) == ("session", "ok", "2")
    assert (labels["global_steps"], labels["finished"]) == ("7", "True")
    titles = {dict(labels)["leaf"]: dict(labels)["title"] for labels in ran.gauges("agent_loop_traj_info")}
    assert titles == {
        "sample=3/session=1/traj=0": "Trajectory #0 · reward 0.5 · 4 turns",
        "sample=3/session=1/traj=1": "Trajectory #1 · reward 0 · 0 turns",
    }
    for what in ("run", "sample", "session"):
        assert list(ran.gauges(f"agent_loop_{what}_info").values()) == [1.0]
    first, last = (
        *ran.gauges("agent_loop_first_turn_unixtime").values(),
        *ran.gauges("agent_loop_last_turn_unixtime").values(),
    )
    assert first is not None
    assert last is not None
    assert first <= last


def test_targets_are_parameters_in_both_forms(ran: Ran) -> None:
    """Wrong labels raise, as in RL-Insight."""
    params = ran.report.snapshot.params
    assert params["rl_insight.scrape.vllm.h:8000"] == "replica=0"
    assert params["rl_insight.scrape.old.h:9000"] == ""
    assert "refused_targets" in {stat.name for stat in ran.report.snapshot.counters}


def test_a_run_of_the_program_is_joined_and_goes_on(tmp_path: Path) -> None:
    """A run is ended by the program that started it, and not by RL-Insight's `finish`."""
    done = run(JOINS, tmp_path)
    assert done.returncode == 0, done.stderr
    (directory,) = tmp_path.glob("mine-*")
    counters = load_report(directory).snapshot.counters
    assert {tuple(stat.labels): stat.value for stat in counters} == {("project",): 1.0, (): 1.0}


def test_an_absent_aggregator_only_warns(tmp_path: Path) -> None:
    """The warning comes at once, since training does not wait for an absent aggregator."""
    nowhere = f"ipc://{tmp_path}/nowhere"
    done = run(NO_AGGREGATOR, tmp_path, TELEMETRY_ENDPOINT=nowhere)
    assert (done.returncode, done.stdout) == (0, "went on\n")
    assert "nothing is recorded" in done.stderr

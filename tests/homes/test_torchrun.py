"""`telemetry run --capture torchrun`: real agents whose workers fail once, fail for good, or succeed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.processes import KILLED

import telemetry
from telemetry.wire.report import Report

PROGRAMS = Path(__file__).parent / "programs"
BIN = Path(sys.executable).parent
DEADLINE_S = 240.0

pytestmark = pytest.mark.timeout(300)


@dataclass(frozen=True)
class Ended:
    """A run that is over."""

    code: int
    err: str
    folder: Path
    report: Report

    @property
    def marks(self) -> list[tuple[str, dict[str, str]]]:
        return [(mark.text, mark.labels) for mark in self.report.snapshot.marks]

    def marks_of(self, text: str) -> list[dict[str, str]]:
        return [labels for known, labels in self.marks if known == text]

    def counter(self, name: str, **labels: str) -> float:
        found = [one for one in self.report.snapshot.counters if one.name == name and one.labels == labels]
        assert len(found) == 1, sorted(self.names)
        return found[0].value

    def series(self, name: str, **labels: str) -> Any:
        found = [one for one in self.report.snapshot.series if one.name == name and one.labels == labels]
        assert len(found) == 1, f"{name} with {labels}: {found}"
        return found[0]

    def gauge(self, name: str, **labels: str) -> float | None:
        [found] = [
            one for one in self.report.snapshot.gauges if one.name == name and labels.items() <= one.labels.items()
        ]
        return found.value

    @property
    def names(self) -> set[str]:
        snapshot = self.report.snapshot
        return {one.name for kind in (snapshot.series, snapshot.gauges, snapshot.counters) for one in kind}


def elastic(name: str, folder: Path, *command: str) -> subprocess.Popen[str]:
    """Start a run of its own."""
    environ = {key: value for key, value in os.environ.items() if not key.startswith("TELEMETRY_")}
    environ |= {"XDG_RUNTIME_DIR": str(folder), "XDG_CONFIG_HOME": str(folder), "HF_HUB_OFFLINE": "1"}
    environ["TELEMETRY_COLLECT__NAMES"] = "none"
    return subprocess.Popen(
        [str(BIN / "telemetry"), "run", "--quiet", "--name", name, *command],
        cwd=folder,
        env=environ,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


@pytest.fixture(scope="module")
def ended() -> Iterator[dict[str, Ended]]:
    """Three runs at the same time: imports take most of the time of each."""
    worker = str(PROGRAMS / "elastic_worker.py")
    torchrun = ("--capture", "torchrun", "--", str(BIN / "torchrun"), "--standalone", "--nproc-per-node=2")
    launch = str(PROGRAMS / "elastic_launch.py")
    commands = {
        "restarted": (*torchrun, "--max-restarts=2", "--role=trainer", worker, "1"),
        "failed": (*torchrun, "--max-restarts=0", worker, "9"),
        "by_hand": ("--", sys.executable, launch, "found.json"),
    }
    folders = {name: Path(tempfile.mkdtemp(prefix="tm", dir="/tmp")) for name in commands}
    children = {name: elastic(name, folders[name], *command) for name, command in commands.items()}
    found = {}
    try:
        for name, child in children.items():
            _, err = child.communicate(timeout=DEADLINE_S)
            report = telemetry.load_report(folders[name] / "runs" / "latest")
            found[name] = Ended(child.returncode, err, folders[name], report)
        yield found
    finally:
        for child in children.values():
            if child.poll() is None:
                os.killpg(child.pid, 9)
                child.wait(10)
        for folder in folders.values():
            shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def restarted(ended: dict[str, Ended]) -> Ended:
    return ended["restarted"]


@pytest.fixture
def failed(ended: dict[str, Ended]) -> Ended:
    return ended["failed"]


@pytest.fixture
def by_hand(ended: dict[str, Ended]) -> Ended:
    return ended["by_hand"]


# --- workers -------------------------------------------------------------------------------------


def test_metrics_of_workers_have_their_rank(restarted: Ended) -> None:
    """Both starts are in one series: five values each."""
    assert restarted.code == 0, restarted.err
    for rank in (0, 1):
        examples = restarted.series("examples", group="train", rank=str(rank))
        assert (examples.count, examples.min, examples.max) == (10, 100 * rank, 100 * rank + 4)
        assert examples.total == 2 * sum(100 * rank + number for number in range(5))
        assert restarted.gauge("delta.below_zero", rank=str(rank)) == -0.5 - rank
        assert restarted.series("before", group="torchelastic", rank=str(rank)).count == 2
        assert restarted.series("tensor", group="train", rank=str(rank)).total == 2 * (rank + 1)


def test_profiled_functions_of_workers_have_their_rank(restarted: Ended) -> None:
    """Profiled functions of workers have their rank and whole milliseconds, as torch measures them."""
    for rank in (0, 1):
        labels = {"group": "train", "rank": str(rank)}
        assert restarted.counter("__main__.step.success", **labels) == 10
        duration = restarted.series("__main__.step.duration.ms", **labels)
        assert (duration.count, duration.unit) == (10, "ms")
        assert duration.min >= 10


def test_our_own_interface_has_one_series_over_all_workers(restarted: Ended) -> None:
    """Our own interface has one series with percentiles over both ranks and both starts."""
    both = restarted.series("both_ranks", group="train")
    assert (both.count, both.min, both.max) == (20, 0, 104)
    assert both.percentiles["50"] == 4
    assert both.percentiles["99"] == 104


def test_a_handler_of_the_program_gets_everything(restarted: Ended) -> None:
    """Though it is configured after the capture, and gets nothing from before it was configured."""
    for rank in (0, 1):
        for restart in (0, 1):
            lines = (restarted.folder / f"handler-{rank}-{restart}").read_text().splitlines()
            values = [f"train examples {100 * rank + number}" for number in range(5)]
            assert [line for line in lines if "examples" in line] == values
            assert lines.count("train __main__.step.success 1") == 5
            assert f"train delta {-0.5 - rank}" in lines
            assert not any("before" in line for line in lines)


# --- the agent -----------------------------------------------------------------------------------


def test_metrics_of_the_agent_have_their_names(restarted: Ended) -> None:
    """Durations are series. The agent has no rank."""
    expected = {
        "SimpleElasticAgent._assign_worker_ranks": 2,
        "SimpleElasticAgent._rendezvous": 2,
        "LocalElasticAgent._start_workers": 2,
        "SimpleElasticAgent._initialize_workers": 2,
        "LocalElasticAgent._stop_workers": 1,
        "SimpleElasticAgent._restart_workers": 1,
        "SimpleElasticAgent.run": 1,
    }
    for function, calls in expected.items():
        assert restarted.counter(f"{function}.success", group="torchelastic") == calls
        duration = restarted.series(f"{function}.duration.ms", group="torchelastic")
        assert (duration.count, duration.unit) == (calls, "ms")
    assert restarted.series("SimpleElasticAgent.run.duration.ms", group="torchelastic").max >= 800
    assert restarted.series("rendezvous.duration.ms", group="torchelastic").count == 2
    workers = {
        "flakiness": 33,
        "run_total": 1,
        "run_success_with_retries": 1,
        "run_success_no_retries": 0,
        "run_failed_with_retries": 0,
        "run_failed_no_retries": 0,
    }
    for name, value in workers.items():
        assert restarted.gauge(f"workers.trainer.{name}") == value


def test_the_monitor_loop_is_folded(restarted: Ended) -> None:
    """The count of checks is a counter, and the state of the workers a gauge that changes when the state does."""
    counters = {one.name: one for one in restarted.report.snapshot.counters}
    gauges = {one.name: one for one in restarted.report.snapshot.gauges}
    checks = counters["LocalElasticAgent._monitor_workers.success"]
    durations = gauges["LocalElasticAgent._monitor_workers.duration.ms"]
    assert checks.value >= 8
    assert 1 <= durations.events < checks.value
    left = gauges["workers.trainer.remaining_restarts"]
    assert (left.value, left.max, left.events) == (1, 2, 2)
    states = {name.rpartition(".")[2]: one for name, one in gauges.items() if name.startswith("workers.trainer.")}
    totals = {"remaining_restarts", "flakiness", *(name for name in states if name.startswith("run_"))}
    assert {name: (one.value, one.events) for name, one in states.items() if name not in totals} == {
        "healthy": (0, 4),
        "failed": (0, 2),
        "succeeded": (1, 1),
    }
    assert all("monitor" not in one.name for one in restarted.report.snapshot.series)


def test_a_restart_is_marked(restarted: Ended) -> None:
    """The marks of a restart are in the order of events and name the worker that caused the restart."""
    order = [text for text, _ in restarted.marks]
    assert order == [
        "rendezvous",
        "worker started",
        "worker started",
        "worker failed",
        "worker failed",
        "rendezvous",
        "workers restarted",
        "worker started",
        "worker started",
        "worker succeeded",
        "worker succeeded",
        "torchrun: all workers succeeded",
    ]
    failures = [
        (labels["rank"], labels["exit_code"], labels["restarts"]) for labels in restarted.marks_of("worker failed")
    ]
    assert failures == [("1", "3", "0"), ("0", "4", "0")]  # the agent ended rank 0
    assert restarted.marks_of("workers restarted") == [{"restarts": "1", "reason": "a worker failed"}]
    starts = [
        (labels["rank"], labels["restarts"], labels["role"]) for labels in restarted.marks_of("worker started")
    ]
    assert starts == [("0", "0", "trainer"), ("1", "0", "trainer"), ("0", "1", "trainer"), ("1", "1", "trainer")]
    assert [labels["backend"] for labels in restarted.marks_of("rendezvous")] == ["c10d", "c10d"]
    [outcome] = restarted.marks_of("torchrun: all workers succeeded")
    assert outcome["restarts"] == "1"


def test_nothing_is_lost(restarted: Ended) -> None:
    """Both starts of both workers are there."""
    assert restarted.report.completeness == "complete"
    accounting = restarted.report.snapshot.accounting
    assert (accounting.dropped, accounting.dropped_by_producer, accounting.missing) == ({}, {}, 0)
    ranks = sorted(producer.rank for producer in restarted.report.snapshot.producers if producer.rank is not None)
    assert ranks == [0, 0, 1, 1]


# --- failure -------------------------------------------------------------------------------------


def test_a_failed_run_is_not_called_a_success(failed: Ended) -> None:
    """The agent itself says that it succeeded; its workers did not."""
    assert failed.code == 1
    assert [text for text, _ in failed.marks] == [
        "rendezvous",
        "worker started",
        "worker started",
        "worker failed",
        "worker failed",
        "torchrun: workers failed",
    ]
    first, ended_by_agent = failed.marks_of("worker failed")
    assert (first["rank"], first["exit_code"]) == ("1", "3")
    assert (ended_by_agent["rank"], ended_by_agent["exit_code"]) == ("0", "-15")
    [outcome] = failed.marks_of("torchrun: workers failed")
    assert (outcome["restarts"], outcome["failed_ranks"]) == ("0", "0, 1")
    assert "SimpleElasticAgent.run.success" not in failed.names
    assert failed.counter("SimpleElasticAgent.run.failure", group="torchelastic") == 1
    assert "workers.default.succeeded" not in failed.names
    assert (failed.gauge("workers.default.failed"), failed.gauge("workers.default.healthy")) == (1, 0)
    for name in ("run_success_with_retries", "run_success_no_retries"):
        assert failed.gauge(f"workers.default.{name}") == 0
    assert failed.gauge("workers.default.run_failed_no_retries") == 1
    assert failed.gauge("workers.default.flakiness") == 100


def test_values_from_before_the_failure_are_there(failed: Ended) -> None:
    """The run has the values of the failed worker from before its failure.

    The other worker was killed, so the run is incomplete without salvage.
    """
    assert failed.series("examples", group="train", rank="1").count == 5
    assert failed.report.completeness == KILLED
    unended = [one.rank for one in failed.report.snapshot.producers if one.status != "ended"]
    assert unended == ([0] if KILLED == "incomplete" else [])


# --- by hand -------------------------------------------------------------------------------------


def test_the_capture_can_be_installed_late_and_removed(by_hand: Ended) -> None:
    """The capture can be installed after the agent imported torch's functions by name, and removed."""
    assert by_hand.code == 0, by_hand.err
    found = json.loads((by_hand.folder / "found.json").read_text())
    assert found == {
        "returned": {"0": "0", "1": "1"},
        "replaced": [True] * 5,
        "restored": [True] * 5,
    }
    assert "uncaptured" not in by_hand.names
    assert "torchrun: all workers succeeded" in dict(by_hand.marks)


def test_forked_workers_have_their_rank(by_hand: Ended) -> None:
    """Forked workers have their own rank. They inherit the capture from the agent, which has no rank."""
    assert [by_hand.series("by_function", group="launched", rank=rank).total for rank in ("0", "1")] == [5, 6]


def test_an_event_of_the_program_is_a_mark(by_hand: Ended) -> None:
    """An event of the program becomes a mark with its metadata as labels."""
    assert by_hand.marks_of("checkpoint") == [{"source": "WORKER", "step": "7", "path": "a.pt"}]

"""The capture of torchrun, without torch: metrics and events as an agent puts them, and the rank of a worker."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest

from telemetry.client import run as run_module
from telemetry.client import start
from telemetry.client.process import ENDPOINT_VARIABLE, PROCESS
from telemetry.integrations import torchrun
from telemetry.integrations.torchrun.metrics import Agent, MetricRecorders, message_of, worker_labels
from telemetry.testing.aggregator import FakeAggregator, Heard
from telemetry.wire.events import Mark


class Source(StrEnum):
    """A source of events as torch has it."""

    AGENT = "AGENT"
    WORKER = "WORKER"


class NodeState(StrEnum):
    """A state of a node as torch has it."""

    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"


@dataclass
class Event:
    """An event as torch has it."""

    name: str
    source: Source
    timestamp: int = 0
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass
class Failure:
    """The failure of a process, as torch has it."""

    exitcode: int
    message: Any = ""


def status(state: str, rank: int | None = None, restarts: int = 0, **more: Any) -> Event:
    """Return an event of a worker, or of the agent without a rank."""
    metadata = {
        "state": state,
        "global_rank": rank,
        "agent_restarts": restarts,
        "role": "default",
        "worker_id": None if rank is None else str(1_000 + rank),
        "raw_error": None,
        **more,
    }
    source = Source.AGENT if rank is None else Source.WORKER
    return Event(f"torchelastic.worker.status.{state}", source, metadata=metadata)


@pytest.fixture(autouse=True)
def no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "TORCHELASTIC_RUN_ID"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def agent() -> Agent:
    return Agent()


Finish = Callable[[], Heard]


@pytest.fixture
def finish(short_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Finish]:
    """A run, and the function that ends it and returns what arrived."""
    monkeypatch.setenv("TELEMETRY_EMIT__FLUSH_MS", "2")
    with FakeAggregator(short_dir) as aggregator:
        monkeypatch.setenv(ENDPOINT_VARIABLE, aggregator.endpoint)
        run = start("job")

        def end() -> Heard:
            run.finish()
            [producer] = aggregator.heard.values()
            return producer

        yield end
        run_module._STARTER.run = None
        PROCESS.finish(5.0)
        PROCESS.reopen()
        PROCESS._late.take()


def marks_of(heard: Heard) -> list[tuple[str, dict[str, str]]]:
    return [(record.text, record.labels) for record in heard.records if isinstance(record, Mark)]


def values_of(heard: Heard, name: str) -> list[float]:
    return [value for known, _, value in heard.rows() if known == name]


def end_run(metrics: MetricRecorders) -> None:
    """Put the metric with which an agent ends, whatever happened to its workers."""
    metrics.put("torchelastic", "SimpleElasticAgent.run.success", 1)


# --- outcome -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("states", "text", "failed_ranks"),
    [
        (["SUCCEEDED", "SUCCEEDED"], "torchrun: all workers succeeded", None),
        (["SUCCEEDED", "FAILED"], "torchrun: workers failed", "1"),
        (["FAILED", "FAILED"], "torchrun: workers failed", "0, 1"),
        (["TERMINATED", "FAILED"], "torchrun: workers failed", "1"),
        ([], "torchrun: the outcome of the workers is unknown", None),
    ],
)
def test_the_outcome_is_that_of_the_workers(
    agent: Agent, finish: Finish, states: list[str], text: str, failed_ranks: str | None
) -> None:
    """The agent reports success in all these cases."""
    for rank, state in enumerate(states):
        agent.take_event(status(state, rank))
    end_run(MetricRecorders(agent))
    agent.take_event(status("SUCCEEDED"))
    heard = finish()
    last, labels = marks_of(heard)[-1]
    assert (last, labels.get("failed_ranks")) == (text, failed_ranks)
    succeeded = text.endswith("succeeded")
    assert values_of(heard, "SimpleElasticAgent.run.success") == [1] * succeeded
    assert values_of(heard, "SimpleElasticAgent.run.failure") == [1] * (not succeeded)


def test_a_second_launch_in_a_process_has_an_outcome_of_its_own(agent: Agent, finish: Finish) -> None:
    """Failures of the first are forgotten."""
    metrics = MetricRecorders(agent)
    agent.take_event(status("FAILED", 0))
    end_run(metrics)
    agent.take_event(status("START", 0))
    agent.take_event(status("SUCCEEDED", 0))
    end_run(metrics)
    assert [text for text, _ in marks_of(finish())] == [
        "worker failed",
        "torchrun: workers failed",
        "worker started",
        "worker succeeded",
        "torchrun: all workers succeeded",
    ]


def test_an_interrupted_agent_leaves_no_healthy_worker(agent: Agent, finish: Finish) -> None:
    """The mark has the last line of the error."""
    metrics = MetricRecorders(agent)
    metrics.put("torchelastic", "workers.default.healthy", 1)
    metrics.put("torchelastic", "SimpleElasticAgent.run.failure", 1)
    error = "Traceback (most recent call last):\n  …\nSignalException: got signal: 15\n"
    agent.take_event(status("FAILED", raw_error=error))
    heard = finish()
    assert values_of(heard, "workers.default.healthy") == [1, 0]
    text, labels = marks_of(heard)[-1]
    assert (text, labels["error"]) == ("torchrun: the agent failed", "SignalException: got signal: 15")


# --- failures and restarts -----------------------------------------------------------------------


def test_a_failure_is_marked_once(agent: Agent, finish: Finish) -> None:
    """A failure is marked when the agent finds it, and not again when the agent reports it.

    The first failure in time is the first mark.
    """
    agent.take_failures({0: Failure(-15, "Signal 15"), 1: Failure(3, {"message": "out of memory"})}, 0)
    details = json.dumps({"exit_code": [3], "local_rank": [1]})
    agent.take_event(status("FAILED", 1, metadata=details, raw_error='{"message": "out of memory"}'))
    agent.take_event(status("FAILED", 1, 1, metadata=details, raw_error='{"message": "again"}'))
    assert marks_of(finish()) == [
        ("worker failed", {"rank": "1", "restarts": "0", "exit_code": "3", "error": "out of memory"}),
        ("worker failed", {"rank": "0", "restarts": "0", "exit_code": "-15", "error": "Signal 15"}),
        ("worker failed", {"rank": "1", "restarts": "1", "exit_code": "3", "error": "again"}),
    ]


def test_secrets_in_errors_and_events_are_masked(agent: Agent, finish: Finish) -> None:
    """Marks end in files and trackers."""
    url = "postgres://app:hunter2pw@db"
    agent.take_failures({0: Failure(1, {"message": f"OperationalError: {url}"})}, 0)
    agent.take_event(status("FAILED", raw_error=f"Traceback\nOperationalError: {url}"))
    agent.take_event(
        Event(f"connected to {url}", Source.AGENT, metadata={"password": "hunter2pw", "to": {"url": url}})
    )
    agent.take_rendezvous_event("job", f"no answer of {url}", NodeState.FAILED)
    marks = marks_of(finish())
    assert "hunter2pw" not in str(marks)
    assert [labels.get("error") for _, labels in marks[:2]] == ["OperationalError: postgres://app:***@db"] * 2
    assert marks[2][0] == "connected to postgres://app:***@db"
    assert marks[2][1]["password"] == "***"


def test_restarts_are_told_apart_by_their_reason(agent: Agent, finish: Finish) -> None:
    """The mark of a restart has the reason. Only a failure raises the number of restarts."""
    for restarts in (0, 1, 1):
        agent.take_event(status("START", 0, restarts))
        agent.take_event(status("START", 1, restarts))
    restarted = [labels for text, labels in marks_of(finish()) if text == "workers restarted"]
    assert restarted == [
        {"restarts": "1", "reason": "a worker failed"},
        {"restarts": "1", "reason": "the number of agents changed"},
    ]


def test_a_failure_of_the_rendezvous_is_marked_once(agent: Agent, finish: Finish) -> None:
    """Though each heartbeat repeats it. Other events of the rendezvous are too many."""
    for state in (NodeState.RUNNING, NodeState.FAILED, NodeState.FAILED, NodeState.SUCCEEDED):
        agent.take_rendezvous_event("job", "the store is gone", state)
    assert marks_of(finish()) == [("rendezvous failed", {"run": "job", "error": "the store is gone"})]


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (None, ""),
        ("", ""),
        ("plain text", "plain text"),
        ('{"message": "<NONE>"}', ""),
        ('{"message": "text"}', "text"),
        ('{"message": {"message": "inner", "extraInfo": {"py_callstack": "…"}}}', "inner"),
        ({"message": {"message": "mapping"}}, "mapping"),
        ('{"other": 1}', ""),
        ("[1, 2]", "[1, 2]"),
    ],
)
def test_messages_of_failures(raw: object, message: str) -> None:
    """The message of a failure is read from text, JSON and mappings, the forms that torch has."""
    assert message_of(raw) == message


# --- other events --------------------------------------------------------------------------------


def test_durations_of_the_agent_are_series(agent: Agent, finish: Finish) -> None:
    """Durations of the agent become series with the fractions that the agent's metrics lack."""
    agent.take_event(status("RENDEZVOUS", duration_ms=171.5, rdzv_backend="c10d"))
    agent.take_event(status("ASSIGN_WORKER_RANKS", duration_ms=2.25))
    heard = finish()
    assert values_of(heard, "rendezvous.duration.ms") == [171.5]
    assert values_of(heard, "assign_worker_ranks.duration.ms") == [2.25]
    assert marks_of(heard) == [("rendezvous", {"restarts": "0", "backend": "c10d"})]


def test_an_event_of_the_program_is_a_mark_at_its_time(agent: Agent, finish: Finish) -> None:
    """An event of the program becomes a mark at its time, with the metadata that is not empty."""
    agent.take_event(Event("saved", Source.WORKER, metadata={"step": 7, "path": "", "note": None}))
    agent.take_event(Event("early", Source.AGENT, timestamp=1))
    agent.take_event(Event("torchelastic.worker.status.ODD", Source.WORKER))
    assert marks_of(finish()) == [
        ("saved", {"source": "WORKER", "step": "7"}),
        ("early", {"source": "AGENT"}),
        ("torchelastic.worker.status.ODD", {"source": "WORKER"}),
    ]


@pytest.mark.parametrize("details", ["", "no JSON", "[]", '{"exit_code": []}', 7])
def test_odd_details_of_a_worker_are_left_out(agent: Agent, finish: Finish, details: object) -> None:
    """The rest of the mark is there."""
    agent.take_event(status("TERMINATED", 2, metadata=details))
    [(text, labels)] = marks_of(finish())
    assert (text, labels) == ("worker terminated", {"rank": "2", "restarts": "0", "role": "default", "pid": "1002"})


# --- the monitor loop ----------------------------------------------------------------------------


def test_the_monitor_loop_is_folded(agent: Agent, finish: Finish) -> None:
    """An hour of it is a handful of events."""
    metrics = MetricRecorders(agent)
    for turn in range(36_000):
        metrics.put("torchelastic", "LocalElasticAgent._monitor_workers.success", 1)
        metrics.put("torchelastic", "LocalElasticAgent._monitor_workers.duration.ms", 4 if turn == 500 else 0)
        metrics.put("torchelastic", "workers.default.remaining_restarts", 3)
        metrics.put("torchelastic", "workers.default.healthy", 1)
    metrics.put("torchelastic", "workers.default.failed", 1)
    metrics.put("torchelastic", "workers.default.remaining_restarts", 2)
    metrics.put("torchelastic", "workers.default.healthy", 1)
    heard = finish()
    checks = values_of(heard, "LocalElasticAgent._monitor_workers.success")
    assert sum(checks) == 36_000
    assert len(checks) < 36_000 / 100
    assert values_of(heard, "LocalElasticAgent._monitor_workers.duration.ms") == [0, 4, 0]
    assert values_of(heard, "workers.default.remaining_restarts") == [3, 2]
    assert values_of(heard, "workers.default.healthy") == [1, 0, 1]
    assert values_of(heard, "workers.default.failed") == [1, 0]


# --- workers -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environment", "labels"),
    [
        ({}, None),
        ({"RANK": "3", "WORLD_SIZE": "8"}, None),
        ({"RANK": "3", "WORLD_SIZE": "8", "TORCHELASTIC_RUN_ID": "job"}, {"rank": "3"}),
        ({"RANK": "3", "TORCHELASTIC_RUN_ID": "job"}, {"rank": "3"}),
        ({"RANK": "", "TORCHELASTIC_RUN_ID": "job"}, None),
        ({"RANK": "63", "WORLD_SIZE": "64", "TORCHELASTIC_RUN_ID": "job"}, {"rank": "63"}),
        ({"RANK": "64", "WORLD_SIZE": "65", "TORCHELASTIC_RUN_ID": "job"}, {}),
    ],
)
def test_a_worker_is_known_by_its_environment(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], labels: dict[str, str] | None
) -> None:
    """A pod may have a RANK, too, so RANK alone does not make a process a worker."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert worker_labels() == labels


def test_names_of_the_agent_mean_nothing_special_in_a_worker(
    agent: Agent, finish: Finish, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All values are recorded."""
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "job")
    monkeypatch.setenv("RANK", "0")
    metrics = MetricRecorders(agent)
    for value in (1, 1, 2):
        metrics.put("torchelastic", "workers.mine.healthy_in_worker", value)
        metrics.put("torchelastic", "Trainer.run.success", value)
    metrics.put(["no text"], "trainer.listed", 5)
    heard = finish()
    assert values_of(heard, "workers.mine.healthy_in_worker") == [1, 1, 2]
    assert values_of(heard, "Trainer.run.success") == [1, 1]
    assert values_of(heard, "Trainer.run.success.other") == [2]
    assert values_of(heard, "trainer.listed") == [5]
    assert marks_of(heard) == []


def test_without_torch_nothing_happens() -> None:
    """Installing without torch imports nothing and leaves nothing on the meta path."""
    before = list(sys.meta_path)
    torchrun.install()
    torchrun.install()
    torchrun.uninstall()
    torchrun.uninstall()
    assert sys.meta_path == before
    assert "torch" not in sys.modules

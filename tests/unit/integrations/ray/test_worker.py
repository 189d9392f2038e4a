"""The hook of workers, with a context in place of Ray's."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from telemetry.client.process import ENDPOINT_VARIABLE, Process
from telemetry.integrations.ray import worker

NODE = "1ceefd3a5999" + "0" * 44


def context(**facts: Any) -> SimpleNamespace:
    """Return a context of Ray's runtime with these facts."""
    known = {"node_id": NODE, "actor_name": None, "actor_id": None, "task_name": ""} | facts
    return SimpleNamespace(**{f"get_{name}": lambda value=value: value for name, value in known.items()})


@pytest.fixture
def process(short_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Process]:
    """A process in place of this one, in a worker of Ray."""
    made = Process()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(short_dir))
    monkeypatch.setenv(ENDPOINT_VARIABLE, "ipc:///of-the-raylet")
    monkeypatch.setattr(worker, "PROCESS", made)
    monkeypatch.setattr(worker, "ray_module", lambda: SimpleNamespace(get_runtime_context=context))
    yield made
    made.finish(0.2)


def test_the_hook_sets_the_address_of_the_nodes_leaf(process: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    """The address replaces one that the worker inherited. The worker waits for a leaf that is not there yet."""
    monkeypatch.setenv("TELEMETRY_RAY_JOB", "job")
    worker.attach_worker()
    assert os.environ[ENDPOINT_VARIABLE].endswith("/telemetry/ray-job-1ceefd3a5999")
    assert process.awaits_aggregator
    assert process.ends_with_run
    assert process.state == "idle"


@pytest.mark.parametrize("variables", [{}, {"TELEMETRY_RAY_JOB": "job", "TELEMETRY_RAY_HOOK": "off"}])
def test_the_hook_does_nothing_in_other_workers(
    process: Process, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]
) -> None:
    """Actors of telemetry itself inherit the hook and switch it off."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    worker.attach_worker()
    assert os.environ[ENDPOINT_VARIABLE] == "ipc:///of-the-raylet"
    assert not process.awaits_aggregator


def test_the_hook_never_raises(
    process: Process, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Ray would end the worker and start another one, again and again. One line says why nothing is recorded."""
    monkeypatch.setenv("TELEMETRY_RAY_JOB", "not a name")
    worker.attach_worker()
    [line] = caplog.messages
    assert "nothing is recorded in this worker" in line
    assert "not a name" in line


@pytest.mark.parametrize(
    ("facts", "name"),
    [
        ({"actor_name": "learner", "actor_id": "a", "task_name": "Trainer.fit"}, "learner"),
        ({"actor_id": "a", "task_name": "Trainer.fit"}, "Trainer"),
        ({"task_name": "score"}, "score"),
    ],
)
def test_a_worker_has_the_name_of_its_actor_or_task(facts: dict[str, Any], name: str) -> None:
    """All workers run the same program, so its name says nothing."""
    assert worker.worker_name(context(**facts)) == name


def test_a_worker_without_a_task_has_the_name_of_its_program() -> None:
    """A thread of the program's own may be the first to record."""
    assert worker.worker_name(context())
    assert worker.worker_name(object())

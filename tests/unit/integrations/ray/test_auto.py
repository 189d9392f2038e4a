"""A driver that knows nothing of runs, with stand-ins for Ray's module and for the run."""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from telemetry.errors import UsageError
from telemetry.integrations.ray import auto


class FakeRay:
    """The names of Ray's module that the hook uses."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self._private = SimpleNamespace(worker=SimpleNamespace(_post_init_hooks=[]))

    def init(self) -> None:
        self.calls.append("init")
        for hook in self._private.worker._post_init_hooks:
            hook()

    def shutdown(self) -> None:
        self.calls.append("shutdown")


class FakeRun:
    """A run that notes its beginning and its end."""

    def __init__(self, calls: list[str], job: str) -> None:
        self.finished = False
        self._calls = calls
        calls.append(f"run {job}")

    def finish(self) -> None:
        if not self.finished:
            self._calls.append("finish")
        self.finished = True


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> FakeRay:
    """Ray in a driver of `telemetry run --ray`."""
    made = FakeRay()
    monkeypatch.setitem(sys.modules, "ray", made)
    monkeypatch.setattr(auto, "_open", [])
    monkeypatch.setattr(auto, "_hooked", [])
    monkeypatch.setattr(auto, "run", lambda job: FakeRun(made.calls, job))
    for name, value in auto.variables("my run").items():
        monkeypatch.setenv(name, value)
    return made


def test_the_variables_name_a_function_that_ray_finds() -> None:
    """Ray imports the function by the name in its variable."""
    module, _, name = auto.variables("x")["RAY_RUNTIME_ENV_HOOK"].rpartition(".")
    assert getattr(sys.modules[module], name) is auto.runtime_env_hook


def test_the_run_lasts_from_init_to_shutdown(ray: FakeRay) -> None:
    """The run ends before Ray does, which kills workers. A driver may begin again."""
    made = auto.runtime_env_hook({"env_vars": {"A": "1"}})
    assert made is not None
    assert made["env_vars"] == {"A": "1", "TELEMETRY_RAY_JOB": "my-run"}
    ray.init()
    ray.shutdown()
    auto.runtime_env_hook(None)
    ray.init()
    ray.shutdown()
    assert ray.calls == 2 * ["init", "run my-run", "finish", "shutdown"]


def test_a_driver_that_starts_the_run_itself_is_left_alone(ray: FakeRay) -> None:
    """The hook leaves an environment unchanged that already has the name of a job."""
    own = {"env_vars": {"TELEMETRY_RAY_JOB": "mine"}}
    assert auto.runtime_env_hook(own) is own
    ray.init()
    assert ray.calls == ["init"]


def test_errors_do_not_reach_the_driver(
    ray: FakeRay, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The driver runs as it does without telemetry, and one line says what is wrong."""

    def fail(job: str) -> Any:
        raise UsageError("the job runs already")

    monkeypatch.setattr(auto, "run", fail)
    auto.runtime_env_hook(None)
    ray.init()
    ray.shutdown()
    assert ray.calls == ["init", "shutdown"]
    assert ["the job runs already" in line for line in caplog.messages] == [True]
    given = {"worker_process_setup_hook": "mine.hook"}
    assert auto.runtime_env_hook(given) is given
    assert "mine" not in os.environ
    assert "worker_process_setup_hook" in caplog.messages[-1]

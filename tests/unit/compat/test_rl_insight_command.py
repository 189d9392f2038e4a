"""The configuration of RL-Insight's server as settings of the stack."""

from __future__ import annotations

import os
import sys
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from telemetry.compat.rl_insight.__main__ import command, main, settings_file
from telemetry.errors import ConfigError
from telemetry.stack.settings import load_settings

CONFIG = """
server:
  backend: docker_compose
  project_name: mine
prometheus:
  prometheus_port: 19090
  binary_path: "/opt/pro\\"metheus"
tempo:
  query_port: 13200
  enable: false
grafana:
  port: 13000
otel: {}
"""


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def test_ports_and_programs_are_taken_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The rest is named."""
    path = tmp_path / "server.yaml"
    path.write_text(CONFIG)
    found = load_settings(settings_file(path))
    assert (found.prometheus.port, found.prometheus.program) == (19090, '/opt/pro"metheus')
    assert (found.tempo.port, found.tempo.enabled, found.grafana.port) == (13200, False, 13000)
    assert "no effect here: server.backend, server.project_name" in capsys.readouterr().err


def test_a_toml_file_is_that_of_the_stack(tmp_path: Path) -> None:
    """A TOML file is passed to the stack and not read here."""
    assert settings_file(tmp_path / "stack.toml") == tmp_path / "stack.toml"


def test_what_cant_be_read_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An unreadable file is an error with its exit code, also without a reader of YAML."""
    path = tmp_path / "server.yaml"
    assert main(["server", "start", "--config", str(path)]) == 2
    assert "can't read" in capsys.readouterr().err
    path.write_text("a: [")
    with pytest.raises(ConfigError, match="not valid YAML"):
        settings_file(path)
    path.write_text("just a text")
    assert load_settings(settings_file(path)).prometheus.port == 9090
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(ConfigError, match="pip install pyyaml"):
        settings_file(path)


@pytest.mark.parametrize(
    ("words", "command_line"),
    [
        (["stop"], ["stack", "down"]),
        (["status"], ["stack", "status"]),
        (["status", "--json"], ["stack", "status", "--json"]),
        (["start", "--detach"], ["stack", "up", "--log-level", "info", "--detach"]),
    ],
)
def test_each_action_is_a_command_of_the_stack(
    words: list[str], command_line: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stack's command replaces this process, so exit code and signals are those of the stack."""
    lines: list[list[str]] = []

    def replace(path: str, line: list[str]) -> None:
        lines.append(line)
        raise SystemExit(0)

    monkeypatch.setattr(os, "execv", replace)
    with pytest.raises(SystemExit):
        main(["server", *words])
    assert lines[0][-len(command_line) :] == command_line


def test_the_command_of_rl_insight_itself_comes_first(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both packages install a script of this name, and the one that is installed last replaces the other."""
    scripts = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]["scripts"]
    assert EntryPoint("rl-insight", scripts["rl-insight"], "console_scripts").load() is command
    module = "telemetry.compat.rl_insight.__main__"

    class Own(EntryPoint):
        """A script whose package this test chooses."""

        dist: Any = SimpleNamespace(name="rl-insight")

        def load(self) -> Any:
            return lambda: 7

    monkeypatch.setattr(f"{module}.entry_points", lambda **_: [Own("rl-insight", "rl_insight.cli:main", "")])
    assert command() == 7
    monkeypatch.setattr(f"{module}.entry_points", lambda **_: [])
    monkeypatch.setattr(sys, "argv", ["rl-insight", "server", "status", "--help"])
    with pytest.raises(SystemExit):
        command()
    assert "print an object" in capsys.readouterr().out

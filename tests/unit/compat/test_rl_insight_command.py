"""The configuration of RL-Insight's server as settings of the stack."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from telemetry.compat.rl_insight.__main__ import main, settings_file
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
    """It is not read here."""
    assert settings_file(tmp_path / "stack.toml") == tmp_path / "stack.toml"


def test_what_cant_be_read_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With its exit code; also without a reader of YAML."""
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

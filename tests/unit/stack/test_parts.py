"""Tests of the search for programs, and of the sentences about programs that are missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from telemetry.errors import ConfigError, UsageError
from telemetry.stack import parts as module
from telemetry.stack.layout import StackLayout
from telemetry.stack.parts import check_any, compose_command, find_parts
from telemetry.stack.settings import GrafanaSettings, PrometheusSettings, StackSettings


def program(path: Path, text: str = "exit 0") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is all of PATH, on a machine with nothing in the usual places."""
    names = {name: words[:1] for name, words in module._PROGRAMS.items()}
    monkeypatch.setattr(module, "_PROGRAMS", names)
    monkeypatch.setattr(module, "_GRAFANA_HOMES", ())
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def layout(tmp_path: Path, settings: StackSettings) -> StackLayout:
    return StackLayout(tmp_path / "stack", settings)


def test_what_is_not_installed_is_skipped_with_a_sentence(bare: Path, tmp_path: Path) -> None:
    """The sentence names the missing program and how to get it. Without any program there is nothing to start."""
    settings = StackSettings()
    found = find_parts(settings, layout(tmp_path, settings), (), None)
    assert [part.how for part in found] == [None, None, None]
    assert "apt-get install prometheus" in found[0].why
    assert "spans are not stored" in found[1].why
    with pytest.raises(UsageError, match=r"nothing to start. Prometheus: it is not installed.*Grafana"):
        check_any(found)


def test_programs_of_path_run_natively_and_the_rest_in_containers(bare: Path, tmp_path: Path) -> None:
    """Unless one of the two ways is forbidden."""
    prometheus, settings = program(bare / "prometheus"), StackSettings()
    files = layout(tmp_path, settings)
    compose = ("docker", "compose")
    mixed = find_parts(settings, files, compose, None)
    assert [part.how for part in mixed] == ["native", "compose", "compose"]
    assert mixed[0].command == (str(prometheus), *files.prometheus_flags())
    assert mixed[0].ready_url == "http://127.0.0.1:9090/-/ready"
    assert mixed[1].ports == {"port": 3200, "otlp_http_port": 4318, "otlp_grpc_port": 4317, "grpc_port": 9095}
    assert [part.how for part in find_parts(settings, files, compose, "native")] == ["native", None, None]
    assert [part.how for part in find_parts(settings, files, compose, "compose")] == ["compose"] * 3
    refused = find_parts(settings, files, (), "compose")
    assert "docker compose" in refused[0].why


def test_grafana_needs_its_own_files(bare: Path, tmp_path: Path) -> None:
    """Grafana is used only if its files are beside the program or where the settings say."""
    settings = StackSettings()
    grafana = program(bare / "grafana-server")
    assert find_parts(settings, layout(tmp_path, settings), (), None)[2].how is None
    home = tmp_path / "elsewhere"
    (home / "conf").mkdir(parents=True)
    (home / "conf" / "defaults.ini").write_text("")
    settings = StackSettings(grafana=GrafanaSettings(home=str(home)))
    command = find_parts(settings, layout(tmp_path, settings), (), None)[2].command
    assert command[:2] == (str(grafana), f"--homepath={home}")
    (bare.parent / "conf").mkdir()
    (bare.parent / "conf" / "defaults.ini").write_text("")
    settings = StackSettings()
    assert find_parts(settings, layout(tmp_path, settings), (), None)[2].command[1] == f"--homepath={bare.parent}"


def test_what_the_settings_name_must_exist(bare: Path, tmp_path: Path) -> None:
    """A part that is switched off is not looked for."""
    settings = StackSettings(prometheus=PrometheusSettings(program=str(tmp_path / "none")))
    with pytest.raises(ConfigError, match=r"prometheus\.program"):
        find_parts(settings, layout(tmp_path, settings), (), None)
    program(bare / "grafana-server")
    settings = StackSettings(grafana=GrafanaSettings(home=str(tmp_path)))
    with pytest.raises(ConfigError, match=r"grafana\.home"):
        find_parts(settings, layout(tmp_path, settings), (), None)
    settings = StackSettings(grafana=GrafanaSettings(home=str(tmp_path), enabled=False))
    assert find_parts(settings, layout(tmp_path, settings), (), None)[2].why == "it is switched off in the settings"


@pytest.mark.parametrize(
    ("docker", "podman", "command"),
    [
        (None, None, ()),
        ("exit 1", None, ()),
        ("exit 0", "exit 0", ("docker", "compose")),
        ("exit 1", "exit 0", ("podman", "compose")),
    ],
)
def test_compose_has_to_answer(
    bare: Path, docker: str | None, podman: str | None, command: tuple[str, ...]
) -> None:
    """A docker without its plug-in is no help."""
    for name, text in (("docker", docker), ("podman", podman)):
        if text is not None:
            program(bare / name, text)
    assert compose_command() == command

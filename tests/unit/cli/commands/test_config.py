"""`telemetry config` shows what is in force and why."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from telemetry.cli.main import main


@pytest.fixture(autouse=True)
def in_an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))


def test_show_says_where_values_come_from(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each key has its value and origin, in TOML and in JSON."""
    monkeypatch.setenv("TELEMETRY_RUN__REFRESH_HZ", "25")
    assert main(["config", "show"]) == 0
    assert "refresh_hz = 25.0" in capsys.readouterr().out
    assert main(["config", "--json"]) == 0
    settings = {item["key"]: item for item in json.loads(capsys.readouterr().out)}
    assert settings["run.refresh_hz"]["value"] == 25.0
    assert settings["run.refresh_hz"]["origin"] == "environment TELEMETRY_RUN__REFRESH_HZ"
    assert settings["emit.policy"]["origin"] == "default"


def test_a_wrong_setting_is_a_usage_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command that shows the settings names what is wrong with them."""
    monkeypatch.setenv("TELEMETRY_RUN__REFESH_HZ", "25")
    assert main(["config"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "did you mean TELEMETRY_RUN__REFRESH_HZ?" in captured.err


def test_schema_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    """The published schema is one JSON document."""
    assert main(["config", "schema"]) == 0
    assert "RunConfig" in json.loads(capsys.readouterr().out)["$defs"]


def test_path_says_where_it_looks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All files that could hold settings are named, and whether they are there."""
    (tmp_path / "telemetry.toml").write_text("")
    assert main(["config", "path", "--json"]) == 0
    found = {Path(item["path"]).name: item["exists"] for item in json.loads(capsys.readouterr().out)}
    assert found == {"config.toml": False, "pyproject.toml": False, "telemetry.toml": True}
    assert main(["config", "path"]) == 0
    assert capsys.readouterr().out.count("(not found)") == 2

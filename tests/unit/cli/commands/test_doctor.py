"""The doctor says what its checks found, and one that breaks doesn't stop the others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from telemetry.cli.commands import doctor
from telemetry.cli.commands.doctor import examine
from telemetry.cli.main import main
from telemetry.config import Config


@pytest.fixture(autouse=True)
def in_a_directory_of_its_own(root: Path) -> None:
    """Hide the settings and the runs of this machine from a test."""


def test_a_sound_machine_passes(capsys: pytest.CaptureFixture[str]) -> None:
    """All quick checks run, as text and as JSON, with exit code 0."""
    assert main(["doctor", "--quick"]) == 0
    assert len(capsys.readouterr().out.splitlines()) >= 9
    assert main(["doctor", "--quick", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {item["status"] for item in found} <= {"ok", "warn"}
    assert {item["name"] for item in found} >= {"versions", "ZeroMQ", "runtime directory", "clock", "open files"}


def test_a_broken_check_is_a_failed_check() -> None:
    """An error inside a check, whatever it is, becomes the finding of a failed check."""

    def broken(_config: Config) -> doctor.Finding:
        raise ZeroDivisionError("boom")

    found = examine("x", broken, Config())
    assert (found.status, found.found) == ("fail", "ZeroDivisionError: boom")


def test_a_wrong_configuration_is_the_first_finding(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The doctor names a broken setting and fails."""
    monkeypatch.setenv("TELEMETRY_RUN__NOPE", "1")
    assert main(["doctor", "--quick"]) == 1
    assert "TELEMETRY_RUN__NOPE" in capsys.readouterr().out

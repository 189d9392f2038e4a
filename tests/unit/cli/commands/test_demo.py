"""The command that `telemetry demo` puts under `telemetry run`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import pytest

from telemetry.cli.commands import run as run_command
from telemetry.cli.main import main


@pytest.fixture
def asked(root: Path, monkeypatch: pytest.MonkeyPatch) -> list[argparse.Namespace]:
    """Arguments that `telemetry run` would have got."""
    found: list[argparse.Namespace] = []

    def run(args: argparse.Namespace) -> int:
        found.append(args)
        return 5

    monkeypatch.setattr(run_command, "run", run)
    return found


def test_it_runs_the_example_under_run(asked: list[argparse.Namespace]) -> None:
    """With its sizes, and passes the exit code on."""
    assert main(["demo", "--requests", "300", "--connections", "2", "--dir", "there"]) == 5
    assert main(["demo"]) == 5
    small, plain = asked
    benchmark = [sys.executable, "-P", "-m", "telemetry.demo.http_benchmark"]
    assert small.command == ["--", *benchmark, "--requests", "300", "--connections", "2"]
    assert (small.name, small.dir, small.quiet) == ("demo", "there", False)
    assert (plain.dir, plain.command[-3:]) == (None, ["20000", "--connections", "16"])


@pytest.mark.parametrize("flag", ["--requests", "--connections"])
def test_nothing_to_do_is_a_usage_error(
    asked: list[argparse.Namespace], flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 2, one line, no run."""
    assert main(["demo", flag, "0"]) == 2
    assert "at least 1" in capsys.readouterr().err
    assert asked == []

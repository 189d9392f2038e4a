"""The command that `telemetry demo` puts under `telemetry run`."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from telemetry.cli.commands import run as run_command
from telemetry.cli.main import main
from telemetry.store.run_directory import RunDirectory


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
    """The demo runs the example under `run` with its sizes and passes the exit code on."""
    assert main(["demo", "--requests", "300", "--connections", "2", "--dir", "there"]) == 5
    assert main(["demo"]) == 5
    small, plain = asked
    benchmark = [sys.executable, "-P", "-m", "telemetry.cli.demo.http_benchmark"]
    assert small.command == ["--", *benchmark, "--requests", "300", "--connections", "2"]
    assert (small.name, small.dir, small.quiet) == ("demo", "there", False)
    assert (plain.dir, plain.command[-3:]) == (None, ["20000", "--connections", "16"])


def test_a_demo_that_failed_has_nothing_to_try(
    asked: list[argparse.Namespace], make_run: Callable[..., object], capsys: pytest.CaptureFixture[str]
) -> None:
    """A demo that failed ends with its error and suggests nothing to try next."""
    make_run("demo", "aaaa1111")
    assert main(["demo"]) == 5
    assert "Try next" not in capsys.readouterr().err


def test_the_end_says_what_to_try_next(
    root: Path,
    make_run: Callable[..., RunDirectory],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Three commands with the run's path, and the program by the name that starts it here."""
    monkeypatch.setattr(run_command, "run", lambda _args: 0)
    assert main(["demo"]) == 0
    assert "Try next" not in capsys.readouterr().err
    monkeypatch.chdir(root.parent)
    make_run("other", "cccc3333")
    directory = make_run("demo", "aaaa1111")
    run = shlex.quote(str(directory.path.relative_to(root.parent)))
    beside = Path(sys.executable).with_name("telemetry")
    for path, program in ((str(beside.parent), "telemetry"), ("/nowhere", str(beside))):
        monkeypatch.setenv("PATH", path)
        assert main(["demo", "--dir", str(root)]) == 0
        commands = [line.split() for line in capsys.readouterr().err.splitlines() if f" {run}" in line]
        assert [words[1] for words in commands] == ["report", "top", "gate"]
        assert {(words[0], words[2]) for words in commands} == {(program, run)}


@pytest.mark.parametrize("flag", ["--requests", "--connections"])
def test_nothing_to_do_is_a_usage_error(
    asked: list[argparse.Namespace], flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 2, one line, no run."""
    assert main(["demo", flag, "0"]) == 2
    assert "at least 1" in capsys.readouterr().err
    assert asked == []

"""Limits for requests from the command line."""

from __future__ import annotations

import os

import pytest

from telemetry.cli.beside_run import goodput
from telemetry.common import slo
from telemetry.errors import UsageError


@pytest.fixture(autouse=True)
def without_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(slo.GOODPUT_VARIABLE, raising=False)


def test_the_option_comes_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The option for limits comes before the environment, and without both there are no limits."""
    assert goodput.checked(None) == ""
    monkeypatch.setenv(slo.GOODPUT_VARIABLE, "tps:20")
    assert goodput.checked(None) == "tpot:50ms"
    assert goodput.checked(["ttft:200", "chat=tpot:50,gap:1s"]) == "ttft:200ms chat=tpot:50ms,gap:1s"


def test_the_message_tells_where_wrong_limits_come_from(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names the source of wrong limits.

    Limits of the option end with two dashes, or the command is among them.
    """
    with pytest.raises(UsageError, match=r"--goodput: 'python' is not a limit .* the limits end with `--`"):
        goodput.checked(["ttft:200", "python", "load.py"])
    monkeypatch.setenv(slo.GOODPUT_VARIABLE, "ttft")
    with pytest.raises(UsageError, match="TELEMETRY_GOODPUT: 'ttft' is not a limit"):
        goodput.checked(None)


@pytest.mark.parametrize("before", ["", "ttft:1"])
def test_processes_of_the_run_find_the_limits(monkeypatch: pytest.MonkeyPatch, before: str) -> None:
    """Afterwards the environment is as it was."""
    if before:
        monkeypatch.setenv(slo.GOODPUT_VARIABLE, before)
    with goodput.in_environment("tpot:50ms"):
        assert os.environ[slo.GOODPUT_VARIABLE] == "tpot:50ms"
    assert os.environ.get(slo.GOODPUT_VARIABLE, "") == before
    with goodput.in_environment(""):
        assert os.environ.get(slo.GOODPUT_VARIABLE, "") == before

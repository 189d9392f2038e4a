"""The first message of a producer: what a process says about itself."""

from __future__ import annotations

import os
import sys

import pytest

from telemetry.client.identity import make_hello, program_name
from telemetry.client.redaction import REDACTION
from telemetry.redaction import Redactor

LAUNCHERS = ["RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK"]


@pytest.fixture(autouse=True)
def no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in LAUNCHERS:
        monkeypatch.delenv(variable, raising=False)


@pytest.mark.parametrize("variable", LAUNCHERS)
def test_a_launchers_rank_is_told(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    """Reports name ranks, not process ids."""
    monkeypatch.setenv(variable, "3")
    assert make_hello("p", "job").rank == 3


def test_a_rank_is_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable of that name with another meaning is passed over."""
    assert make_hello("p", "job").rank is None
    monkeypatch.setenv("RANK", "first")
    monkeypatch.setenv("PMI_RANK", "2")
    assert make_hello("p", "job").rank == 2


def test_a_process_says_who_it_is() -> None:
    """A hello says who the process is and where it runs, so that a report can name it."""
    hello = make_hello("p1", "job")
    assert (hello.producer, hello.name) == ("p1", "job")
    assert (hello.pid, hello.host) == (os.getpid(), os.uname().nodename[:200])
    assert hello.mono_ns > 0


def test_a_name_is_masked_and_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program may be named after its arguments."""
    monkeypatch.setattr(REDACTION, "redactor", Redactor(patterns=("code=pass[0-9]+",)))
    name = make_hello("p", "job pass123 " + "x" * 300).name
    assert "pass123" not in name
    assert len(name) == 200


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/opt/bin/train.py", "train"),
        ("/opt/bin/train", "train"),
        ("/opt/bin/v1.2", "v1.2"),
        ("/opt/lib/job/__main__.py", "job"),
        ("", "python"),
        ("-", "python"),
        ("-c", "python"),
        ("-m", "python"),
    ],
)
def test_without_a_name_it_is_the_programs(monkeypatch: pytest.MonkeyPatch, path: str, name: str) -> None:
    """The name of the program is the one that `telemetry run` gives the run.

    An interpreter without a program has a name, too.
    """
    monkeypatch.setattr(sys, "argv", [path, "--fast"])
    assert program_name() == name
    monkeypatch.setattr(sys, "argv", [])
    assert program_name() == "python"

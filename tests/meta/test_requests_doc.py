"""Tests that docs/REQUESTS.md names the instruments, calls, limits and numbers there are."""

from __future__ import annotations

import inspect
import re
from fractions import Fraction
from pathlib import Path

import pytest

from telemetry import Request, Requests, limits
from telemetry.judge.gates.parser import parse
from telemetry.statistics.early_stopping import samples_needed
from telemetry.wire import requests

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "REQUESTS.md").read_text()
WORDS = " ".join(TEXT.split())


def rows(first_header: str) -> list[list[str]]:
    """Cells of the table whose header line begins so."""
    table = TEXT.partition(f"| {first_header} |")[2].partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table]


def test_instruments_are_those_of_the_wire() -> None:
    """Each with its kind and unit, in the same order."""
    written = [(name.strip("`"), kind, unit) for name, kind, unit, _ in rows("name")]
    assert written == [(word, kind, unit) for word, (kind, unit) in requests.INSTRUMENTS.items()]


def test_labels_are_those_of_the_wire() -> None:
    """Window, reason, finish reason and turn."""
    for label in (requests.WINDOW, requests.REASON, requests.FINISH, requests.TURN):
        assert f"label `{label}`" in WORDS


@pytest.mark.parametrize("call", ["issue", "first", "chunk", "complete", "fail"])
def test_calls_are_written_as_they_are(call: str) -> None:
    """Arguments that are named exist, with the defaults that are named."""
    written = {cell.partition("(")[0].strip("`"): cell for cell, _ in rows("call")}
    name = f"kind.{call}" if call == "issue" else f"request.{call}"
    known = inspect.signature(getattr(Requests if call == "issue" else Request, call)).parameters
    for argument, default in re.findall(r"(\w+)=([^,)]+)", written[name]):
        assert repr(known[argument].default) == default.replace('"', "'")
    assert "at_ns" in known


def test_arguments_of_issue_exist() -> None:
    """All of them have a row."""
    written = {name for cell, _ in rows("argument") for name in re.findall(r"`(\w+)`", cell)}
    assert written == set(inspect.signature(Requests.issue).parameters) - {"self", "at_ns"}


def test_limits_are_those_of_the_code() -> None:
    """The numbers in the page are the limits of the code."""
    assert f"at most {limits.REASONS} different ones" in WORDS
    assert f"`{limits.TURNS}+`" in TEXT
    assert f"{limits.CONVERSATIONS:,} are open at a time" in WORDS


def test_samples_that_a_percentile_takes() -> None:
    """The table of early stopping is computed."""
    header, _, numbers = TEXT[TEXT.index("| p50 | p90 |") :].partition("\n\n")[0].splitlines()
    for key, number in zip(re.findall(r"p([\d.]+)", header), re.findall(r"[\d,]+", numbers), strict=True):
        ratio = (Fraction(key) / 100).as_integer_ratio()
        assert f"{samples_needed(ratio):,}" == number


def test_gates_can_be_read() -> None:
    """The gates that the page names can be parsed."""
    gates = re.findall(r"--gate '([^']+)'", TEXT)
    assert len(gates) > 1
    for gate in gates:
        assert parse(str(parse(gate))) == parse(gate)


def test_options_of_the_examples_exist() -> None:
    """Each `--option` after the name of a program is the program's, or the server's."""
    known = {
        option
        for name in ("llm_load.py", "llm_server.py")
        for option in re.findall(r'add_argument\(\s*"(--[\w-]+)"', (ROOT / "examples" / name).read_text())
    }
    joined = TEXT.replace("\\\n", " ")
    named = {
        flag for line in re.findall(r"examples/llm_load\.py(.*)", joined) for flag in re.findall(r"--[\w-]+", line)
    }
    assert named
    assert named - known == set()

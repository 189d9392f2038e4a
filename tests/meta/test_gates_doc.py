"""Tests that docs/GATES.md describes the language.

Every expression parses, and every table and number is the code's.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import msgspec
import pytest

from telemetry import limits
from telemetry.judge.gates import parser
from telemetry.judge.gates.functions import FACTS, FUNCTIONS, WORD_FACTS
from telemetry.judge.gates.parser import parse
from telemetry.judge.gates.tree import Fact, nodes
from telemetry.judge.gates.units import LITERALS
from telemetry.statistics.confidence import least_count, least_total, wilson
from telemetry.wire.exit_codes import Exit
from telemetry.wire.gates import GateResult

TEXT = (Path(__file__).parents[2] / "docs" / "GATES.md").read_text()
WORDS = " ".join(TEXT.split())


def expressions() -> list[str]:
    """Return the expressions of the list, of commands, and of the settings."""
    (listed,) = re.findall(r"```gates\n(.*?)```", TEXT, re.DOTALL)
    found = listed.splitlines()
    for line in re.findall(r"^(?:\$ |- run: | +)(telemetry (?:gate|run) .*)$", TEXT, re.MULTILINE):
        found += [word for word in shlex.split(line) if re.search("[<>]|==", word) and "(" in word]
    found += re.findall(r'"([^"]+)"', re.search(r"expressions = \[(.*)\]", TEXT)[1])  # type: ignore[index]
    return found


def column(header: str) -> list[str]:
    """First cells of a table."""
    lines = TEXT.splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith(f"| {header} |"))
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        rows.append(line.split("|")[1])
    return rows


@pytest.mark.parametrize("text", expressions())
def test_every_expression_is_one(text: str) -> None:
    """Each expression of the page parses, and prints as an expression."""
    assert parse(str(parse(text))) == parse(text)


def test_every_function_and_fact_is_shown_and_told() -> None:
    """Each function and fact is in the examples and in the tables."""
    functions = {term.function for text in expressions() for term in parse(text).terms}
    assert FUNCTIONS.keys() <= functions
    told = set(re.findall(r"`([a-z.]+)`", " ".join(column("function"))))
    assert told == FUNCTIONS.keys()
    facts = set(re.findall(r"`([a-z._]+)`", " ".join(column("fact"))))
    assert facts == {*FACTS, *WORD_FACTS}
    shown = {node.name for text in expressions() for node in nodes(parse(text).left) if isinstance(node, Fact)}
    assert shown <= facts


def test_the_grammar_is_the_module_s() -> None:
    """Line by line; what is written out here are the facts in words."""
    ours = re.findall(r"^    (\w+ +=.*)$", TEXT, re.MULTILINE)
    code = re.findall(r"^ *(\w+ +=.*)$", parser.__doc__ or "", re.MULTILINE)
    assert [line.replace('"completeness"', "word_fact") for line in ours] == code


def test_units_and_bounds_are_the_code_s() -> None:
    """Each unit and number."""
    units = re.search(r"\*\*Units\*\* of numbers: (.*?) They are checked", WORDS)
    assert units is not None
    assert {unit for group in re.findall(r"`([^`]+)`", units[1]) for unit in group.split()} - {"/s"} == LITERALS
    assert f"at most {limits.GATE_CHARS:,} characters and {limits.GATE_OPERANDS} operands" in WORDS
    assert f"there are at most {limits.GATES} of them" in WORDS
    assert f"`p99(x) < …` needs {least_count((99, 100))} values" in WORDS
    needed = [f"{least_total(share):,}" for share in (0.99, 0.95, 0.999)]
    assert "a limit of 99 % needs {} values, 95 % needs {}, and 99.9 % needs {}".format(*needed) in WORDS
    assert f"leave room for {wilson(100, 100)[0]:.1%}".replace("%", " %") in WORDS
    assert (limits.ABORT_KILL_S, limits.GATE_ABORT_AFTER_S) == (10, 10)
    assert "SIGKILL ten seconds later" in WORDS
    assert "for ten seconds on end" in WORDS


def test_exit_codes_and_fields_are_the_code_s() -> None:
    """The exit codes, the fields and their names in JSON are those of the code."""
    codes = {int(code) for cell in column("code") for code in re.findall(r"\d+", cell)}
    assert codes == {Exit.OK, Exit.GATE_FAILED, Exit.INCONCLUSIVE, Exit.INCOMPLETE, Exit.INTERRUPTED}
    fields = re.search(r"`gates` has for each result (.*?)\. A missing value is null", WORDS)
    assert fields is not None
    assert re.findall(r"`(\w+)`", fields[1]) == [info.name for info in msgspec.structs.fields(GateResult)]


def test_the_mistake_is_what_is_said_of_it() -> None:
    """The page shows the error message of the mistake exactly, including the caret."""
    (sample,) = re.findall(r"```text\ntelemetry: (.*?)```", TEXT, re.DOTALL)
    with pytest.raises(Exception, match="is not a function") as caught:
        parse(sample.splitlines()[1].strip())
    assert f"{caught.value}\n" == sample

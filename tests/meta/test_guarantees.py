"""Tests that docs/GUARANTEES.md promises what tests prove.

Each row names tests that exist, and each test of a fault has a row.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from telemetry import limits
from telemetry.config.schema import Config

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
TEXT = (ROOT / "docs" / "GUARANTEES.md").read_text()
HEAD = ["fault", "what is kept", "lost at most", "how it shows", "test"]
NUMBERS = {
    f"(`emit.flush_ms`, {Config().emit.flush_ms:g} ms)",
    f"`emit.buffer_events` ({Config().emit.buffer_events:,})",
    f"`emit.block_timeout_s` ({Config().emit.block_timeout_s:g} s)",
    f"({limits.RESEND_RING_BYTES // limits.MIB} MiB)",
    f"up to {limits.RESTARTS} deaths in a row within {limits.RESTART_LASTS_S:g} s",
    f"{limits.RESTARTS} starts that last less than {limits.RESTART_LASTS_S:g} s each",
    f"`late` after {limits.LATE_AFTER_S:g} s, `lost` after {limits.LOST_AFTER_S:g} s",
    f"more than {limits.PRODUCERS:,} producers",
    f"the first {limits.PRODUCERS:,}",
}


def rows() -> list[list[str]]:
    """Cells of all tables, without heads and rules."""
    lines = [line for line in TEXT.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in cells if row != HEAD and set("".join(row)) != {"-"}]


def named(row: list[str]) -> list[str]:
    """The tests of a row: `folder/file.py::function`, from the folder of the tests."""
    return re.findall(r"`([^`]+)`", row[-1])


def functions_of(path: Path) -> set[str]:
    return {
        node.name
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0])
def test_every_row_names_tests_that_exist(row: list[str]) -> None:
    """A promise that nothing proves is none."""
    assert len(row) == len(HEAD)
    assert named(row)
    for test in named(row):
        path, _, name = test.partition("::")
        assert name in functions_of(TESTS / path), test


def test_every_test_of_a_fault_has_a_row() -> None:
    """Each test of a fault has a row, so all that is proved is promised."""
    found = {
        f"{path.relative_to(TESTS).as_posix()}::{name}"
        for path in sorted((TESTS / "fault").glob("test_*.py"))
        for name in functions_of(path)
    }
    assert found
    assert found - {test for row in rows() for test in named(row)} == set()


def test_the_numbers_are_those_of_the_code() -> None:
    """Bounds and defaults that are written down."""
    text = " ".join(TEXT.split())
    assert [number for number in NUMBERS if number not in text] == []

"""The repository as a whole: what must not be in it, and what every test owes its reader."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("src", "tests", "benchmarks", "examples", "docs", ".ci")
NO_TEXT = {".bin", ".gz", ".png", ".so"}
SKIPPED_PARTS = {"__pycache__", "node_modules", "snapshot_report.html"}
SAMPLES = re.compile(r"/golden/importers/[^/]+/(?!README|expected)")
"""Result files of other tools, which may be in any encoding."""
LONGEST_PAUSE_S = 0.05

UNFINISHED = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X)\b")
MACHINE_PATH = re.compile(r"(?<![\w.])/(wo" + r"rk|ro" + r"ot|ho" + r"me|Us" + r"ers)/\w")
BLIND = re.compile(r"noqa: BLE001\s*$")


def files() -> list[Path]:
    """Everything that is written by hand."""
    top = [path for path in ROOT.iterdir() if path.is_file() and not path.name.startswith(".git")]
    inside = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.is_file()]
    written = [path for path in top + inside if not SAMPLES.search(path.as_posix())]
    return [path for path in written if not SKIPPED_PARTS & set(path.parts) and path.suffix not in NO_TEXT]


@functools.cache
def texts() -> dict[Path, str]:
    return {path: path.read_text(encoding="utf-8") for path in files()}


def python(folder: str, holding: str) -> Iterator[tuple[str, ast.Module]]:
    """The files in which the pattern is found: parsing all of them for each question takes a while."""
    for path in sorted((ROOT / folder).rglob("*.py")):
        text = path.read_text()
        if re.search(holding, text):
            yield path.relative_to(ROOT).as_posix(), ast.parse(text)


@pytest.mark.parametrize(
    ("pattern", "what"),
    [
        (UNFINISHED, "a mark of unfinished work"),
        (MACHINE_PATH, "a path of one machine"),
        (BLIND, "a broad except without its reason"),
    ],
    ids=["unfinished", "machine path", "blind except"],
)
def test_no_line_holds(pattern: re.Pattern[str], what: str) -> None:
    """Finished, portable, and every broad except explained beside it."""
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path, text in texts().items()
        if re.search(pattern.pattern, text, pattern.flags | re.MULTILINE)
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]
    assert found == [], what


def test_no_except_is_bare() -> None:
    """A bare except also catches the wish to stop."""
    bare = [
        f"{path}:{node.lineno}"
        for folder in ("src", "tests", "benchmarks", "examples")
        for path, tree in python(folder, r"\bexcept[\s\\]*:")
        for node in ast.walk(tree)
        if isinstance(node, ast.ExceptHandler) and node.type is None
    ]
    assert bare == []


def every_test() -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for path, tree in python("tests", r"\btest_"):
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                yield f"{path}:{node.lineno} {node.name}", node


@pytest.mark.slow
def test_every_test_says_what_it_proves() -> None:
    """One sentence a test, so that a failure explains itself."""
    assert [place for place, node in every_test() if not ast.get_docstring(node)] == []


def test_tests_wait_for_conditions_and_do_not_sleep() -> None:
    """A pause long enough for a busy machine is too long for a quiet one."""
    sleeps = [
        f"{path}:{node.lineno}"
        for path, tree in python("tests", r"\.sleep\(\s*[\d.]")
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "sleep"
        and node.args
        and isinstance(node.args[0], ast.Constant)
        and isinstance(node.args[0].value, int | float)
        and node.args[0].value > LONGEST_PAUSE_S
    ]
    assert sleeps == []

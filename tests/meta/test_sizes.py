"""A ratchet on size: functions and files stay short, and the list of exceptions only shrinks."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
FUNCTION_CODE_LINES = 50
FILE_LINES = 400

LONG_FUNCTIONS: dict[str, int] = {}
"""`path::function` → its code lines. Remove what has become short; never add or raise."""
LONG_FILES: dict[str, int] = {}
"""`path` → its lines. Remove what has become short; never add or raise."""

NOT_CODE = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING,
    tokenize.ENDMARKER,
}  # fmt: skip


def files() -> Iterator[Path]:
    for folder in ("src", "benchmarks", "examples"):
        yield from (path for path in sorted((ROOT / folder).rglob("*.py")) if not path.is_symlink())


def code_lines(text: str) -> set[int]:
    """Line numbers that hold code: no comments, no blank lines."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NOT_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    return lines


def functions(path: Path) -> Iterator[tuple[str, int]]:
    """Each function with its code lines, without its docstring. One that is short with all its lines has those."""
    text = path.read_text()
    code: set[int] | None = None  # finding them takes a while
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            lines = set(range(node.lineno, node.end_lineno + 1))
            if len(lines) > FUNCTION_CODE_LINES:
                code = code if code is not None else code_lines(text)
                lines &= code
            if ast.get_docstring(node) is not None:
                first = node.body[0]
                assert first.end_lineno is not None
                lines -= set(range(first.lineno, first.end_lineno + 1))
            yield f"{path.relative_to(ROOT)}::{node.name}", len(lines)


def over(sizes: dict[str, int], limit: int, known: dict[str, int]) -> dict[str, int]:
    return {name: size for name, size in sizes.items() if size > max(limit, known.get(name, 0))}


def test_functions_are_short() -> None:
    """A function fits on a screen."""
    sizes = {name: size for path in files() for name, size in functions(path)}
    assert over(sizes, FUNCTION_CODE_LINES, LONG_FUNCTIONS) == {}
    assert {name for name in LONG_FUNCTIONS if sizes.get(name, 0) <= FUNCTION_CODE_LINES} == set()


def test_files_are_short() -> None:
    """A file is one subject."""
    sizes = {str(path.relative_to(ROOT)): path.read_text().count("\n") for path in files()}
    assert over(sizes, FILE_LINES, LONG_FILES) == {}
    assert {name for name in LONG_FILES if sizes.get(name, 0) <= FILE_LINES} == set()

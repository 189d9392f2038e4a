"""Tests mirror the source: `src/telemetry/a/b.py` is tested in `tests/unit/a/test_b.py`."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "telemetry"

PACKAGES = "tests/unit/test_package.py"  # the names of every `__init__.py` are loaded there
ELSEWHERE: dict[str, tuple[str, str]] = {
    "__main__.py": ("tests/process", "it is one call, and only a process can make it"),
    "daemon/feed.py": ("tests/unit/daemon/test_live.py", "it declares what `live` and `playback` do"),
    "daemon/options.py": ("tests/unit/daemon/test_build.py", "it declares what `build` is given"),
    "daemon/parts.py": ("tests/unit/daemon/test_build.py", "it declares what `build` puts together"),
    "demo/http_benchmark.py": ("tests/process/test_examples.py", "it is a program, and its server another"),
    "transport/record_stream.py": ("tests/integration/test_record_stream.py", "it is sockets throughout"),
}
"""Source file → (where it is tested, why not in its mirror). A line here is an exception: keep the list short."""


def holds_code(path: Path) -> bool:
    """Whether a module does anything but import and re-export."""
    passive = (ast.Import, ast.ImportFrom, ast.Expr, ast.Assign, ast.AnnAssign)
    return any(not isinstance(node, passive) for node in ast.parse(path.read_text()).body)


def modules() -> list[str]:
    return [path.relative_to(SOURCE).as_posix() for path in sorted(SOURCE.rglob("*.py")) if holds_code(path)]


@pytest.mark.parametrize("module", modules())
def test_every_module_has_its_tests(module: str) -> None:
    """Where a behaviour is tested can be told from where it lives."""
    path = Path(module)
    mirror = f"tests/unit/{path.parent.as_posix()}/test_{path.stem}.py".replace("/./", "/")
    expected, _ = ELSEWHERE.get(module, (PACKAGES if path.stem == "__init__" else mirror, ""))
    assert (ROOT / expected).exists(), f"{module} has no tests: write {expected}"


def test_exceptions_are_about_modules_that_exist() -> None:
    """A module that is gone takes its exception with it, and each has a reason."""
    assert {module for module in ELSEWHERE if not (SOURCE / module).exists()} == set()
    assert all(reason for _, reason in ELSEWHERE.values())


def test_every_unit_test_file_mirrors_a_module() -> None:
    """A test file whose module was renamed follows it."""
    known = {PACKAGES, *(expected for expected, _ in ELSEWHERE.values())}
    stray = []
    for path in sorted((ROOT / "tests" / "unit").rglob("test_*.py")):
        name = path.relative_to(ROOT).as_posix()
        module = SOURCE / path.relative_to(ROOT / "tests" / "unit").parent / f"{path.stem.removeprefix('test_')}.py"
        if name not in known and not module.exists():
            stray.append(name)
    assert stray == []

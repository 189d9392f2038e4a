"""Imports as they happen, told by a child process; the static law is in pyproject.toml."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "telemetry"
HEAVY = {"numpy", "asyncio", "textual", "rich", "hdrh", "multiprocessing"}
EXAMPLES_THAT_IMPORT_THE_FACE = {"demo"}
NAMES_THE_FACE = re.compile(r"\bimport\s[^#\n]*\btelemetry\b|\bfrom\s+telemetry\s+import\b")
"""Found in each file that may import from the package itself: parsing all files takes two seconds."""


def loaded_by(statement: str) -> set[str]:
    """Top-level modules in a fresh interpreter after the statement."""
    code = f"{statement}\nimport sys\nprint(*{{name.split('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    return set(done.stdout.split())


def imports(path: Path) -> set[str]:
    """Every module a file names in an import, wherever the statement stands."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


@pytest.mark.parametrize(
    ("statement", "forbidden"),
    [
        ("import telemetry", HEAVY | {"zmq", "msgspec"}),
        ("import telemetry.wire.codec", HEAVY | {"zmq"}),
        ("import telemetry.config", HEAVY | {"zmq"}),
        ("import telemetry.transport", HEAVY),
        ("import telemetry.client", HEAVY),
        ("import telemetry; telemetry.start; telemetry.series; telemetry.subscribe", HEAVY),
        ("import telemetry.aggregator", {"zmq", "asyncio", "textual", "rich"}),
        ("import telemetry.cli.main", {"numpy", "asyncio", "textual", "rich", "hdrh"}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_import_loads_nothing_heavy(statement: str, forbidden: set[str]) -> None:
    """An import loads no heavy module. This bounds what a user's program pays for the import."""
    assert loaded_by(statement) & forbidden == set()


def test_only_transport_imports_zmq() -> None:
    """One package owns the sockets; a new package is held to it without being listed."""
    guilty = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if "zmq" in path.read_text() and any(name.split(".")[0] == "zmq" for name in imports(path))
    }
    assert {path for path in guilty if not path.startswith("transport/")} == set()


def test_no_submodule_imports_the_face() -> None:
    """`telemetry/__init__` looks down lazily; a submodule that looked up to it would close a circle."""
    below = {path.stem if path.suffix else path.name for path in SOURCE.iterdir()}
    guilty = []
    for path in SOURCE.rglob("*.py"):
        package = path.relative_to(SOURCE).parts[0]
        if package in EXAMPLES_THAT_IMPORT_THE_FACE or not NAMES_THE_FACE.search(path.read_text()):
            continue
        for name in imports(path):
            parts = name.split(".")
            if parts[0] == "telemetry" and len(parts) == 2 and parts[1] not in below | {"__version__"}:
                guilty.append(f"{path.relative_to(SOURCE)}: {name}")
    assert guilty == []


def test_no_submodule_loads_a_module_above_it() -> None:
    """A submodule loads no module above it, not even by `import_module`.

    The contracts in pyproject.toml don't see such loads.
    """
    layers = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]["layers"]
    height = {name.strip(" ()"): -number for number, layer in enumerate(layers) for name in layer.split("|")}
    guilty = [
        f"{path.relative_to(SOURCE)}: {name}"
        for path in SOURCE.rglob("*.py")
        if (package := path.relative_to(SOURCE).parts[0].removesuffix(".py")) in height
        for name in re.findall(r'import_module\(f?"telemetry\.(\w+)', path.read_text())
        if height[name] > height[package]
    ]
    assert guilty == []

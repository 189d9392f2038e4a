"""A package of somebody else with a backend and its contract, and what pytest says of it."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path


def install(files: Mapping[str, str], folder: Path) -> Path:
    """Write the package as if it were installed there.

    The entry points of `pyproject.toml` become the file that an installer makes of them.
    """
    place = folder / "package"
    facts = place / "third_party-1.dist-info"
    facts.mkdir(parents=True)
    for name, text in files.items():
        place.joinpath(name).write_text(text)
    points = tomllib.loads(files["pyproject.toml"])["project"]["entry-points"]
    lines = [f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in of.items()) for group, of in points.items()]
    facts.joinpath("entry_points.txt").write_text("".join(lines))
    facts.joinpath("METADATA").write_text("Metadata-Version: 2.1\nName: third-party\nVersion: 1\n")
    return place


def run_contract(place: Path, *words: str) -> tuple[int, str]:
    """(exit code, what it says) of pytest in a process of its own, for which the package is there."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", "."]
    done = subprocess.run(
        [*command, f"--basetemp={place / 'tmp'}", *words],
        cwd=place,
        env=os.environ | {"PYTHONPATH": str(place), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr

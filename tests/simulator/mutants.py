"""Defects of `mutants.toml`, planted one at a time in the real code, to see whether stories find them.

`python -m tests.simulator.mutants --seeds 2000 --jobs 2` prints for each defect the seed that found it. Exit code 1
says that some were not found.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType
from typing import Final, NamedTuple

SOURCE: Final = Path(__file__).parents[2] / "src"


class Mutant(NamedTuple):
    """A defect: a text of a module of `telemetry`, and what stands there instead."""

    module: str
    before: str
    after: str
    unseen: str = ""
    """Reason why no story can find it; empty if one should."""
    history: str = ""
    """Commit that fixed it, if the project really had this defect."""


def _read() -> dict[str, Mutant]:
    defects = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
    return {name: Mutant(**defect) for name, defect in defects.items()}


MUTANTS: Final = _read()


# --- planting ----------------------------------------------------------------------------------------


class _Planter(MetaPathFinder):
    """A finder that loads one module with its defect."""

    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant
        self._name = f"telemetry.{mutant.module}"

    def find_spec(
        self, name: str, _path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != self._name:
            return None
        path = SOURCE / f"{name.replace('.', '/')}.py"
        loader = _Loader(name, str(path))
        loader.mutant = self._mutant
        return spec_from_file_location(name, path, loader=loader)


class _Loader(SourceFileLoader):
    mutant: Mutant

    def get_code(self, fullname: str) -> CodeType:
        return compile(changed(self.mutant), self.path, "exec")


def changed(mutant: Mutant) -> str:
    """Return the source of the module with the defect. Raises ValueError if the text is not there exactly once."""
    text = (SOURCE / f"telemetry/{mutant.module.replace('.', '/')}.py").read_text()
    if text.count(mutant.before) != 1:
        raise ValueError(f"{mutant.module} has {text.count(mutant.before)} times {mutant.before!r}")
    return text.replace(mutant.before, mutant.after)


def plant(name: str) -> None:
    """Plant a defect in this process. Call it before the module is imported."""
    assert f"telemetry.{MUTANTS[name].module}" not in sys.modules
    sys.meta_path.insert(0, _Planter(MUTANTS[name]))


# --- the search --------------------------------------------------------------------------------------


def search(name: str, seeds: int) -> str:
    """Play stories with a defect. Return what the first one that fails says; empty if none does."""
    command = [sys.executable, "-m", "tests.simulator", "--seeds", str(seeds), "--until-failure", "--plant", name]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    failures = [line for line in ended.stdout.splitlines() if line.startswith("seed ")]
    if not failures and ended.returncode:
        raise RuntimeError(f"the stories with {name!r} can't be played: {ended.stderr}")
    return failures[0] if failures else ""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulator.mutants", description=__doc__)
    parser.add_argument("--seeds", type=int, default=2_000, help="most stories for each defect (default: 2,000)")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("names", nargs="*", help="defects to plant (default: all)")
    options = parser.parse_args()
    names = options.names or list(MUTANTS)
    for name in names:
        changed(MUTANTS[name])
    unseen, missed = 0, []
    with ThreadPoolExecutor(options.jobs) as pool:
        for name, failure in zip(names, pool.map(lambda name: search(name, options.seeds), names), strict=True):
            if failure:
                print(f"found   {name}: {failure[:150]}", flush=True)
            elif MUTANTS[name].unseen:
                unseen += 1
                print(f"unseen  {name}: {MUTANTS[name].unseen}", flush=True)
            else:
                missed.append(name)
                print(f"MISSED  {name}", flush=True)
    print(
        f"{len(names) - unseen - len(missed)} of {len(names)} found, {unseen} can't be seen, {len(missed)} missed"
    )
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())

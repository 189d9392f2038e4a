"""A run of 10,000 steps of 20 scalars and 10 series, as a program of a user makes one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

STEPS = 10_000
SCALARS = 20
SERIES = 10
VALUES = 1_000
"""Of each series."""

_PROGRAM = f"""
import telemetry
with telemetry.start("given") as run:
    run.params({{"lr": 0.25, "layers": 4, "opt": "adam"}})
    names = [f"latency{{number}}" for number in range({SERIES})]
    series = [run.series(name, unit="ms", route="/a") for name in names]
    names = [f"train/v{{number}}" for number in range({SCALARS})]
    for step in range({STEPS}):
        run.log({{name: step + number / 8 for number, name in enumerate(names)}}, step=step, axis="train")
        if step < {VALUES}:
            for number, one in enumerate(series):
                one.record(1.0 + number + step % 100)
"""


@dataclass(frozen=True)
class GivenRun:
    """A finished run, and what is in it."""

    path: Path

    @staticmethod
    def values(step: int) -> dict[str, float]:
        return {f"train/v{number}": step + number / 8 for number in range(SCALARS)}

    def copy(self, folder: Path) -> Path:
        """The run once more, for a test of its own, without the journal, which readers need not."""
        to = folder / self.path.name
        shutil.copytree(self.path, to, ignore=shutil.ignore_patterns("journal", "backends"))
        return to


def make(folder: Path) -> GivenRun:
    """Runs the program in `folder`; two seconds."""
    own = {name: text for name, text in os.environ.items() if not name.startswith("TELEMETRY_")}
    subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        cwd=folder,
        env=own | {"XDG_RUNTIME_DIR": str(folder), "XDG_CONFIG_HOME": str(folder)},
        check=True,
        capture_output=True,
        timeout=60,
    )
    return GivenRun(Path(os.path.realpath(folder / "runs" / "latest")))

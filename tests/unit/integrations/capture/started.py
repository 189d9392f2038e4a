"""Python processes that start with the boot of captures."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from telemetry.integrations.capture.boot_module import BOOT, BOOT_FOLDER

REPORT = "import sys; print('telemetry' in sys.modules, '_telemetry_boot' in sys.modules)"
HOOKED = "import logging; print(hasattr(logging.Logger.callHandlers, '__wrapped__'))"


class Started:
    """A folder and an environment in which Python processes start with the boot."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "capture.log"
        self.environ = {name: value for name, value in os.environ.items() if not name.startswith("TELEMETRY_")}
        self.environ |= {
            "PYTHONPATH": BOOT_FOLDER,
            BOOT.VARIABLE: "logging",
            BOOT.SIGNS_VARIABLE: str(self.log),
            "PYTHONSAFEPATH": "",
        }

    def write(self, name: str, text: str) -> str:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return str(path)

    def python(self, *words: str, python: str = sys.executable, **environ: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [python, *words],
            env=self.environ | environ,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )

    def told(self, *words: str, **environ: str) -> str:
        """Return what a process printed that had no trouble."""
        done = self.python(*words, **environ)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.strip()

    def signs(self) -> list[str]:
        """Return the signs without the ids of processes and the names of programs."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [re.sub(r"^(hooked \S+) .*", r"\1", line.partition(" ")[2]) for line in lines]

    def path(self, *folders: Path) -> str:
        return os.pathsep.join([BOOT_FOLDER, *map(str, folders)])

"""Real child processes: a private working and runtime directory for each test, and programs to run in it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.process.pages import Seen
from tests.processes import end_group, kill_all, processes_with

DEADLINE_S = 60.0
ENDED = ("COMPLETE", "INTERRUPTED")


class Ground:
    """Somewhere to run `telemetry` and programs that use it.

    Each child has a session of its own. At the end all of them are killed, with all that they started.
    """

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="tm"))
        own = {"XDG_RUNTIME_DIR": "", "XDG_CONFIG_HOME": "", "XDG_STATE_HOME": "state"}
        self.environ = {**os.environ, **{name: str(self.folder / place) for name, place in own.items()}}
        # A size is what readline, which pytest imports, leaves to its workers; terminals here have their own.
        for name in ("TELEMETRY_ENDPOINT", "COLUMNS", "LINES"):
            self.environ.pop(name, None)
        self._children: list[subprocess.Popen[str]] = []

    def program(self, name: str, text: str) -> str:
        """Writes a Python program, whole at once, because another process may just read it; returns its path."""
        path = self.folder / name
        new = path.with_suffix(".new")
        new.write_text(text)
        os.replace(new, path)
        return str(path)

    def popen(self, *command: str, **options: Any) -> subprocess.Popen[str]:
        child = subprocess.Popen(
            command,
            cwd=self.folder,
            env=self.environ | options.pop("environ", {}),
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            **{"start_new_session": True} | options,
        )
        self._children.append(child)
        return child

    def telemetry(self, *words: str, **options: Any) -> subprocess.Popen[str]:
        return self.popen(sys.executable, "-m", "telemetry", *words, **options)

    def run(self, *words: str, **options: Any) -> tuple[int, str, str]:
        """(exit code, stdout, stderr) of a `telemetry` command."""
        child = self.telemetry(*words, **options)
        out, err = child.communicate(timeout=DEADLINE_S)
        return child.returncode, out, err

    def serve(self, *words: str, **options: Any) -> tuple[subprocess.Popen[str], str]:
        """An aggregator in the foreground, and its control address."""
        child = self.telemetry("serve", "--name", "job", *words, **options)
        assert child.stderr is not None
        said = [child.stderr.readline() for _ in range(2)]
        found = re.search(r"TELEMETRY_ENDPOINT=(\S+)", said[-1])
        assert found, said
        return child, found[1]

    def live(self) -> list[dict[str, Any]]:
        """Return what `telemetry ls --json` lists of runs that have not come to their end."""
        code, out, err = self.run("ls", "--json")
        assert code == 0, err
        return [run for run in json.loads(out) if run["endpoint"] and run["state"] not in ENDED]

    def final(self, run: str = "latest") -> dict[str, Any]:
        """The final file of a run, without its check."""
        text = (self.folder / "runs" / run / "final_snapshot.json").read_text()
        found = dict(json.loads(text, parse_constant=_refuse))
        found.pop("crc", None)
        return found

    def close(self) -> None:
        try:
            for child in self._children:
                end_group(child)
        finally:
            kill_all(processes_with(f"XDG_RUNTIME_DIR={self.folder}"))
            kill_all(
                int(json.loads(run.read_text())["pid"]) for run in (self.folder / "telemetry").glob("*/run.json")
            )
        shutil.rmtree(self.folder, ignore_errors=True)


def _refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is not JSON")


@pytest.fixture
def seen(require_tool: Callable[[str], str], tmp_path: Path) -> Iterator[Seen]:
    from playwright.sync_api import sync_playwright

    chromium = require_tool("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        made = browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme="light").new_page()
        made.set_default_timeout(DEADLINE_S * 1_000)
        yield Seen(made, tmp_path)
        browser.close()


@pytest.fixture
def ground() -> Iterator[Ground]:
    made = Ground()
    yield made
    made.close()

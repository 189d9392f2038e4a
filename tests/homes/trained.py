"""Runs of training programs under `telemetry run --capture`, and what their record log has."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import telemetry
from telemetry.wire.report import Report

PROGRAMS = Path(__file__).parent / "programs"
DEADLINE_S = 240.0


@dataclass(frozen=True)
class Trained:
    """A program that has ended, and its run."""

    folder: Path
    out: str
    err: str

    @cached_property
    def report(self) -> Report:
        return telemetry.load_report(self.folder / "runs" / "latest")

    @cached_property
    def all_records(self) -> list[dict[str, Any]]:
        lines = (self.folder / "runs" / "latest" / "records" / "records.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]

    def records(self, kind: str) -> list[dict[str, Any]]:
        """Records of one kind, in their order."""
        return [record for record in self.all_records if record.get("type") == kind]

    def steps(self, axis: str) -> dict[int, dict[str, Any]]:
        """Values by step, after all corrections."""
        steps: dict[int, dict[str, Any]] = {}
        for record in self.records("step"):
            if record["axis"] == axis:
                steps.setdefault(record["step"], {}).update(record["values"])
        return steps

    @cached_property
    def axes(self) -> set[str]:
        return {record["axis"] for record in self.records("step")}

    @cached_property
    def params(self) -> dict[str, Any]:
        return {name: value for record in self.records("params") for name, value in record["values"].items()}

    @cached_property
    def result(self) -> dict[str, Any]:
        """Return the result file that the program wrote itself."""
        return dict(json.loads((self.folder / "result.json").read_text()))


def trained(folder: Path, capture: str, *command: str, more: Mapping[str, str] | None = None) -> Trained:
    """Run a Python program with a capture. Fails if the capture or the program fails."""
    environ = {key: value for key, value in os.environ.items() if not key.startswith("TELEMETRY_")}
    environ |= {"XDG_RUNTIME_DIR": str(folder), "XDG_CONFIG_HOME": str(folder), "HF_HUB_OFFLINE": "1"}
    environ["TELEMETRY_COLLECT__NAMES"] = "none"
    flags = ["--quiet", "--strict", "--name", "job", "--capture", capture]
    done = subprocess.run(
        [sys.executable, "-m", "telemetry", "run", *flags, "--", *command],
        cwd=folder,
        env=environ | {"TOKENIZERS_PARALLELISM": "false"} | dict(more or {}),
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return Trained(folder, done.stdout, done.stderr)

"""Reads a Trackio project with Trackio's own reader, in a process of its own: its folder is fixed at import."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.backends.written import Written

_READER = """
import json, sqlite3, sys
from trackio.sqlite_storage import SQLiteStorage as storage
from trackio.utils import deserialize_values
project = sys.argv[1]
run, = storage.get_run_records(project)
who = {"project": project, "run": run["name"], "run_id": run["id"]}
rows = sqlite3.connect(storage.get_project_db_path(project)).execute("SELECT log_id, step, metrics FROM metrics")
json.dump({
    "name": run["name"],
    "logs": storage.get_logs(**who, max_points=None),
    "rows": [(key.split("/")[1], step, deserialize_values(json.loads(data))) for key, step, data in rows],
    "config": storage.get_run_config(**who),
    "alerts": storage.get_alerts(project),
    "artifacts": storage.list_artifacts(project),
}, sys.stdout)
"""
_FINAL = "final/"
_KINDS = {"markdown": "text"}


def dump(database: Path) -> dict[str, Any]:
    """All that a project of one run holds."""
    environ = os.environ | {"TRACKIO_DIR": str(database.parent), "HF_HUB_OFFLINE": "1"}
    words = [sys.executable, "-c", _READER, database.stem]
    found: dict[str, Any] = json.loads(subprocess.check_output(words, env=environ, text=True, timeout=60))
    return found


def read_back(folder: Path, where: str) -> Written:
    """`where` is the database."""
    return told(dump(Path(where or next(folder.rglob("*.db")))))


def told(data: dict[str, Any]) -> Written:
    """Return the data of `dump` in the words that all trackers share."""
    assert len(data["logs"]) == len(data["rows"])
    found = Written(counts={"step": 0, "reading": 0})
    for key, step, row in data["rows"]:
        found.counts["reading"] += key.startswith("t")
        for name, value in row.items():
            if isinstance(value, dict):
                kind = _KINDS.get(value["_type"].split(".")[1], value["_type"].split(".")[1])
                found.counts[kind] = found.counts.get(kind, 0) + 1
            elif name.startswith(_FINAL):
                found.finals[name.removeprefix(_FINAL)] = value
            elif key.startswith("r"):
                plain, mark, axis = name.removeprefix("__").partition(": ")
                if not mark:
                    axis = data["config"]["_Axes"][plain.partition("{")[0].partition("/")[0]]
                found.steps.setdefault((axis, step), {})[plain] = value
                found.counts["step"] += 1
    found.params = {name: str(value) for name, value in data["config"].items() if not name.startswith("_")}
    found.counts["marks"] = len(data["alerts"])
    found.counts["artifact"] = len(data["artifacts"])
    return found

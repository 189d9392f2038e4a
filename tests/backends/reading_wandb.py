"""Reads logs of W&B runs with our reader of its records, and what a run came to with W&B's own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.backends.written import Written

from telemetry.backends.wandb.log import ITEM, STEP, LogReader, key_of, plain_row

_AXIS = "axis/"
_OWN = frozenset({ITEM, STEP, "_timestamp", "_runtime"})


def read_back(folder: Path, where: str) -> Written:
    """`where` is the folder of W&B's newest log of the run; the older ones are beside it."""
    found = Written(counts={"step": 0, "reading": 0, "mark": 0})
    written = logs(Path(where))
    for log in written:
        for record in records(log):
            if record.WhichOneof("record_type") == "history":
                _add(found, plain_row(record))
            for item in record.config.update:
                found.params[key_of(item)] = str(json.loads(item.value_json))
    for name, value in inspected(written[-1])[1].items():
        if name.startswith("final/") and isinstance(value, int | float | str):
            found.finals[name.removeprefix("final/")] = float(value)
    return found


def logs(newest: Path) -> list[Path]:
    return sorted(newest.parent.glob("*run-*/*.wandb"))


def records(log: Path) -> Iterator[Any]:
    return LogReader(log).records()


def rows(log: Path) -> Iterator[dict[str, Any]]:
    """The history as the records have it, without what is nested."""
    return (plain_row(record) for record in records(log) if record.WhichOneof("record_type") == "history")


def inspected(log: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Settings and summary, as `wandb leet inspect` says them."""
    words = [sys.executable, "-m", "wandb", "leet", "inspect", "--summary", "--json", str(log)]
    said = json.loads(subprocess.run(words, check=True, capture_output=True, timeout=60).stdout)
    return said["config"], said["summary"]


def _add(found: Written, row: dict[str, Any]) -> None:
    axis = next((name for name in row if name.startswith(_AXIS)), None)
    values = {name: value for name, value in row.items() if name not in _OWN and name not in (axis, "elapsed_s")}
    if "mark" in values:
        found.counts["mark"] += 1
    elif axis is None:
        found.counts["reading"] += "elapsed_s" in row
    else:
        numbers = {name: float(value) for name, value in values.items() if not isinstance(value, str)}
        if numbers:
            found.counts["step"] += len(numbers)
            found.steps.setdefault((axis.removeprefix(_AXIS), row[axis]), {}).update(numbers)

"""Reads the offline session of a ClearML task: the zip that ClearML imports."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from tests.backends.written import Written

_SINGLE = -(1 << 31)
_TIME = "elapsed_s"


def read_back(folder: Path, where: str) -> Written:
    """`where` is the folder of the session, whose zip is beside it. Which axis a name is of is kept in `folder`."""
    task, events, logs = session(Path(f"{where}.zip"))
    owners = json.loads(next(folder.rglob("names.json")).read_bytes())
    settings = task["hyperparams"].get("General", {})
    found = arranged(events, owners)
    found.params = {name: one["value"] for name, one in settings.items()}
    found.counts["mark"] = len(logs)
    found.counts["artifact"] = len(task["execution"]["artifacts"])
    return found


def arranged(events: Iterable[dict[str, Any]], owners: dict[str, str]) -> Written:
    """Events as steps, readings and the result."""
    found = Written(counts={"step": 0, "reading": 0})
    readings = set()
    for event in events:
        if event["type"] != "training_stats_scalar":
            found.counts[event["type"]] = found.counts.get(event["type"], 0) + 1
            continue
        name, axis = named(event["metric"], event["variant"], owners)
        if event["iter"] == _SINGLE:
            found.finals[event["variant"]] = event["value"]
        elif axis == _TIME:
            readings.add(event["iter"])
        else:
            found.counts["step"] += 1
            found.steps.setdefault((axis, event["iter"]), {})[name] = event["value"]
    found.counts["reading"] = len(readings)
    return found


def named(title: str, series: str, owners: dict[str, str]) -> tuple[str, str]:
    """Name and axis of what stands under a title."""
    plain, at, axis = series.rpartition(" @")
    series = plain if at else series
    name = series if title == series else f"{title}/{series}"
    return name, axis if at else owners.get(name, "")


def session(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]], list[dict[str, Any]]]:
    """The task, its events, and the lines of its console."""
    with ZipFile(path) as zipped:
        task = json.loads(zipped.read("task.json"))
        return task, list(_lines(zipped.read("metrics.jsonl"))), list(_lines(zipped.read("log.jsonl")))


def _lines(data: bytes) -> Iterator[dict[str, Any]]:
    for line in data.splitlines():
        yield from json.loads(line)

"""Reads a run of MLflow: from a database with its own client, from a server over REST. In a process of its own.

python -m tests.backends.reading_mlflow WHERE
"""

from __future__ import annotations

import gc
import json
import math
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from tests.backends.written import Written

from telemetry.backends.mlflow.names import AXIS_TAG, MARK, SECONDS_MARK, group_of
from telemetry.backends.naming import unescape

ROOT = Path(__file__).parents[2]
_FINAL = "final/"
_PAGE = re.compile(r"(http://[^/]+)/#/experiments/(\w+)/runs/(\w+)")
Row = tuple[float, int, int]
"""(value, time in ms, step)"""


def read_back(folder: Path, where: str) -> Written:
    """`where` is a database that holds one run, or the page of a run. `files` counts what its artifacts hold."""
    command = [sys.executable, "-m", "tests.backends.reading_mlflow", where]
    answer = subprocess.run(command, cwd=ROOT, check=True, timeout=100, stdout=subprocess.PIPE).stdout
    found: Written = pickle.loads(answer)
    return found


class Store(Protocol):
    """The methods that both ways of reading have."""

    def data(self) -> dict[str, Any]: ...
    def history(self, key: str) -> list[Row]: ...
    def files(self, path: str) -> list[tuple[str, bool]]: ...


class Rest:
    """A run behind a server."""

    def __init__(self, address: str, run_id: str) -> None:
        self._address = address
        self._run_id = run_id

    def ask(self, call: str, **parameters: str) -> Any:
        return ask(self._address, call, run_id=self._run_id, **parameters)

    def data(self) -> dict[str, Any]:
        run = self.ask("runs/get")["run"]
        return run["data"] | {"status": run["info"]["status"]}

    def history(self, key: str) -> list[Row]:
        rows = self.ask("metrics/get-history", metric_key=key)["metrics"]
        return [(float(row["value"]), int(row["timestamp"]), int(row.get("step", 0))) for row in rows]

    def files(self, path: str) -> list[tuple[str, bool]]:
        found = self.ask("artifacts/list", **({"path": path} if path else {})).get("files", [])
        return [(one["path"], one.get("is_dir", False)) for one in found]


class Local:
    """A run in a database."""

    def __init__(self, uri: str) -> None:
        from mlflow.tracking import MlflowClient

        self._client = MlflowClient(tracking_uri=uri)
        experiments = [one.experiment_id for one in self._client.search_experiments()]
        runs = self._client.search_runs(experiments)
        assert len(runs) == 1, [run.info.run_id for run in runs]
        self._run = runs[0]

    def data(self) -> dict[str, Any]:
        data = self._client.get_run(self._run.info.run_id).data
        kinds = {"metrics": data.metrics, "params": data.params, "tags": data.tags}
        return {kind: [{"key": k, "value": v} for k, v in of.items()] for kind, of in kinds.items()}

    def history(self, key: str) -> list[Row]:
        rows = self._client.get_metric_history(self._run.info.run_id, key)
        return [(row.value, row.timestamp, row.step) for row in rows]

    def files(self, path: str) -> list[tuple[str, bool]]:
        return [(one.path, one.is_dir) for one in self._client.list_artifacts(self._run.info.run_id, path or None)]


def ask(address: str, call: str, body: Any = None, **parameters: str) -> Any:
    """One call of a server's REST API."""
    url = f"{address}/api/2.0/mlflow/{call}?{urlencode(parameters)}"
    data = json.dumps(body).encode() if body is not None else None
    with urlopen(Request(url, data, {"Content-Type": "application/json"}), timeout=30) as answer:
        return json.loads(answer.read())


def read(where: str) -> Written:
    page = _PAGE.fullmatch(where)
    store: Store = Rest(page[1], page[3]) if page else Local(where)
    data = store.data()
    tags = {tag["key"]: tag["value"] for tag in data.get("tags", [])}
    found = Written(counts={"step": 0, "reading": 0, "files": len(_all_files(store, ""))})
    found.params = {unescape(_whole(one["key"], tags), MARK): one["value"] for one in data.get("params", [])}
    readings: set[int] = set()
    owners = _owners(tags)
    for one in data.get("metrics", []):
        axis, name = _meant(one["key"], tags, owners)
        rows = sorted(store.history(one["key"]), key=lambda row: (row[2], row[1]))
        if axis:
            found.counts["step"] += len(rows)
            for value, _, step in rows:
                found.steps.setdefault((axis, step), {})[name] = value
        elif name.startswith(_FINAL):
            found.finals[name.removeprefix(_FINAL)] = rows[-1][0]
        else:
            readings.update(step for _, _, step in rows)
        assert all(time_ms >= 0 and not math.isinf(value) for value, time_ms, _ in rows)
    found.counts["reading"] = len(readings)
    return found


def _whole(key: str, tags: dict[str, str]) -> str:
    short, _, digest = key.rpartition(":_")
    return tags[f"telemetry.name/{digest}"] if short else key


def _meant(key: str, tags: dict[str, str], owners: dict[str, str]) -> tuple[str, str]:
    """(axis, name); the axis is empty for readings."""
    text = _whole(key, tags)
    if text.endswith(SECONDS_MARK):
        return "", unescape(text.removesuffix(SECONDS_MARK), MARK)
    text, colon, axis = text.partition(": ")
    name = unescape(text, MARK)
    return (unescape(axis, MARK) if colon else owners.get(group_of(name), "")), name


def _owners(tags: dict[str, str]) -> dict[str, str]:
    """Group → axis."""
    found: dict[str, str] = {}
    for tag, groups in tags.items():
        if (key := _whole(tag, tags)).startswith(f"{AXIS_TAG}/"):
            axis = unescape(re.sub(r": \d+$", "", key.partition("/")[2]), MARK)
            found |= {unescape(group, MARK): axis for group in groups.split(",")[:-1]}
    return found


def _all_files(store: Store, path: str) -> list[str]:
    found: list[str] = []
    for name, is_directory in store.files(path):
        found += _all_files(store, name) if is_directory else [name]
    return found


if __name__ == "__main__":
    gc.disable()  # it lives for seconds, and a quarter of them go into that
    sys.stdout.buffer.write(pickle.dumps(read(sys.argv[1])))

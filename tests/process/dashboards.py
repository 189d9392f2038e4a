"""Asks Prometheus what dashboards ask it: fills variables as Grafana does, and runs the queries of panels."""

from __future__ import annotations

import json
import math
import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import ProxyHandler, build_opener

from tests.ports import free_port
from tests.processes import end_group

from telemetry.stack.layout import DASHBOARDS

Json = dict[str, Any]
RANGE_S = 120
_OPENER = build_opener(ProxyHandler({}))
_BUILT_IN = {"__rate_interval": "20s", "__range": f"{RANGE_S}s"}
_DESCENDING = 2
_LABEL_VALUES = re.compile(r"label_values\((?P<selector>.+), (?P<label>\w+)\)")
_QUERY_RESULT = re.compile(r"query_result\((?P<query>.+)\)")


class Prometheus:
    """A Prometheus that answers over HTTP."""

    def __init__(self, address: str) -> None:
        self.address = address

    def get(self, path: str, **words: Any) -> Any:
        with _OPENER.open(f"{self.address}/api/v1/{path}?{urlencode(words)}", timeout=60) as answer:
            return json.loads(answer.read())["data"]

    def query(self, promql: str) -> list[dict[str, Any]]:
        return list(self.get("query", query=promql)["result"])

    def numbers(self, promql: str) -> dict[tuple[tuple[str, str], ...], float]:
        """Labels → value, without NaN."""
        found = {tuple(sorted(one["metric"].items())): float(one["value"][1]) for one in self.query(promql)}
        return {labels: value for labels, value in found.items() if not math.isnan(value)}

    def values(self, variable: Json, chosen: Mapping[str, str]) -> list[str]:
        """Values that Grafana offers for a variable."""
        asked = filled(variable["query"], chosen)
        if found := _QUERY_RESULT.fullmatch(asked):
            texts = [_shown(one) for one in self.query(found["query"])]
        else:
            found = _LABEL_VALUES.fullmatch(asked)
            assert found is not None, asked
            selector = {"match[]": found["selector"]}
            texts = self.get(f"label/{found['label']}/values", **selector)
        if variable["regex"]:
            pattern = re.compile(variable["regex"].strip("/"))
            texts = [hit[1] for text in texts if (hit := pattern.search(text))]
        return sorted(texts, reverse=variable["sort"] == _DESCENDING) if variable["sort"] else texts


def _shown(answer: Mapping[str, Any]) -> str:
    labels = ",".join(f'{name}="{value}"' for name, value in answer["metric"].items())
    return f"{{{labels}}} {answer['value'][1]} {answer['value'][0]}"


def filled(query: str, chosen: Mapping[str, str]) -> str:
    """Put the values of variables into a query. Fails for one that has no value."""
    values = {**_BUILT_IN, **chosen}
    return re.sub(r"\$(?:\{(\w+)\}|(\w+))", lambda hit: values[hit[1] or hit[2]], query)


def dashboards() -> dict[str, Json]:
    """Name → dashboard, of all in the package."""
    return {path.stem: json.loads(path.read_text()) for path in DASHBOARDS.glob("*.json")}


def variables(dashboard: Json) -> list[Json]:
    return [variable for variable in dashboard["templating"]["list"] if variable["type"] == "query"]


def choose(prometheus: Prometheus, dashboard: Json, chosen: Mapping[str, str]) -> dict[str, str]:
    """Choose the first value of each variable, as Grafana does when a dashboard opens, unless it is in `chosen`."""
    values_by_name = dict(chosen)
    for variable in variables(dashboard):
        if variable["name"] not in values_by_name:
            values = prometheus.values(variable, values_by_name)
            values_by_name[variable["name"]] = values[0] if values else ""
    return values_by_name


def panel_queries(name: str, dashboard: Json) -> Iterator[tuple[str, str]]:
    """Yield each query of a dashboard after the title of its panel, and of its line if there are several."""
    for panel in dashboard["panels"]:
        for target in panel.get("targets", ()):
            line = f": {target['legendFormat']}" if len(panel["targets"]) > 1 else ""
            yield f"{name}: {panel['title']}{line}", target["expr"]


@contextmanager
def prometheus_of(program: str, folder: Path, config: str) -> Iterator[Prometheus]:
    """Run a Prometheus with a configuration."""
    folder.mkdir(parents=True)
    (folder / "prometheus.yml").write_text(config)
    port = free_port()
    command = [
        program,
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        try:
            yield Prometheus(f"http://127.0.0.1:{port}")
        finally:
            end_group(process)

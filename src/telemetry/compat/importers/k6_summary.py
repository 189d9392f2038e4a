"""Summaries of k6: `--summary-export`, the data of `handleSummary`, and the machine-readable summary."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from telemetry.compat.importers.result_file import ns_of
from telemetry.compat.importers.results import Results

UNITS: Final = {"time": "ms", "data": "B"}
"""Content of a metric, as k6 declares it → unit."""
_WITHOUT_UNIT: Final = ("count", "rate", "passes", "fails", "matches", "total")


def read_summary(summary: Any, results: Results) -> None:
    """Read what a summary states, and its counters."""
    results.is_dated = False
    results.lacks("single requests and their times: this is a summary")
    results.version = str(summary.get("metadata", {}).get("k6Version", ""))
    took_s = summary.get("config", {}).get("duration") or summary.get("state", {}).get("testRunDurationMs", 0) / 1e3
    for name, metric in _metrics(summary):
        values, unit = metric.get("values", metric), UNITS.get(metric.get("contains", ""), "")
        for key, value in values.items():
            results.state(f"{name} {key}", value, "" if key in _WITHOUT_UNIT else unit)
        count, rate = values.get("count"), values.get("rate")
        if metric.get("type", "counter") == "counter" and count and (took_s or rate):
            counted = results.values_of("counter", name, unit)
            counted.add(0, 0.0)
            counted.add(ns_of(took_s or count / rate), float(count))


def _metrics(summary: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the metrics of a summary: a mapping by name, or lists at several places of the machine-readable one."""
    if "results" not in summary:
        yield from summary["metrics"].items()
        return
    nodes = list(summary["results"].values())
    while nodes:
        node = nodes.pop(0)
        if isinstance(node, list):
            nodes[:0] = node
        elif "values" in node:
            yield node["name"], node
        else:
            nodes[:0] = node.get("metrics", [])

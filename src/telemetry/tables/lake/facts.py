"""The tables with the result of a run: its facts, and the final figure of each instrument."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from telemetry.errors import RunDirectoryError
from telemetry.store.run_directory import Manifest, RunDirectory
from telemetry.tables.lake.layout import PERCENTILES, percentile_column
from telemetry.tables.lake.table_file import json_text, number
from telemetry.tables.row_files import LATEST_NS
from telemetry.wire.codec import carriable
from telemetry.wire.events import Scalar
from telemetry.wire.report import Report, RequestFigures
from telemetry.wire.snapshot import MetricsSnapshot

Row = dict[str, Any]


def fact_tables(report: Report, directory: RunDirectory) -> dict[str, list[Row]]:
    """Return the rows of each of these tables."""
    snapshot = report.snapshot
    return {
        "runs": [_run(report, directory)],
        "producers": list(_producers(snapshot)),
        "series": list(_series(snapshot)),
        "last_values": list(_last_values(snapshot)),
        "loads": [row for one in report.requests for row in (_load(one), *map(_load, one.windows))],
    }


def _run(report: Report, directory: RunDirectory) -> Row:
    snapshot, manifest = report.snapshot, _manifest(directory)
    command = snapshot.command
    return {
        "name": snapshot.name,
        "started": min(snapshot.started_ns, LATEST_NS),
        "ended": min(snapshot.time_ns, LATEST_NS),
        "elapsed_s": snapshot.elapsed_s,
        "completeness": snapshot.completeness,
        "state": snapshot.state,
        "reason": snapshot.reason,
        "exact": snapshot.exact,
        "events": snapshot.accounting.applied,
        "lost": snapshot.accounting.lost,
        "producers": snapshot.producer_count,
        "host": manifest.host if manifest is not None else "",
        "command": shlex.join(command.argv) if command is not None else None,
        "exit_code": command.exit_code if command is not None else None,
        "signal": command.signal if command is not None else None,
        "merged": len(report.sources),
        "directory": carriable(str(directory.path)),
        "telemetry": manifest.telemetry if manifest is not None else "",
    }


def _manifest(directory: RunDirectory) -> Manifest | None:
    with suppress(RunDirectoryError):
        return directory.read_manifest()
    return None


def _producers(snapshot: MetricsSnapshot) -> Iterator[Row]:
    for one in snapshot.producers:
        yield {
            "producer": one.producer,
            "name": one.name,
            "host": one.host,
            "pid": one.pid,
            "rank": one.rank,
            "completeness": one.completeness,
            "emitted": one.emitted,
            "applied": one.applied,
        }


def param_rows(params: Mapping[str, Scalar]) -> Iterator[Row]:
    """Yield a row for each parameter."""
    for name, value in params.items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        yield {"name": name, "value": _text(value), "number": number(value) if is_number else None}


def _text(value: Scalar) -> str | None:
    if isinstance(value, bool):
        return str(value).lower()
    return None if value is None else str(value)


def _series(snapshot: MetricsSnapshot) -> Iterator[Row]:
    for one in snapshot.series:
        yield {
            "name": one.name,
            "labels": json_text(one.labels),
            "unit": one.unit,
            "count": one.count,
            "total": number(one.total),
            "min": number(one.min),
            "max": number(one.max),
            "mean": number(one.mean),
            "stddev": number(one.stddev),
            **{percentile_column(key): number(one.percentiles.get(key)) for key in PERCENTILES},
            "percentiles": json_text(one.percentiles),
            "exact": one.exact,
        }


def _last_values(snapshot: MetricsSnapshot) -> Iterator[Row]:
    for one in snapshot.counters:
        head = {"kind": "counter", "name": one.name, "labels": json_text(one.labels), "unit": one.unit}
        yield {**head, "value": number(one.value), "min": None, "max": None, "events": one.events}
    for gauge in snapshot.gauges:
        head = {"kind": "gauge", "name": gauge.name, "labels": json_text(gauge.labels), "unit": gauge.unit}
        low, high = number(gauge.min), number(gauge.max)
        yield {**head, "value": number(gauge.value), "min": low, "max": high, "events": gauge.events}


def _load(one: RequestFigures) -> Row:
    return {
        "kind": one.kind,
        "labels": json_text(one.labels),
        "window": one.window,
        "issued": number(one.issued),
        "completed": number(one.completed),
        "failed": number(sum(one.failed.values())),
        "expired": number(one.expired),
        "requests_per_s": number(one.rates.overall.requests_per_s),
        "input_tokens_per_s": number(one.input_tokens_per_s),
        "output_tokens_per_s": number(one.output_tokens_per_s),
        "total_tokens_per_s": number(one.total_tokens_per_s),
        "concurrency_mean": number(one.concurrency_mean),
        "slo": one.slo or None,
        "good": number(one.good),
        "goodput_per_s": number(one.goodput_per_s),
        "attainment": number(one.attainment),
    }

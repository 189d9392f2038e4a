"""The tables with the steps, spans, marks and requests of a run, from its logs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final

import numpy as np
from msgspec import Struct

from telemetry.common import slo
from telemetry.common.headline_choice import shown_params
from telemetry.errors import UsageError
from telemetry.history.goodput import verdicts
from telemetry.history.request_log import LoggedRequest, RequestLog
from telemetry.history.step_curves import closed_steps
from telemetry.history.tables import request_rows, step_rows
from telemetry.history.tables.lake.table_file import json_text
from telemetry.history.tables.row_files import LATEST_NS
from telemetry.store.records import FILE_NAME, RecordLog
from telemetry.store.run_directory import RunDirectory
from telemetry.wire import requests as words
from telemetry.wire.events import Mark, Params, Scalar, Span
from telemetry.wire.report import Report
from telemetry.wire.snapshot import MarkStat

_ROWS_AT_ONCE: Final = 1 << 16
_REQUESTS_AT_ONCE: Final = 4_096
"""Rows of a row group of requests: 5 MB with thirty chunks each."""
Columns = dict[str, Any]


def step_pieces(directory: RunDirectory, started_ns: int) -> Iterator[Columns]:
    """Yield rows of `steps` by column. Blocks on the disk. Raises RunDirectoryError."""
    rows = step_rows.rows(closed_steps(directory))
    while some := list(islice(rows, _ROWS_AT_ONCE)):
        columns: Columns = dict(zip(step_rows.StepRow._fields, zip(*some, strict=True), strict=True))
        columns["elapsed_s"] = (np.array(columns["time"], np.int64) - started_ns) / 1e9
        yield columns


class _SpanLine(Struct, tag_field="type", tag=str(Span.__struct_config__.tag), gc=False):
    """The fields of a span in the record log. Its time on the wall clock is that of its start."""

    wall_ns: int
    producer: str
    name: str
    start_ns: int
    end_ns: int
    track: str = ""
    labels: dict[str, str] = {}


def span_pieces(directory: RunDirectory) -> Iterator[Columns]:
    """Yield rows of `spans` by column. Blocks on the disk. Raises RunDirectoryError."""
    lines = RecordLog(directory.records).of_type(_SpanLine)
    while some := list(islice(lines, _ROWS_AT_ONCE)):
        begins = [min(span.wall_ns, LATEST_NS) for span in some]
        yield {
            "name": [span.name for span in some],
            "track": [span.track for span in some],
            "producer": [span.producer for span in some],
            "labels": [json_text(span.labels) for span in some],
            "time": begins,
            "start_ns": begins,
            "duration_ns": [max(span.end_ns - span.start_ns, 0) for span in some],
        }


class _MarkLine(Struct, tag_field="type", tag=str(Mark.__struct_config__.tag), gc=False):
    """The fields of a mark in the record log."""

    wall_ns: int
    producer: str
    text: str
    labels: dict[str, str] = {}


def mark_pieces(directory: RunDirectory, report: Report) -> Iterator[Columns]:
    """Yield rows of `marks` by column. A run without a record log has those of its result.

    Blocks on the disk. Raises RunDirectoryError.
    """
    started_ns = report.snapshot.started_ns
    marks: Iterable[_MarkLine | MarkStat] = report.snapshot.marks
    if has_records(directory):
        marks = RecordLog(directory.records).of_type(_MarkLine)
    left = iter(marks)
    while some := list(islice(left, _ROWS_AT_ONCE)):
        times = [min(mark.wall_ns if isinstance(mark, _MarkLine) else mark.time_ns, LATEST_NS) for mark in some]
        yield {
            "time": times,
            "elapsed_s": [(time_ns - started_ns) / 1e9 for time_ns in times],
            "text": [mark.text for mark in some],
            "labels": [json_text(mark.labels) for mark in some],
            "producer": [mark.producer for mark in some],
        }


class _ParamsLine(Struct, tag_field="type", tag=str(Params.__struct_config__.tag), gc=False):
    """The fields of parameters in the record log."""

    values: dict[str, Scalar]


def all_params(directory: RunDirectory, report: Report) -> dict[str, Scalar]:
    """Return the parameters of a run by name: those of its record log, and the newest ones, those of its result.

    Blocks on the disk. Raises RunDirectoryError.
    """
    params: dict[str, Scalar] = {}
    for line in RecordLog(directory.records).of_type(_ParamsLine):
        params |= line.values
    return shown_params(params | report.snapshot.params)


def has_records(directory: RunDirectory) -> bool:
    """Return whether the run has a record log, which steps and spans come from."""
    return (directory.records / FILE_NAME).exists()


def request_pieces(log: RequestLog, report: Report) -> Iterator[Columns]:
    """Yield rows of `requests` by column. Blocks on the disk. Raises RunDirectoryError."""
    requests, judge = iter(log), _Judge(report)
    while some := list(islice(requests, _REQUESTS_AT_ONCE)):
        rows = map(request_rows.row, some)
        columns: Columns = dict(zip(request_rows.RequestRow._fields, zip(*rows, strict=True), strict=True))
        columns["labels"] = list(map(json_text, columns["labels"]))
        columns["slo"] = list(map(json_text, columns["slo"]))
        columns["good"] = list(map(judge.verdict, some))
        yield columns


class _Judge:
    """The limits of the requests of a run."""

    def __init__(self, report: Report) -> None:
        self._limits = {(figures.kind, _pairs(figures.labels)): _limits(figures.slo) for figures in report.requests}
        self._labels: dict[str, str] | None = None
        self._kind = ""
        self._own: dict[str, int] = {}

    def verdict(self, request: LoggedRequest) -> bool | None:
        """Return whether a request is within all its limits; None if it has none."""
        if request.labels is not self._labels or request.kind != self._kind:
            self._labels, self._kind = request.labels, request.kind
            self._own = self._limits.get((request.kind, _pairs(request.labels)), {})
        results = verdicts(request.entry, self._own)
        return all(results.values()) if results else None


def _pairs(labels: dict[str, str]) -> tuple[tuple[str, str], ...]:
    """Return the labels of the kind, without that of the tracking window."""
    return tuple(sorted(item for item in labels.items() if item[0] != words.WINDOW))


def _limits(text: str) -> dict[str, int]:
    try:
        return slo.parse(text) if text else {}
    except UsageError:
        return {}  # the program of another version, or another language, sent a text that is not a limit

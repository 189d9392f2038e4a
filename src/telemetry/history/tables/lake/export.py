"""The export of a run to a lake: all its tables, each replaced at once."""

from __future__ import annotations

import os
import shlex
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Final, NamedTuple

import numpy as np
from msgspec import Struct

from telemetry.common.distribution import version
from telemetry.common.file_lock import lock_path
from telemetry.common.formatting import number_of
from telemetry.errors import RunDirectoryError
from telemetry.history.instrument_ids import SeriesId, series_id
from telemetry.history.interval_sums import RangeTotals
from telemetry.history.reader import FAR_NS, RunHistory
from telemetry.history.request_log import RequestLog, facts
from telemetry.history.run import open_run
from telemetry.history.tables.lake.logs import (
    all_params,
    has_records,
    mark_pieces,
    request_pieces,
    span_pieces,
    step_pieces,
)
from telemetry.history.tables.lake.table_file import (
    FILE,
    INTERVAL_PERCENTILES,
    PARTITION,
    PERCENTILES,
    SCHEMA,
    TABLES,
    Coded,
    TableFile,
    json_text,
    number,
    percentile_column,
)
from telemetry.history.tables.row_files import LATEST_NS, arrow
from telemetry.statistics.hdr.layout import Floats, Integers
from telemetry.store.append_file import describe
from telemetry.store.records import RecordLog
from telemetry.store.run_directory import Manifest, RunDirectory, directory_name
from telemetry.wire.codec import carriable
from telemetry.wire.control import SeriesKey
from telemetry.wire.events import Scalar
from telemetry.wire.report import Report, RequestFigures
from telemetry.wire.snapshot import MetricsSnapshot

ROWS_AT_ONCE: Final = 1 << 17
"""Rows of a row group: 20 MB in memory. In it the rows of an instrument are together, in order of time."""
Piece = tuple[str, dict[str, Any]]
"""Name of a table, and rows of it by column."""
Row = dict[str, Any]
_PREFIX, _SUFFIX = ".telemetry-", ".tmp"
"""Ends of the names of temporary folders. Other hidden folders in the lake belong to other programs."""
_LEFT_S: Final = 60.0
"""Age after which an unlocked temporary folder belongs to a process that died."""


class Exported(Struct, frozen=True, kw_only=True):
    """A run in a lake: its rows, and what is missing."""

    run_id: str
    name: str
    lake: str
    rows: dict[str, int]
    """Number of rows by table, without empty tables."""
    bytes: int
    """Size of the files."""
    notes: list[str] = []
    """Data of the run that the lake lacks, one sentence each."""


def export_run(spec: Path, lake: Path, *, every_s: float = 1.0, fallback_dirs: Sequence[str] = ()) -> Exported:
    """Write a run that has ended to a lake, in place of what the lake had of it. Blocks on the disk.

    Each file of the lake is whole at every moment: the old one or the new one. `runs` is replaced last. Memory does
    not depend on the length of the run. `every_s` is the length of intervals in seconds.

    Raises RunDirectoryError if the run has no result or can't be read, or if the lake can't be written;
    TelemetryError if `pyarrow` is missing.
    """
    library = arrow()
    if (shown := carriable(str(lake))) != str(lake):
        raise RunDirectoryError(
            f"can't write to the lake {shown}: its path is not UTF-8", hint="choose another folder"
        )
    run = open_run(spec, spec.parent, fallback_dirs)
    report, directory = run.result, run.directory
    if directory is None:
        raise RunDirectoryError(f"{spec} is a result without its run directory", hint="give the run directory")
    snapshot = report.snapshot
    partition = f"{PARTITION}={directory_name(snapshot.name, snapshot.run_id, snapshot.started_ns)}"
    try:
        lake.mkdir(parents=True, exist_ok=True)
        with _temporary(lake) as folder:
            tables = _Tables(library, folder, report)
            notes = tables.write(directory, every_s)
            size = tables.move(lake, partition)
    except OSError as error:
        raise RunDirectoryError(f"can't write to the lake {lake}: {describe(error)}") from error
    return Exported(
        run_id=snapshot.run_id,
        name=snapshot.name,
        lake=str(lake),
        rows={name: file.rows for name, file in tables.files.items() if file.rows},
        bytes=size,
        notes=notes,
    )


class _Tables:
    """The files of all tables of a run, in a temporary folder."""

    def __init__(self, library: Any, folder: Path, report: Report) -> None:
        self._report = report
        metadata = {"telemetry.lake": str(SCHEMA), "telemetry.version": version()}
        run_id = report.snapshot.run_id
        self.files = {
            name: TableFile(library, folder / f"{name}.parquet", name, run_id, metadata) for name in TABLES
        }

    def write(self, directory: RunDirectory, every_s: float) -> list[str]:
        """Write all tables. Return notes about what is missing."""
        with ExitStack() as last:
            for file in self.files.values():
                last.callback(file.close)
            for name, rows in fact_tables(self._report, directory).items():
                self.files[name].add_rows(rows)
            return [
                *self._write_intervals(directory, every_s),
                *self._write_records(directory),
                *self._write_requests(directory),
            ]

    def move(self, lake: Path, partition: str) -> int:
        """Move the files to their places, and remove those of tables that are empty now. Return their size."""
        size = 0
        for name in (*(name for name in TABLES if name != "runs"), "runs"):
            file, folder = self.files[name], lake / name / partition
            if file.rows:
                folder.mkdir(parents=True, exist_ok=True)
                size += file.path.stat().st_size
                os.replace(file.path, folder / FILE)
            else:
                (folder / FILE).unlink(missing_ok=True)
                with suppress(OSError):
                    folder.rmdir()
        return size

    def _write_intervals(self, directory: RunDirectory, every_s: float) -> list[str]:
        if not directory.history.is_dir():
            return ["the run has no history, so the lake has no intervals of it"]
        snapshot = self._report.snapshot
        try:
            history = RunHistory(directory.history, snapshot.started_ns, snapshot.time_ns)
            for name, columns in interval_pieces(history, every_s):
                self.files[name].add(columns)
        except RunDirectoryError as error:
            return [f"the lake lacks intervals: {error.message}"]
        return history.damage()

    def _write_records(self, directory: RunDirectory) -> list[str]:
        snapshot = self._report.snapshot
        self.files["params"].add_rows(list(param_rows(all_params(directory, self._report))))
        self._add("marks", mark_pieces(directory, self._report))
        if not has_records(directory):
            has_steps = bool(snapshot.axes) or bool(self._report.sources)
            return ["the run has no record log, so the lake has no steps and spans of it"] if has_steps else []
        self._add("steps", step_pieces(directory, snapshot.started_ns))
        self._add("spans", span_pieces(directory))
        damaged = RecordLog(directory.records).damaged_lines()
        return (
            [f"the lake lacks {number_of(damaged, 'record')}: lines of the record log are damaged"]
            if damaged
            else []
        )

    def _write_requests(self, directory: RunDirectory) -> list[str]:
        log_facts = facts(directory)
        if log_facts is None:
            return []
        log = RequestLog(directory)
        self._add("requests", request_pieces(log, self._report))
        return [note for note in (log_facts.reason, log.damage) if note]

    def _add(self, name: str, pieces: Iterable[Mapping[str, Any]]) -> None:
        for columns in pieces:
            self.files[name].add(columns)


@contextmanager
def _temporary(lake: Path) -> Iterator[Path]:
    """Yield a folder that readers of tables never see. It is locked while this process lives, and removed after.

    Folders of processes that died are removed as well.
    """
    for old in lake.glob(f"{_PREFIX}*{_SUFFIX}"):
        with suppress(OSError):
            if time.time() - old.stat().st_mtime > _LEFT_S and (lock := lock_path(old, os.O_DIRECTORY)):
                shutil.rmtree(old, ignore_errors=True)
                lock.release()
    folder = Path(mkdtemp(_SUFFIX, _PREFIX, lake))
    lock = None
    with suppress(OSError):  # a file system without locks
        lock = lock_path(folder, os.O_DIRECTORY)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if lock is not None:
            lock.release()


def fact_tables(report: Report, directory: RunDirectory) -> dict[str, list[Row]]:
    """Return the rows of each of these tables."""
    snapshot = report.snapshot
    return {
        "runs": [_run(report, directory)],
        "producers": list(_producers(snapshot)),
        "series": list(_series(snapshot)),
        "last_values": list(_last_values(snapshot)),
        "loads": [row for figures in report.requests for row in (_load(figures), *map(_load, figures.windows))],
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
    for producer in snapshot.producers:
        yield {
            "producer": producer.producer,
            "name": producer.name,
            "host": producer.host,
            "pid": producer.pid,
            "rank": producer.rank,
            "completeness": producer.completeness,
            "emitted": producer.emitted,
            "applied": producer.applied,
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
    for stat in snapshot.series:
        yield {
            "name": stat.name,
            "labels": json_text(stat.labels),
            "unit": stat.unit,
            "count": stat.count,
            "total": number(stat.total),
            "min": number(stat.min),
            "max": number(stat.max),
            "mean": number(stat.mean),
            "stddev": number(stat.stddev),
            **{percentile_column(key): number(stat.percentiles.get(key)) for key in PERCENTILES},
            "percentiles": json_text(stat.percentiles),
            "exact": stat.exact,
        }


def _last_values(snapshot: MetricsSnapshot) -> Iterator[Row]:
    for counter in snapshot.counters:
        head = {"kind": "counter", "name": counter.name, "labels": json_text(counter.labels), "unit": counter.unit}
        yield {**head, "value": number(counter.value), "min": None, "max": None, "events": counter.events}
    for gauge in snapshot.gauges:
        head = {"kind": "gauge", "name": gauge.name, "labels": json_text(gauge.labels), "unit": gauge.unit}
        low, high = number(gauge.min), number(gauge.max)
        yield {**head, "value": number(gauge.value), "min": low, "max": high, "events": gauge.events}


def _load(figures: RequestFigures) -> Row:
    return {
        "kind": figures.kind,
        "labels": json_text(figures.labels),
        "window": figures.window,
        "issued": number(figures.issued),
        "completed": number(figures.completed),
        "failed": number(sum(figures.failed.values())),
        "expired": number(figures.expired),
        "requests_per_s": number(figures.rates.overall.requests_per_s),
        "input_tokens_per_s": number(figures.input_tokens_per_s),
        "output_tokens_per_s": number(figures.output_tokens_per_s),
        "total_tokens_per_s": number(figures.total_tokens_per_s),
        "concurrency_mean": number(figures.concurrency_mean),
        "slo": figures.slo or None,
        "good": number(figures.good),
        "goodput_per_s": number(figures.goodput_per_s),
        "attainment": number(figures.attainment),
    }


def interval_pieces(history: RunHistory, every_s: float) -> Iterator[Piece]:
    """Yield rows of `intervals` and `value_intervals`, for time ranges of `every_s` seconds. Blocks on the disk.

    Time ranges are longer where the history has only longer intervals left. Raises RunDirectoryError.
    """
    keys = history.reader.keys()
    series, values = _SeriesRows(history), _ValueRows(keys, history)
    for window in history.windows(every_s, 0, FAR_NS, (), history.rows):
        series.add(window)
        values.add(window)
        if series.size >= ROWS_AT_ONCE:
            yield "intervals", series.take()
        if values.size >= ROWS_AT_ONCE:
            yield "value_intervals", values.take()
    yield "intervals", series.take()
    yield "value_intervals", values.take()


class _Instruments:
    """The name, labels and unit of each instrument of a table, by its place."""

    def __init__(self, keys: Sequence[SeriesKey]) -> None:
        self._name = Coded.of([key.name for key in keys])
        self._labels = Coded.of([json_text(key.labels) for key in keys])
        self._unit = Coded.of([key.unit for key in keys])

    def columns(self, places: Integers) -> dict[str, Any]:
        return {
            "name": self._name.take(places),
            "labels": self._labels.take(places),
            "unit": self._unit.take(places),
        }


class _Times(NamedTuple):
    """When the rows of a window are."""

    start_ns: int
    start_s: float
    seconds: float
    rows: int


def _time_columns(times: Sequence[_Times], order: Integers) -> dict[str, Any]:
    rows = [window.rows for window in times]
    starts = np.repeat(np.array([window.start_ns for window in times], np.int64), rows)
    elapsed = np.repeat(np.array([window.start_s for window in times], np.float64), rows)
    seconds = np.repeat(np.array([window.seconds for window in times], np.float64), rows)
    return {"time": starts[order], "elapsed_s": elapsed[order], "seconds": seconds[order]}


class _SeriesRows:
    """Rows of `intervals` that are not written yet."""

    def __init__(self, history: RunHistory) -> None:
        self.size = 0
        self._history = history
        self._instruments = _Instruments(history.rows.keys)
        self._times: list[_Times] = []
        self._places: list[Integers] = []
        self._counts: list[Integers] = []
        self._figures: list[tuple[Floats, Floats, Floats, Floats]] = []
        """Total, min, max, and a line of percentiles for each row."""

    def add(self, window: RangeTotals) -> None:
        if window.added is None or not window.added.rows.size:
            return
        histograms = window.added.histograms(self._history.rows)
        rows, percentiles = histograms.percentiles(INTERVAL_PERCENTILES)
        start_ns = self._history.ns(window.start_s)
        self._times.append(_Times(start_ns, window.start_s, window.seconds, rows.size))
        self._places.append(window.added.rows[rows])
        self._counts.append(histograms.count[rows])
        self._figures.append((histograms.total[rows], histograms.min[rows], histograms.max[rows], percentiles))
        self.size += rows.size

    def take(self) -> dict[str, Any]:
        """Return the rows by column, and forget them."""
        places = np.concatenate([np.zeros(0, np.int64), *self._places])
        order = np.argsort(places, kind="stable")
        counts = np.concatenate([np.zeros(0, np.int64), *self._counts])[order]
        none = (np.zeros(0), np.zeros(0), np.zeros(0), np.zeros((0, len(INTERVAL_PERCENTILES))))
        total, least, most, percentiles = (
            np.concatenate(parts)[order] for parts in zip(none, *self._figures, strict=True)
        )
        columns = {
            **self._instruments.columns(places[order]),
            **_time_columns(self._times, order),
            "count": counts,
            "total": total,
            "min": least,
            "max": most,
            **{percentile_column(key): percentiles[:, at] for at, key in enumerate(INTERVAL_PERCENTILES)},
        }
        self.size, self._times, self._places, self._counts, self._figures = 0, [], [], [], []
        return columns


class _ValueRows:
    """Rows of `value_intervals` that are not written yet."""

    def __init__(self, keys: Sequence[SeriesKey], history: RunHistory) -> None:
        self.size = 0
        self._history = history
        own = [key for key in keys if key.kind in ("counter", "gauge")]
        self._instruments = _Instruments(own)
        self._kinds = Coded.of([key.kind for key in own])
        self._place: dict[tuple[str, SeriesId], int] = {
            (key.kind, series_id(key)): index for index, key in enumerate(own)
        }
        self._times: list[_Times] = []
        self._places: list[int] = []
        self._values: list[float] = []

    def add(self, window: RangeTotals) -> None:
        count = len(window.counters) + len(window.gauges)
        if not count:
            return
        start_ns = self._history.ns(window.start_s)
        self._times.append(_Times(start_ns, window.start_s, window.seconds, count))
        for kind, numbers in (("counter", window.counters), ("gauge", window.gauges)):
            self._places += [self._place[kind, instrument] for instrument in numbers]
            self._values += numbers.values()
        self.size += count

    def take(self) -> dict[str, Any]:
        """Return the rows by column, and forget them."""
        places = np.array(self._places, np.int64)
        order = np.argsort(places, kind="stable")
        columns = {
            "kind": self._kinds.take(places[order]),
            **self._instruments.columns(places[order]),
            **_time_columns(self._times, order),
            "value": np.array(self._values, np.float64)[order],
        }
        self.size, self._times, self._places, self._values = 0, [], [], []
        return columns

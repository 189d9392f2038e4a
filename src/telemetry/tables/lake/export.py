"""The export of a run to a lake: all its tables, each replaced at once."""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Final

from msgspec import Struct

from telemetry.distribution import version
from telemetry.errors import RunDirectoryError
from telemetry.formatting import number_of
from telemetry.history.reader import RunHistory
from telemetry.history.request_log import RequestLog, facts
from telemetry.history.run import open_run
from telemetry.store.append_file import describe
from telemetry.store.records import RecordLog
from telemetry.store.run_directory import RunDirectory, directory_name
from telemetry.tables.arrow import arrow
from telemetry.tables.lake.facts import fact_tables, param_rows
from telemetry.tables.lake.intervals import interval_pieces
from telemetry.tables.lake.layout import FILE, PARTITION, SCHEMA, TABLES
from telemetry.tables.lake.logs import (
    all_params,
    has_records,
    mark_pieces,
    request_pieces,
    span_pieces,
    step_pieces,
)
from telemetry.tables.lake.table_file import TableFile
from telemetry.wire.codec import carriable
from telemetry.wire.report import Report

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
        known = {"telemetry.lake": str(SCHEMA), "telemetry.version": version()}
        run_id = report.snapshot.run_id
        self.files = {name: TableFile(library, folder / f"{name}.parquet", name, run_id, known) for name in TABLES}

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
            file, place = self.files[name], lake / name / partition
            if file.rows:
                place.mkdir(parents=True, exist_ok=True)
                size += file.path.stat().st_size
                os.replace(file.path, place / FILE)
            else:
                (place / FILE).unlink(missing_ok=True)
                with suppress(OSError):
                    place.rmdir()
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
        known = facts(directory)
        if known is None:
            return []
        log = RequestLog(directory)
        self._add("requests", request_pieces(log, self._report))
        return [note for note in (known.reason, log.damage) if note]

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
            if time.time() - old.stat().st_mtime > _LEFT_S and (fd := _locked(old)) is not None:
                shutil.rmtree(old, ignore_errors=True)
                os.close(fd)
    folder = Path(mkdtemp(_SUFFIX, _PREFIX, lake))
    fd = _locked(folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if fd is not None:
            os.close(fd)


def _locked(folder: Path) -> int | None:
    """Lock a folder and return its descriptor; None if it is locked, or if the file system has no locks."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        return None
    return fd

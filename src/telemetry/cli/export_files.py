"""Files that `telemetry export` writes of ended runs: requests, values of steps, and lakes of Parquet files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from telemetry.cli import console, find_run
from telemetry.cli.outputs import say_wrote
from telemetry.common import formatting
from telemetry.common.formatting import number_of
from telemetry.errors import RunDirectoryError, TelemetryError, UsageError
from telemetry.store.records import FILE_NAME as RECORDS_FILE
from telemetry.store.request_log import FILE_NAME
from telemetry.store.run_directory import RunDirectory
from telemetry.wire.exit_codes import Exit

if TYPE_CHECKING:
    from telemetry.config.plugins.choice import Choice
    from telemetry.history.tables.lake.export import Exported


def write_request_files(directory: RunDirectory, files: Sequence[str]) -> None:
    """Write all requests of a run to each file, and say what the files lack.

    Raises RunDirectoryError if the run has no request log, UsageError for an unknown suffix.
    """
    from telemetry.history.request_log import RequestLog, facts
    from telemetry.history.tables.request_rows import write_requests

    log_facts = facts(directory)
    if log_facts is None:
        raise RunDirectoryError(
            "the run has no request log",
            hint="the log has requests that a program reports with run.requests(…), unless emit.request_log is off",
        )
    log, count = RequestLog(directory), 0
    for file in files:
        count = write_requests(log, Path(file))
        say_wrote(file, number_of(count, "request"))
    missing = ""
    if count < log_facts.kept:
        path = directory.requests / FILE_NAME
        logged = f"{number_of(log_facts.kept, 'request')} {'was' if log_facts.kept == 1 else 'were'} logged"
        missing = f"{logged} and {formatting.count(log_facts.kept - count)} of them are missing from {path}"
    for lack in filter(None, (log_facts.reason, log.damage or missing)):
        console.say(lack)


def write_step_files(directory: RunDirectory, files: Sequence[str]) -> None:
    """Write all values of steps of a run to each file.

    Raises RunDirectoryError if the run has no record log or no steps, UsageError for an unknown suffix.
    """
    from telemetry.history.step_curves import closed_steps
    from telemetry.history.tables.step_rows import write_steps

    lack = "" if (directory.records / RECORDS_FILE).exists() else "record log"
    if lack or next(closed_steps(directory), None) is None:
        raise RunDirectoryError(
            f"the run has no {lack or 'steps'}",
            hint="the log has the steps that a program records with run.log(…, step=…)",
        )
    for file in files:
        count = write_steps(closed_steps(directory), Path(file))
        say_wrote(file, f"{number_of(count, 'value')} of steps")


KIND: Final = "parquet"
"""Kind of backend that this module writes itself for runs that have ended: without a process for each run."""


def run_directories(specs: Sequence[str], root: Path) -> list[Path]:
    """Return the directories of runs, each once. A folder of run directories stands for all of them, oldest first.

    Raises RunNotFoundError, RunDirectoryError.
    """
    paths: dict[Path, None] = {}
    for spec in specs:
        paths |= dict.fromkeys(_directories(spec, root))
    return list(paths)


def _directories(spec: str, root: Path) -> Iterator[Path]:
    from telemetry.store.run_directory import list_runs, resolve

    if "://" in spec:
        raise UsageError(f"{spec} is a live run", hint="several runs can be exported once they have ended")
    folder = Path(spec)
    runs = list_runs(folder)[::-1] if folder.is_dir() else []
    yield from [run.path.resolve() for run in runs] or [resolve(spec, root).path]


def write_to_lakes(
    directories: Sequence[Path], choices: Sequence[Choice], every_s: float | None, *, as_json: bool
) -> int:
    """Write runs to each lake, and say what was written. A run that can't be written does not stop the others."""
    from telemetry.backends.parquet.backend import ParquetOptions
    from telemetry.config.plugins.choice import convert
    from telemetry.history.tables.lake.export import export_run

    fallback_dirs = find_run.fallback_dirs()
    lakes: dict[Path, float] = {}
    for choice in choices:
        options = convert(choice, ParquetOptions, noun="backend")
        assert isinstance(options, ParquetOptions)
        given = options.every_s if "every_s" in choice.options else every_s
        lakes[Path(options.path).absolute()] = max(given or options.every_s, options.every_s)
    written: list[Exported] = []
    failed = 0
    for directory in directories:
        try:
            for lake, step_s in lakes.items():
                done = export_run(directory, lake, every_s=step_s, fallback_dirs=fallback_dirs)
                written.append(done)
                _say(done)
        except TelemetryError as error:
            if len(directories) == 1:
                raise
            failed += 1
            console.say(f"left out: {error.message}{f' ({error.hint})' if error.hint else ''}")
    if as_json:
        console.write_json(written)
    elif len(directories) > 1:
        size = formatting.size(sum(run.bytes for run in written))
        console.say(f"{number_of(len(written), 'run')} written, {size}; {number_of(failed, 'run')} left out")
    return Exit.BACKEND_FAILED if failed else Exit.OK


def _say(done: Exported) -> None:
    rows, tables = formatting.count(sum(done.rows.values())), number_of(len(done.rows), "table")
    console.say(
        f"{done.name} ({done.run_id}): {rows} rows in {tables} of {done.lake}, {formatting.size(done.bytes)}"
    )
    for note in done.notes:
        console.say(f"{done.name} ({done.run_id}): {note}")

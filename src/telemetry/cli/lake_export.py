"""Runs that have ended, written to lakes: `telemetry export RUN… --to parquet:path=DIR`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from telemetry.cli import console, find_run
from telemetry.common import formatting
from telemetry.common.formatting import number_of
from telemetry.errors import TelemetryError, UsageError
from telemetry.wire.exit_codes import Exit

if TYPE_CHECKING:
    from telemetry.config.plugins.choice import Choice
    from telemetry.history.tables.lake.export import Exported

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

"""Files with the values of steps of a run, one row for each: `telemetry export RUN --steps FILE`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from telemetry.cli.outputs import say_wrote
from telemetry.common.formatting import number_of
from telemetry.errors import RunDirectoryError
from telemetry.store.records import FILE_NAME
from telemetry.store.run_directory import RunDirectory


def write_step_files(directory: RunDirectory, files: Sequence[str]) -> None:
    """Write all values of steps of a run to each file.

    Raises RunDirectoryError if the run has no record log or no steps, UsageError for an unknown suffix.
    """
    from telemetry.history.step_curves import closed_steps
    from telemetry.history.tables.step_rows import write_steps

    lack = "" if (directory.records / FILE_NAME).exists() else "record log"
    if lack or next(closed_steps(directory), None) is None:
        raise RunDirectoryError(
            f"the run has no {lack or 'steps'}",
            hint="the log has the steps that a program records with run.log(…, step=…)",
        )
    for file in files:
        count = write_steps(closed_steps(directory), Path(file))
        say_wrote(file, f"{number_of(count, 'value')} of steps")

"""The page of `telemetry ls --html`, and the reports that it links to."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from telemetry.cli import console, find_run
from telemetry.cli.outputs import make_folder, say_wrote, write, write_file
from telemetry.common.formatting import number_of
from telemetry.errors import TelemetryError, UsageError
from telemetry.report import TABLE

if TYPE_CHECKING:
    from telemetry.report.run_list import ListedRun, Room

MOST: Final = 200
"""Largest number of runs on a page: the newest ones."""
REPORT_PAGE: Final = "report.html"
"""Name of the page of a run in its directory."""


def check_path(path: Path) -> None:
    """Raise UsageError for a file that no browser takes for a page."""
    if path.suffix.lower() not in TABLE["html"].suffixes:
        example = path.with_suffix(".html") if path.name else path / "runs.html"
        raise UsageError(f"{path} does not end with .html, so it is not a page", hint=f"name it {example}")


def write_run_list(
    runs: Sequence[tuple[ListedRun, Path | None]], path: Path, *, title: str, with_reports: bool
) -> None:
    """Write the page of these runs, newest first. A run with a result comes with its directory.

    `with_reports` also writes the reports that are missing, to a folder beside the page. Reads the results of all
    runs, and what their curves are made of. Raises RunDirectoryError if a file can't be written.
    """
    from telemetry.report.run_list import Room, run_list_page

    check_path(path)
    folder = path.parent / f"{path.stem}-reports"
    room, rows, notes, written = Room.of(len(runs)), [], [], 0
    for run, directory in runs[:MOST]:
        row = run
        if directory is not None:
            if with_reports and not (folder / f"{directory.name}.html").exists():
                written += _write_report(directory, folder)
            row = _with_details(run, directory, room, _link(directory, folder, path.parent))
        rows.append(row)
    if len(runs) > MOST:
        notes.append(f"the newest {MOST:,} of {len(runs):,} runs; `telemetry ls NAME --html` has those of a name")
    if room.refused:
        notes.append(
            f"{number_of(room.refused, 'run has', 'runs have')} no curves: their files are too large for a list"
        )
    make_folder(path.parent)
    write(run_list_page(title, rows, notes), path)
    if with_reports:
        if written:
            say_wrote(folder, number_of(written, "new report"))
        else:
            console.say(f"no new reports in {folder}")


def _with_details(run: ListedRun, directory: Path, room: Room, link: str) -> ListedRun:
    from dataclasses import replace

    from telemetry.history import open_run
    from telemetry.report.run_list import RunDetails, details_of

    try:
        details = details_of(open_run(directory, directory.parent, find_run.fallback_dirs()), room)
    except TelemetryError:
        details = RunDetails()
    return replace(run, details=details, link=link)


def _link(directory: Path, folder: Path, start: Path) -> str:
    """Return the address of the report of a run, relative to the page; empty without one."""
    for report in (folder / f"{directory.name}.html", directory / REPORT_PAGE):
        if report.is_file():
            return quote(os.fsencode(os.path.relpath(report.absolute(), start.absolute())))  # any bytes
    return ""


def _write_report(directory: Path, folder: Path) -> bool:
    """Write the report of a run for a browser. Return False if the run has no readable result."""
    from telemetry.common.memory import uncollected
    from telemetry.history import open_run
    from telemetry.report import render

    try:
        with uncollected():
            report = open_run(directory, directory.parent, find_run.fallback_dirs()).report(pictures=True)
    except TelemetryError as error:
        console.say(f"no report of {directory.name}: {error.message}")
        return False
    make_folder(folder)
    write_file(render(report, "html"), folder / f"{directory.name}.html", durable=False)
    return True

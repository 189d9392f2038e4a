"""`telemetry open`: the report of a run as a page in a browser."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from telemetry.cli import console, find_run, time_range_options
from telemetry.cli.run_list_page import REPORT_PAGE
from telemetry.errors import RunDirectoryError
from telemetry.wire.exit_codes import Exit
from telemetry.wire.report import Report


def add_arguments(parser: argparse.ArgumentParser) -> None:
    find_run.add_run_argument(parser)
    parser.add_argument("--no-browser", action="store_true", help="only write the page and print its path")


def run(args: argparse.Namespace) -> int:
    from telemetry.common.memory import uncollected
    from telemetry.history import TimeRangeChoice
    from telemetry.report import render

    target = find_run.find(args)
    with uncollected():
        report = time_range_options.report_of(target, TimeRangeChoice(), None, pictures=True)
        page = _write(render(report, "html").encode(), target, report)
    console.write(f"{page}\n")
    if args.no_browser:
        return Exit.OK
    if not has_display(os.environ):
        console.say("there is no display here; open the file with a browser on your machine")
    elif not _show(page):
        console.say("no browser could be started; open the file with one")
    return Exit.OK


def has_display(environ: Mapping[str, str], platform: str = sys.platform) -> bool:
    """Return whether a browser can open a window. A browser in this terminal would show nothing of the page."""
    if environ.get("BROWSER"):
        return True
    if platform == "darwin":
        return "SSH_CONNECTION" not in environ
    return bool(environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY"))


def _show(page: Path) -> bool:
    import webbrowser

    try:
        return webbrowser.open(page.as_uri())
    except webbrowser.Error:
        return False


def _write(data: bytes, target: find_run.RunTarget, report: Report) -> Path:
    """Write the page for this user alone: to the directory of a run that has ended, else to a temporary folder.

    A result may lie elsewhere than the run, and the directory may belong to another user. Raises RunDirectoryError.
    """
    from telemetry.store.atomic import OWNER_ONLY, write_atomic

    directory = time_range_options.directory_of(target, report) if report.final else None
    folder = directory.path if directory is not None else None
    if folder is None or not os.access(folder, os.W_OK) or folder.stat().st_uid != os.geteuid():
        folder = None
    try:
        page = (folder or Path(tempfile.mkdtemp(prefix="telemetry-"))) / REPORT_PAGE
        write_atomic(page, data, mode=OWNER_ONLY)
    except OSError as error:
        raise RunDirectoryError(
            f"can't write the page: {error}", hint="`telemetry report -o FILE` writes it"
        ) from None
    return page

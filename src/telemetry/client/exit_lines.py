"""Two lines at the end of a program that started its own run: what was recorded, and how to open it."""

from __future__ import annotations

import shlex
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from telemetry.common.formatting import duration_s, number_of, printable
from telemetry.wire.report import Report
from telemetry.wire.snapshot import PROGRAM_FAILED

if TYPE_CHECKING:
    from telemetry.history.headlines import Headline

_FIGURES: Final = 4
_DEFAULT_ROOT: Final = "runs"


def write_exit_lines(report: Report) -> None:
    """Write the lines to stderr, if there is one. Never raise."""
    with suppress(OSError, ValueError):  # the reader of stderr has gone, or the program has closed it
        if sys.stderr is not None:
            sys.stderr.write("".join(f"telemetry: {line}\n" for line in exit_lines(report)))
            sys.stderr.flush()


def exit_lines(report: Report) -> list[str]:
    """Return the lines without their prefix."""
    snapshot = report.snapshot
    name = printable(snapshot.name)
    failed = ""
    if snapshot.reason.startswith(PROGRAM_FAILED):
        from telemetry.common.wording import last_exception

        failed = f"{name} failed: {last_exception(snapshot.marks)}".removesuffix(": ")
    if not snapshot.accounting.emitted:
        what = f"{name}: nothing was recorded"
    elif report.verdict == "complete":
        events = number_of(snapshot.accounting.applied, "event")
        subject = "data" if failed else name
        what = f"{subject} {report.outcome}, {events} in {duration_s(snapshot.elapsed_s)}"
    else:
        what = printable(report.headline())
    lines = [" · ".join([*filter(None, (failed, what)), *_figures(report)])]
    if snapshot.directory:
        run = shlex.quote(_name_of(snapshot.directory, snapshot.run_id))
        lines.append(printable(f"open it with `telemetry report {run}` or `telemetry top {run}`"))
    return lines


def _figures(report: Report) -> list[str]:
    from telemetry.history.headlines import headline, not_finite

    lines = [line for head in headline(report.snapshot, recent=False)[:1] for line in _most_telling(head)]
    return [*lines, *not_finite(report.snapshot, short=True)]


def _most_telling(head: Headline) -> list[str]:
    """Return the first figures, without unknown rates. Those that are a warning take the place of the last ones."""
    from telemetry.history.headlines import compact

    figures = [figure for figure in head.figures if figure.value is not None or not figure.title.endswith("/s")]
    warnings = [figure for figure in figures if figure.health in ("warn", "bad")]
    others = [figure for figure in figures if figure not in warnings][: max(0, _FIGURES - len(warnings))]
    return [compact(figure, head) for figure in figures if figure in (*others, *warnings)]


def _name_of(directory: str, run_id: str) -> str:
    """Return what a command of the same folder finds the run by: its id, or its path if it is elsewhere."""
    path, here = Path(directory), Path.cwd()
    if path.parent == here / _DEFAULT_ROOT:
        return run_id
    return str(path.relative_to(here)) if path.is_relative_to(here) else directory

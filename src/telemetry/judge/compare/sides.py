"""The two sets of runs: facts about them, their reliability, and pairs of consecutive runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from telemetry.common.formatting import number_of
from telemetry.common.wording import failure
from telemetry.history.headlines import NOT_FINITE, not_finite
from telemetry.judge.compare.figures import FigureKey, duration_s
from telemetry.judge.compare.model import SideName, SideRun
from telemetry.wire.report import Report
from telemetry.wire.snapshot import TERMINAL

_NAMED: Final = 3
PAIRS_FROM: Final = 5
"""Minimum number of pairs. With fewer, the spread between pairs is less certain than the spread between runs."""


def facts(report: Report) -> SideRun:
    """Return the facts about a run that a reader needs."""
    snapshot, command = report.snapshot, report.snapshot.command
    return SideRun(
        run_id=snapshot.run_id,
        name=snapshot.name,
        directory=snapshot.directory,
        started_ns=snapshot.started_ns,
        seconds=duration_s(report),
        completeness=report.verdict,
        exit_code=command.exit_code if command else None,
        signal=command.signal if command else None,
    )


def unfit(reports: Sequence[Report], side: SideName, figure: FigureKey) -> str:
    """Return the reason why the runs of a side are unreliable for this figure; empty if they are reliable.

    Lost events do not affect the time of the command.
    """
    total = len(reports)
    counts = {
        "still going": sum(report.state not in TERMINAL for report in reports),
        "interrupted": sum(report.completeness == "interrupted" for report in reports),
    }
    if figure.of != "command":
        counts |= {
            word: sum(report.completeness == word and report.state in TERMINAL for report in reports)
            for word in ("lossy", "incomplete")
        }
    for word, number in counts.items():
        if number:
            return f"{number} of {number_of(total, 'run')} {side} {'is' if number == 1 else 'are'} {word}"
    if failed := sum(bool(failure(report.snapshot)) for report in reports):
        return f"the command failed in {failed} of {number_of(total, 'run')} {side}"
    return ""


def concerns(reports: Sequence[Report], side: SideName) -> list[str]:
    """Return a line for each value of steps that was not finite: `after: loss is NaN or infinite, first at step 9`.

    Of several runs, the first few that have such values are named, each with its most telling value.
    """
    if len(reports) == 1:
        return [f"{side}: {line}" for line in not_finite(reports[0].snapshot)]
    first_lines = [
        (report.snapshot.run_id, lines[0]) for report in reports if (lines := not_finite(report.snapshot))
    ]
    named = [f"{side}, run {run_id}: {line}" for run_id, line in first_lines[:_NAMED]]
    more = len(first_lines) - len(named)
    return named + ([f"values were {NOT_FINITE} in {number_of(more, 'more run')}"] if more else [])


def by_turns(before: Sequence[Report], after: Sequence[Report]) -> list[tuple[int, int]] | None:
    """Return pairs of consecutive runs (indexes on both sides) if the sides ran by turns, else None.

    The order within a pair may vary. Returns None for too few pairs. Only the start times of the runs count, never
    their figures.
    """
    if len(before) != len(after) or len(before) < PAIRS_FROM:
        return None
    started = [(run.snapshot.started_ns, 0, index) for index, run in enumerate(before)]
    started += [(run.snapshot.started_ns, 1, index) for index, run in enumerate(after)]
    started.sort()
    pairs = []
    for first, second in zip(started[::2], started[1::2], strict=True):
        if first[1] == second[1] or first[0] == second[0]:
            return None
        old, new = (first, second) if first[1] == 0 else (second, first)
        pairs.append((old[2], new[2]))
    return pairs

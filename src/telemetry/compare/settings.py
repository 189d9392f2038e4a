"""Settings that differ between two sides: parameters of the runs, and their command lines."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import Final

from telemetry.compare.model import Setting, SideName
from telemetry.headline_choice import shown_params
from telemetry.wire.collectors import is_of_surroundings
from telemetry.wire.events import Scalar
from telemetry.wire.report import Report

COMMAND: Final = "command"
"""Name of the setting for the command line."""


def settings(before: Sequence[Report], after: Sequence[Report]) -> list[Setting]:
    """Return the settings whose values differ between the sides, sorted by name.

    Code, machine and software come after the parameters, and the command comes last. They are left out if one side
    has not recorded them, as a program that starts its own run.

    Parameters that hold the choice of figures to show first are no settings.
    """
    sides = [[shown_params(report.snapshot.params) for report in side] for side in (before, after)]
    every = {name for side in sides for params in side for name in params}
    if not_recorded(before, after):
        every = {name for name in every if not is_of_surroundings(name)}
    names = sorted(every, key=lambda name: (is_of_surroundings(name), name))
    found = [Setting(name=name, before=_values(sides[0], name), after=_values(sides[1], name)) for name in names]
    return [one for one in (*found, *_commands(before, after)) if set(one.before) != set(one.after)]


def not_recorded(before: Sequence[Report], after: Sequence[Report]) -> SideName | None:
    """Return the side that has recorded nothing of its code, machine and software, if the other side has."""
    is_of_before, is_of_after = (
        any(is_of_surroundings(name) for report in side for name in report.snapshot.params)
        for side in (before, after)
    )
    if is_of_before == is_of_after:
        return None
    return "after" if is_of_before else "before"


def _values(runs: Sequence[dict[str, Scalar]], name: str) -> list[str]:
    """Return the different values of a parameter, in the order of the runs. A run without it has none."""
    return list(dict.fromkeys(_text(params[name]) for params in runs if name in params))


def _text(value: Scalar) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "none" if value is None else str(value)


def _commands(before: Sequence[Report], after: Sequence[Report]) -> Iterator[Setting]:
    """Yield the command lines. Only the words that differ are kept where all have the same number of words."""
    lines = [_lines(before), _lines(after)]
    every = [*lines[0], *lines[1]]
    if not (lines[0] and lines[1]):
        return
    if len({len(line) for line in every}) == 1:
        differ = [at for at in range(len(every[0])) if len({line[at] for line in every}) > 1]
        lines = [[tuple(line[at] for at in differ) for line in side] for side in lines]
    texts = [list(dict.fromkeys(map(shlex.join, side))) for side in lines]
    yield Setting(name=COMMAND, before=texts[0], after=texts[1])


def _lines(side: Sequence[Report]) -> list[tuple[str, ...]]:
    commands = (report.snapshot.command for report in side)
    return [tuple(command.argv) for command in commands if command is not None]

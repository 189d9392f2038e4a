"""Patterns that select figures by name.

A pattern is a name, or a name with all its labels as printed. A name without labels selects all figures of
instruments with that name. A statistic may follow a colon:

  latency    latency:p99    latency{route=/a}    latency{route=/a}:p99    command    command:cpu

`*`, `?` and `[…]` work as in file names, and case matters. A pattern that contains `{` is compared with names that
include labels, any other with bare names. A text copied from a report or comparison matches its own figure,
whatever characters it contains: `sent{to=b} [tokens]`, `latency{route=/a} p99`, `command CPU time`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Final

from telemetry.common import wording
from telemetry.common.formatting import printable
from telemetry.errors import UsageError
from telemetry.judge.compare.figures import FigureKey

COMMAND: Final = "command"
"""Name of the figures of the command."""
COMMAND_WORDS: Final = {"wall": "wall time", "cpu": "CPU time"}
"""Statistics of the command, as printed."""

_LABELS: Final = "{"
_REST: Final = re.compile(r"(?: \[.*\])?(?:[: ](?P<statistic>.+))?", re.DOTALL)
"""Text after a name: the unit and the statistic."""
_SHOWN: Final = 3
_ALIKE: Final = 0.6


def matches(figure: FigureKey, pattern: str) -> bool:
    """Check whether a pattern selects this figure."""
    name = _in_full(figure) if _LABELS in pattern else _bare(figure)
    held = (name, f"{name}:{figure.statistic}")
    return any(fnmatchcase(text, pattern) for text in held) or _is_printed(figure, pattern)


def check(patterns: Iterable[str], figures: Sequence[FigureKey], gauges: Collection[str] = ()) -> None:
    """Check patterns. Raises UsageError for the first one that matches no figure, with the nearest names.

    `gauges`: names of gauges, which have no figures.
    """
    for pattern in patterns:
        if not any(matches(figure, pattern) for figure in figures):
            message = f"the runs have no figure {pattern!r}"
            raise UsageError(message, hint=_instead(pattern, figures, gauges))


def _is_printed(figure: FigureKey, text: str) -> bool:
    spellings = (figure.statistic, COMMAND_WORDS.get(figure.statistic) if figure.of == "command" else None)
    for name in (_bare(figure), printable(_bare(figure)), _in_full(figure)):
        rest = _REST.fullmatch(text, len(name)) if text.startswith(name) else None
        if rest is not None and (rest["statistic"] is None or rest["statistic"] in spellings):
            return True
    return False


def _bare(figure: FigureKey) -> str:
    return COMMAND if figure.of == "command" else figure.name


def _in_full(figure: FigureKey) -> str:
    return wording.instrument(_bare(figure), dict(figure.labels))


def _instead(pattern: str, figures: Sequence[FigureKey], gauges: Collection[str]) -> str:
    """Suggest the nearest figures or the existing ones. Returns an empty string if there are none."""
    name, tail = pattern, ""
    for separator in (":", " "):
        head, delimiter, statistic = pattern.rpartition(separator)
        if own := sorted({figure.statistic for figure in figures if delimiter and matches(figure, head)}):
            return f"{printable(head)} has: {', '.join(own)}"
        if delimiter and not tail and any(figure.statistic == statistic for figure in figures):
            name, tail = head, f"{separator}{statistic}"
    bare, labels, _ = name.partition(_LABELS)
    if bare in gauges:
        return f"{printable(name)} is a gauge, and gauges can't be compared"
    having = [figure for figure in figures if not tail or figure.statistic == tail[1:]]
    siblings = {_in_full(figure) for figure in having if labels and _bare(figure) == bare}
    existing = sorted(siblings or {_in_full(figure) if labels else printable(_bare(figure)) for figure in having})
    near = get_close_matches(name, existing, n=_SHOWN, cutoff=0.0 if siblings else _ALIKE)
    if near:
        return f"did you mean {' or '.join(f'{candidate}{tail}' for candidate in near)}?"
    return f"the runs have: {_listed(existing)}" if existing else ""


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return f"{', '.join(names[:_SHOWN])}{more}"

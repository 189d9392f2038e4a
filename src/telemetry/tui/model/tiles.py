"""The headline: the figures that a user looks at first, beside each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from telemetry.common.formatting import columns, duration_s
from telemetry.history.headlines import Figure, Headline, headline, makes_room
from telemetry.tui.model.grid import Cell, Line, Tone, elided
from telemetry.tui.model.names import fitted_names
from telemetry.tui.model.scene import Scene, View
from telemetry.tui.model.visible_series import is_over
from telemetry.wire.snapshot import MetricsSnapshot

_GAP: Final = 2
_MOST_GAP: Final = 8
_SUBJECT_SHARE: Final = 5
"""The subject is not shortened to less than one in this many columns."""
_TONES: Final[dict[str, Tone]] = {"plain": "strong", "good": "good", "warn": "warn", "bad": "bad"}
_SAME_SPAN: Final = 0.05
"""Relative difference of two time ranges up to which rates look the same."""
_TALL_FROM: Final = 36
"""Lines of the screen from which a second headline is shown, and notes."""


def tiles(scene: Scene, view: View, width: int, height: int) -> tuple[Line, ...]:
    """Return the titles of the figures above the figures, in three lines with their notes. `width` is in columns.

    `height` is that of the screen: a high one shows two headlines. Empty for a moment in the past, and if nothing
    was recorded yet.
    """
    if scene.snapshot is None or scene.moment is not None:
        return ()
    recent = view.figures == "window" and not is_over(scene)
    headlines = headline(scene.snapshot, recent=recent, curves=scene.curves or (), speeds=scene.steps_per_s)
    is_tall = height >= _TALL_FROM
    lines: list[Line] = []
    for entry in headlines[: 2 if is_tall else 1]:
        figures = tuple(_with_span(figure, scene.snapshot, view) for figure in entry.figures)
        lines += _drawn(replace(entry, figures=figures), width, named=len(headlines) > 1, notes=is_tall)
    return tuple(lines)


def _with_span(figure: Figure, snapshot: MetricsSnapshot, view: View) -> Figure:
    """Name the time range of a rate, unless it is that of the tables."""
    seconds, elapsed_s = figure.seconds, snapshot.elapsed_s
    if not seconds or (view.figures == "run" and abs(seconds - elapsed_s) <= _SAME_SPAN * elapsed_s):
        return figure
    return replace(figure, title=f"{figure.title} over {duration_s(seconds)}")


def _drawn(entry: Headline, width: int, *, named: bool, notes: bool) -> list[Line]:
    shown = list(_shortened(entry, named=named))
    is_named = bool(shown) and shown[0].title == entry.flavour
    if is_named and (over := _taken(shown) - width) > 0:
        least = max(width // _SUBJECT_SHARE, columns(entry.flavour))
        (subject,) = fitted_names((entry.subject,), max(columns(entry.subject) - over, least))
        shown[0] = replace(shown[0], text=subject)
    spare = [figure for figure in shown if makes_room(figure, entry.figures)]
    while spare and _taken(shown) > width:
        shown.remove(spare.pop())
    while len(shown) > 1 and _taken(shown) > width:
        shown.pop()
    widths = [_needed(figure) + _GAP for figure in shown]
    if notes:
        widths = _with_notes(shown, widths, width)
    more = min(max(0, width - sum(widths)) // max(1, len(shown)), _MOST_GAP - _GAP)
    widths = [size + more for size in widths]
    pairs = list(zip(shown, widths, strict=True))
    tones: list[Tone] = [_TONES[figure.health] for figure in shown]
    if is_named:
        tones[0] = "accent"
    lines: list[Line] = [
        tuple(Cell(_padded(figure.title, size), "dim") for figure, size in pairs),
        tuple(Cell(_padded(figure.text, size), tone) for (figure, size), tone in zip(pairs, tones, strict=True)),
    ]
    if notes and any(figure.note for figure in shown):
        lines.append(tuple(Cell(_padded(elided(figure.note, size - _GAP), size), "dim") for figure, size in pairs))
    return lines


def _shortened(entry: Headline, *, named: bool) -> Sequence[Figure]:
    """Return the figures without the subject in their titles; it is a figure of its own then, the first one."""
    figures, subject = entry.figures, entry.subject
    if not subject:
        return figures
    prefix = f"{subject} "
    if any(figure.title.startswith(prefix) for figure in figures):
        figures = tuple(replace(figure, title=figure.title.removeprefix(prefix)) for figure in figures)
        named = True
    return (Figure(entry.flavour, subject), *figures) if named else figures


def _with_notes(shown: Sequence[Figure], widths: Sequence[int], width: int) -> list[int]:
    """Return the widths, larger for notes as far as there is room."""
    room, sizes = width - sum(widths), list(widths)
    for at, figure in enumerate(shown):
        more = max(0, columns(figure.note) + _GAP - sizes[at])
        if more <= room:
            sizes[at] += more
            room -= more
    return sizes


def _padded(text: str, width: int) -> str:
    text = elided(text, width - 1)
    return text + " " * (width - columns(text))


def _needed(figure: Figure) -> int:
    return max(columns(figure.text), columns(figure.title))


def _taken(figures: Sequence[Figure]) -> int:
    return sum(_needed(figure) + _GAP for figure in figures)

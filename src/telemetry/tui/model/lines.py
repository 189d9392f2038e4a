"""Pieces of text side by side, within a width."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Final, NamedTuple

from telemetry.common.formatting import columns
from telemetry.tui.model.grid import Cell, Line, Tone

BETWEEN: Final = Cell(" · ", "dim")
_NARROWEST: Final = 8
"""Smallest width in columns for wrapped text."""


class Piece(NamedTuple):
    """A text that may be left out if space is short: the highest `keep` first, 0 never."""

    text: str
    tone: Tone = "plain"
    keep: int = 0


def width_of(line: Line) -> int:
    return sum(columns(cell.text) for cell in line)


def elided(text: str, width: int) -> str:
    """Shorten text to `width` columns, with `…` in place of the rest."""
    if columns(text) <= width:
        return text
    room, kept = width - 1, ""
    for char in text:
        room -= columns(char)
        if room < 0:
            break
        kept += char
    return f"{kept}…" if width > 0 else ""


def cut(line: Line, width: int) -> Line:
    """Shorten a line to `width` columns."""
    kept: list[Cell] = []
    for cell in line:
        text = elided(cell.text, width)
        if text:
            kept.append(Cell(text, cell.tone))
        width -= columns(cell.text)
    return tuple(kept)


def fitted(pieces: Sequence[Piece], width: int) -> Line:
    """Join the pieces that fit, with dots between them."""
    kept = [piece for piece in pieces if piece.text]
    while kept and taken(kept) > width:
        last = max(kept, key=lambda piece: piece.keep)
        if not last.keep:
            break
        kept.remove(last)
    line: list[Cell] = []
    for piece in kept:
        line += [BETWEEN] if line else []
        line.append(Cell(piece.text, piece.tone))
    return cut(tuple(line), width)


def taken(pieces: Sequence[Piece]) -> int:
    """Return the columns of these pieces with dots between them."""
    return sum(columns(piece.text) + len(BETWEEN.text) for piece in pieces) - len(BETWEEN.text)


def wrapped(text: str, tone: Tone, width: int) -> list[Line]:
    """Wrap text to as many lines as needed. Indents all lines but the first."""
    lines = textwrap.wrap(text, max(width, _NARROWEST), subsequent_indent="  ")
    return [cut((Cell(line, tone),), width) for line in lines]


def apart(left: Line, right: Line, width: int) -> Line:
    """Put one line at the left edge and one at the right. Drops the right one if both do not fit."""
    room = width - width_of(left) - width_of(right)
    return (*left, Cell(" " * room), *right) if room > 1 else cut(left, width)

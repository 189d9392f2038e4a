"""Tones that do not flicker while a value hovers at a limit."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Final

from telemetry.tui.model.grid import Tone

HELD_NS: Final = 3_000_000_000
"""Time for which a tone stays after its reason is gone."""
_RANKS: Final[Mapping[Tone, int]] = {"dim": 1, "warn": 2, "bad": 3}
"""A higher tone replaces a lower one at once. Tones without a rank are not held."""
_MOST: Final = 4_096

Key = tuple[Hashable, int]
"""A row, and the place of a cell in it."""


class SteadyTones:
    """The tones of cells as shown. A warning appears at once and goes HELD_NS after its reason."""

    def __init__(self) -> None:
        self._shown: dict[Key, tuple[Tone, int]] = {}
        """Tone, and when it was last wanted."""
        self._waiting: dict[Hashable, int] = {}
        """Rows with a tone that is only held, and when it goes."""

    def forget(self) -> None:
        """Forget all tones, when the cells show something else than before."""
        self._shown.clear()
        self._waiting.clear()

    def tone(self, key: Key, wanted: Tone, now_ns: int) -> Tone:
        """Return the tone to show."""
        shown, at_ns = self._shown.get(key, (wanted, now_ns))
        if _RANKS.get(wanted, 0) >= _RANKS.get(shown, 0) or now_ns - at_ns >= HELD_NS:
            if wanted in _RANKS and len(self._shown) < _MOST:
                self._shown[key] = wanted, now_ns
            else:
                self._shown.pop(key, None)
            return wanted
        self._waiting[key[0]] = at_ns + HELD_NS
        return shown

    def due(self, now_ns: int) -> set[Hashable]:
        """Return the rows to draw again because a held tone goes now."""
        due = {row for row, end_ns in self._waiting.items() if end_ns <= now_ns}
        for row in due:
            del self._waiting[row]
        return due

"""Texts in less room than they need, such as the values of one label, still told apart from each other."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from rich.cells import cell_len

from telemetry.tui.widgets.strips import MORE, fitted

_WORD: Final = re.compile(r"[^\W_]+|[\W_]")
"""A word, or one character between words."""
_MOST_WORDS: Final = 4
"""That tell a text from the others; one that needs more is told apart as a whole only."""
_SHORT: Final = 8
"""A text of so many columns needs them all: of less little can be read."""
_Span = tuple[int, int]


class Abridged:
    """What is too long loses its middle. Where that makes it look like another, it shows the few words that no
    other text has, with those around them that have room: `…200…` of `measured at 200 per second`.

    Texts without a `…` look different wherever each has the room that it needs, whatever rooms those are."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._words = {text: _WORD.findall(text) for text in texts}
        self._telling = _telling(self._words)
        self._middles: dict[int, Counter[str]] = {}

    def needs(self, text: str) -> int:
        """Columns from which on it looks like no other."""
        if len(self._words) == 1:
            return 1
        span, whole = self._telling.get(text), cell_len(text)
        return whole if span is None or whole <= _SHORT else min(whole, cell_len(self._said(text, span)))

    def cut(self, text: str, width: int) -> str:
        """At most `width` columns of one of the texts."""
        if cell_len(text) <= width:
            return text
        middle = fitted(text, width)
        return middle if self._middles_at(width)[middle] == 1 else self._around(text, width) or middle

    def _middles_at(self, width: int) -> Counter[str]:
        """How many texts lose their middle to the same remains."""
        if width not in self._middles:
            self._middles[width] = Counter(fitted(text, width) for text in self._words if cell_len(text) > width)
        return self._middles[width]

    def _around(self, text: str, width: int) -> str:
        """The telling words and as many as have room before them, then behind them; empty if they have none."""
        span = self._telling.get(text)
        if span is None or cell_len(self._said(text, span)) > width:
            return ""
        words, (start, end) = self._words[text], span
        while start > 0 and cell_len(self._said(text, (start - 1, end))) <= width:
            start -= 1
        while end < len(words) and cell_len(self._said(text, (start, end + 1))) <= width:
            end += 1
        while start < span[0] and not words[start].isalnum():
            start += 1
        while end > span[1] and not words[end - 1].isalnum():
            end -= 1
        return self._said(text, (start, end))

    def _said(self, text: str, span: _Span) -> str:
        words, (start, end) = self._words[text], span
        return f"{MORE if start else ''}{''.join(words[start:end])}{MORE if end < len(words) else ''}"


def _telling(texts: Mapping[str, list[str]]) -> dict[str, _Span]:
    """Of each text the fewest words in a row that are in no other; none where all that it has is in another."""
    found: dict[str, _Span] = {}
    for size in range(1, _MOST_WORDS + 1):
        if len(found) == len(texts):
            break
        known = Counter(run for words in texts.values() for run in set(_runs(words, size)))
        for text, words in texts.items():
            own = [at for at, run in enumerate(_runs(words, size)) if known[run] == 1]
            if own and text not in found:
                start = min(own, key=lambda at: _cost(words[at : at + size]))
                found[text] = (start, start + size)
    return found


def _runs(words: list[str], size: int) -> list[str]:
    return ["".join(words[at : at + size]) for at in range(len(words) - size + 1)]


def _cost(words: list[str]) -> tuple[int, int]:
    """Words before what stands between them, then the shortest."""
    return sum(not word.isalnum() for word in words), cell_len("".join(words))

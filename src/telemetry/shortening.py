"""Shortening of texts, such as the values of one label, so that they can still be distinguished."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from telemetry import formatting

MORE: Final = "…"
_WORD: Final = re.compile(r"[^\W_]+|[\W_]")
"""A word, or one character between words."""
_MOST_WORDS: Final = 4
"""Largest number of words that distinguish a text; a text that needs more is only shown whole."""
_SHORT: Final = 8
"""Number of columns that a text keeps in any case, because less can hardly be read."""
_LONE: Final = 3
"""Columns for the ends of a text that is the only one."""
_Span = tuple[int, int]


class Shortened:
    """Texts shortened to fit, so that different texts look different.

    A text that is too long loses its middle. If it then looks like another, it shows the few words that only it
    has, with as many neighbours as fit: `…200…` of `measured at 200 per second`.

    Texts without a `…` look different if each has the width that it needs, whatever the widths are. `columns`
    returns the width of a text on its output device.
    """

    def __init__(self, texts: Iterable[str], columns: Callable[[str], int] = formatting.columns) -> None:
        self._columns = columns
        self._words = {text: _WORD.findall(text) for text in texts}
        self._telling = _telling(self._words, columns)
        self._middles: dict[int, Counter[str]] = {}

    def needs(self, text: str) -> int:
        """Return the columns from which on the text is readable and looks like no other."""
        span, whole = self._telling.get(text), self._columns(text)
        if len(self._words) == 1:
            return min(whole, _LONE)
        return whole if span is None or whole <= _SHORT else min(whole, self._columns(self._said(text, span)))

    def cut(self, text: str, width: int) -> str:
        """Return one of the texts, shortened to at most `width` columns."""
        if self._columns(text) <= width:
            return text
        middle = without_middle(text, width, self._columns)
        return middle if self._middles_at(width)[middle] == 1 else self._around(text, width) or middle

    def _middles_at(self, width: int) -> Counter[str]:
        """Return how many texts get the same result when they lose their middle."""
        if width not in self._middles:
            long = (text for text in self._words if self._columns(text) > width)
            self._middles[width] = Counter(without_middle(text, width, self._columns) for text in long)
        return self._middles[width]

    def _around(self, text: str, width: int) -> str:
        """Return the distinguishing words, with as many neighbours as fit; empty if there are none."""
        span = self._telling.get(text)
        if span is None or self._columns(self._said(text, span)) > width:
            return ""
        words, (start, end) = self._words[text], span
        while start > 0 and self._columns(self._said(text, (start - 1, end))) <= width:
            start -= 1
        while end < len(words) and self._columns(self._said(text, (start, end + 1))) <= width:
            end += 1
        while start < span[0] and not words[start].isalnum():
            start += 1
        while end > span[1] and not words[end - 1].isalnum():
            end -= 1
        return self._said(text, (start, end))

    def _said(self, text: str, span: _Span) -> str:
        words, (start, end) = self._words[text], span
        return f"{MORE if start else ''}{''.join(words[start:end])}{MORE if end < len(words) else ''}"


def without_middle(text: str, width: int, columns: Callable[[str], int] = formatting.columns) -> str:
    """Return the text with at most `width` columns.

    A long text loses its middle: texts often differ at the end only.
    """
    if columns(text) <= width:
        return text
    if width < 1:
        return ""
    start = max(0, len(text) - (width - 1) // 2)
    while columns(text[start:]) > (width - 1) // 2:
        start += 1
    end = room = width - 1 - columns(text[start:])
    while columns(text[:end]) > room:
        end -= 1
    return f"{text[:end]}{MORE}{text[start:]}"


def shared_out(needs: Sequence[int], wholes: Sequence[int], room: int) -> list[int]:
    """Return columns for each of several texts: first as many as they need, then an equal share of the rest."""
    rooms = _shares(needs, room)
    missing = [whole - had for whole, had in zip(wholes, rooms, strict=True)]
    return [had + more for had, more in zip(rooms, _shares(missing, room - sum(rooms)), strict=True)]


def _shares(wanted: Sequence[int], room: int) -> list[int]:
    """Return the width that each wants.

    If there is not enough, small demands are met and the others get equal shares.
    """
    shares = [0] * len(wanted)
    for done, index in enumerate(sorted(range(len(wanted)), key=wanted.__getitem__)):
        shares[index] = max(0, min(wanted[index], -(-room // (len(wanted) - done))))
        room -= shares[index]
    return shares


def _telling(texts: Mapping[str, list[str]], columns: Callable[[str], int]) -> dict[str, _Span]:
    """Return for each text the shortest run of words that no other text has; omit texts without one."""
    found: dict[str, _Span] = {}
    for size in range(1, _MOST_WORDS + 1):
        if len(found) == len(texts):
            break
        known = Counter(run for words in texts.values() for run in set(_runs(words, size)))
        for text, words in texts.items():
            own = [at for at, run in enumerate(_runs(words, size)) if known[run] == 1]
            if own and text not in found:
                start = min(own, key=lambda at: _cost(words[at : at + size], columns))
                found[text] = (start, start + size)
    return found


def _runs(words: list[str], size: int) -> list[str]:
    return ["".join(words[at : at + size]) for at in range(len(words) - size + 1)]


def _cost(words: list[str], columns: Callable[[str], int]) -> tuple[int, int]:
    """Return the sort key: words before separators, then the shortest."""
    return sum(not word.isalnum() for word in words), columns("".join(words))

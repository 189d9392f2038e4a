"""The text of a gate, piece by piece, and errors that point into it."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from telemetry.errors import UsageError
from telemetry.formatting import columns, printable

WORD: Final = re.compile(r"[^\W\d][\w.]*")
"""A function, a fact, a keyword or a unit."""
BARE_NAME: Final = re.compile(r"\w[\w.:-]*")
"""Of a metric or a label, without quotes."""
BARE_VALUE: Final = re.compile(r'[^\s,{}"\\]+')
"""Of a label, without quotes."""
_NUMBER: Final = re.compile(r"\d+(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)
_QUOTED: Final = re.compile(r'"((?:[^"\\]|\\["\\])*)"')
_UNIT: Final = re.compile(r"[^\W\d]\w*|%")
_PER_SECOND: Final = re.compile(r"/s(?!\w)")
_SPACE: Final = re.compile(r"\s*")
_ESCAPE: Final = re.compile(r"\\(.)")
_SHOWN_CHARS: Final = 40


class Span(NamedTuple):
    """Where in the text: from `start` up to before `end`."""

    start: int = 0
    end: int = 0


class Token(NamedTuple):
    text: str
    span: Span


def wrong(text: str, span: Span, said: str) -> UsageError:
    """An error of three lines: what is wrong, the text, and a caret under each character of `span`."""
    start = min(span.start, len(text))
    before = columns(printable(text[:start]))
    marked = max(columns(printable(text[start : max(span.end, start)])), 1)
    return UsageError(f"{printable(said)}\n  {printable(text)}\n  {' ' * before}{'^' * marked}")


def quoted(text: str) -> str:
    """As `Scanner.name` reads it back."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


class Scanner:
    """Reads a text from left to right. What a piece may look like depends on where it stands, so the parser asks
    for one kind of piece at a time; None: there is none of that kind here, and nothing has been read."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self._skip()

    @property
    def ended(self) -> bool:
        return self.at == len(self.text)

    def begins(self, *symbols: str) -> bool:
        return self.text.startswith(symbols, self.at)

    def symbol(self, *symbols: str) -> Token | None:
        """The first of these that stands here."""
        for symbol in symbols:
            if self.text.startswith(symbol, self.at):
                return self._take(self.at + len(symbol))
        return None

    def keyword(self, word: str) -> Token | None:
        found = WORD.match(self.text, self.at)
        return self._take(found.end()) if found and found[0] == word else None

    def word(self) -> Token | None:
        return self._matched(WORD)

    def number(self) -> Token | None:
        """Digits alone: a unit may follow, with nothing between."""
        found = _NUMBER.match(self.text, self.at)
        if found is None:
            return None
        span = Span(self.at, found.end())
        self.at = found.end()
        return Token(found[0], span)

    def glued(self) -> Token | None:
        """A word, or `%`, right after what was read last."""
        found = _UNIT.match(self.text, self.at)
        return self._end(found.end()) if found else None

    def spaced(self, known: frozenset[str]) -> Token | None:
        """One of these words, after space."""
        start = self.at
        self._skip()
        found = _UNIT.match(self.text, self.at)
        if found and found[0] in known:
            return self._end(found.end())
        self.at = start
        return None

    def per_second(self) -> bool:
        """`/s`, right after what was read last."""
        found = _PER_SECOND.match(self.text, self.at)
        if found:
            self.at = found.end()
        return bool(found)

    def skip(self) -> None:
        """After a number and its unit."""
        self._skip()

    def name(self) -> Token | None:
        """Of a metric or a label: bare, or anything in quotes. Raises UsageError for a quote without an end."""
        return self._string() if self.begins('"') else self._matched(BARE_NAME)

    def value(self) -> Token | None:
        """Of a label. Raises UsageError for a quote without an end."""
        return self._string() if self.begins('"') else self._matched(BARE_VALUE)

    def next_span(self) -> Span:
        """Of what stands here: a word, a number or one character; behind the text if it has ended."""
        for pattern in (WORD, _NUMBER):
            if found := pattern.match(self.text, self.at):
                return Span(self.at, found.end())
        return Span(self.at, min(self.at + 1, len(self.text)))

    def found(self) -> str:
        """What stands here, for an error."""
        if self.ended:
            return "the end"
        span = self.next_span()
        return f"`{self.text[span.start : span.end][:_SHOWN_CHARS]}`"

    def wrong(self, said: str, span: Span | None = None) -> UsageError:
        """At what stands here, or at `span`."""
        return wrong(self.text, span or self.next_span(), said)

    def _string(self) -> Token:
        found = _QUOTED.match(self.text, self.at)
        if found is None:
            raise self.wrong('this quote has no end, or a `\\` in it that is neither `\\\\` nor `\\"`')
        token = self._take(found.end())
        return Token(_ESCAPE.sub(r"\1", found[1]), token.span)

    def _matched(self, pattern: re.Pattern[str]) -> Token | None:
        found = pattern.match(self.text, self.at)
        return self._take(found.end()) if found else None

    def _take(self, end: int) -> Token:
        token = self._end(end)
        self._skip()
        return token

    def _end(self, end: int) -> Token:
        token = Token(self.text[self.at : end], Span(self.at, end))
        self.at = end
        return token

    def _skip(self) -> None:
        found = _SPACE.match(self.text, self.at)
        if found:
            self.at = found.end()

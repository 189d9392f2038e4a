"""A scanner for the text of gates, and errors with a caret below the text."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from telemetry.common.formatting import columns, printable
from telemetry.errors import UsageError

WORD: Final = re.compile(r"[^\W\d][\w.]*")
"""A function, a fact, a keyword or a unit."""
BARE_NAME: Final = re.compile(r"\w[\w.:/-]*")
"""Name of a metric or label key, without quotes."""
BARE_VALUE: Final = re.compile(r'[^\s,{}"\\]+')
"""Value of a label, without quotes."""
_NUMBER: Final = re.compile(r"\d+(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)
_QUOTED: Final = re.compile(r'"((?:[^"\\]|\\["\\])*)"')
_UNIT: Final = re.compile(r"[^\W\d]\w*|%")
_PER_SECOND: Final = re.compile(r"/s(?!\w)")
_SPACE: Final = re.compile(r"\s*")
_ESCAPE: Final = re.compile(r"\\(.)")
_SHOWN_CHARS: Final = 40


class TextSpan(NamedTuple):
    """A range of the text: `start` is included, `end` is not."""

    start: int = 0
    end: int = 0


class Token(NamedTuple):
    text: str
    span: TextSpan


def wrong(text: str, span: TextSpan, message: str) -> UsageError:
    """Return an error of three lines: the problem, the text, and a caret under each character of `span`."""
    start = min(span.start, len(text))
    before = columns(printable(text[:start]))
    marked = max(columns(printable(text[start : max(span.end, start)])), 1)
    return UsageError(f"{printable(message)}\n  {printable(text)}\n  {' ' * before}{'^' * marked}")


def quoted(text: str) -> str:
    """Quote a name in the form that `Scanner.name` reads."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


class Scanner:
    """A scanner that reads a text from left to right.

    The valid tokens depend on the position, so the parser asks for one kind of token at a time. Methods return
    None, and read no text, if the next token is of another kind.
    """

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
        """Read the first of these symbols that matches here."""
        for symbol in symbols:
            if self.text.startswith(symbol, self.at):
                return self._take(self.at + len(symbol))
        return None

    def keyword(self, word: str) -> Token | None:
        match = WORD.match(self.text, self.at)
        return self._take(match.end()) if match and match[0] == word else None

    def word(self) -> Token | None:
        return self._matched(WORD)

    def number(self) -> Token | None:
        """Read digits only. A unit may follow without a space."""
        match = _NUMBER.match(self.text, self.at)
        if match is None:
            return None
        span = TextSpan(self.at, match.end())
        self.at = match.end()
        return Token(match[0], span)

    def glued(self) -> Token | None:
        """Read a word or `%` that follows the last token without a space."""
        match = _UNIT.match(self.text, self.at)
        return self._end(match.end()) if match else None

    def spaced(self, choices: frozenset[str]) -> Token | None:
        """Read one of these words after optional space."""
        start = self.at
        self._skip()
        match = _UNIT.match(self.text, self.at)
        if match and match[0] in choices:
            return self._end(match.end())
        self.at = start
        return None

    def per_second(self) -> bool:
        """Read `/s` that follows the last token without a space."""
        match = _PER_SECOND.match(self.text, self.at)
        if match:
            self.at = match.end()
        return bool(match)

    def skip(self) -> None:
        """Skip space after a number and its unit."""
        self._skip()

    def name(self) -> Token | None:
        """Read the name of a metric or label: a bare name, or any text in quotes.

        Raises UsageError for an open quote.
        """
        return self._string() if self.begins('"') else self._matched(BARE_NAME)

    def value(self) -> Token | None:
        """Read the value of a label. Raises UsageError for an open quote."""
        return self._string() if self.begins('"') else self._matched(BARE_VALUE)

    def next_span(self) -> TextSpan:
        """Return the span of the next word, number or character. At the end, the span is behind the text."""
        for pattern in (WORD, _NUMBER):
            if match := pattern.match(self.text, self.at):
                return TextSpan(self.at, match.end())
        return TextSpan(self.at, min(self.at + 1, len(self.text)))

    def found(self) -> str:
        """Describe the next token, for an error message."""
        if self.ended:
            return "the end"
        span = self.next_span()
        return f"`{self.text[span.start : span.end][:_SHOWN_CHARS]}`"

    def wrong(self, message: str, span: TextSpan | None = None) -> UsageError:
        """Return an error that points at the next token, or at `span`."""
        return wrong(self.text, span or self.next_span(), message)

    def _string(self) -> Token:
        match = _QUOTED.match(self.text, self.at)
        if match is None:
            raise self.wrong('this quote is not closed, or contains a `\\` that is neither `\\\\` nor `\\"`')
        token = self._take(match.end())
        return Token(_ESCAPE.sub(r"\1", match[1]), token.span)

    def _matched(self, pattern: re.Pattern[str]) -> Token | None:
        match = pattern.match(self.text, self.at)
        return self._take(match.end()) if match else None

    def _take(self, end: int) -> Token:
        token = self._end(end)
        self._skip()
        return token

    def _end(self, end: int) -> Token:
        token = Token(self.text[self.at : end], TextSpan(self.at, end))
        self.at = end
        return token

    def _skip(self) -> None:
        match = _SPACE.match(self.text, self.at)
        if match:
            self.at = match.end()

"""Forms of valid input: where its parts lie, and what lies worst in their place.

A form cuts bytes into spans and holds `treasures`, pieces that such a place has probably never been given; most
changes of `Form.mutate` know the form, some know only bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

_T = TypeVar("_T")
Span = tuple[int, int]
Chance = Callable[[], float]
"""A number in [0, 1)."""

_CACHED: Final = 1_000  # inputs whose spans are remembered, short ones
_CACHED_BYTES: Final = 16_384
_MARKS: Final = (
    0x00,
    0x01,
    0x0A,
    0x22,
    0x5B,
    0x7B,
    0x7F,
    0x80,
    0x90,
    0x9F,
    0xC0,
    0xC1,
    0xC6,
    0xCB,
    0xCF,
    0xD3,
    0xDB,
)
_MARKS_WIDE: Final = (0xDC, 0xDD, 0xDF, 0xFF)
_BYTES: Final = bytes(_MARKS + _MARKS_WIDE)
_STACKED: Final = 0.35  # chance of one change more
_KNOWING: Final = 0.75  # chance that a change knows the form
_MOST_COPIES: Final = 64
_COPIED_BYTES: Final = 1 << 15


def pick(chance: Chance, choices: Sequence[_T]) -> _T:
    return choices[int(chance() * len(choices))]


class Form:
    """Bytes that are nothing but bytes."""

    treasures: Sequence[bytes] = (b"", b"\0", b"\xff" * 4, b"\xff" * 8, b"\0" * 64)

    def __init__(self) -> None:
        self._known: dict[bytes, Sequence[Span]] = {}
        self._changes = (
            *(self._replace, self._replace, self._replace, self._borrow, self._swap, self._drop, self._double),
            *(self._lie, self._lie),
        )

    def find_spans(self, data: bytes) -> Sequence[Span]:
        """Parts of the data that mean something by themselves, as [start, end). May be empty."""
        return ()

    def lie(self, chance: Chance, data: bytes, span: Span) -> bytes:
        """The data with another length, or another kind, in front of the part."""
        return _poke(chance, data)

    def mutate(self, chance: Chance, data: bytes, other: bytes) -> bytes:
        """The data with one change or a few; `other` is a second input to take parts from."""
        spans = self.spans(data)
        if spans and chance() < _KNOWING:
            changed = pick(chance, self._changes)(chance, data, spans, other)
        else:
            changed = pick(chance, _BLIND)(chance, data)
        while chance() < _STACKED:
            changed = pick(chance, _BLIND)(chance, changed)
        return changed if changed != data else _flip(chance, data)

    def spans(self, data: bytes) -> Sequence[Span]:
        known = self._known.get(data)
        if known is None:
            known = self.find_spans(data)
            if len(data) <= _CACHED_BYTES:
                if len(self._known) >= _CACHED:
                    self._known.clear()
                self._known[data] = known
        return known

    # --- changes that know the spans -------------------------------------------------------------

    def _replace(self, chance: Chance, data: bytes, spans: Sequence[Span], other: bytes) -> bytes:
        start, end = pick(chance, spans)
        return data[:start] + pick(chance, self.treasures) + data[end:]

    def _borrow(self, chance: Chance, data: bytes, spans: Sequence[Span], other: bytes) -> bytes:
        theirs = self.spans(other)
        if not theirs:
            return _repeat(chance, data)
        start, end = pick(chance, spans)
        first, last = pick(chance, theirs)
        return data[:start] + other[first:last] + data[end:]

    def _swap(self, chance: Chance, data: bytes, spans: Sequence[Span], other: bytes) -> bytes:
        (a, b), (c, d) = sorted((pick(chance, spans), pick(chance, spans)))
        if b > c:
            return self._double(chance, data, spans, other)
        return data[:a] + data[c:d] + data[b:c] + data[a:b] + data[d:]

    def _drop(self, chance: Chance, data: bytes, spans: Sequence[Span], other: bytes) -> bytes:
        start, end = pick(chance, spans)
        return data[:start] + data[end:]

    def _double(self, chance: Chance, data: bytes, spans: Sequence[Span], other: bytes) -> bytes:
        start, end = pick(chance, spans)
        copies = 1 + int(chance() ** 6 * min(_MOST_COPIES, _COPIED_BYTES // (end - start + 1)))
        return data[:end] + data[start:end] * copies + data[end:]

    def _lie(self, chance: Chance, data: bytes, spans: Sequence[Span], other: bytes) -> bytes:
        return self.lie(chance, data, pick(chance, spans))


# --- changes that know only bytes ----------------------------------------------------------------


def _flip(chance: Chance, data: bytes) -> bytes:
    """Another bit."""
    if not data:
        return b"\0"
    at = int(chance() * len(data))
    return data[:at] + bytes((data[at] ^ (1 << int(chance() * 8)),)) + data[at + 1 :]


def _poke(chance: Chance, data: bytes) -> bytes:
    """Another byte."""
    at = int(chance() * (len(data) + 1))
    byte = pick(chance, _BYTES) if chance() < 0.5 else int(chance() * 256)
    return data[:at] + bytes((byte,)) + data[at + 1 :]


def _cut(chance: Chance, data: bytes) -> bytes:
    """Return the data without its end."""
    return data[: int(chance() * len(data))]


def _insert(chance: Chance, data: bytes) -> bytes:
    """A few bytes more."""
    at = int(chance() * (len(data) + 1))
    noise = int(chance() * (1 << 32)).to_bytes(4, "big")
    return data[:at] + noise[int(chance() * 4) :] + data[at:]


def _remove(chance: Chance, data: bytes) -> bytes:
    """Return the data without a piece."""
    at = int(chance() * (len(data) + 1))
    return data[:at] + data[at + 1 + int(chance() ** 3 * 64) :]


def _repeat(chance: Chance, data: bytes) -> bytes:
    """Return the data with a piece twice."""
    at = int(chance() * (len(data) + 1))
    end = at + 1 + int(chance() ** 2 * 64)
    return data[:end] + data[at:]


_BLIND: Final = (_flip, _flip, _flip, _poke, _poke, _cut, _insert, _remove, _repeat)


def noise(chance: Chance, head: bytes = b"") -> bytes:
    """Random bytes, mostly few."""
    size = int(chance() ** 3 * 300)
    return head + int(chance() * (1 << 53)).to_bytes(7, "big") * (size // 7) + _random_bytes(chance, size % 64)


def _random_bytes(chance: Chance, size: int) -> bytes:
    return bytes([int(chance() * 256) for _ in range(size)])

"""Msgpack, and chains of it: what the wire and the journal carry."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Final

from tests.fuzz.forms import Chance, Form, Span, pick

_MOST_SPANS: Final = 1_500
_CACHED: Final = 250  # chains whose parts are remembered
_CACHED_BYTES: Final = 16_384

_FIXED: Final = {
    **dict.fromkeys((0xC0, 0xC1, 0xC2, 0xC3), 0),
    0xCA: 4,
    0xCB: 8,
    0xCC: 1,
    0xCD: 2,
    0xCE: 4,
    0xCF: 8,
    0xD0: 1,
    0xD1: 2,
    0xD2: 4,
    0xD3: 8,
    0xD4: 2,
    0xD5: 3,
    0xD6: 5,
    0xD7: 9,
    0xD8: 17,
}
"""Marker → bytes that follow."""
_SIZED: Final = {0xC4: 1, 0xC5: 2, 0xC6: 4, 0xC7: 1, 0xC8: 2, 0xC9: 4, 0xD9: 1, 0xDA: 2, 0xDB: 4}
"""Marker of bytes, extensions and text → width of the length in front."""
_COUNTED: Final = {0xDC: (2, 1), 0xDD: (4, 1), 0xDE: (2, 2), 0xDF: (4, 2)}
"""Marker of arrays and maps → (width of the count, elements for each)."""


def element_header(data: bytes, at: int) -> tuple[int, int, int]:
    """(bytes of the header, bytes of the body, elements that follow). Raises IndexError at the end of the data."""
    mark = data[at]
    if mark <= 0x7F or mark >= 0xE0:
        return 1, 0, 0
    if mark <= 0x9F:
        return 1, 0, (mark & 0x0F) * (2 if mark <= 0x8F else 1)
    if mark <= 0xBF or mark in _FIXED:
        return 1, _FIXED[mark] if mark in _FIXED else mark & 0x1F, 0
    width, each = _COUNTED.get(mark) or (_SIZED[mark], 0)
    length = int.from_bytes(data[at + 1 : at + 1 + width], "big")
    return 1 + width, 0 if each else length + (0xC7 <= mark <= 0xC9), each * length


def find_elements(data: bytes, start: int = 0) -> list[Span]:
    """All elements from `start` on, as far as they can be read."""
    found: list[Span] = []
    open_: list[list[int]] = []  # (place in `found`, elements still to come)
    at = start
    while at < len(data) and len(found) < _MOST_SPANS:
        header, body, elements = element_header(data, at)
        place, begun = len(found), at
        at += header + body
        found.append((begun, at))
        if elements:
            open_.append([place, elements])
            continue
        while open_:
            open_[-1][1] -= 1
            if open_[-1][1]:
                break
            place = open_.pop()[0]
            found[place] = (found[place][0], at)
    for place, _ in open_:
        found[place] = (found[place][0], min(at, len(data)))
    return found


def text(value: str | bytes) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return b"\xdb" + struct.pack(">I", len(raw)) + raw


def _numbers() -> list[bytes]:
    whole = [0, 1, 127, 255, 65_535, 65_536, 1 << 31, (1 << 32) - 1, 1 << 40, 1 << 50, (1 << 50) + 1, 1 << 53]
    edges = [(1 << 53) + 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1]
    real = [0.0, -0.0, 0.5, -1.0, 5e-324, 1e30, 1e-31, 1e308, 65_535.0, 65_536.0, 2.0**53, 2.0**63, 2.0**64]
    odd = [float("nan"), float("inf"), float("-inf")]
    return [
        *(b"\xcf" + struct.pack(">Q", number) for number in whole + edges),
        *(b"\xd3" + struct.pack(">q", number) for number in (-1, -32, -(1 << 31), -(1 << 63), (1 << 63) - 1)),
        *(b"\xcb" + struct.pack(">d", number) for number in real + odd),
        *(b"\xca" + struct.pack(">f", number) for number in (0.0, float("nan"), 3.4e38)),
        *(b"\x00", b"\x01", b"\x7f", b"\xe0", b"\xff"),
    ]


_WORDS: Final = (
    *("define", "sample", "count", "gauge", "expect", "mark", "params", "scalars", "step_end", "span", "text"),
    *("step_clear", "axis", "reported", "step"),
    *("artifact", "session", "counter", "series", "hello", "ping", "end", "cannot_resend", "barrier", "status"),
    *("history", "catchup", "stop", "watch", "rolled", "bad_frames", "ending", "closed"),
    *("type", "id", "version", "overflow"),
    *(
        "LIVE",
        "COMPLETE",
        "p",
        "",
        "a" * 64,
        "a" * 65,
        "a" * 200,
        "a" * 201,
        "a" * 4_097,
        "\0",
        "\x1b[2J",
        "é" * 200,
    ),
)
_DEEP: Final = (30, 500, 2_000, 9_000)
_HUGE: Final = (b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x00\x40\x00\x00", b"\x00\x02\x5e\xd1")


class Msgpack(Form):
    """One msgpack value behind `head` bytes of topic."""

    treasures = (
        *(
            b"\xc0",
            b"\xc1",
            b"\xc2",
            b"\xc3",
            b"\x90",
            b"\x80",
            b"\xa0",
            b"\xc4\x00",
            b"\x91\xc0",
            b"\x81\xa1a\x01",
        ),
        *_numbers(),
        *_numbers(),  # twice: they are what most places hold
        *map(text, _WORDS),
        *(text(bad) for bad in (b"\xff", b"\xed\xa0\x80", b"\xc0\x80", b"a\xf0\x9f")),
        *(mark + length for mark in (b"\xdd", b"\xdf", b"\xdb", b"\xc6", b"\xc9") for length in _HUGE),
        *(b"\x91" * depth + b"\xc0" for depth in _DEEP),
        *(b"\x81\xa1a" * depth + b"\xc0" for depth in _DEEP),
        *(b"\x81" * 500, b"\xdc\x10\x01" + b"\xc0" * 4_097, b"\xdc\x30\x00" + b"\x01" * 0x3000),
        *(b"\xd6\xff\x00\x00\x00\x00", b"\xc7\x0c\xff" + b"\xff" * 12, b"\xd4\x01\x00", b"\x82\xa1a\x01\xa1a\x02"),
        b"\xde\x00\x40" + b"".join(b"\xa2k" + bytes((32 + i,)) + b"\xa1v" for i in range(64)),
    )

    def __init__(self, head: int = 0) -> None:
        super().__init__()
        self._head = head

    def find_spans(self, data: bytes) -> Sequence[Span]:
        return find_elements(data, self._head)

    def lie(self, chance: Chance, data: bytes, span: Span) -> bytes:
        start = span[0]
        header, body, elements = element_header(data, start)
        mark = data[start]
        if not (body or elements) or mark in _FIXED:  # a number: its bytes become another kind's
            return data[:start] + bytes((pick(chance, _NUMBER_MARKS),)) + data[start + 1 :]
        count = max(0, min(0xFFFFFFFF, pick(chance, _lengths(body, elements))))
        return data[:start] + _wide(mark) + struct.pack(">I", count) + data[start + header :]


_NUMBER_MARKS: Final = bytes((0xC0, 0xC3, 0xCA, 0xCB, 0xCC, 0xCD, 0xCE, 0xCF, 0xD0, 0xD3, 0x91, 0x81, 0xA1, 0xC1))


def _lengths(body: int, elements: int) -> tuple[int, ...]:
    real = body or elements
    return (
        real + 1,
        real - 1,
        real + 2,
        real * 2,
        real // 2,
        0,
        0xFFFFFFFF,
        0x7FFFFFFF,
        0x10000,
        155_345,
        4_194_305,
    )


def _wide(mark: int) -> bytes:
    """The marker of the same kind with a length of 32 bits."""
    if 0x80 <= mark <= 0x8F or mark in (0xDE, 0xDF):
        return b"\xdf"
    if 0x90 <= mark <= 0x9F or mark in (0xDC, 0xDD):
        return b"\xdd"
    if 0xC4 <= mark <= 0xC6:
        return b"\xc6"
    return b"\xc9" if 0xC7 <= mark <= 0xC9 else b"\xdb"


class Part:
    """One link of a chain: what is in front of the payload, and the payload."""

    __slots__ = ("kind", "payload", "stamp")

    def __init__(self, kind: int, payload: bytes, stamp: int = 0) -> None:
        self.kind = kind
        self.payload = payload
        self.stamp = stamp


class Chain(Form):
    """Parts in a row, each of a kind that has its own form. Subclasses say how they are written down."""

    def __init__(self, inner: Mapping[int, Form], density: float = 0.0) -> None:
        """`density`: the chance of each payload to be changed, beside what is done to the chain."""
        super().__init__()
        self._inner = inner
        self._density = density
        self._plain = Form()
        self._kinds = bytes((*inner, *inner, 0, 9, 255))
        self._split: dict[bytes, list[Part]] = {}

    def split(self, data: bytes) -> list[Part]:
        """Return as many whole parts as there are."""
        raise NotImplementedError

    def join(self, parts: Sequence[Part], like: bytes) -> bytes:
        """Written down again, with the same beginning as `like`."""
        raise NotImplementedError

    def mutate(self, chance: Chance, data: bytes, other: bytes) -> bytes:
        parts = self._parts(data)
        if not parts or chance() < 0.2:
            return self._plain.mutate(chance, data, other)
        theirs = self._parts(other) or parts
        changed = [self._changed(chance, part, theirs) if chance() < self._density else part for part in parts]
        while True:
            self._change(chance, changed, theirs)
            if not changed or chance() < 0.5:
                return self.join(changed, data)

    def _parts(self, data: bytes) -> list[Part]:
        known = self._split.get(data)
        if known is None:
            known = self.split(data)
            if len(data) <= _CACHED_BYTES:
                if len(self._split) >= _CACHED:
                    self._split.clear()
                self._split[data] = known
        return known

    def _change(self, chance: Chance, parts: list[Part], theirs: Sequence[Part]) -> None:
        at = int(chance() * len(parts))
        part = parts[at]
        what = chance()
        if what < 0.55:
            parts[at] = self._changed(chance, part, theirs)
        elif what < 0.65:  # once more, now or later
            parts.insert(int(chance() * (len(parts) + 1)), part)
        elif what < 0.75:  # out of order
            parts.insert(int(chance() * len(parts)), parts.pop(at))
        elif what < 0.82:  # lost
            del parts[at]
        elif what < 0.92:
            parts.insert(at, pick(chance, theirs))
        elif what < 0.96:
            parts[at] = Part(pick(chance, self._kinds), part.payload, part.stamp)
        else:
            parts[at] = Part(part.kind, part.payload, pick(chance, _STAMPS) if chance() < 0.5 else part.stamp + 1)

    def _changed(self, chance: Chance, part: Part, theirs: Sequence[Part]) -> Part:
        form = self._inner.get(part.kind, self._plain)
        return Part(part.kind, form.mutate(chance, part.payload, pick(chance, theirs).payload), part.stamp)


_STAMPS: Final = (0, 1, 59, 60, 600, (1 << 32) - 1, 1 << 53, 1 << 62, (1 << 63) - 1, (1 << 64) - 1)


class Pieces(Chain):
    """Pieces of u8 kind, u32 length and payload, as in a script of several messages."""

    def split(self, data: bytes) -> list[Part]:
        return [Part(kind, payload) for kind, payload in split_pieces(data)]

    def join(self, parts: Sequence[Part], like: bytes) -> bytes:
        return join_pieces([(part.kind, part.payload) for part in parts])


_PIECE: Final = struct.Struct("<BI")


def split_pieces(data: bytes) -> list[tuple[int, bytes]]:
    """Every byte string is a script: a length that is too large takes what is there."""
    pieces = []
    at = 0
    while at + _PIECE.size <= len(data):
        kind, length = _PIECE.unpack_from(data, at)
        at += _PIECE.size
        pieces.append((kind, data[at : at + length]))
        at += length
    return pieces


def join_pieces(pieces: Sequence[tuple[int, bytes]]) -> bytes:
    return b"".join([_PIECE.pack(kind & 0xFF, len(payload)) + payload for kind, payload in pieces])

"""Forms of files on disk: segments of frames with their CRC, JSON, lines, TOML."""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final
from zlib import crc32

from tests.fuzz.forms import Chance, Form, Span, pick
from tests.fuzz.msgpack_form import Chain, Part

_SEGMENT: Final = struct.Struct("<8sQ")
_FRAME: Final = struct.Struct("<IIQB")
_STAMP_KIND: Final = struct.Struct("<QB")
_U64: Final = (1 << 64) - 1
_LENGTHS: Final = (0, 1, 0xFFFFFFFF, 0x7FFFFFFF, 1 << 21, (1 << 21) + 1, 1 << 26)


class Segment(Chain):
    """A file of frames. The CRC is put right, so that what is behind it is reached; bytes changed at random leave
    it wrong."""

    def split(self, data: bytes) -> list[Part]:
        parts = []
        at = _SEGMENT.size
        while at + _FRAME.size <= len(data):
            length, _, stamp, kind = _FRAME.unpack_from(data, at)
            at += _FRAME.size
            if at + length > len(data):
                break
            parts.append(Part(kind, data[at : at + length], stamp))
            at += length
        return parts

    def join(self, parts: Sequence[Part], like: bytes) -> bytes:
        return like[: _SEGMENT.size] + b"".join(map(_frame, parts))

    def mutate(self, chance: Chance, data: bytes, other: bytes) -> bytes:
        changed = super().mutate(chance, data, other)
        if chance() < 0.05 and len(changed) > _SEGMENT.size + 4:  # a lying length, somewhere
            parts = self.split(changed)
            skipped = parts[: int(chance() * (len(parts) + 1))]
            at = _SEGMENT.size + sum(_FRAME.size + len(part.payload) for part in skipped)
            changed = changed[:at] + struct.pack("<I", pick(chance, _LENGTHS)) + changed[at + 4 :]
        return changed


def _frame(part: Part) -> bytes:
    tail = _STAMP_KIND.pack(part.stamp & _U64, part.kind & 0xFF)
    return struct.pack("<II", len(part.payload), crc32(part.payload, crc32(tail))) + tail + part.payload


_OPENING: Final = struct.Struct("<qqIIIII12s")
_ENTRY: Final = struct.Struct("<5I")


class HistorySegment(Segment):
    """Segments whose frames of one kind are packed intervals: the CRCs inside of these are put right as well."""

    def __init__(self, inner: Mapping[int, Form], packed: int) -> None:
        super().__init__(inner)
        self._packed = packed

    def join(self, parts: Sequence[Part], like: bytes) -> bytes:
        return super().join([_repaired(part) if part.kind == self._packed else part for part in parts], like)


def _directory(payload: bytes) -> int:
    """Return how many whole entries there are, at most the number of groups that the payload states."""
    if len(payload) < _OPENING.size:
        return 0
    groups: int = _OPENING.unpack_from(payload)[2]
    return min(groups, (len(payload) - _OPENING.size) // _ENTRY.size)


def _repaired(part: Part) -> Part:
    groups = _directory(part.payload)
    end = _OPENING.size + _ENTRY.size * groups
    if len(part.payload) < end + 4 or not part.payload:
        return part
    data, begin = bytearray(part.payload), end + 4
    for at in range(_OPENING.size, end, _ENTRY.size):
        *numbers, size, _ = _ENTRY.unpack_from(data, at)
        _ENTRY.pack_into(data, at, *numbers, size, crc32(data[begin : begin + size]))
        begin += size
    frame = struct.pack("<IQB", len(data), part.stamp & _U64, part.kind & 0xFF)
    struct.pack_into("<I", data, end, crc32(data[:end], crc32(frame)))
    return Part(part.kind, bytes(data), part.stamp)


class PackedInterval(Form):
    """The payload of such a frame. Half of its changes leave every length as it is."""

    treasures = tuple(
        struct.pack("<I", number) for number in (0, 1, 2, 3, 255, 65_536, 1 << 20, 1 << 31, (1 << 32) - 1)
    )

    def find_spans(self, data: bytes) -> Sequence[Span]:
        if len(data) < _OPENING.size:
            return []
        fields = [0, 8, *range(16, 36, 4), *range(36, 49)]
        end = _OPENING.size + _ENTRY.size * _directory(data)
        fields += range(_OPENING.size + 4, end + 1, 4)
        spans = list(pairwise(fields))
        begin = end + 4
        for at in range(_OPENING.size, end, _ENTRY.size):
            size = min(_ENTRY.unpack_from(data, at)[3], max(0, len(data) - begin))
            spans.append((begin, begin + size))
            begin += size
        return [*spans, (min(begin, len(data)), len(data))]

    def mutate(self, chance: Chance, data: bytes, other: bytes) -> bytes:
        spans = [span for span in self.spans(data) if span[0] < span[1]]
        if not spans or chance() < 0.5:
            return super().mutate(chance, data, other)
        changed = bytearray(data)
        for _ in range(1 + int(chance() * 3)):
            start, end = pick(chance, spans)
            changed[start + int(chance() * (end - start))] = int(chance() * 256)
        return bytes(changed)

    def lie(self, chance: Chance, data: bytes, span: Span) -> bytes:
        """A number of the head, one more or less."""
        end = min(len(data), _OPENING.size + _ENTRY.size * _directory(data))
        if end < _OPENING.size:
            return data
        at = pick(chance, (*range(16, 36, 4), *range(_OPENING.size, end, 4)))
        number = int.from_bytes(data[at : at + 4], "little") + pick(chance, (1, -1, 7, 256))
        return data[:at] + struct.pack("<I", number & 0xFFFFFFFF) + data[at + 4 :]


_JSON_TOKEN: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*|true|false|null|[\[\]{}]|[,:\n]')


class Json(Form):
    """JSON values and lines of them."""

    treasures = (
        *(b"null", b"true", b"0", b"-1", b"1", b"0.5", b"-0.0", b"1e999", b"-1e999", b"NaN", b"1e308", b"5e-324"),
        *(
            b"2147483648",
            b"9007199254740993",
            b"9223372036854775807",
            b"9223372036854775808",
            b"-9223372036854775809",
        ),
        *(b"18446744073709551615", b"1" + b"0" * 40, b"1" + b"0" * 400, b"9" * 5_000, b"0." + b"1" * 400),
        *(b'""', b'"a"', b'"%s"' % (b"a" * 201), b'"\\ud800"', b'"\\u0000"', b'"\\u001b[2J"', b'"\xff"', b'"\\x"'),
        *(
            b"[]",
            b"{}",
            b"[null]",
            b'{"":0}',
            b'{"a":1,"a":2}',
            b"[[0,1]]",
            b"[1,2,3]",
            b'["a",1]',
            b"\n",
            b"}",
            b"]",
        ),
        *(b"[" * depth for depth in (30, 2_000, 15_000)),
        *(b"[" * depth + b"]" * depth for depth in (30, 500, 2_000, 4_000)),
        *(b'{"a":' * depth + b"0" + b"}" * depth for depth in (30, 500, 2_000, 4_000)),
        *(
            b'"mark"',
            b'"define"',
            b'"sample"',
            b'"series"',
            b'"LIVE"',
            b'"COMPLETE"',
            b'"inf"',
            b'"../../up"',
            b'"/"',
        ),
    )

    def find_spans(self, data: bytes) -> Sequence[Span]:
        found: list[Span] = []
        open_: list[int] = []
        for match in _JSON_TOKEN.finditer(data):
            token = match[0]
            if token in (b"[", b"{"):
                open_.append(match.start())
            elif token in (b"]", b"}"):
                if open_:
                    found.append((open_.pop(), match.end()))
            elif token not in (b",", b":", b"\n"):
                found.append(match.span())
        found += _line_spans(data)
        return found

    def lie(self, chance: Chance, data: bytes, span: Span) -> bytes:
        """The value in a list, in a map, or as text."""
        start, end = span
        before, after = pick(chance, ((b"[", b"]"), (b'{"a":', b"}"), (b'"', b'"'), (b"-", b""), (b"", b"0" * 30)))
        return data[:start] + before + data[start:end] + after + data[end:]


def _line_spans(data: bytes) -> list[Span]:
    if data.count(b"\n") < 2:
        return []
    found = []
    start = 0
    while (end := data.find(b"\n", start)) >= 0:
        found.append((start, end + 1))
        start = end + 1
    return found


_TOML_TOKEN: Final = re.compile(rb'"[^"\n]*"|[^\s=,\[\]{}"]+|\[[^\]\n]*\]')


class Toml(Form):
    """Tables, keys and values; also one value of the environment."""

    treasures = (
        *(
            b"",
            b"0",
            b"-1",
            b"1",
            b"true",
            b"false",
            b"inf",
            b"-inf",
            b"nan",
            b"1e400",
            b"0x10",
            b"1_000",
            b"1e308",
        ),
        *(
            b"9223372036854775808",
            b"9" * 30,
            b"9" * 5_000,
            b'""',
            b'"a"',
            b"''",
            b'"""',
            b'"\\ud800"',
            b'"\\u0000"',
        ),
        *(b"[]", b"{}", b"[1, 2]", b'["50"]', b'["50", "50"]', b"{a = 1}", b"2020-01-01", b"1979-05-27T07:32:00Z"),
        *(
            b"[run]",
            b"[[run]]",
            b"[run.dir]",
            b"[limits]",
            b"[x]",
            b"run",
            b"dir",
            b"refresh_hz",
            b"=",
            b"\n",
            b"\0",
        ),
        *(b"[" * depth for depth in (30, 2_000)),
        *(b"[" * depth + b"]" * depth for depth in (30, 500, 3_000)),
        *(b"{a=" * depth + b"0" + b"}" * depth for depth in (30, 500, 3_000)),
        *(
            b"a." * 500 + b"a",
            b"x" * 10_000,
            b'"' + b"y" * 5_000 + b'"',
            b"\xff",
            b"\xed\xa0\x80",
            b"drop",
            b"block",
        ),
        *(
            b"50,99.9",
            b"50,,99",
            b"100",
            b"99.999999",
            b"0.0000001",
            b"1.5",
            b"yes",
            b"None",
            b"../..",
            b"tcp://h:1",
        ),
    )

    def find_spans(self, data: bytes) -> Sequence[Span]:
        return [match.span() for match in _TOML_TOKEN.finditer(data)] + _line_spans(data)

    def lie(self, chance: Chance, data: bytes, span: Span) -> bytes:
        start, end = span
        before, after = pick(
            chance, ((b"[", b"]"), (b"{a = ", b"}"), (b'"', b'"'), (b"-", b""), (b"", b"." + b"0" * 9))
        )
        return data[:start] + before + data[start:end] + after + data[end:]

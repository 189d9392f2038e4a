"""Histograms in the text form of HdrHistogram: V2, compressed, base64.

The library `hdrh` allocates what a file asks for, and visits each bucket. Here, memory and time grow with the file.
"""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Iterator
from typing import Final

_OUTER: Final = struct.Struct(">II")
_HEADER: Final = struct.Struct(">IIIIqqd")
_COMPRESSED: Final = 0x1C849304
_PLAIN: Final = 0x1C849303
_WORD_SIZE: Final = 0xF0
_LARGEST_BYTES: Final = 1 << 23
_MOST_DIGITS: Final = 5
_BITS: Final = 63
_LAST_SHIFT: Final = 56
"""Shift of the ninth and last byte of a number, which has eight bits; the others have seven."""


def recorded(text: str) -> Iterator[tuple[int, int]]:
    """Yield the highest value of each bucket with values, and their count. Raises ValueError, zlib.error."""
    outer = base64.b64decode(text, validate=True)
    cookie = _OUTER.unpack_from(outer)[0] if len(outer) > _OUTER.size else 0
    if cookie & ~_WORD_SIZE != _COMPRESSED:
        raise ValueError("a histogram is not of the form V2, compressed, of whole numbers")
    data = zlib.decompressobj().decompress(outer[_OUTER.size :], _LARGEST_BYTES)
    if len(data) < _HEADER.size:
        raise ValueError("a histogram is incomplete")
    cookie, size, offset, digits, lowest, _, _ = _HEADER.unpack_from(data)
    if cookie & ~_WORD_SIZE != _PLAIN or offset or not 1 <= digits <= _MOST_DIGITS or lowest < 1:
        raise ValueError("a histogram has a header that is not understood")
    if len(data) < _HEADER.size + size:
        raise ValueError("a histogram is incomplete or too large")
    half_bits, unit_bits = (2 * 10**digits - 1).bit_length() - 1, lowest.bit_length() - 1
    place = 0
    for number in _numbers(data[_HEADER.size : _HEADER.size + size]):
        bucket = max((place >> half_bits) - 1, 0)
        if bucket + half_bits + unit_bits > _BITS:
            raise ValueError("a histogram has values beyond 64 bits")
        if number > 0:
            yield ((place - (bucket << half_bits) + 1) << (bucket + unit_bits)) - 1, number
        place += max(1, -number)


def _numbers(data: bytes) -> Iterator[int]:
    """Yield numbers in ZigZag LEB128; a negative one stands for so many zeros."""
    number = shift = 0
    for byte in data:
        is_last = shift == _LAST_SHIFT
        number |= (byte if is_last else byte & 0x7F) << shift
        if byte & 0x80 and not is_last:
            shift += 7
        else:
            yield (number >> 1) ^ -(number & 1)
            number = shift = 0

"""Values and columns of numbers embedded in a page, as JSON that HTML parsers can't misread."""

from __future__ import annotations

import math
import zlib
from base64 import b64encode
from collections.abc import Sequence
from html import escape
from typing import Final

import msgspec

_UNSAFE: Final = ((b"<", b"\\u003c"), (b">", b"\\u003e"), (b"&", b"\\u0026"))

_LARGE: Final = 64 * 1024
"""Bytes of JSON from which a block is compressed."""


def embedded(value: object, name: str = "") -> str:
    """Return a data block with the value as compact JSON; `name` becomes its id.

    Numbers that are not finite are null. A large block with a name is compressed; `telemetry.read` reads both.
    """
    data = msgspec.json.encode(value)
    named = f' id="{escape(name)}"' if name else ""
    if name and len(data) > _LARGE:
        compressed = b64encode(zlib.compress(data)).decode()
        return f'<script type="application/json" data-coding="deflate"{named}>{compressed}</script>'
    for character, escaped in _UNSAFE:
        data = data.replace(character, escaped)
    return f'<script type="application/json"{named}>{data.decode()}</script>'


Column = Sequence[float | None]


DIGITS: Final = 4
"""Significant digits of numbers that are drawn: more than a pixel can show."""
DIGITS_READ: Final = 9
"""Those of numbers that are read: rounded again for the reader, they are the same as anywhere else."""


def rounded(value: float | None, digits: int = DIGITS) -> float | None:
    """Return the value with few significant digits. None if it is not finite."""
    return float(f"{value:.{digits}g}") if value is not None and math.isfinite(value) else None


def readable(value: float | None) -> float | None:
    """Return the value for a reader, who sees it rounded once."""
    return rounded(value, DIGITS_READ)


def column(values: Column, digits: int = DIGITS) -> list[float | int | None]:
    """Return rounded values; whole numbers without a point, which is shorter."""
    numbers = [rounded(value, digits) for value in values]
    return [int(value) if value is not None and value.is_integer() else value for value in numbers]

"""Values embedded in a page, as JSON that HTML parsers can't misread."""

from __future__ import annotations

import zlib
from base64 import b64encode
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

"""Values embedded in a page, as JSON that HTML parsers can't misread."""

from __future__ import annotations

from html import escape
from typing import Final

import msgspec

_UNSAFE: Final = ((b"<", b"\\u003c"), (b">", b"\\u003e"), (b"&", b"\\u0026"))


def embedded(value: object, name: str = "") -> str:
    """Return a data block with the value as compact JSON; `name` becomes its id.

    Numbers that are not finite are null.
    """
    data = msgspec.json.encode(value)
    for character, escaped in _UNSAFE:
        data = data.replace(character, escaped)
    named = f' id="{escape(name)}"' if name else ""
    return f'<script type="application/json"{named}>{data.decode()}</script>'

"""A checksum inside a JSON object: a last field `crc` with the CRC-32 of all bytes before it.

    {"index":0,"name":"latency","crc":"1c291ca3"}

Other JSON readers see one more field; this package detects changed bytes with it. Objects without the field were
written by an older version and are not checked.
"""

from __future__ import annotations

import re
from typing import Final
from zlib import crc32

SEAL: Final = "crc"
_SEALED: Final = re.compile(rb',\s*"crc":\s*"([0-9a-f]{8})"\s*\}\s*\Z')
_SEAL_BYTES: Final = 64
"""Upper bound of the size of the field and the bytes after it."""
_END_OF_LINE: Final = b"}\n"
_END_OF_DOCUMENT: Final = b"\n}\n"
_END_OF_OBJECT: Final = re.compile(rb"(\s*)\}(\s*)\Z")


class BrokenSeal(ValueError):
    """The bytes differ from those that were written."""


def sealed(data: bytes) -> bytes:
    """Return a non-empty JSON object with its checksum as the last field. Keep its indentation."""
    if data.endswith(_END_OF_LINE) and not data.endswith(_END_OF_DOCUMENT):
        line = data[: -len(_END_OF_LINE)]
        return b'%b,"crc":"%08x"}\n' % (line, crc32(line))
    end = _END_OF_OBJECT.search(data, max(0, len(data) - _SEAL_BYTES))
    if end is None:
        raise ValueError("not a JSON object")
    body, colon = data[: end.start()], b": " if end[1] else b":"
    indent = end[1] + b"  " if end[1] else b""
    return b'%b,%b"crc"%b"%08x"%b}%b' % (body, indent, colon, crc32(body), end[1], end[2])


def lost_its_end(rest: bytes) -> bool:
    """Return True if a file ends with a complete line whose line end was changed. `rest` follows the last line end.

    A killed writer leaves an incomplete line instead.
    """
    try:
        return check_seal(rest[:-1])
    except BrokenSeal:
        return False


def check_seal(data: bytes) -> bool:
    """Return whether the object has a checksum. Raises BrokenSeal if the checksum is wrong."""
    # A line as `sealed` writes it; the search below takes three times as long.
    if data[-19:-11] == b',"crc":"' and data[-11:] == b'%08x"}\n' % crc32(memoryview(data)[:-19]):
        return True
    match = _SEALED.search(data, max(0, len(data) - _SEAL_BYTES))
    if match is None:
        return False
    if crc32(memoryview(data)[: match.start()]) != int(match[1], 16):
        raise BrokenSeal("its content does not match its checksum")
    return True

"""Reading of referenced images that this machine can access."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import unquote, urlsplit

from telemetry import limits

_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
_CHANNELS: Final = {0: 1, 2: 3, 3: 3, 4: 2, 6: 4}
"""PNG colour type → number of channels."""


class Png(NamedTuple):
    width: int
    height: int
    channels: int
    data: bytes


def read(uri: str) -> bytes | None:
    """Read a path or a `file:` address.

    Returns None if it is not on this machine or too large. Blocks on the disk.
    """
    try:
        path = local(uri)
        if path is None or not path.is_file() or path.stat().st_size > limits.BACKEND_PICTURE_BYTES:
            return None
        return path.read_bytes()
    except (OSError, ValueError):  # a NUL in a path, or an unbalanced bracket in a URI
        return None


def local(uri: str) -> Path | None:
    """Return the local path of a reference, or None if it is remote. Raises ValueError for an invalid URI."""
    if uri.startswith("/"):
        return Path(uri)
    parts = urlsplit(uri)
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        return Path(unquote(parts.path, errors="surrogateescape"))
    return None


def png(data: bytes) -> Png | None:
    """Read the header of a PNG image. Returns None if it is not a PNG."""
    if len(data) < 26 or not data.startswith(_SIGNATURE) or data[12:16] != b"IHDR" or data[25] not in _CHANNELS:
        return None
    width, height = (int.from_bytes(data[at : at + 4], "big") for at in (16, 20))
    return Png(width, height, _CHANNELS[data[25]], data)

"""An encoder of pictures, for arrays that a program logs without a file."""

from __future__ import annotations

import struct
import zlib
from typing import Any, Final

_COLORS: Final = {1: 0, 2: 4, 3: 2, 4: 6}
"""Color type of PNG by number of channels."""
_LEVEL: Final = 3


def encoded(pixels: Any) -> bytes:
    """Return an array or a tensor as a PNG: height × width, with 1 to 4 channels last, or first as torch has them.

    Floats are in the range 0 to 1, or -1 to 1, other numbers in 0 to 255. Raises ValueError for another shape.
    """
    import numpy

    if hasattr(pixels, "detach"):  # a tensor
        pixels = pixels.detach().cpu().float().numpy() if pixels.is_floating_point() else pixels.cpu().numpy()
        if pixels.ndim == 3 and pixels.shape[0] in _COLORS:
            pixels = numpy.moveaxis(pixels, 0, -1)
    array = numpy.asarray(pixels)
    if array.ndim == 2:
        array = array[:, :, None]
    if array.ndim != 3 or array.shape[2] not in _COLORS or not array.size:
        raise ValueError(f"an array of the shape {array.shape} is not a picture")
    if array.dtype.kind == "f":
        array = numpy.nan_to_num(array)
        low, high = float(array.min()), float(array.max())
        if low >= -1 and high <= 1:
            array = (array + 1) * 127.5 if low < 0 else array * 255
    array = numpy.clip(array, 0, 255).astype(numpy.uint8)
    height, width, channels = array.shape
    lines = numpy.zeros((height, 1 + width * channels), numpy.uint8)  # each line begins with its filter: none
    lines[:, 1:] = array.reshape(height, -1)
    head = struct.pack(">IIBBBBB", width, height, 8, _COLORS[channels], 0, 0, 0)
    data = zlib.compress(lines.tobytes(), _LEVEL)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", head) + _chunk(b"IDAT", data) + _chunk(b"IEND", b"")


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

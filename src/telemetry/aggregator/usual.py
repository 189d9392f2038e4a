"""What is compiled, where a compiler was there at installation. Whoever uses it can do without."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

SOURCE_CRC: Final = 0xE99C60A9
"""Of `_usual.c`: what was made from another one is not used."""


def _compiled() -> Callable[..., float] | None:
    try:
        from telemetry.aggregator import _usual
    except ImportError:
        return None
    return _usual.record if _usual.SOURCE_CRC == SOURCE_CRC else None


record_usual: Final = _compiled()
"""Rows of series that need nothing special; see `_usual.pyi`."""

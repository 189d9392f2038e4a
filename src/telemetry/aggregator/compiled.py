"""The compiled row loop, if a compiler was available at installation. Its callers also work without it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

SOURCE_CRC: Final = 0x91DF5A84
"""CRC-32 of `_compiled.c`. A module built from another source is not used."""


def _compiled() -> Callable[..., float] | None:
    try:
        from telemetry.aggregator import _compiled
    except ImportError:
        return None
    return _compiled.record if _compiled.SOURCE_CRC == SOURCE_CRC else None


record_usual: Final = _compiled()
"""Function that applies rows of series without special cases, or None; see `_compiled.pyi`."""

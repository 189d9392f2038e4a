"""Memory limits that keep the process as small as its data."""

from __future__ import annotations

import ctypes
from typing import Final

_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_M_ARENA_MAX: Final = -8
_MMAP_FROM_BYTES: Final = 1 << 20  # columns of a turn and larger blocks return to the system when freed
_TRIM_FROM_BYTES: Final = 4 << 20  # smaller free blocks stay, or the exact pass would request them repeatedly


def keep_small() -> bool:
    """Fix the C library's thresholds, which otherwise grow with the largest array ever freed.

    Only glibc has them. Elsewhere this does nothing and returns False.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    settings = {
        _M_MMAP_THRESHOLD: _MMAP_FROM_BYTES,
        _M_TRIM_THRESHOLD: _TRIM_FROM_BYTES,
        _M_ARENA_MAX: 1,  # the worker reuses memory that the main thread freed
    }
    return all(mallopt(name, value) for name, value in settings.items())


def give_back() -> bool:
    """Return free memory to the system. Return True if some was returned, which only glibc can."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return trim is not None and bool(trim(0))

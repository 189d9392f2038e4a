"""Keeps the process as small as what it holds."""

from __future__ import annotations

import ctypes
from typing import Final

_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_M_ARENA_MAX: Final = -8
_MMAP_FROM_BYTES: Final = 1 << 20  # columns of a turn and larger go back to the system when they are freed
_TRIM_FROM_BYTES: Final = 4 << 20  # smaller leftovers stay, or the exact pass would ask for them again and again


def keep_small() -> bool:
    """Fixes the C library's thresholds, which otherwise grow with the largest array ever freed.

    Only glibc has them; elsewhere this does nothing and returns False.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    settings = {
        _M_MMAP_THRESHOLD: _MMAP_FROM_BYTES,
        _M_TRIM_THRESHOLD: _TRIM_FROM_BYTES,
        _M_ARENA_MAX: 1,  # the worker thread needs what the main thread freed, and seldom at the same time
    }
    return all(mallopt(name, value) for name, value in settings.items())


def give_back() -> bool:
    """Free memory between what is held goes back to the system. Whether any did: as above, only glibc can."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return trim is not None and bool(trim(0))

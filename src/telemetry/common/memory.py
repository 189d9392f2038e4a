"""Memory of a process: settings of the C library and of the garbage collector."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_M_ARENA_MAX: Final = -8
_SMALL: Final = {
    _M_MMAP_THRESHOLD: 1 << 20,  # columns of a turn and larger blocks return to the system when freed
    _M_TRIM_THRESHOLD: 4 << 20,  # smaller free blocks stay, or the exact pass would request them repeatedly
    _M_ARENA_MAX: 1,  # the worker reuses memory that the main thread freed
}
_KEPT: Final = {
    _M_MMAP_THRESHOLD: 32 << 20,  # the largest value that the C library accepts
    _M_TRIM_THRESHOLD: 1 << 30,
}


@contextmanager
def uncollected() -> Iterator[None]:
    """Switch garbage collection off inside the block.

    A hundred thousand figures contain no reference cycles, and looking for cycles takes a tenth of the time.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def keep_freed() -> bool:
    """Keep the memory of freed arrays in the process for the next arrays.

    Asking the system for each array anew takes up to a quarter of the time of a large report. Only glibc can be
    configured; with another C library this does nothing and returns False.
    """
    return _set(_KEPT)


def keep_small() -> bool:
    """Fix the C library's thresholds, which otherwise grow with the largest array ever freed.

    Only glibc has them. Elsewhere this does nothing and returns False.
    """
    return _set(_SMALL)


def give_back() -> bool:
    """Return free memory to the system. Return True if some was returned, which only glibc can."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return trim is not None and bool(trim(0))


def _set(settings: Mapping[int, int]) -> bool:
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and all(mallopt(name, value) for name, value in settings.items())

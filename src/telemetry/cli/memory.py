"""Memory settings of a command that reads much and ends soon."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_MMAP_FROM_BYTES: Final = 32 << 20  # the largest value that the C library accepts
_TRIM_FROM_BYTES: Final = 1 << 30


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
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    settings = {_M_MMAP_THRESHOLD: _MMAP_FROM_BYTES, _M_TRIM_THRESHOLD: _TRIM_FROM_BYTES}
    return all(mallopt(name, value) for name, value in settings.items())

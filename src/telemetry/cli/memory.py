"""Memory of a command that reads much and ends soon."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_MMAP_FROM_BYTES: Final = 32 << 20  # the C library takes no more
_TRIM_FROM_BYTES: Final = 1 << 30


@contextmanager
def uncollected() -> Iterator[None]:
    """Nobody looks for cycles of garbage meanwhile: among a hundred thousand figures there are none, and looking
    takes a tenth of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def keep_freed() -> bool:
    """Arrays that are freed stay with the process for the next ones: asking the system for each of them anew takes
    up to a quarter of the time of a large report.

    Only glibc can be told; elsewhere this does nothing and returns False.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    settings = {_M_MMAP_THRESHOLD: _MMAP_FROM_BYTES, _M_TRIM_THRESHOLD: _TRIM_FROM_BYTES}
    return all(mallopt(name, value) for name, value in settings.items())

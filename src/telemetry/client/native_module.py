"""The compiled recorder, if a compiler was available at installation. Its callers also work without it."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from types import ModuleType

SWITCH: Final = "TELEMETRY_NATIVE"
"""Environment variable; 0 turns the compiled recorder off."""
SOURCE_CRC: Final = 0xD95BB77D
"""CRC-32 of the sources in `native/`. A module built from other sources is not used."""
IS_FREE_THREADED: Final = "t" in sys.abiflags
"""True if this Python can run without the interpreter's lock.

The compiled recorder relies on the lock, and its import would turn the lock on for the whole program.
"""


def _compiled() -> ModuleType | None:
    if IS_FREE_THREADED or os.environ.get(SWITCH) == "0":
        return None
    try:
        from telemetry.client import _recorder
    except ImportError:
        return None
    return _recorder if _recorder.SOURCE_CRC == SOURCE_CRC else None


RECORDER: Final = _compiled()

"""The compiled recorder, if a compiler was available at installation. Its callers also work without it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from types import ModuleType

SWITCH: Final = "TELEMETRY_NATIVE"
"""Environment variable; 0 turns the compiled recorder off."""
SOURCE_CRC: Final = 0xC59D5D83
"""CRC-32 of the sources in `native/`. A module built from other sources is not used."""


def _compiled() -> ModuleType | None:
    if os.environ.get(SWITCH) == "0":
        return None
    try:
        from telemetry.client import _recorder
    except ImportError:
        return None
    return _recorder if _recorder.SOURCE_CRC == SOURCE_CRC else None


RECORDER: Final = _compiled()

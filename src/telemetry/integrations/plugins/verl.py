"""A plugin of verl, which verl imports when it starts, also where PYTHONPATH is replaced.

verl imports `telemetryd_plugins`, which calls this module: as an entry point of the group `verl.plugins`, or by its
name in VERL_USE_EXTERNAL_MODULES. Without a capture of `verl` or `rl_insight`, the module has no effect.
"""

from __future__ import annotations

import os
from typing import Final

_CAPTURES: Final = frozenset({"verl", "rl_insight"})


def register() -> None:
    """Prepare all captures that TELEMETRY_CAPTURE names, if verl or rl_insight is one of them."""
    if _CAPTURES.intersection(os.environ.get("TELEMETRY_CAPTURE", "").split(",")):
        from telemetry.integrations.capture.boot_module import BOOT

        BOOT.boot()


register()

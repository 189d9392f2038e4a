"""A plugin that Lightning loads from installed packages, also where PYTHONPATH is replaced.

Lightning calls it for each new Trainer, through `telemetryd_plugins`, which is an entry point of the group
`lightning.pytorch.callbacks_factory`, and for the standalone package of `pytorch_lightning.callbacks_factory`.
Without a capture of `lightning`, it has no effect.
"""

from __future__ import annotations

import os
import sys


def callbacks() -> list[object]:
    """Prepare the captures that TELEMETRY_CAPTURE names, if lightning is one of them.

    Return no callbacks. Never raises.
    """
    if "lightning" in os.environ.get("TELEMETRY_CAPTURE", "").split(","):
        try:
            from telemetry.integrations import lightning
            from telemetry.integrations.capture.boot_module import BOOT

            if not lightning.was_installed():  # else it stays as the program left it
                BOOT.boot()
                lightning.install()
        except Exception as error:  # noqa: BLE001 – a fault of the capture must not reach the program
            if sys.stderr is not None:
                sys.stderr.write(f"telemetry: lightning is not captured: {type(error).__name__}: {error}\n")
    return []

"""Start of captures from a `.pth` file, for processes that lack the PYTHONPATH of `telemetry run --capture`."""

from __future__ import annotations

from telemetry.integrations.capture.boot_module import BOOT

BOOT.boot()

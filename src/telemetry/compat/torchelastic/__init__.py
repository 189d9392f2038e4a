"""The package `torchelastic`: its `metrics`, whose names are here as well."""

from __future__ import annotations

from telemetry.compat.torchelastic.metrics import *  # noqa: F403
from telemetry.compat.torchelastic.metrics import __all__ as __all__

"""What a tracker has of a run, in the same words for all of them."""

from __future__ import annotations

from telemetry.testing.backends import Written

__all__ = ["Written"]

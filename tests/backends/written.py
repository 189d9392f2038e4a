"""The content of a run in a tracker, in the same words for all trackers."""

from __future__ import annotations

from telemetry.testing.backends import Written

__all__ = ["Written"]

"""Test doubles and builders for code that uses telemetry."""

from __future__ import annotations

from telemetry.testing.builders import batch, frame, loose_rows, with_raw_rows
from telemetry.testing.clock import FakeClock

__all__ = ["FakeClock", "batch", "frame", "loose_rows", "with_raw_rows"]

"""Test doubles and builders for code that uses telemetry."""

from __future__ import annotations

from telemetry.testing.builders import batch, ended, frame, loose_rows, with_raw_rows
from telemetry.testing.clock import FakeClock

__all__ = ["FakeClock", "batch", "ended", "frame", "loose_rows", "with_raw_rows"]

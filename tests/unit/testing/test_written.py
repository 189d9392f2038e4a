"""Tests of the record of what a reader reports."""

from __future__ import annotations

from telemetry.testing.backends import Written


def test_values_that_come_twice_are_counted_twice() -> None:
    """A value that comes twice counts twice, and the newest one stays."""
    found = Written()
    found.value("train", 1, "loss", 2.0)
    found.value("train", 1, "loss", 3.0)
    assert (found.steps, found.counts) == ({("train", 1): {"loss": 3.0}}, {"step": 2})

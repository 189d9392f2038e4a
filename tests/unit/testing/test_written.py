"""What a reader says."""

from __future__ import annotations

from telemetry.testing.backends import Written


def test_values_that_come_twice_are_counted_twice() -> None:
    """And the newest one stands."""
    found = Written()
    found.value("train", 1, "loss", 2.0)
    found.value("train", 1, "loss", 3.0)
    assert (found.steps, found.counts) == ({("train", 1): {"loss": 3.0}}, {"step": 2})

"""A clock that moves when told to."""

from __future__ import annotations

import pytest

from telemetry.testing import FakeClock


def test_both_clocks_move_together_and_only_forward() -> None:
    """Both clocks move by the same step. A step back is refused."""
    clock = FakeClock(5, 7)
    assert (clock.monotonic_ns(), clock.wall_ns()) == (5, 7)
    clock.advance(1.5)
    assert (clock.monotonic_ns(), clock.wall_ns()) == (1_500_000_005, 1_500_000_007)
    with pytest.raises(ValueError, match="forward"):
        clock.advance(-1)

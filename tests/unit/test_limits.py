"""Limits: bounds that only make sense together."""

from __future__ import annotations

import math
from pathlib import Path

from telemetry import limits
from telemetry.wire.rows import ROW_BYTES


def test_the_largest_batch_of_ours_is_far_below_the_frame_limit() -> None:
    """A frame that is refused is never one that we made."""
    assert limits.BATCH_EVENTS * ROW_BYTES * 8 < limits.FRAME_BYTES
    assert limits.FRAME_BYTES * 8 <= limits.FRAME_BYTES_HARD


def test_sockets_absorb_at_least_a_second_of_half_a_million_events() -> None:
    """A stalled aggregator must not make the producer's buffer overflow at once."""
    assert limits.DATA_SNDHWM * limits.BATCH_EVENTS > 500_000


def test_bounds_of_a_series_have_finite_ticks() -> None:
    """The reciprocal of the smallest `low`, and `high` in ticks of it, are numbers."""
    assert math.isfinite(1 / limits.LOWEST_BOUND)
    assert math.isfinite(limits.HIGHEST_BOUND / limits.LOWEST_BOUND)


def test_one_turn_can_take_the_largest_frame() -> None:
    """Otherwise that frame would never be read."""
    assert limits.TURN_BYTES >= limits.FRAME_BYTES


def test_every_bound_is_a_positive_number() -> None:
    """There is no "unlimited"."""
    bounds = {name: value for name, value in vars(limits).items() if name.isupper()}
    assert bounds
    assert all(value > 0 for value in bounds.values())


def test_every_bound_is_read_by_somebody() -> None:
    """A limit nobody enforces is a promise nobody keeps."""
    source = Path(limits.__file__).parent
    text = "\n".join(path.read_text() for path in source.rglob("*.py"))
    unread = {name for name in vars(limits) if name.isupper() and text.count(name) < 2}
    assert unread == set()

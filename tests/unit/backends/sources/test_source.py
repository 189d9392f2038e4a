"""A position is what a checkpoint can carry."""

from __future__ import annotations

import msgspec

from telemetry.backends.sources.source import Position


def test_a_position_survives_its_checkpoint() -> None:
    """A position goes to JSON and back. Fields that an older one lacks are as at the beginning."""
    position = Position(next_record=7, reading_until_ns=1 << 60, final_done=True, held={"train": [3, 5]})
    assert msgspec.json.decode(msgspec.json.encode(position), type=Position) == position
    assert msgspec.convert({}, Position) == Position()

"""Batches for tests."""

from __future__ import annotations

from telemetry.testing import batch, frame, loose_rows, with_raw_rows
from telemetry.wire.codec import decode_batch, decode_record
from telemetry.wire.events import Mark
from telemetry.wire.rows import loose


def test_a_batch_is_what_its_frame_decodes_to() -> None:
    """The builders go through the real wire, rows canonical, and say what was asked for."""
    asked = {"rows": [(1, 1 << 40, 2.5)], "records": [Mark("m")], "dropped": {"buffer_full": 3}}
    built = batch("p", 4, 17, **asked)
    assert built == decode_batch(frame("p", 4, 17, **asked))
    assert (built.producer, built.seq, built.first, built.dropped) == ("p", 4, 17, {"buffer_full": 3})
    assert decode_record(built.records[0]) == Mark("m")
    assert built.rows.body is not None
    assert loose(built.rows) == [1.0, 1 << 40, 2.5]


def test_rows_can_be_anything() -> None:
    """Other numbers, or no rows at all."""
    other = with_raw_rows(batch(), loose_rows([1, 2, 3]))
    assert other.rows.count == 1
    assert other.rows.body is None

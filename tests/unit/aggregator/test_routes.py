"""Routes."""

from __future__ import annotations

from telemetry.aggregator.rows import CONFLICT, INDEX_BITS, INVALID, KIND_CODES, MALFORMED, UNKNOWN, route
from telemetry.wire.events import KINDS


def test_a_route_holds_kind_and_index_and_is_never_negative() -> None:
    """Kind and index come back out, within int32, apart from the codes for rows that go nowhere."""
    largest = (1 << INDEX_BITS) - 1
    for kind in KINDS:
        for index in (0, 1, largest):
            number = route(kind, index)
            assert (number >> INDEX_BITS, number & largest) == (KIND_CODES[kind], index)
            assert 0 <= number < 1 << 31
    assert len({UNKNOWN, CONFLICT, INVALID, MALFORMED} & set(range(-4, 0))) == 4

"""Batches kept for a resend."""

from __future__ import annotations

from telemetry.emit.ring import ResendRing


def filled(count: int, capacity: int = 1_000) -> ResendRing:
    ring = ResendRing(capacity)
    for seq in range(count):
        ring.keep(seq, bytes(100))
    return ring


def test_what_is_acknowledged_is_forgotten() -> None:
    """And its bytes are free."""
    ring = filled(5)
    ring.acknowledged(3)
    assert (ring.kept(), ring.bytes, ring.fallen) == ([3, 4], 200, 0)
    ring.acknowledged(99)
    assert (len(ring), ring.bytes) == (0, 0)


def test_the_oldest_fall_out_and_are_counted() -> None:
    """The bound is in bytes."""
    ring = filled(13)
    assert (ring.kept()[0], len(ring), ring.fallen) == (3, 10, 3)
    assert ring.get(2) is None
    assert ring.get(3) == bytes(100)


def test_a_range_is_what_is_left_of_it() -> None:
    """Nobody makes us count to 2**63."""
    ring = filled(8)
    assert ring.kept(2, 4) == [2, 3, 4]
    assert ring.kept(6, (1 << 63) - 1) == [6, 7]


def test_a_frame_larger_than_the_ring_is_not_kept() -> None:
    """The bound holds always."""
    ring = ResendRing(50)
    ring.keep(0, bytes(100))
    assert (len(ring), ring.bytes, ring.fallen) == (0, 0, 1)

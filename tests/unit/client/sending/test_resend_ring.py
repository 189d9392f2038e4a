"""Batches kept for a resend."""

from __future__ import annotations

from telemetry import limits
from telemetry.client.sending.outbox import ResendRing

KEPT = 100 + limits.RESEND_BATCH_BYTES


def filled(count: int, capacity: int = 10 * KEPT) -> ResendRing:
    ring = ResendRing(capacity)
    for seq in range(count):
        ring.keep(seq, bytes(100))
    return ring


def test_what_is_acknowledged_is_forgotten() -> None:
    """The ring forgets acknowledged batches and frees their bytes. Its answer says whether anything moved."""
    ring = filled(5)
    assert ring.acknowledged(3)
    assert (ring.kept(), ring.bytes) == ([3, 4], 2 * KEPT)
    assert not ring.acknowledged(3)
    assert ring.acknowledged(99)
    assert (len(ring), ring.bytes) == (0, 0)


def test_events_that_were_acknowledged_are_counted() -> None:
    """Only acknowledged events are counted, and not those that are given up or taken back."""
    ring = ResendRing(10 * KEPT)
    for seq in range(5):
        ring.keep(seq, bytes(100), 10**seq)
    ring.forget(4)
    ring.acknowledged(2)
    ring.give_up_oldest()
    ring.acknowledged(9)
    assert ring.taken == 1_011


def test_nothing_falls_out_of_a_full_ring() -> None:
    """The bound is in bytes, with those around each frame; its owner stops in time, or what an aggregator that died
    had not written is lost."""
    assert not filled(9).full
    ring = filled(12)
    assert ring.full
    assert ring.kept() == list(range(12))


def test_the_oldest_is_given_up_on_demand() -> None:
    """The oldest batch is given up on demand, and the others stay whole."""
    ring = filled(3)
    ring.give_up_oldest()
    assert (ring.kept(), ring.bytes) == ([1, 2], 2 * KEPT)
    assert ring.get(0) is None
    assert ring.get(1) == bytes(100)


def test_a_batch_that_never_left_is_taken_back() -> None:
    """A batch that is taken back is the newest one."""
    ring = filled(3)
    ring.forget(2)
    assert (ring.kept(), ring.bytes) == ([0, 1], 2 * KEPT)


def test_a_batch_that_was_acknowledged_before_it_left_is_gone() -> None:
    """An aggregator that claims what it can't have must not end the producer's thread."""
    ring = filled(3)
    ring.acknowledged(1 << 62)
    ring.forget(2)
    assert (ring.kept(), ring.bytes) == ([], 0)


def test_a_range_is_what_is_left_of_it() -> None:
    """A range lists only the batches that the ring still has. Its end may be as large as 2**63 - 1."""
    ring = filled(8)
    assert ring.kept(2, 4) == [2, 3, 4]
    assert ring.kept(6, (1 << 63) - 1) == [6, 7]

"""The lock-free counter."""

from __future__ import annotations

import threading

from telemetry.client.signal_safe import Tally


def test_every_hit_counts_and_looking_does_not() -> None:
    """Looking steps the counter, and the step is taken off again."""
    tally = Tally()
    assert tally.total == 0
    for _ in range(3):
        tally.hit()
    assert [tally.total, tally.total] == [3, 3]


def test_take_returns_what_is_new() -> None:
    """Each hit is taken once."""
    tally = Tally()
    tally.hit()
    assert [tally.take(), tally.take()] == [1, 0]
    tally.hit()
    tally.hit()
    assert [tally.take(), tally.total] == [2, 3]


def test_hits_from_many_threads_are_all_there() -> None:
    """Hits of many threads are all counted without a lock, also while another thread takes them."""
    tally = Tally()
    threads = [threading.Thread(target=lambda: [tally.hit() for _ in range(20_000)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    taken = 0
    while any(thread.is_alive() for thread in threads):
        taken += tally.take()
    assert taken + tally.take() == 80_000


def test_many_hits_at_once() -> None:
    """`hit_many` counts the given number of hits, also zero."""
    tally = Tally()
    for times in (0, 3, 1):
        tally.hit_many(times)
    assert [tally.total, tally.take()] == [4, 4]

"""Definitions are repeated until a batch that carried them is acknowledged."""

from __future__ import annotations

from telemetry import limits
from telemetry.client.sending.outbox import WINDOW_BYTES, Announcer


def test_definitions_repeat_until_acknowledged() -> None:
    """Definitions repeat until acknowledged. After that only new ones are carried."""
    definitions = [b"a", b"b"]
    announcer = Announcer(definitions)
    assert announcer.due
    assert announcer.window() == (0, 2)
    announcer.carried(0, 0, 2)
    assert not announcer.due
    definitions.append(b"c")
    assert announcer.window() == (0, 3)
    announcer.carried(1, 0, 3)
    announcer.acknowledged(1)
    assert announcer.window() == (2, 3)
    announcer.acknowledged(2)
    assert announcer.window() == (3, 3)


def test_a_batch_without_definitions_acknowledges_none() -> None:
    """Only the acknowledgement of a batch that carried the definitions counts."""
    announcer = Announcer([b"a"])
    announcer.carried(5, 0, 1)
    announcer.acknowledged(5)
    assert announcer.window() == (0, 1)
    announcer.acknowledged(6)
    assert announcer.window() == (1, 1)


def test_a_new_aggregator_is_told_everything_again() -> None:
    """An acknowledgement of the old one no longer counts."""
    announcer = Announcer([b"a", b"b"])
    announcer.carried(0, 0, 2)
    announcer.announce_again()
    announcer.acknowledged(1)
    assert announcer.due
    assert announcer.window() == (0, 2)


def test_too_many_for_one_batch_are_announced_in_turn() -> None:
    """Definitions that were never sent come first. Rows wait until all definitions have been sent."""
    total = 2 * limits.BATCH_RECORDS + 10
    announcer = Announcer([b"x"] * total)
    windows = []
    for seq in range(3):
        start, stop = announcer.window()
        windows.append((start, stop))
        assert announcer.covers_all(stop) == (seq == 2)
        announcer.carried(seq, start, stop)
    assert windows == [(0, 4_096), (4_096, 8_192), (8_192, total)]
    assert not announcer.due
    assert announcer.window() == (0, 4_096)
    announcer.acknowledged(3)
    assert announcer.window() == (total, total)


def test_windows_are_bounded_by_bytes() -> None:
    """Long labels don't make a frame that is refused; one that is too long alone still goes."""
    announcer = Announcer([bytes(WINDOW_BYTES // 2)] * 3 + [bytes(2 * WINDOW_BYTES)])
    for seq, expected in enumerate([(0, 2), (2, 3), (3, 4)]):
        assert announcer.window() == expected
        announcer.carried(seq, *expected)

"""Tests of the loop from a socket to a feed, and of what ends it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from telemetry import limits
from telemetry.integrations.feeds import Ending, FeedLoop


class Script:
    """A subscription, a feed and a clock, all of which follow a script: what `recv` returns, one a turn.

    A number stands for that many seconds of silence.
    """

    def __init__(self, *steps: bytes | float, ends_with: bytes = b"end") -> None:
        self.address = "ipc://x"
        self.connected = self.ever_connected = True
        self.steps = list(steps)
        self.now_s = 100.0
        self.taken: list[bytes] = []
        self.said: list[str] = []
        self.over = False
        self._ends_with = ends_with

    def recv(self, timeout_s: float) -> bytes | None:
        step = self.steps.pop(0) if self.steps else 1_000.0
        if isinstance(step, bytes):
            return step
        self.now_s += step
        return None

    def take(self, message: bytes) -> None:
        self.taken.append(message)
        self.over = message == self._ends_with

    def close(self) -> None:
        raise AssertionError("whoever made the feed closes it")

    def feed_loop(
        self, run_over: Callable[[], bool] = lambda: False, stopped: Callable[[], bool] = lambda: False
    ) -> Ending:
        made = FeedLoop(
            self, self, run_over=run_over, stopped=stopped, say=self.said.append, clock=lambda: self.now_s
        )
        ending = made.run()
        assert made.taken == len(self.taken)
        return ending


def test_the_senders_own_end_ends_it() -> None:
    """The sender's own end ends the loop, and no message is read after it."""
    script = Script(b"1", 0.2, b"2", b"end", b"after")
    assert script.feed_loop() == "ended"
    assert script.taken == [b"1", b"2", b"end"]


def test_the_end_of_the_run_ends_it() -> None:
    """The end of the run ends the loop even in a flood: the run is checked between messages."""
    script = Script(*[b"x"] * 10)
    assert script.feed_loop(run_over=lambda: bool(script.taken)) == "run_over"


def test_told_to_stop_it_takes_what_has_been_sent() -> None:
    """The last events of a command are read after the command has ended."""
    script = Script(b"1", b"2", b"3", 0.2, b"late")
    assert script.feed_loop(stopped=lambda: script.taken == [b"1"]) == "stopped"
    assert script.taken == [b"1", b"2", b"3"]


def test_told_to_stop_it_hears_the_end() -> None:
    """A loop that is told to stop still reads up to the sender's end and reports that better news."""
    script = Script(b"1", b"2", b"end")
    assert script.feed_loop(stopped=lambda: True) == "ended"


def test_a_flood_does_not_keep_it_from_stopping() -> None:
    """There is a deadline for last words."""
    script = Script(*[b"x"] * 100)
    recv = script.recv

    def slowly(timeout_s: float) -> bytes | None:
        script.now_s += 0.5
        return recv(timeout_s)

    script.recv = slowly  # type: ignore[method-assign]
    assert script.feed_loop(stopped=lambda: True) == "stopped"
    assert 2 < len(script.taken) < 20


def test_a_sender_that_is_gone_is_waited_for_a_while() -> None:
    """The loop waits a while for a sender that is gone, because it may come back.

    After that the sender has ended.
    """
    script = Script(b"1", 0.2, limits.RETURN_S - 1.0, 2.0, b"never")
    script.connected = False
    assert script.feed_loop() == "gone"
    assert script.taken == [b"1"]


def test_a_sender_that_comes_back_is_heard() -> None:
    """The time that it was away starts anew."""
    script = Script(limits.RETURN_S - 1.0, b"1", limits.RETURN_S - 1.0, b"end")
    script.connected = False
    assert script.feed_loop() == "ended"


@pytest.mark.parametrize(
    ("connected", "said"), [(True, "no messages from ipc://x"), (False, "no sender listens at")]
)
def test_silence_is_said_once(connected: bool, said: str) -> None:
    """Silence is reported once, with or without a sender.

    The loop waits without end for a sender that has not come yet.
    """
    script = Script(31.0, 31.0, 1_000.0, b"end")
    script.connected = script.ever_connected = connected
    assert script.feed_loop() == "ended"
    assert len(script.said) == 1
    assert said in script.said[0]

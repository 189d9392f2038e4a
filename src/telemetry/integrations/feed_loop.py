"""The loop that passes messages from a socket to a feed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, Literal, Protocol

from telemetry import limits
from telemetry.integrations.feeds import Feed

Ending = Literal["ended", "stopped", "run_over", "gone"]
"""Reason for the end. `gone`: the sender disappeared without an end message."""

_LOOK_S: Final = 0.2
_LAST_S: Final = 0.2  # of silence, after which no message of an ended sender is on its way
_LAST_WORDS_S: Final = 5.0
_QUIET_S: Final = 30.0


class MessageSubscription(Protocol):
    """A subscription to messages."""

    address: str
    connected: bool
    ever_connected: bool

    def recv(self, timeout_s: float) -> bytes | None: ...


class FeedLoop:
    """A loop until the feed, the sender, the run or a stop request ends it.

    `run_over` tells whether the run has ended; it is called a few times a second.
    """

    def __init__(
        self,
        feed: Feed,
        messages: MessageSubscription,
        *,
        run_over: Callable[[], bool],
        stopped: Callable[[], bool],
        say: Callable[[str], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.taken = 0
        """Number of messages taken."""
        self._feed = feed
        self._messages = messages
        self._run_over = run_over
        self._stopped = stopped
        self._say = say
        self._clock = clock
        self._quiet_said = False
        self._heard_s = self._there_s = clock()

    def run(self) -> Ending:
        """Run the loop. Blocks. After a stop request, it still takes the messages that were already sent."""
        look_s = 0.0
        while True:
            message = self._messages.recv(_LOOK_S)
            now_s = self._clock()
            if message is not None:
                self._take(message)
                if self._feed.over:
                    return "ended"
            else:
                self._be_patient(now_s)
            if message is None or now_s >= look_s:
                look_s = now_s + _LOOK_S
                if self._run_over():
                    return "run_over"
                if self._stopped():
                    return self._take_the_rest(now_s + _LAST_WORDS_S)
                if now_s - self._there_s > limits.RETURN_S:
                    return "gone"

    def _take(self, message: bytes) -> None:
        self.taken += 1
        self._heard_s = self._there_s = self._clock()
        self._feed.take(message)

    def _be_patient(self, now_s: float) -> None:
        """Wait without limit for the first connection, but only for a while after a disconnection.

        Report a long silence.
        """
        messages = self._messages
        if messages.connected or not messages.ever_connected:
            self._there_s = now_s
        if now_s - self._heard_s > _QUIET_S and not self._quiet_said:
            self._quiet_said = True
            who = "no messages from" if messages.connected else "no sender listens at"
            self._say(f"{who} {messages.address} for {_QUIET_S:g} s; still waiting")

    def _take_the_rest(self, deadline_s: float) -> Ending:
        while (left_s := deadline_s - self._clock()) > 0:
            message = self._messages.recv(min(_LAST_S, left_s))
            if message is None:
                break
            self._take(message)
            if self._feed.over:
                return "ended"
        return "stopped"

"""Feeds, which turn messages of another program's PUB socket into a run: interface, registry, and loop."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, Protocol, cast

from telemetry import limits
from telemetry.common.formatting import printable
from telemetry.config.plugins import entry_points
from telemetry.config.plugins.choice import unknown
from telemetry.errors import EndpointError, UsageError
from telemetry.integrations.sender_addresses import is_pattern
from telemetry.transport.endpoints import check_connectable

if TYPE_CHECKING:
    from telemetry.client import Run


BUILT_IN: Final = {"endpoints": "telemetry.integrations.endpoints.translate:EndpointsFeed"}


@dataclass(frozen=True)
class FeedOptions:
    """Settings of a feed."""

    say: Callable[[str], object]
    """Function that prints a line for the user. Text from other programs must be printable."""
    texts: bool = True
    """True if texts are passed on, so that their tokens are counted."""
    session: str = ""
    """Number of the session within a command, from "2" on, as a label for its records.

    Empty for the first session.
    """


class Feed(Protocol):
    """A feed. It is called by a single thread."""

    @property
    def over(self) -> bool:
        """True once the sender has announced the end."""

    def take(self, message: bytes) -> None:
        """Take a message of the socket with any content. Never raises."""

    def close(self) -> None:
        """End the feed. The run is not finished yet."""


class FeedKind(Protocol):
    """A factory of feeds, such as a class with these two attributes.

    It may have a third one, `percentiles`: those that a run beside it computes besides its own.
    """

    @property
    def topics(self) -> Sequence[bytes]:
        """Topic prefixes to subscribe to."""

    @property
    def addresses(self) -> Sequence[str]:
        """Default addresses of senders: `ipc://` and a path with `*`. May be empty."""

    def __call__(self, run: Run, options: FeedOptions, /) -> Feed: ...


@dataclass(frozen=True)
class FeedSpec:
    """The parsed `NAME[:ADDRESS]`. `address` may be empty or contain `*`."""

    name: str
    address: str = ""

    def __str__(self) -> str:
        return f"{self.name}:{self.address}" if self.address else self.name


def parse_feed(text: str) -> FeedSpec:
    """Parse `NAME[:ADDRESS]`. Raises UsageError for an unknown feed or an invalid address."""
    name, colon, address = text.partition(":")
    plugins = entry_points.plugins("feeds", BUILT_IN)
    if name not in plugins:
        raise unknown(name, "feed", plugins)
    if colon and not is_pattern(address):
        try:
            check_connectable(address)
        except EndpointError as error:
            raise UsageError(
                f"{printable(address)!r} is not a valid feed address",
                hint=f"write {name}:ipc://PATH or {name}:tcp://HOST:PORT, with a PORT from 1 to 65535",
            ) from error
    return FeedSpec(name, address)


def with_percentiles(feeds: Sequence[str], percentiles: Sequence[str]) -> list[str]:
    """Return percentiles with those of feeds, in ascending order. Raises UsageError for an invalid feed."""
    text_by_value = {float(percentile): percentile for percentile in percentiles}
    for feed in feeds:
        for percentile in getattr(load_feed(parse_feed(feed).name), "percentiles", ()):
            text_by_value.setdefault(float(percentile), percentile)
    return [text_by_value[value] for value in sorted(text_by_value)]


def load_feed(name: str) -> FeedKind:
    """Import a feed. Raises PluginError, a UsageError, with the package, the cause and the remedy."""
    plugin = entry_points.plugins("feeds", BUILT_IN)[name]
    feed = entry_points.load(plugin)
    missing = [name for name in ("topics", "addresses") if not hasattr(feed, name)]
    if missing or not callable(feed):
        raise entry_points.broken(plugin, f"it lacks {', '.join(missing) or 'a way to make a feed'}")
    return cast(FeedKind, feed)


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

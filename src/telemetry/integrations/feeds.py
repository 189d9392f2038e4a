"""The interface of feeds, which turn messages of another program's PUB socket into a run, and their registry.

A feed is an entry point of the group `telemetry.feeds`: its name, and a class or function of the form `FeedKind`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, cast

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

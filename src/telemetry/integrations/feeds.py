"""Feeds: what turns the messages of somebody else's PUB socket into a run. This is the seam, and who is behind it.

A feed is an entry point of the group `telemetry.feeds`: its name, and what has the form of `FeedKind`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Final, Protocol, cast

from telemetry.errors import EndpointError, UsageError
from telemetry.formatting import printable
from telemetry.integrations.sender_addresses import is_pattern
from telemetry.transport.endpoints import check_connectable

if TYPE_CHECKING:
    from telemetry.client import Run

GROUP: Final = "telemetry.feeds"
BUILT_IN: Final = {"endpoints": "telemetry.integrations.endpoints.translate:EndpointsFeed"}


@dataclass(frozen=True)
class FeedOptions:
    """What a feed is told beside its run."""

    say: Callable[[str], object]
    """Takes one line that a person should read. What others sent has to be printable."""
    texts: bool = True
    """Whether texts are handed on, so that their tokens are counted."""
    session: str = ""
    """Which session of a command this is, from "2" on: a label for what it records. Empty for the first."""


class Feed(Protocol):
    """One thread calls it."""

    @property
    def over(self) -> bool:
        """Whether the other side has said that nothing more comes."""

    def take(self, message: bytes) -> None:
        """One message of the socket, whatever is in it. Never raises."""

    def close(self) -> None:
        """Nothing more comes. The run has not been finished yet."""


class FeedKind(Protocol):
    """Makes a feed. A class with these two attributes is one."""

    @property
    def topics(self) -> Sequence[bytes]:
        """What to subscribe to: prefixes."""

    @property
    def addresses(self) -> Sequence[str]:
        """Where its senders are found if no address is given: `ipc://` and a path with `*`. May be empty."""

    def __call__(self, run: Run, options: FeedOptions, /) -> Feed: ...


@dataclass(frozen=True)
class FeedSpec:
    """What `NAME[:ADDRESS]` says. `address` is empty, or may contain `*`."""

    name: str
    address: str = ""

    def __str__(self) -> str:
        return f"{self.name}:{self.address}" if self.address else self.name


def parse_feed(text: str) -> FeedSpec:
    """Raises UsageError for a name that no feed has, and for what is no address."""
    name, colon, address = text.partition(":")
    known = _known()
    if name not in known:
        close = get_close_matches(name, known, n=1)
        meant = FeedSpec(close[0], printable(address)) if close else None
        hint = f"did you mean {meant}?" if meant else f"one of {', '.join(sorted(known))}"
        raise UsageError(f"there is no feed {printable(name)!r}", hint=hint)
    if colon and not is_pattern(address):
        try:
            check_connectable(address)
        except EndpointError as error:
            raise UsageError(
                f"{printable(address)!r} is no address to feed from",
                hint=f"write {name}:ipc://PATH or {name}:tcp://HOST:PORT, with a PORT from 1 to 65535",
            ) from error
    return FeedSpec(name, address)


def load_feed(name: str) -> FeedKind:
    """Raises UsageError if nothing of that name can be imported."""
    point = _known()[name]
    try:
        return cast(FeedKind, point.load())
    except (ImportError, AttributeError) as error:
        raise UsageError(f"the feed {name} can't be loaded: {printable(str(error))}") from error


def _known() -> dict[str, EntryPoint]:
    """Ours can't be replaced by somebody else's of the same name."""
    others = {point.name: point for point in entry_points(group=GROUP)}
    return others | {name: EntryPoint(name, value, GROUP) for name, value in BUILT_IN.items()}

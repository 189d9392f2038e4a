"""Where the items of a run come from, and how far they have come: the seam between a writer and the run."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

from msgspec import Struct

from telemetry.backends.backend import RunFacts
from telemetry.backends.items import Item
from telemetry.wire.events import Natural


class Position(Struct, kw_only=True, frozen=True):
    """How far a run was read: what a checkpoint says, and where a source goes on."""

    next_record: Natural = 0
    """Records below this number were read."""
    reading_until_ns: Natural = 0
    """Readings up to this moment were: where the newest of them ends, in steps of the cadence from the run's start.
    0: none was."""
    final_done: bool = False
    """The result was."""
    held: dict[str, list[Natural]] = {}
    """Axis → records of its newest step that `every_steps` has held back, which come at the end."""


MISSED: Final = "missed"
"""The reason of records that nobody has any more."""
NOTHING: Final[Mapping[str, int]] = MappingProxyType({})


class Read(NamedTuple):
    """One item, and the position after it."""

    item: Item
    position: Position
    left_out: Mapping[str, int] = NOTHING
    """What should have come up to there and did not, by reason, since the source was opened. Never changes."""


class Source(Protocol):
    """The items of one run in order. One thread's, but for `known` and `position`, which any thread may look at."""

    run: RunFacts

    @property
    def known(self) -> int:
        """One above the newest record that is known of."""

    @property
    def missed(self) -> int:
        """Records up to `position` that nobody has any more: damaged, or gone with an aggregator."""

    @property
    def left_out(self) -> dict[str, int]:
        """Values up to `position` that should go there and can't, by reason."""

    @property
    def position(self) -> Position:
        """After the items returned so far, and after records behind them that are no items."""

    @property
    def over(self) -> bool:
        """Nothing will ever come any more: all there is was returned. Without a result, if the run died;
        `position.final_done` tells."""

    def read(self, most: int, timeout_s: float) -> list[Read]:
        """At most `most` items in order, as soon as there are any; [] if there are none in time, or if it is over.

        May take longer by one request to an aggregator, a few seconds. Raises TelemetryError; the next call tries
        again.
        """

    def again(self, number: int) -> Item | None:
        """The item of one record that was read before; None if nobody has it any more, or it is none. Raises
        TelemetryError."""

    def notes(self) -> list[str]:
        """What the user should know, one sentence each. Each comes once."""

    def close(self) -> None:
        """May be called twice."""

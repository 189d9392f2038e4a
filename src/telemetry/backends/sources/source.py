"""The interface between a writer and the items of a run, with the position in them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

from msgspec import Struct

from telemetry.backends.backend import RunFacts
from telemetry.backends.items import Item
from telemetry.wire.events import Natural


class Position(Struct, kw_only=True, frozen=True):
    """A position in the items of a run, stored in a checkpoint to continue from there."""

    next_record: Natural = 0
    """Records below this number were read."""
    reading_until_ns: Natural = 0
    """End of the newest reading, as a multiple of the period since the run's start; 0 if none was read."""
    final_done: bool = False
    """True if the result was read."""
    held: dict[str, list[Natural]] = {}
    """Axis → records of its newest step that `every_steps` holds back until the end."""


MISSED: Final = "missed"
"""Reason for records that are lost everywhere."""
NOTHING: Final[Mapping[str, int]] = MappingProxyType({})


class Read(NamedTuple):
    """An item, and the position after it."""

    item: Item
    position: Position
    left_out: Mapping[str, int] = NOTHING
    """Missing items up to here, by reason, since the source was opened. Never changed in place."""


class Source(Protocol):
    """The items of a run, in order. For one thread; any thread may read `known` and `position`."""

    run: RunFacts

    @property
    def known(self) -> int:
        """Number after the newest known record."""

    @property
    def missed(self) -> int:
        """Number of records up to `position` that are lost: damaged, or gone with an aggregator."""

    @property
    def left_out(self) -> dict[str, int]:
        """Number of values up to `position` that could not be delivered, by reason."""

    @property
    def position(self) -> Position:
        """Position after the items returned so far, including later records that are not items."""

    @property
    def over(self) -> bool:
        """True once all items were returned and no more will follow.

        `position.final_done` is False if the run died.
        """

    def read(self, most: int, timeout_s: float) -> list[Read]:
        """Return at most `most` items in order, as soon as some exist; [] after the timeout or at the end.

        May take longer by one request to an aggregator, a few seconds. Raises TelemetryError; the next call
        retries.
        """

    def again(self, number: int) -> Item | None:
        """Return the item of an earlier record, or None if the record is lost or is not an item.

        Raises TelemetryError.
        """

    def notes(self) -> list[str]:
        """Return messages for the user, one sentence each. Each is returned once."""

    def close(self) -> None:
        """Close the source. May be called twice."""

"""A source of what the settings of one backend let through."""

from __future__ import annotations

import time

from msgspec.structs import replace

from telemetry.backends.items import Item, Step
from telemetry.backends.mapping import ItemMapping
from telemetry.backends.seam import RunFacts
from telemetry.backends.source import Position, Read, Source
from telemetry.backends.thinning import Thinning
from telemetry.errors import TelemetryError


class MappedSource:
    """A `telemetry.backends.source.Source`. Of each axis it lets through steps that are multiples of `every_steps`,
    and the newest one at the end."""

    def __init__(self, source: Source, mapping: ItemMapping, every_steps: int, position: Position) -> None:
        """`position`: that which `source` was opened with."""
        self.run: RunFacts = source.run
        self._source = source
        self._mapping = mapping
        self._thinning = Thinning(every_steps, position.held)
        self._recalled = False

    @property
    def known(self) -> int:
        return self._source.known

    @property
    def missed(self) -> int:
        return self._source.missed

    @property
    def left_out(self) -> dict[str, int]:
        return self._mapping.left_out

    @property
    def position(self) -> Position:
        return self._held(self._source.position)

    @property
    def over(self) -> bool:
        return self._source.over and not self._thinning.held

    def read(self, most: int, timeout_s: float) -> list[Read]:
        until_s = time.monotonic() + timeout_s
        if not self._recalled:
            self._thinning.recall(self._source.again)
            self._recalled = True
        while not self._source.over:
            reads = self._source.read(most, max(0.0, until_s - time.monotonic()))
            found = [read for one in reads if (read := self._through(one)) is not None]
            if found or (time.monotonic() >= until_s and not self._source.over):
                return found
        return self._rest(most)

    def again(self, number: int) -> Item | None:
        item = self._source.again(number)
        return None if item is None else self._mapping.apply(item)

    def notes(self) -> list[str]:
        return [*self._source.notes(), *self._mapping.notes()]

    def close(self) -> None:
        self._source.close()

    def _through(self, read: Read) -> Read | None:
        item = self._mapping.apply(read.item)
        if item is None or (isinstance(item, Step) and not self._thinning.admits(item)):
            return None
        return Read(item, self._held(read.position))

    def _rest(self, most: int) -> list[Read]:
        """What was held. Raises TelemetryError; nothing is taken then."""
        found: list[Read] = []
        while len(found) < most and (first := self._thinning.first()) is not None:
            number, seen = first
            try:
                item = seen if seen is not None else self.again(number)
            except TelemetryError:
                if found:
                    break
                raise
            self._thinning.release(number)
            if item is not None:
                found.append(Read(item, self.position))
        return found

    def _held(self, position: Position) -> Position:
        held = self._thinning.held
        return position if held == position.held else replace(position, held=dict(held))

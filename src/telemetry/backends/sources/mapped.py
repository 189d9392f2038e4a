"""A source filtered by the settings of one backend."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from telemetry.backends.backend import RunFacts
from telemetry.backends.items import Artifact, Item, Step
from telemetry.backends.mapping import ItemMapping
from telemetry.backends.sources.source import MISSED, NOTHING, Position, Read, Source
from telemetry.backends.step_thinning import Thinning
from telemetry.errors import TelemetryError
from telemetry.wire.artifact_copies import digest_of, original_name, path_of, uri_of


class MappedSource:
    """A `Source` that thins steps: it keeps multiples of `every_steps` on each axis, and the newest step."""

    def __init__(self, source: Source, mapping: ItemMapping, every_steps: int, position: Position) -> None:
        """Wrap a source. `position`: the position at which `source` was opened."""
        self.run: RunFacts = source.run
        self._source = source
        self._mapping = mapping
        self._thinning = Thinning(every_steps, position.held)
        self._recalled = False
        self._whole = position == Position()
        """True if all names of the run pass here and unused patterns have not been reported yet."""

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
            mapped_reads = [read for original in reads if (read := self._through(original)) is not None]
            if mapped_reads or (time.monotonic() >= until_s and not self._source.over):
                return mapped_reads
        return self._rest(most)

    def again(self, number: int) -> Item | None:
        item = self._source.again(number)
        before = dict(self._mapping.left_out)
        mapped_item = None if item is None else self._mapping.apply(located(item, self.run.directory))
        self._mapping.left_out = before  # counted already at the first read
        return mapped_item

    def notes(self) -> list[str]:
        notes = [*self._source.notes(), *self._mapping.notes()]
        if self._whole and self.over:
            self._whole = False
            notes += filter(None, [self._mapping.idle()])
        return notes

    def close(self) -> None:
        self._source.close()

    def _through(self, read: Read) -> Read | None:
        item = self._mapping.apply(located(read.item, self.run.directory))
        if item is None or (isinstance(item, Step) and not self._thinning.admits(item)):
            return None
        return Read(item, self._held(read.position), self._without(read.left_out))

    def _rest(self, most: int) -> list[Read]:
        """Return the held steps. Raises TelemetryError; then no step is taken."""
        reads: list[Read] = []
        while len(reads) < most and (first := self._thinning.first()) is not None:
            number, seen = first
            try:
                item = seen if seen is not None else self.again(number)
            except TelemetryError:
                if reads:
                    break
                raise
            self._thinning.release(number)
            if item is not None:
                missed = self._source.missed
                reads.append(Read(item, self.position, self._without({MISSED: missed} if missed else NOTHING)))
        return reads

    def _without(self, before: Mapping[str, int]) -> Mapping[str, int]:
        """Add this mapping's counts to those of the wrapped source."""
        own = self._mapping.left_out
        return {**before, **own} if own else before

    def _held(self, position: Position) -> Position:
        held = self._thinning.held
        return position if held == position.held else replace(position, held=dict(held))


def located(item: Item, directory: Path | None) -> Item:
    """Return an item whose reference is the copy in this run directory, if it has one; else the item itself."""
    if not isinstance(item, Artifact) or directory is None:
        return item
    digest = digest_of(item.uri)
    if not digest or not directory.joinpath(path_of(digest)).is_file():
        return item
    return replace(item, uri=uri_of(str(directory.absolute()), digest, original_name(item.uri)))

"""The choice of a source for a run, with the filters and the thinning that the settings of one backend ask for."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from telemetry.backends.backend import RunFacts
from telemetry.backends.items import Artifact, Item, Step
from telemetry.backends.mapping import ItemMapping, values_of
from telemetry.backends.sources.disk import DiskSource
from telemetry.backends.sources.live import LiveSource
from telemetry.backends.sources.records import record_number
from telemetry.backends.sources.source import MISSED, NOTHING, Position, Read, Source
from telemetry.config import Config
from telemetry.errors import EndpointError, TelemetryError, UsageError
from telemetry.store.run_directory import RunDirectory
from telemetry.wire.artifact_copies import digest_of, original_name, path_of, uri_of

_LEAST_S: Final = 1.0  # a history has one interval a second


def open_source(
    backend: str,
    position: Position,
    config: Config,
    *,
    endpoint: str = "",
    directory: RunDirectory | None = None,
    live: bool = False,
    every_s: float | None = None,
) -> Source:
    """Open the run of an aggregator at `endpoint`, of a directory, or of both.

    With both, the directory alone is used if the aggregator does not answer. `backend`: name of its table in the
    settings. `live`: deliver snapshots. `every_s`: seconds between readings, at least 1, instead of the value in
    the settings. Blocks for a handshake. Raises ConfigError for impossible renames, UsageError without an endpoint
    and a directory, KeysError, ProtocolError, and EndpointError or RunDirectoryError if the run does not exist.
    """
    values = values_of(config.backends, backend)
    mapping = ItemMapping(values)
    cadence_s = max(every_s or values.every_s or config.backends.every_s, _LEAST_S)
    source: Source | None = None
    if endpoint:
        try:
            source = LiveSource(
                endpoint, position, every_s=cadence_s, live=live, fallback_dirs=config.run.fallback_dirs
            )
        except EndpointError:
            if directory is None:
                raise
    if source is None:
        if directory is None:
            raise UsageError("a run has an address or a directory")
        source = DiskSource(
            directory, position, every_s=cadence_s, live=live, fallback_dirs=config.run.fallback_dirs
        )
    return MappedSource(source, mapping, values.every_steps, position)


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


Held = dict[str, list[int]]
"""Axis → record numbers of its newest step and its corrections, if that step was held back."""


class Thinning:
    """A filter for steps. Not thread-safe, except for `held`."""

    def __init__(self, every: int, held: Held) -> None:
        """Start a filter that admits multiples of `every`. `held`: steps held by the previous process."""
        self.held: Mapping[str, list[int]] = dict(held)
        """Steps that are held back. The mapping is replaced, never changed in place."""
        self._every = every
        self._items: dict[int, Item] = {}
        """Record number → held item, if this process has read it."""
        self._newest: dict[str, int] = {}
        """Axis → highest step that was admitted or is held."""

    def recall(self, again: Callable[[int], Item | None]) -> None:
        """Read the steps that a previous process held. Call it before the first `admits`. Raises like `again`."""
        for axis, numbers in self.held.items():
            item = again(numbers[0]) if numbers and axis not in self._newest else None
            if isinstance(item, Step):
                self._newest[axis] = item.step

    def admits(self, step: Step) -> bool:
        """Check whether a step passes now. Otherwise hold it if it is the newest of its axis."""
        newest = self._newest.get(step.axis)
        if step.step % self._every == 0:
            if newest is None or step.step > newest:
                self._hold(step.axis, [])
                self._newest[step.axis] = step.step
            return True
        number = record_number(step.key)
        if number is None:
            return True
        numbers = self.held.get(step.axis, [])
        if numbers and step.step == newest:
            self._hold(step.axis, [*numbers, number], step)
        elif not step.revision and (newest is None or step.step > newest):
            self._hold(step.axis, [number], step)
            self._newest[step.axis] = step.step
        return False

    def first(self) -> tuple[int, Item | None] | None:
        """Return the first held record and its item, or None without one.

        The item is None if not read by this process.
        """
        number = min((numbers[0] for numbers in self.held.values()), default=None)
        return None if number is None else (number, self._items.get(number))

    def release(self, number: int) -> None:
        """Drop the record that `first` returned."""
        for axis, numbers in self.held.items():
            if numbers[0] == number:
                self._hold(axis, numbers[1:])
                return

    def _hold(self, axis: str, numbers: list[int], step: Step | None = None) -> None:
        for number in set(self.held.get(axis, ())).difference(numbers):
            self._items.pop(number, None)
        if step is not None:
            self._items[numbers[-1]] = step
        others = {name: held for name, held in self.held.items() if name != axis}
        self.held = {**others, axis: numbers} if numbers else others

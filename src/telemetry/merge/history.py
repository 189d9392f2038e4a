"""The histories of several runs added up, and written as one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
from msgspec.structs import replace

from telemetry.errors import RunDirectoryError
from telemetry.history.intervals.columns import Columns
from telemetry.history.intervals.figures import Figures
from telemetry.history.intervals.range_sums import RangeSums
from telemetry.merge.interval_grid import Cell, Placed, cells, placed
from telemetry.merge.sources import Input, SeriesId
from telemetry.merge.translate import Instruments, Translation
from telemetry.store.history import LEVELS, HistoryReader, HistoryWriter
from telemetry.store.intervals.rollup import merge as added
from telemetry.wire.control import SeriesKey
from telemetry.wire.history import Interval

OnProgress = Callable[[str, float], None]
"""What is being done, and the share of it that is."""

_KEEP_ALL: Final[Mapping[int, float | None]] = dict.fromkeys(LEVELS)
"""Its size is that of the histories it is made of; runs of other days are no older than the newest one."""


@dataclass(frozen=True, kw_only=True)
class Added:
    """What the histories that there are come to."""

    figures: Mapping[SeriesId, Figures] = field(default_factory=dict)
    keys: Mapping[SeriesId, SeriesKey] = field(default_factory=dict)
    counts: Sequence[Mapping[SeriesId, int]] = ()
    """Of each input: the values of its series that its history has, -1 if it contradicts itself. Empty for one
    without a history."""
    written: bool = False
    """All of them have one, so that they have one together."""


def add_histories(
    inputs: Sequence[Input], directory: Path, percentiles: Sequence[str], on_progress: OnProgress = lambda *_: None
) -> Added:
    """Reads all histories once, in order of time; writes their sum to `directory` if each input has one.

    Blocks on the disk. Raises RunDirectoryError if one can't be read, or the sum can't be written, UsageError for
    series of different ticks and for a percentile outside (0, 100].
    """
    parts = [_Part.of(one) for one in inputs if one.directory.history.is_dir()]
    instruments = Instruments([(str(part.input.directory.path), part.keys) for part in parts])
    for part in parts:
        part.translation = instruments.translation(part.keys)
    time_range = RangeSums(instruments.keys, percentiles)
    writer = HistoryWriter(directory, _KEEP_ALL) if len(parts) == len(inputs) else None
    origin_ns = min(one.begin_ns for one in inputs)
    span_ns = max(1, max(one.end_ns for one in inputs) - origin_ns)
    try:
        for cell in cells([part.placed(owner, origin_ns) for owner, part in enumerate(parts)]):
            interval = _sum(cell, parts, origin_ns)
            time_range.add(interval)
            if writer is not None:
                writer.append(interval, instruments.keys, cell.second)
            on_progress("adding histories", min(1.0, cell.end_ns / span_ns))
    finally:
        if writer is not None:
            writer.close()
    if writer is not None and writer.failed:
        raise RunDirectoryError(f"the merged history can't be written: {writer.failed}")
    keys = {_identity(key): key for key in instruments.keys if key.kind == "series"}
    figures = time_range.figures()
    tallies = {id(part.input): part.counts() for part in parts}
    return Added(
        figures={series: figures[key.index] for series, key in keys.items()},
        keys=keys,
        counts=[tallies.get(id(one), {}) for one in inputs],
        written=writer is not None,
    )


class _Part:
    """One history, and what has been read of it."""

    translation: Translation

    def __init__(self, source: Input, reader: HistoryReader, keys: list[SeriesKey]) -> None:
        self.input = source
        self.keys = keys
        self._reader = reader
        size = max((key.index for key in keys if key.kind == "series"), default=-1) + 1
        self._values = np.zeros(size, dtype=np.int64)
        self._in_slots = np.zeros(size, dtype=np.int64)

    @staticmethod
    def of(source: Input) -> _Part:
        reader = HistoryReader(source.directory.history)
        return _Part(source, reader, reader.keys())

    def placed(self, owner: int, origin_ns: int) -> Iterator[Placed]:
        return placed(self._reader.intervals(), owner, origin_ns, self.input.shift_ns)

    def take(self, interval: Interval) -> Interval:
        """In the words of all; counts it. Raises RunDirectoryError for one that speaks of what nobody knows."""
        try:
            translated = self.translation.interval(interval)
        except RunDirectoryError as error:
            raise RunDirectoryError(f"{self.input.directory.history} is damaged: {error.message}") from error
        columns = Columns.of(interval)
        rows = np.repeat(columns.index, columns.occupied)
        self._values[columns.index] += columns.count
        self._in_slots += np.bincount(rows, columns.counts, self._in_slots.size).astype(np.int64)
        return translated

    def counts(self) -> dict[SeriesId, int]:
        """By series; slots have to say the same."""
        agreed = np.where(self._values == self._in_slots, self._values, -1).tolist()
        return {_identity(key): agreed[key.index] for key in self.keys if key.kind == "series"}


def _sum(cell: Cell, parts: Sequence[_Part], origin_ns: int) -> Interval:
    members = [parts[member.owner].take(member.interval) for member in cell.members]
    with np.errstate(over="ignore", invalid="ignore"):  # values may be as large as floats go
        whole = added(members)
    return replace(whole, start_ns=origin_ns + cell.start_ns, end_ns=origin_ns + cell.end_ns)


def _identity(key: SeriesKey) -> SeriesId:
    return key.name, tuple(sorted(key.labels.items()))

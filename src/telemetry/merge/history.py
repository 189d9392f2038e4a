"""The sum of several runs' histories, written as one history."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
from msgspec.structs import replace

from telemetry.errors import RunDirectoryError
from telemetry.history.instrument_ids import series_id
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
"""Progress callback: (current step, completed fraction)."""

_KEEP_ALL: Final[Mapping[int, float | None]] = dict.fromkeys(LEVELS)
"""Retention without limit: the size is bounded by the sources, and runs of other days count as equally recent."""


@dataclass(frozen=True, kw_only=True)
class Added:
    """The sum of all available histories."""

    figures: Mapping[SeriesId, Figures] = field(default_factory=dict)
    keys: Mapping[SeriesId, SeriesKey] = field(default_factory=dict)
    counts: Sequence[Mapping[SeriesId, int]] = ()
    """Values per series in each input's history, -1 if the history contradicts itself. Empty without a history."""
    written: bool = False
    """True if every input has a history, so that the merged run has one."""


def add_histories(
    inputs: Sequence[Input], directory: Path, percentiles: Sequence[str], on_progress: OnProgress = lambda *_: None
) -> Added:
    """Read all histories once, in order of time. Write their sum to `directory` if each input has a history.

    Blocks on the disk. Raises RunDirectoryError for a history that can't be read or written, and UsageError for
    series with different ticks and for a percentile outside (0, 100].
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
        raise RunDirectoryError(f"can't write the merged history: {writer.failed}")
    keys = {series_id(key): key for key in instruments.keys if key.kind == "series"}
    figures = time_range.figures()
    tallies = {id(part.input): part.counts() for part in parts}
    return Added(
        figures={series: figures[key.index] for series, key in keys.items()},
        keys=keys,
        counts=[tallies.get(id(one), {}) for one in inputs],
        written=writer is not None,
    )


class _Part:
    """A history and the counts of what was read from it."""

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
        """Translate an interval to the common instruments and count it.

        Raises RunDirectoryError for unknown indices.
        """
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
        """Return the number of values per series, or -1 if the counts of its slots disagree."""
        agreed = np.where(self._values == self._in_slots, self._values, -1).tolist()
        return {series_id(key): agreed[key.index] for key in self.keys if key.kind == "series"}


def _sum(cell: Cell, parts: Sequence[_Part], origin_ns: int) -> Interval:
    members = [parts[member.owner].take(member.interval) for member in cell.members]
    with np.errstate(over="ignore", invalid="ignore"):  # values may be close to the largest float
        whole = added(members)
    return replace(whole, start_ns=origin_ns + cell.start_ns, end_ns=origin_ns + cell.end_ns)

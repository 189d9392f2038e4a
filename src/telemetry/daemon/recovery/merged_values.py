"""Exact percentiles of several finished runs together, from their journals.

Each journal is streamed several times: once to count its values in one histogram of all runs, then past the targets
of this histogram. In memory are the histogram and the numbers of one run at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from telemetry.aggregator import Aggregator
from telemetry.aggregator.exact.percentiles import ExactPass
from telemetry.aggregator.series.table import SeriesTable
from telemetry.common.formatting import number_of
from telemetry.daemon.exact_percentiles import CUT, JournalValues
from telemetry.daemon.recovery.rebuild import Fold
from telemetry.errors import RunDirectoryError
from telemetry.history.instrument_ids import SeriesId, series_id
from telemetry.judge.merge.result import plain
from telemetry.store.journal import JournalReader
from telemetry.store.run_directory import RunDirectory
from telemetry.wire.snapshot import SeriesStat

_VALUES_A_ROLL: Final = 1 << 31  # a table counts at most twice as many between two rolls

OnProgress = Callable[[str, float], None]
"""Callback with the current activity and its completed share."""


Run = tuple[str, RunDirectory, Sequence[SeriesStat]]
"""Label, directory and series of a finished run."""


def exact_of_all(
    runs: Sequence[Run],
    series: Sequence[SeriesStat],
    percentiles: Sequence[str],
    on_progress: OnProgress = lambda *_: None,
) -> tuple[list[SeriesStat], list[str]]:
    """Return `series`, which are those of all runs together, with exact percentiles, and why some have none.

    A series that is exact already stays as it is. A series keeps its percentiles if the journal of one of its runs
    lacks values. Blocks for as long as the reading takes. Raises RunDirectoryError if a file can't be read.
    """
    wanted = {series_id(stat): stat for stat in series if stat.count and not stat.exact}
    reasons: list[str] = []
    whole: list[Run] = []
    for label, directory, stats in runs:
        own = {series_id(stat) for stat in stats if stat.count} & wanted.keys()
        if not own:
            continue
        if reason := _obstacle(directory):
            reasons.append(f"{label}: {reason}")
            for lacking in own:
                del wanted[lacking]
        else:
            whole.append((label, directory, stats))
    if not wanted:
        return list(series), reasons
    search = _Search(whole, list(wanted.values()), percentiles, on_progress)
    values = search.found()
    return [_refined(stat, values.get(series_id(stat))) for stat in series], [*reasons, *search.reasons]


def _refined(stat: SeriesStat, values: Mapping[str, float] | None) -> SeriesStat:
    """Return a series with its exact percentiles, or as it is if there are none."""
    if values is None:
        return stat
    percentiles = {key: plain(value) for key, value in values.items() if key in stat.percentiles}
    return replace(stat, percentiles=percentiles, exact=True, error_bound=0.0)


def _obstacle(directory: RunDirectory) -> str:
    """Return why the journal of a run can't give all its values; empty if it can."""
    if not directory.journal.is_dir():
        return "it has no journal"
    try:
        return "writing its journal failed during the run" if JournalReader(directory.journal).failed else ""
    except RunDirectoryError as error:
        return error.message


class _Gap(Exception):
    """The journal of a run lacks values. Its message is the reason."""


class _Search:
    """A search over the values of some runs for the percentiles of some series."""

    def __init__(
        self,
        runs: Sequence[Run],
        series: Sequence[SeriesStat],
        percentiles: Sequence[str],
        on_progress: OnProgress,
    ) -> None:
        self.reasons: list[str] = []
        """Why some series have no exact percentiles. Valid after `found`."""
        self._runs = runs
        self._series = series
        self._percentiles = tuple(percentiles)
        self._on_progress = on_progress
        self._index = {series_id(stat): index for index, stat in enumerate(series)}

    def found(self) -> dict[SeriesId, Mapping[str, float]]:
        """Return the percentiles of the series whose values are all in the journals."""
        try:
            table = self._counted()
            search = ExactPass(table.targets())
            while not search.done:
                for index, value in self._values("computing exact percentiles"):
                    search.feed(index, value)
                search.end_pass()
        except _Gap as gap:
            self.reasons.append(str(gap))
            return {}
        values = search.values()
        percentiles: dict[SeriesId, Mapping[str, float]] = {}
        for number, (stat, counted) in enumerate(zip(self._series, table.stats(), strict=True)):
            if counted.count != stat.count:
                self.reasons.append(
                    f"{stat.name}: the journals have {number_of(counted.count, 'value')}, and the results "
                    f"have {stat.count:,}"
                )
            elif number in values:
                percentiles[series_id(stat)] = values[number]
        return percentiles

    def _counted(self) -> SeriesTable:
        """Return one histogram of each series, with the values of all runs. Raises _Gap."""
        table = SeriesTable(self._percentiles, 1)
        for stat in self._series:
            table.add(stat.name, stat.labels, stat.unit)
        recorded = 0
        for index, value in self._values("counting values"):
            if recorded + value.size > _VALUES_A_ROLL:
                table.roll(1.0)
                recorded = 0
            recorded += value.size
            table.record(index, value)
        return table

    def _values(self, activity: str) -> Iterator[tuple[NDArray[np.intp], NDArray[np.float64]]]:
        """Yield all values of all runs with the index of their series. Raises _Gap."""
        for number, (label, directory, _) in enumerate(self._runs):
            self._on_progress(activity, number / len(self._runs))
            aggregator = _at_the_end(label, directory)
            keys = (aggregator.series.key(index) for index in range(len(aggregator.series)))
            own = np.array([self._index.get(series_id(key), -1) for key in keys], dtype=np.intp)
            journal = JournalValues(aggregator, directory.journal)
            for index, value in journal.read():
                if not index.size:
                    continue
                merged = own[index]
                mask = merged >= 0
                yield (merged, value) if mask.all() else (merged[mask], value[mask])
            if journal.gap:
                raise _Gap(f"{label}: {journal.gap}")


def _at_the_end(label: str, directory: RunDirectory) -> Aggregator:
    """Return the numbers at the end of a run, whose routes lead from ids to series. Raises _Gap."""
    try:
        reader = JournalReader(directory.journal)
        fold = Fold(reader, reader.last_checkpoint())
        for entry in fold.entries():
            fold.apply(entry)
    except RunDirectoryError as error:
        raise _Gap(f"{label}: {error.message}") from error
    if fold.numbers.run.unaccounted:
        raise _Gap(f"{label}: {CUT}")
    return fold.numbers.aggregator

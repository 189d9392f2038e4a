"""The tables with the course of all instruments over a run, from its history."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from telemetry.hdr.layout import Floats, Integers
from telemetry.history.instrument_ids import SeriesId, series_id
from telemetry.history.range_totals import RangeTotals
from telemetry.history.reader import FAR_NS, RunHistory
from telemetry.tables.lake.layout import INTERVAL_PERCENTILES, percentile_column
from telemetry.tables.lake.table_file import Coded, json_text
from telemetry.wire.control import SeriesKey

ROWS_AT_ONCE: Final = 1 << 17
"""Rows of a row group: 20 MB in memory. In it the rows of an instrument are together, in order of time."""
Piece = tuple[str, dict[str, Any]]
"""Name of a table, and rows of it by column."""


def interval_pieces(history: RunHistory, every_s: float) -> Iterator[Piece]:
    """Yield rows of `intervals` and `value_intervals`, for time ranges of `every_s` seconds. Blocks on the disk.

    Time ranges are longer where the history has only longer intervals left. Raises RunDirectoryError.
    """
    keys = history.reader.keys()
    series, values = _SeriesRows(history), _ValueRows(keys, history)
    for window in history.windows(every_s, 0, FAR_NS, (), history.rows):
        series.add(window)
        values.add(window)
        if series.size >= ROWS_AT_ONCE:
            yield "intervals", series.take()
        if values.size >= ROWS_AT_ONCE:
            yield "value_intervals", values.take()
    yield "intervals", series.take()
    yield "value_intervals", values.take()


class _Instruments:
    """The name, labels and unit of each instrument of a table, by its place."""

    def __init__(self, keys: Sequence[SeriesKey]) -> None:
        self._name = Coded.of([key.name for key in keys])
        self._labels = Coded.of([json_text(key.labels) for key in keys])
        self._unit = Coded.of([key.unit for key in keys])

    def columns(self, places: Integers) -> dict[str, Any]:
        return {
            "name": self._name.take(places),
            "labels": self._labels.take(places),
            "unit": self._unit.take(places),
        }


class _Times(NamedTuple):
    """When the rows of a window are."""

    start_ns: int
    start_s: float
    seconds: float
    rows: int


def _time_columns(times: Sequence[_Times], order: Integers) -> dict[str, Any]:
    rows = [one.rows for one in times]
    starts = np.repeat(np.array([one.start_ns for one in times], np.int64), rows)
    elapsed = np.repeat(np.array([one.start_s for one in times], np.float64), rows)
    seconds = np.repeat(np.array([one.seconds for one in times], np.float64), rows)
    return {"time": starts[order], "elapsed_s": elapsed[order], "seconds": seconds[order]}


class _SeriesRows:
    """Rows of `intervals` that are not written yet."""

    def __init__(self, history: RunHistory) -> None:
        self.size = 0
        self._history = history
        self._instruments = _Instruments(history.rows.keys)
        self._times: list[_Times] = []
        self._places: list[Integers] = []
        self._counts: list[Integers] = []
        self._figures: list[tuple[Floats, Floats, Floats, Floats]] = []
        """Total, min, max, and a line of percentiles for each row."""

    def add(self, window: RangeTotals) -> None:
        if window.added is None or not window.added.rows.size:
            return
        histograms = window.added.histograms(self._history.rows)
        rows, percentiles = histograms.percentiles(INTERVAL_PERCENTILES)
        start_ns = self._history.ns(window.start_s)
        self._times.append(_Times(start_ns, window.start_s, window.seconds, rows.size))
        self._places.append(window.added.rows[rows])
        self._counts.append(histograms.count[rows])
        self._figures.append((histograms.total[rows], histograms.min[rows], histograms.max[rows], percentiles))
        self.size += rows.size

    def take(self) -> dict[str, Any]:
        """Return the rows by column, and forget them."""
        places = np.concatenate([np.zeros(0, np.int64), *self._places])
        order = np.argsort(places, kind="stable")
        counts = np.concatenate([np.zeros(0, np.int64), *self._counts])[order]
        none = (np.zeros(0), np.zeros(0), np.zeros(0), np.zeros((0, len(INTERVAL_PERCENTILES))))
        total, least, most, percentiles = (
            np.concatenate(parts)[order] for parts in zip(none, *self._figures, strict=True)
        )
        columns = {
            **self._instruments.columns(places[order]),
            **_time_columns(self._times, order),
            "count": counts,
            "total": total,
            "min": least,
            "max": most,
            **{percentile_column(key): percentiles[:, at] for at, key in enumerate(INTERVAL_PERCENTILES)},
        }
        self.size, self._times, self._places, self._counts, self._figures = 0, [], [], [], []
        return columns


class _ValueRows:
    """Rows of `value_intervals` that are not written yet."""

    def __init__(self, keys: Sequence[SeriesKey], history: RunHistory) -> None:
        self.size = 0
        self._history = history
        own = [key for key in keys if key.kind in ("counter", "gauge")]
        self._instruments = _Instruments(own)
        self._kinds = Coded.of([key.kind for key in own])
        self._place: dict[tuple[str, SeriesId], int] = {
            (key.kind, series_id(key)): place for place, key in enumerate(own)
        }
        self._times: list[_Times] = []
        self._places: list[int] = []
        self._values: list[float] = []

    def add(self, window: RangeTotals) -> None:
        count = len(window.counters) + len(window.gauges)
        if not count:
            return
        start_ns = self._history.ns(window.start_s)
        self._times.append(_Times(start_ns, window.start_s, window.seconds, count))
        for kind, numbers in (("counter", window.counters), ("gauge", window.gauges)):
            self._places += [self._place[kind, one] for one in numbers]
            self._values += numbers.values()
        self.size += count

    def take(self) -> dict[str, Any]:
        """Return the rows by column, and forget them."""
        places = np.array(self._places, np.int64)
        order = np.argsort(places, kind="stable")
        columns = {
            "kind": self._kinds.take(places[order]),
            **self._instruments.columns(places[order]),
            **_time_columns(self._times, order),
            "value": np.array(self._values, np.float64)[order],
        }
        self.size, self._times, self._places, self._values = 0, [], [], []
        return columns

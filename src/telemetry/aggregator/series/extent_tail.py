"""Rows of instruments with an extent that may be later than all beginnings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from telemetry import limits
from telemetry.aggregator.snapshot_numbers import grown

_FEWEST: Final = 1_024  # minimum number of rows for a scan


class TailRows(NamedTuple):
    places: NDArray[np.int32]
    wall_times: NDArray[np.int64]
    values: NDArray[np.float64]


class Tail:
    """Rows in order of arrival.

    They are scanned only after as many rows arrived as were left by the last scan, so the cost per row is constant.
    So there are at most twice EXTENT_ROWS, plus the rows of one turn.
    """

    STATE: ClassVar[Mapping[str, Any]] = {"rows": TailRows, "_left": int, "_came": int}
    DERIVED: ClassVar[tuple[str, ...]] = ("_places", "_wall_times", "_values", "_used")

    def __init__(self) -> None:
        self._places = np.zeros(0, np.int32)
        self._wall_times = np.zeros(0, np.int64)
        self._values = np.zeros(0)
        self._used = 0
        self._left = 0
        """Number of rows left after the last scan."""
        self._came = 0
        """Number of rows announced since then."""

    def restored(self) -> None:
        values = self.values
        good = bool((values >= 0).all() and (values < np.inf).all()) and self.places.min(initial=0) >= 0
        good = good and self._used <= self._left + self._came
        if not good or not 0 <= self._left <= limits.EXTENT_ROWS or self._came < 0 or self.rows_until_due <= 0:
            raise ValueError("an invalid tail")

    def __len__(self) -> int:
        return self._used

    @property
    def rows(self) -> TailRows:
        """The rows, as views. A new tail can be assigned these once."""
        return TailRows(self.places, self.wall_times, self.values)

    @rows.setter
    def rows(self, rows: TailRows) -> None:
        if len({len(column) for column in rows}) != 1:
            raise ValueError("an invalid tail")
        self.add(*rows)

    @property
    def places(self) -> NDArray[np.int32]:
        """The follower of each row."""
        return self._places[: self._used]

    @property
    def wall_times(self) -> NDArray[np.int64]:
        return self._wall_times[: self._used]

    @property
    def values(self) -> NDArray[np.float64]:
        return self._values[: self._used]

    @property
    def rows_until_due(self) -> int:
        """Number of further rows until a scan for rows inside is due."""
        return max(_FEWEST, self._left) - self._came

    @property
    def is_full(self) -> bool:
        """True if more rows are left than there is room for."""
        return self._used > limits.EXTENT_ROWS

    def expect(self, rows: int) -> None:
        """Announce the maximum number of rows that will be added before the next scan."""
        self._came += rows

    def add(self, places: NDArray[np.int32], wall_times: NDArray[np.int64], values: NDArray[np.float64]) -> None:
        start, self._used = self._used, self._used + len(places)
        self._places = grown(self._places, self._used)
        self._wall_times = grown(self._wall_times, self._used)
        self._values = grown(self._values, self._used)
        self._places[start : self._used] = places
        self._wall_times[start : self._used] = wall_times
        self._values[start : self._used] = values

    def release(self, gone: NDArray[np.bool_]) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """Remove these rows. Return their followers and values."""
        places, values = self.places[gone], self.values[gone]
        stay = ~gone
        self._places, self._wall_times, self._values = self.places[stay], self.wall_times[stay], self.values[stay]
        self._used = self._left = len(self._places)
        self._came = 0
        return places, values

    def shed(self) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """Remove the oldest rows beyond the limit. Returns as `release`."""
        return self.release(np.arange(self._used) < self._used - limits.EXTENT_ROWS)

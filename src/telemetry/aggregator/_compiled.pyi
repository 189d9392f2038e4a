from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
SeriesColumns = tuple[Any, ...]
"""Shift, sums, minimum, maximum, integral, scale, highest tick, table of pages, fresh counts, their sums by page.
Then the number of pages of a row, and `half_bits` of the layout."""
CounterColumns = tuple[NDArray[Any], ...]
"""Total, events and increase."""
GaugeColumns = tuple[NDArray[Any], ...]
"""Value, minimum, maximum, time, events and touched."""
TimeColumns = tuple[NDArray[Any], ...]
"""First and last time, and the nanoseconds of a value of 1; see `EventTimes`."""
Marks = tuple[NDArray[np.bool_], ...]
"""By kind, in the order of their codes: which instruments are watched. An index beyond the marks is not."""
Part = tuple[memoryview, NDArray[np.int32], int, int]
"""Rows of one producer, entries of its id table, difference from its clock to the run's clock, and the time of a
row without time."""
Watched = tuple[bytes, bytes, bytes, bytes] | None
"""Index, value and time of the watched rows of a kind, and the number of them in each part."""

SOURCE_CRC: int
"""CRC-32 of the sources of this module."""

class Columns:
    """Columns of all instruments. They are held, so they must be replaced together with this object."""

    def __new__(
        cls,
        series: SeriesColumns | None,
        counters: CounterColumns | None,
        gauges: GaugeColumns | None,
        watched: Marks | None,
        series_times: TimeColumns | None,
        counter_times: TimeColumns | None,
        /,
    ) -> Columns: ...
    def record(self, index: NDArray[np.intp], value: Floats, reached: float, /) -> float:
        """Record values of series. Return how far sums of deviations may reach then; `reached` is the bound before.

        Returns −1 and records nothing if a row has a special case.
        """

    def ingest(
        self, parts: list[Part], now_ns: int, reached: float, chunk_events: int, exact_addend: float, /
    ) -> tuple[int, float, tuple[Watched, Watched, Watched] | None] | list[list[int]] | None:
        """Apply canonical rows. `reached` is as in `record`, `exact_addend` the first increment that is too large.

        Return the number of values of series, how far sums of deviations may reach, and the watched rows by kind,
        if any. If pages are missing, apply nothing and return their keys, a list for each chunk of such values.
        If a row has a special case, apply nothing and return None.
        """

def find_rows(data: bytes, begin: int, /) -> int:
    """Return the position of canonical rows, as `telemetry.wire.rows.find`."""

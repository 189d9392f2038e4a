"""The history of a counter or a gauge, interval by interval."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from telemetry.history.intervals.timeline import PARTS
from telemetry.tui.model.scene import SeriesId, ValuesOverTime
from telemetry.wire.control import SeriesKey
from telemetry.wire.history import Interval, ValueColumns

_U32: Final = np.dtype("<u4")
_F64: Final = np.dtype("<f8")


class ValueHistory:
    """The values of one gauge, or the sums of some counters, added in order of time. Keeps the newest PARTS."""

    def __init__(self, keys: Sequence[SeriesKey]) -> None:
        """Create an empty history. `keys` are at least one, and of one kind."""
        self._kind = keys[0].kind
        self._unit = keys[0].unit
        self._indices = {key.index for key in keys}
        self._points: list[tuple[int, int, float | None]] = []

    @property
    def end_ns(self) -> int:
        """End of the last interval; 0 without intervals."""
        return self._points[-1][1] if self._points else 0

    def add(self, interval: Interval) -> None:
        """Add the next interval. A counter that is not in it did not grow."""
        is_counter = self._kind == "counter"
        found = columns(interval.counters if is_counter else interval.gauges)
        values = [value for index, value in found.items() if index in self._indices]
        value = sum(values) if values else 0.0 if is_counter else None
        self._points.append((interval.start_ns, interval.end_ns, value))
        if len(self._points) > PARTS:
            del self._points[: PARTS // 4]

    def values(self) -> ValuesOverTime:
        """Return a copy for another thread."""
        return ValuesOverTime("counter" if self._kind == "counter" else "gauge", self._unit, tuple(self._points))


def keys_of(keys: Sequence[SeriesKey], wanted: SeriesId) -> list[SeriesKey]:
    """Return the key of a counter or gauge; without an exact match, those of all counters with more labels."""
    name, labels = wanted
    alike = [key for key in keys if key.kind != "series" and key.name == name]
    exact = [key for key in alike if tuple(sorted(key.labels.items())) == labels]
    return exact or [key for key in alike if key.kind == "counter" and set(labels) <= set(key.labels.items())]


def columns(found: ValueColumns) -> Mapping[int, float]:
    """Return values by index."""
    indices, values = np.frombuffer(found.index, _U32), np.frombuffer(found.value, _F64)
    return dict(zip(indices.tolist(), values.tolist(), strict=True))

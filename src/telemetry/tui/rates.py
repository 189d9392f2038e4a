"""Figures that follow from several snapshots: growth rates of totals, and the most requests in flight."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Mapping
from typing import Final, Generic, TypeVar

from telemetry.tui.model.scene import SeriesId, series_id
from telemetry.wire import requests as words
from telemetry.wire.snapshot import MetricsSnapshot

_SUFFIXES: Final = (f".{words.INPUT_TOKENS}", f".{words.OUTPUT_TOKENS}")
_CHANGES: Final = {words.ISSUED: 1, words.COMPLETED: -1, words.FAILED: -1, words.EXPIRED: -1}
_REQUESTS: Final = words.INSTRUMENTS[words.ISSUED][1]
_NOT_OF_KIND: Final = (words.FINISH, words.REASON, words.WINDOW)
"""Labels that counters of one kind of request differ in."""
_STEPS: Final = 10
"""Totals kept per window: the measured time range is within a tenth of the window."""
_LEAST_NS: Final = 500_000_000
"""Shortest time range for a rate. In a shorter one, a single batch would make the rate jump."""

_Key = TypeVar("_Key", bound=Hashable)


def tokens(snapshot: MetricsSnapshot) -> dict[SeriesId, float]:
    """Return the total of each series of input or output tokens."""
    return {
        series_id(stat.name, stat.labels): stat.total for stat in snapshot.series if stat.name.endswith(_SUFFIXES)
    }


class InFlightPeaks:
    """The most requests in flight that a snapshot had, by kind and labels."""

    def __init__(self) -> None:
        self._known: Mapping[SeriesId, float] = {}

    def learn(self, snapshot: MetricsSnapshot) -> Mapping[SeriesId, float]:
        """Return the peaks since watching began. Between two snapshots there may have been more."""
        now: dict[SeriesId, float] = {}
        for stat in snapshot.counters:
            kind, _, word = stat.name.rpartition(".")
            if word in _CHANGES and stat.unit == _REQUESTS:
                labels = {key: value for key, value in stat.labels.items() if key not in _NOT_OF_KIND}
                key = series_id(kind, labels)
                now[key] = now.get(key, 0.0) + _CHANGES[word] * stat.value
        self._known = {key: max(number, self._known.get(key, 0.0)) for key, number in now.items()}
        return self._known


class TotalRates(Generic[_Key]):
    """A short history of totals. Keeps at most _STEPS + 2 of them."""

    def __init__(self, totals: Callable[[MetricsSnapshot], Mapping[_Key, float]]) -> None:
        self._totals = totals
        self._known: deque[tuple[int, Mapping[_Key, float]]] = deque()

    def learn(self, snapshot: MetricsSnapshot) -> Mapping[_Key, float]:
        """Return the growth per second of each total, over the window or since the first snapshot.

        Returns an empty map at first.
        """
        totals = self._totals(snapshot)
        now_ns, known, window_ns = round(snapshot.elapsed_s * 1e9), self._known, round(snapshot.window_s * 1e9)
        if known and now_ns < known[-1][0]:
            known.clear()
        if not known or now_ns - known[-1][0] >= window_ns // _STEPS:
            known.append((now_ns, totals))
        while len(known) > 1 and now_ns - known[1][0] >= window_ns:
            known.popleft()
        start_ns, before = known[0]
        if now_ns - start_ns < _LEAST_NS:
            return {}
        seconds = (now_ns - start_ns) / 1e9
        return {key: max(0.0, total - before.get(key, 0)) / seconds for key, total in totals.items()}

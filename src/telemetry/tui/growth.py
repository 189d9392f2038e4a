"""How fast sums grow that a snapshot has only as a whole."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Final

from telemetry.tui.model.scene import SeriesId, series_id
from telemetry.wire.requests import OUTPUT_TOKENS
from telemetry.wire.snapshot import MetricsSnapshot

_SUFFIX: Final = f".{OUTPUT_TOKENS}"
_STEPS: Final = 10
"""Totals kept of one window: the stretch is as long as it within a tenth."""
_LEAST_NS: Final = 500_000_000
"""Over less, one batch more or less would make the rate jump."""


class Growth:
    """Totals of output tokens, from snapshot to snapshot. Keeps _STEPS + 2 of them at most."""

    def __init__(self) -> None:
        self._known: deque[tuple[int, Mapping[SeriesId, float]]] = deque()

    def learn(self, snapshot: MetricsSnapshot) -> Mapping[SeriesId, float]:
        """Tokens a second of each series, over the window or since the first snapshot; empty at first."""
        totals: dict[SeriesId, float] = {
            series_id(stat.name, stat.labels): stat.total for stat in snapshot.series if stat.name.endswith(_SUFFIX)
        }
        now_ns, known, window_ns = snapshot.time_ns, self._known, round(snapshot.window_s * 1e9)
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
        return {series: max(0.0, total - before.get(series, 0)) / seconds for series, total in totals.items()}

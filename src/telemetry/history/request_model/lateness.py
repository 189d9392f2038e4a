"""Requests that were sent later than planned, so that their latency looks better than it is."""

from __future__ import annotations

from typing import Final

from telemetry.history.request_model.figures import RequestCounts
from telemetry.wire import requests as words

_LATE_AT: Final = ("99", "50")
"""Percentiles, the one that a warning names first."""
_CLEARLY: Final = (5, 4)
"""Ratio to the raw percentile. Below it a load generator was a little late, as all are.

The lateness must explain the ratio: if only some requests were planned, these may be slower by themselves.
"""


def late_at(of: RequestCounts) -> tuple[str, ...]:
    """Return the percentiles at which latency from the planned time is clearly worse than from the issue."""
    raw, corrected, delay = (of.series.get(word) for word in (words.LATENCY, words.CORRECTED, words.QUEUE_DELAY))
    if raw is None or corrected is None or delay is None:
        return ()
    more, whole = _CLEARLY
    percentiles = []
    for key in _LATE_AT:
        before, after, late = (stat.percentiles.get(key) for stat in (raw, corrected, delay))
        if before is None or after is None or late is None:
            continue
        if whole * after > more * before and more * late > (more - whole) * after:
            percentiles.append(key)
    return tuple(percentiles)

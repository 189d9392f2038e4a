"""Begin and end of the chosen time range, searched for in the figures of the run if requested."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, Literal

import numpy as np

from telemetry import formatting, wording
from telemetry.errors import UsageError
from telemetry.history.instrument_ids import series_id
from telemetry.history.rate_steps import steps_of
from telemetry.history.reader import RunHistory
from telemetry.history.time_range import TimeRangeChoice
from telemetry.statistics.steady import steady_part, warmup_end
from telemetry.wire.report import TimeRange
from telemetry.wire.snapshot import SeriesStat

_MOST_SERIES: Final = 4
"""Series to examine if the values of a run are spread over many."""


def settled(choice: TimeRangeChoice, past: RunHistory, stats: Sequence[SeriesStat]) -> TimeRange:
    """Return the time range as given or found, not yet aligned to intervals. Blocks on the disk.

    Raises UsageError for an empty time range.
    """
    start_s, end_s = _between(choice, past)
    if not choice.trim_warmup and not choice.steady:
        return TimeRange(start_s=start_s, end_s=end_s, chosen="given")
    chosen: Literal["steady", "trim_warmup"] = "steady" if choice.steady else "trim_warmup"
    series = busiest([stat for stat in stats if series_id(stat) in past.rows.place])
    if not series:
        reason = "there are no series to find it with"
        return TimeRange(start_s=start_s, end_s=end_s, chosen=chosen, found=False, reason=reason)
    start_ns, end_ns = past.ns(start_s), past.ns(end_s)
    steps = [steps_of(past, past.rows.key_of(series_id(stat)), start_ns, end_ns) for stat in series]
    called = [wording.instrument(stat.name, stat.labels) for stat in series]
    names = [f"the {what} of {name}" for name in called for what in ("rate", "median")]
    rows = np.array([row for one in steps for row in (one.rate, one.median)])
    found = (steady_part if choice.steady else warmup_end)(rows, names=names)
    reason = f"{found.reason} (by rate and median of {', '.join(called)} in steps of {steps[0].step_s:g} s)"
    if not found:
        return TimeRange(start_s=start_s, end_s=end_s, chosen=chosen, found=False, reason=reason)
    return TimeRange(
        start_s=float(steps[0].start_s[found.begin]) if found.begin else start_s,
        end_s=float(steps[0].end_s[found.end - 1]) if found.end < rows.shape[1] else end_s,
        chosen=chosen,
        reason=reason,
    )


def _between(choice: TimeRangeChoice, past: RunHistory) -> tuple[float, float]:
    """Return the time range between the given moments, limited to the history. Raises UsageError if it is empty."""
    start_s = _moment(choice.from_s, past) if choice.from_s is not None else 0.0
    end_s = _moment(choice.to_s, past) if choice.to_s is not None else past.end_s
    if start_s >= end_s:
        raise UsageError(
            f"the time range from {formatting.duration_s(start_s)} to "
            f"{formatting.duration_s(end_s)} of the run is empty",
            hint=f"the run took {formatting.duration_s(past.end_s)}",
        )
    return start_s, end_s


def _moment(at_s: float, past: RunHistory) -> float:
    """Return seconds since the start. Negative numbers, including -0.0, count back from the end."""
    return max(past.end_s + at_s, 0.0) if math.copysign(1.0, at_s) < 0 else at_s


def busiest(stats: Sequence[SeriesStat]) -> list[SeriesStat]:
    """Return the fewest series that hold most of the values of a run, at most `_MOST_SERIES`."""
    ordered = sorted(stats, key=lambda stat: -stat.count)
    wanted = sum(stat.count for stat in stats) / 2
    found: list[SeriesStat] = []
    for stat in ordered[:_MOST_SERIES]:
        if sum(one.count for one in found) > wanted or not stat.count:
            break
        found.append(stat)
    return found

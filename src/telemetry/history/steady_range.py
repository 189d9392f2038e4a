"""Begin and end of the chosen time range, searched for in the figures of the run if requested."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from telemetry.common import formatting, wording
from telemetry.errors import UsageError
from telemetry.history.instrument_ids import series_id
from telemetry.history.intervals.histograms import Histograms, added_up
from telemetry.history.reader import RunHistory
from telemetry.history.time_range import TimeRangeChoice
from telemetry.statistics.hdr.layout import Floats, Integers, Layout
from telemetry.statistics.steady import steady_part, warmup_end
from telemetry.store.history import LEVELS, Picked
from telemetry.wire.control import SeriesKey
from telemetry.wire.report import TimeRange
from telemetry.wire.snapshot import SeriesStat

_COARSE_SHARE: Final = 0.1
"""Share of the time. If more than it is left in coarser intervals only, steps are as long as these."""
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
    rows = np.array([row for step in steps for row in (step.rate, step.median)])
    steady = (steady_part if choice.steady else warmup_end)(rows, names=names)
    reason = f"{steady.reason} (by rate and median of {', '.join(called)} in steps of {steps[0].step_s:g} s)"
    if not steady:
        return TimeRange(start_s=start_s, end_s=end_s, chosen=chosen, found=False, reason=reason)
    return TimeRange(
        start_s=float(steps[0].start_s[steady.begin]) if steady.begin else start_s,
        end_s=float(steps[0].end_s[steady.end - 1]) if steady.end < rows.shape[1] else end_s,
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
    series: list[SeriesStat] = []
    for stat in ordered[:_MOST_SERIES]:
        if sum(member.count for member in series) > wanted or not stat.count:
            break
        series.append(stat)
    return series


@dataclass(frozen=True, slots=True)
class SteadySteps:
    """Arrays with one entry per step."""

    step_s: float
    start_s: Floats
    end_s: Floats
    rate: Floats
    """Values per second; NaN for a step of which less than half is known."""
    median: Floats
    """Median of each step; NaN without values."""


def steps_of(past: RunHistory, key: SeriesKey, start_ns: int, end_ns: int) -> SteadySteps:
    """Return a time range of a run in steps of a second, or of the finest level that is still kept.

    Blocks on the disk.
    """
    picked = list(past.reader.pick(key.index, start_ns, end_ns))
    if not picked:
        none = np.zeros(0)
        return SteadySteps(float(LEVELS[0]), none, none, none, none)
    lasted_s = np.array([max(interval.end_ns - interval.start_ns, 0) for interval in picked]) / 1e9
    step_s = _step_s(lasted_s)
    starts_s = (np.array([interval.start_ns for interval in picked]) - past.started_ns) / 1e9
    ends_s = (np.array([interval.end_ns for interval in picked]) - past.started_ns) / 1e9
    numbers = (starts_s + ends_s) / 2 // step_s
    begins = np.flatnonzero(np.append(True, numbers[1:] != numbers[:-1]))
    seconds = np.add.reduceat(lasted_s, begins)
    is_known = seconds >= step_s / 2
    figures = _merged(picked, key, begins, seconds).figures(["50"])
    return SteadySteps(
        step_s=step_s,
        start_s=starts_s[begins],
        end_s=ends_s[np.append(begins[1:], len(picked)) - 1],
        rate=_finite(np.array([figure.rate for figure in figures]), is_known),
        median=_finite(np.array([figure.percentiles.get("50", np.nan) for figure in figures]), is_known),
    )


def _step_s(lasted_s: Floats) -> float:
    for level in reversed(LEVELS[1:]):
        if lasted_s[lasted_s >= level / 2].sum() > _COARSE_SHARE * lasted_s.sum():
            return float(level)
    return float(LEVELS[0])


def _merged(picked: Sequence[Picked], key: SeriesKey, begins: Integers, seconds: Floats) -> Histograms:
    """Merge the histograms from each of `begins` up to the next into one."""
    rows, span = begins.size, Layout.of(key.digits).slots
    of_pick = np.repeat(np.arange(rows), np.diff(begins, append=len(picked)))
    places = np.repeat(of_pick * span, [interval.slots.size for interval in picked])
    places += np.minimum(np.concatenate([interval.slots for interval in picked]), span - 1)
    counts = np.concatenate([interval.counts for interval in picked])
    if places.size:
        places, counts = added_up(places, counts)
    return Histograms(
        digits=np.full(rows, key.digits),
        ticks_per_unit=np.full(rows, key.ticks_per_unit),
        seconds=seconds,
        count=np.add.reduceat(np.array([interval.count for interval in picked]), begins),
        total=np.zeros(rows),
        min=np.minimum.reduceat(np.array([interval.min for interval in picked]), begins),
        max=np.maximum.reduceat(np.array([interval.max for interval in picked]), begins),
        ends=np.searchsorted(places, np.arange(1, rows + 1) * span),
        slots=places % span,
        counts=counts,
    )


def _finite(values: Floats, is_known: NDArray[np.bool_]) -> Floats:
    """Replace unknown and infinite values by NaN."""
    return np.where(is_known & np.isfinite(values), values, np.nan)

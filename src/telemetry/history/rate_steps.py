"""Rate and median of one series in equal steps of time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from telemetry.hdr.layout import Floats, Integers, Layout
from telemetry.history.intervals.histograms import Histograms, added_up
from telemetry.history.reader import RunHistory
from telemetry.store.history import LEVELS, Picked
from telemetry.wire.control import SeriesKey

_COARSE_SHARE: Final = 0.1
"""Share of the time. If more than it is left in coarser intervals only, steps are as long as these."""


@dataclass(frozen=True, slots=True)
class Steps:
    """Arrays with one entry per step."""

    step_s: float
    start_s: Floats
    end_s: Floats
    rate: Floats
    """Values per second; NaN for a step of which less than half is known."""
    median: Floats
    """Median of each step; NaN without values."""


def steps_of(past: RunHistory, key: SeriesKey, start_ns: int, end_ns: int) -> Steps:
    """Return a time range of a run in steps of a second, or of the finest level that is still kept.

    Blocks on the disk.
    """
    picked = list(past.reader.pick(key.index, start_ns, end_ns))
    if not picked:
        none = np.zeros(0)
        return Steps(float(LEVELS[0]), none, none, none, none)
    lasted_s = np.array([max(one.end_ns - one.start_ns, 0) for one in picked]) / 1e9
    step_s = _step_s(lasted_s)
    starts_s = (np.array([one.start_ns for one in picked]) - past.started_ns) / 1e9
    ends_s = (np.array([one.end_ns for one in picked]) - past.started_ns) / 1e9
    numbers = (starts_s + ends_s) / 2 // step_s
    begins = np.flatnonzero(np.append(True, numbers[1:] != numbers[:-1]))
    seconds = np.add.reduceat(lasted_s, begins)
    known = seconds >= step_s / 2
    figures = _merged(picked, key, begins, seconds).figures(["50"])
    return Steps(
        step_s=step_s,
        start_s=starts_s[begins],
        end_s=ends_s[np.append(begins[1:], len(picked)) - 1],
        rate=_finite(np.array([one.rate for one in figures]), known),
        median=_finite(np.array([one.percentiles.get("50", np.nan) for one in figures]), known),
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
    places = np.repeat(of_pick * span, [one.slots.size for one in picked])
    places += np.minimum(np.concatenate([one.slots for one in picked]), span - 1)
    counts = np.concatenate([one.counts for one in picked])
    if places.size:
        places, counts = added_up(places, counts)
    return Histograms(
        digits=np.full(rows, key.digits),
        ticks_per_unit=np.full(rows, key.ticks_per_unit),
        seconds=seconds,
        count=np.add.reduceat(np.array([one.count for one in picked]), begins),
        total=np.zeros(rows),
        min=np.minimum.reduceat(np.array([one.min for one in picked]), begins),
        max=np.maximum.reduceat(np.array([one.max for one in picked]), begins),
        ends=np.searchsorted(places, np.arange(1, rows + 1) * span),
        slots=places % span,
        counts=counts,
    )


def _finite(values: Floats, known: NDArray[np.bool_]) -> Floats:
    """Replace unknown and infinite values by NaN."""
    return np.where(known & np.isfinite(values), values, np.nan)

"""The placement of intervals from several histories on a common grid of seconds.

Seconds of different runs end at different times. So each interval is put as a whole into the cell that contains its
middle. The grid's seconds count from the start of the first run. No count is split or lost. If a history only keeps
intervals of 10 s or 60 s for some time, cells there are as wide.

All seconds of a run are shifted by the same amount, at most half a second, to align with the grid. Wider intervals
are shifted by at most half their width. Without the shift, a middle near the edge of a cell would alternate between
two cells.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, NamedTuple

from telemetry.store.history import LEVELS
from telemetry.wire.history import Interval

SECOND_NS: Final = 1_000_000_000
_WIDEST: Final = LEVELS[-1]
_FAR_NS: Final = 1 << 62  # in the year 2116
_NEARLY: Final = 0.6
"""Fraction of a level's width from which an interval belongs to that level, despite a delayed start or end."""


class Placed(NamedTuple):
    """An interval on the grid, ordered by time, then by owner."""

    at_ns: int
    """Position: its middle, in nanoseconds since the origin of the grid."""
    owner: int
    number: int
    """Number among the intervals of its owner."""
    width_s: int
    """Width of the level that it seems to have: 1, 10 or 60 seconds."""
    start_ns: int
    end_ns: int
    """Start and end on the grid, in nanoseconds since its origin."""
    ended_ns: int
    """Actual end, in nanoseconds since the origin."""
    interval: Interval


@dataclass(frozen=True, slots=True)
class Cell:
    second: int
    """First second of the cell, since the origin."""
    start_ns: int
    end_ns: int
    """Part of the cell that its members cover, since the origin. Gaps below a quarter at either end are ignored."""
    members: tuple[Placed, ...]
    """Members, sorted by their actual end; at least one."""


def placed(intervals: Iterable[Interval], owner: int, origin_ns: int, shift_ns: int) -> Iterator[Placed]:
    """Place the intervals of a history, shifted by `shift_ns`. Positions never decrease."""
    offsets: dict[int, int] = {}
    earliest_ns = 0
    for number, interval in enumerate(intervals):
        begin_ns, end_ns = (max(min(at_ns, _FAR_NS), 0) for at_ns in (interval.start_ns, interval.end_ns))
        start_ns, length_ns = begin_ns + shift_ns - origin_ns, max(end_ns - begin_ns, 0)
        ended_ns, width_s = start_ns + length_ns, _width(length_ns)
        if width_s not in offsets and length_ns >= _NEARLY * SECOND_NS:
            offsets[width_s] = _offset(start_ns, width_s * SECOND_NS)
        start_ns -= offsets.get(width_s, 0)
        at_ns = earliest_ns = max(earliest_ns, start_ns + length_ns // 2)
        yield Placed(at_ns, owner, number, width_s, start_ns, start_ns + length_ns, ended_ns, interval)


def cells(streams: Sequence[Iterator[Placed]]) -> Iterator[Cell]:
    """Yield the seconds of the merged history in order. At most one minute of intervals is in memory."""
    ordered = heapq.merge(*streams, key=lambda one: one[:3])
    for minute, members in groupby(ordered, lambda one: one.at_ns // (_WIDEST * SECOND_NS)):
        yield from _divided(list(members), minute * _WIDEST, LEVELS[::-1])


def _divided(members: list[Placed], second: int, widths: Sequence[int]) -> Iterator[Cell]:
    """Divide `widths[0]` seconds from `second` on into cells, as narrow as their members allow."""
    width_s, *narrower = widths
    if not narrower or any(one.width_s >= width_s for one in members):
        yield _cell(members, second, width_s)
        return
    step_ns = narrower[0] * SECOND_NS
    for step, part in groupby(members, lambda one: one.at_ns // step_ns):
        yield from _divided(list(part), step * narrower[0], narrower)


def _cell(members: list[Placed], second: int, width_s: int) -> Cell:
    first_ns, last_ns = second * SECOND_NS, (second + width_s) * SECOND_NS
    start_ns, end_ns = min(one.start_ns for one in members), max(one.end_ns for one in members)
    slack_ns = (last_ns - first_ns) // 4  # a second that starts or ends slightly late still fills its cell
    start_ns = first_ns if start_ns < first_ns + slack_ns else start_ns
    end_ns = last_ns if end_ns > last_ns - slack_ns else end_ns
    if end_ns <= start_ns:  # a clock was set back: these times are off the grid
        start_ns, end_ns = first_ns, last_ns
    return Cell(second, start_ns, end_ns, tuple(sorted(members, key=lambda one: (one.ended_ns, one[:3]))))


def _width(length_ns: int) -> int:
    return max((level for level in LEVELS if length_ns >= _NEARLY * level * SECOND_NS), default=LEVELS[0])


def _offset(start_ns: int, width_ns: int) -> int:
    """Return the distance in nanoseconds from the nearest start of a cell."""
    return (start_ns + width_ns // 2) % width_ns - width_ns // 2

"""Where the intervals of several histories go in one: each whole, into the second that its middle falls into.

The seconds of a run end when those of no other do. So each interval is put, as a whole, into one cell of a common
grid, whose seconds are counted from the start of the first run; no count is divided, and none is lost. Where a
history keeps only tens of seconds or minutes of some time, cells are as wide.

The seconds of one run are all moved by the same, at most half a second, onto those of the grid; where cells are
wider, by at most half of one. A middle near the edge of a cell would fall now to this side, now to that.
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
"""Of the width of a level: what lasts so long is of that level, whatever delayed its beginning or end."""


class Placed(NamedTuple):
    """Ordered by when it is, then by whose it is."""

    at_ns: int
    """Its place: nanoseconds since the origin of the grid, in the middle of it."""
    owner: int
    number: int
    """Among those of its owner."""
    width_s: int
    """Of the level it seems to be from: 1, 10 or 60."""
    start_ns: int
    end_ns: int
    """Where it begins and ends on the grid, since its origin."""
    ended_ns: int
    """When it really did, since the origin."""
    interval: Interval


@dataclass(frozen=True, slots=True)
class Cell:
    second: int
    """The first of it, since the origin."""
    start_ns: int
    end_ns: int
    """Within the cell: what its members take of it, since the origin. All, if they leave out less than a quarter
    at either end."""
    members: tuple[Placed, ...]
    """In the order in which they ended; at least one."""


def placed(intervals: Iterable[Interval], owner: int, origin_ns: int, shift_ns: int) -> Iterator[Placed]:
    """Intervals of one history, in their order, moved by `shift_ns`; none before the one it follows."""
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
    """All of them together, cell by cell. Holds the intervals of one minute."""
    ordered = heapq.merge(*streams, key=lambda one: one[:3])
    for minute, members in groupby(ordered, lambda one: one.at_ns // (_WIDEST * SECOND_NS)):
        yield from _divided(list(members), minute * _WIDEST, LEVELS[::-1])


def _divided(members: list[Placed], second: int, widths: Sequence[int]) -> Iterator[Cell]:
    """What lies in the `widths[0]` seconds from `second` on, in cells as narrow as all its members are."""
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
    slack_ns = (last_ns - first_ns) // 4  # seconds that come a little late are seconds
    start_ns = first_ns if start_ns < first_ns + slack_ns else start_ns
    end_ns = last_ns if end_ns > last_ns - slack_ns else end_ns
    if end_ns <= start_ns:  # a clock was set back: what these say is no time of the grid
        start_ns, end_ns = first_ns, last_ns
    return Cell(second, start_ns, end_ns, tuple(sorted(members, key=lambda one: (one.ended_ns, one[:3]))))


def _width(length_ns: int) -> int:
    return max((level for level in LEVELS if length_ns >= _NEARLY * level * SECOND_NS), default=LEVELS[0])


def _offset(start_ns: int, width_ns: int) -> int:
    """How far a moment is from the nearest beginning of a cell."""
    return (start_ns + width_ns // 2) % width_ns - width_ns // 2

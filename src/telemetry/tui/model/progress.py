"""The progress of a run towards its announced total."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from telemetry import formatting
from telemetry.formatting import printable
from telemetry.tui.model import numbers
from telemetry.tui.model.grid import Cell, Line
from telemetry.tui.model.lines import Piece, cut, fitted, width_of
from telemetry.wire.snapshot import TERMINAL, MetricsSnapshot, Progress

_LEAST_BAR: Final = 8
_MOST_BAR: Final = 40
"""Longest bar in columns: a longer one is not read more precisely."""
_NAME_COLUMNS: Final = 24


def progress(
    snapshot: MetricsSnapshot,
    width: int,
    *,
    silent: bool = False,
    past: bool = False,
    steps_per_s: Mapping[str, float] = MappingProxyType({}),
) -> Line:
    """Return a line such as `requests ━━━━━━━──── 54 % · 10,800 of 20,000 · 18 s left`; empty without a total.

    The bar shows the first item that is not done. The remaining time is unknown while the run is silent. In the
    past there is no bar, since it would show the present: `requests 54 % by now`. `steps_per_s` has the speed of
    axes.
    """
    items = snapshot.progress
    if not items:
        return ()
    shown = next((item for item in items if share(item) < 1), items[0])
    name = cut((Cell(printable(shown.name)), Cell(" ")), _NAME_COLUMNS)
    others = [Piece(_brief(item), keep=3) for item in items if item is not shown]
    room = width - width_of(name) - 1
    if past:
        when = "at the end" if snapshot.state in TERMINAL else "by now"
        count = f"{formatting.count(shown.done)} of {formatting.count(shown.total)}"
        pieces = [Piece(f"{_percent(shown)} % {when}", "dim"), Piece(count, "dim", 2)]
        return cut((*name, *fitted(pieces, room)), width)
    words = fitted([*_words(snapshot, shown, steps_per_s, silent=silent), *others], room - _LEAST_BAR)
    length = max(0, min(_MOST_BAR, room - width_of(words)))
    return cut((*name, *_bar(share(shown), length), Cell(" "), *words), width)


def share(item: Progress) -> float:
    """Return the finished share, from 0 to 1."""
    return max(0.0, min(1.0, item.done / item.total)) if item.total > 0 else 1.0


def rate_of(snapshot: MetricsSnapshot, name: str) -> float:
    """Return the progress per second, over the snapshot's window and all labels."""
    counters = sum(stat.rate for stat in snapshot.counters if stat.name == name)
    return counters + sum(stat.window.rate for stat in snapshot.series if stat.name == name)


def left_s(
    snapshot: MetricsSnapshot, item: Progress, steps_per_s: Mapping[str, float] = MappingProxyType({})
) -> float | None:
    """Return the seconds left at the rate of the window; None if that is unknown or the item is done."""
    rate = steps_per_s.get(item.name) or rate_of(snapshot, item.name)
    return (item.total - item.done) / rate if rate > 0 and share(item) < 1 else None


def _words(
    snapshot: MetricsSnapshot, item: Progress, steps_per_s: Mapping[str, float], *, silent: bool
) -> Iterator[Piece]:
    yield Piece(f"{_percent(item)} %", "strong")
    yield Piece(f"{formatting.count(item.done)} of {formatting.count(item.total)}", keep=2)
    if silent or snapshot.state != "LIVE" or share(item) == 1:
        return
    left = left_s(snapshot, item, steps_per_s)
    is_axis = any(axis.name == item.name for axis in snapshot.axes)
    if left is not None:
        yield Piece(f"{numbers.seconds(left)} left", keep=1)
    elif not is_axis and snapshot.elapsed_s > snapshot.window_s > 0:
        yield Piece(f"none in the last {snapshot.window_s:g} s", "warn", 1)


def _brief(item: Progress) -> str:
    return f"{printable(item.name)} {_percent(item)} %"


def _percent(item: Progress) -> int:
    """Return percent, rounded down: unfinished work never shows 100 %."""
    return int(share(item) * 100)


def _bar(done: float, length: int) -> Line:
    full = int(done * length)
    return (Cell("━" * full, "accent"), Cell("─" * (length - full), "dim"))

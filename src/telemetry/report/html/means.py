"""Means of lines over time, over the same time as the figures of the tiles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from telemetry import formatting
from telemetry.headlines import Figure
from telemetry.report.html.numbers import readable, rounded

MEAN: Final = "mean"


def with_means(
    lines: Sequence[dict[str, Any]], times: tuple[list[float], list[float]], tile: Figure | None = None
) -> tuple[list[dict[str, Any]], str]:
    """Return the lines with their means over the same time, and words for it: `mean over 24.0 s`.

    The time goes from the first to the last step in which any line is not 0. `tile` is the figure with the mean of
    the first line, whose time is used then. Of a rate, the mean is the total divided by the seconds with data.
    Lines that have a mean keep it: without a tile, no time is named then.
    """
    has_own = any("whole" in line for line in lines)
    if all("whole" in line for line in lines):
        return list(lines), MEAN
    active = [at for line in lines for at, value in enumerate(line["values"]) if value]
    first, last = (min(active), max(active) + 1) if active else (0, len(times[0]))
    seconds = [end - start for start, end in zip(*times, strict=True)]
    longest, shown = 0.0, tile.seconds if tile is not None and tile.value is not None else None
    found = []
    for line in lines:
        pairs = zip(line["values"][first:last], seconds[first:last], strict=False)
        known = [(value, long) for value, long in pairs if value is not None]
        span = sum(long for _, long in known)
        longest = max(longest, span)
        total = sum(value * long for value, long in known)
        found.append({"whole": rounded(total / (shown or span) if span else 0.0), **line})
    if shown and tile is not None and found:
        found[0]["whole"] = readable(tile.value)
    if has_own and not shown:
        return found, MEAN
    return found, f"{MEAN} over {formatting.duration_s(shown or longest)}"

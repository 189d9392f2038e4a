"""How a run went, apart from whether its data are complete: values that were not finite, and failures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from telemetry.common.formatting import count, printable
from telemetry.history.headlines.model import Headline, compact, is_failure
from telemetry.history.headlines.training import telling
from telemetry.wire.snapshot import AxisStat, MetricsSnapshot

NOT_FINITE: Final = "NaN or infinite"
_USUAL_AXIS: Final = "step"
_NAMED: Final = 3
"""Largest number of values that are named."""


def at_step(axis: str, step: int) -> str:
    """Return the place of a step: `step 37`, or `step 37 of epoch` on an axis of another name."""
    return f"step {count(step)}" + (f" of {printable(axis)}" if axis != _USUAL_AXIS else "")


def not_finite(snapshot: MetricsSnapshot, *, short: bool = False) -> list[str]:
    """Return a line for each value of steps that was not finite: `loss is NaN or infinite, first at step 37`.

    The `short` form has the first value only, for a line: `loss NaN or infinite at step 37`.
    """
    entries = list(_not_finite(snapshot))
    if short:
        return [f"{printable(name)} {NOT_FINITE} at {at_step(axis.name, step)}" for axis, name, step in entries[:1]]
    lines = [
        f"{printable(name)} {'is' if axis.values.get(name) is None else 'was'} {NOT_FINITE}, first at "
        f"{at_step(axis.name, step)}"
        for axis, name, step in entries[:_NAMED]
    ]
    more = len(entries) - len(lines)
    return [*lines, *([f"{count(more)} more values of steps were {NOT_FINITE}"] if more else [])]


def names_not_finite(snapshot: MetricsSnapshot) -> list[str]:
    """Return the names of values of steps that were not finite, losses first."""
    return [printable(name) for _, name, _ in _not_finite(snapshot)]


def failures(headlines: Sequence[Headline]) -> list[str]:
    """Return failures in words: `388 (0.19 %) failed`. Those of all kinds together stand for each kind."""
    totals = [headline for headline in headlines if headline.is_total] or headlines
    texts = [compact(figure, headline) for headline in totals for figure in headline.figures if is_failure(figure)]
    return list(dict.fromkeys(texts))


def _not_finite(snapshot: MetricsSnapshot) -> Iterator[tuple[AxisStat, str, int]]:
    """Yield axis, name and first step; losses come first, since all other values follow them."""
    for axis in snapshot.axes:
        leading = telling(axis.not_finite)
        others = [name for name in axis.not_finite if name not in leading]
        for name in (*leading, *others):
            yield axis, name, axis.not_finite[name]

"""Figures of an axis of steps: the step, its values, and the speed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

from telemetry.directions import better_of_name, words_of
from telemetry.formatting import count, number_of, printable, scaled
from telemetry.headlines.model import Figure, Headline, per_second
from telemetry.wire.pictures import StepCurve
from telemetry.wire.snapshot import AxisStat

_VALUES: Final = 3
"""Largest number of values of an axis."""
_LOSS: Final = frozenset({"loss", "losses", "nll"})


class Training:
    """One axis of steps. `recent`: for a run that goes on."""

    def __init__(self, axis: AxisStat, *, recent: bool, curves: Sequence[StepCurve] = ()) -> None:
        self.axis = axis
        self._recent = recent
        self.curves = {curve.name: curve for curve in curves if curve.axis == axis.name}

    def headline(self) -> Headline:
        """Return the step, the most telling values, and the speed."""
        figures = [self.step()]
        figures += [self.value(name) for name in telling(self.axis.values)[:_VALUES]]
        speed = self.steps_per_s()
        return Headline("training", printable(self.axis.name), (*figures, *([speed] if speed else [])))

    def step(self) -> Figure:
        """Return the newest step."""
        newest = self.axis.newest
        note = "" if self._recent else f"{number_of(self.axis.closed, 'step')} recorded"
        return Figure("step", count(newest), note, value=None if newest is None else float(newest))

    def steps_per_s(self) -> Figure | None:
        """Return the speed by the curves; None without them: steps may be logged now and then, and begin late."""
        known = (curve.steps_per_s for curve in self.curves.values())
        speed = next((speed for speed in known if speed is not None), None)
        return None if speed is None else per_second("steps/s", speed)

    def value(self, name: str, function: str = "") -> Figure:
        """Return a value: the newest, or the first, lowest, highest or best one."""
        title, curve = printable(name), self.curves.get(name)
        last = self.axis.values.get(name)
        if function in ("first", "best", "min", "max"):
            return _of_curve(f"{function} {title}", name, function, curve)
        if last is None or not math.isfinite(last):
            return Figure(title, "not finite", health="bad")
        return Figure(title, scaled(last), _history(name, curve), value=last)


def telling(names: Iterable[str]) -> list[str]:
    """Return names of values, the most telling first: losses, then values that have a better and a worse side.

    Return the other names only if there are no such names.
    """
    by_rank: dict[int, list[str]] = {0: [], 1: [], 2: []}
    for name in names:
        if not name.startswith("_"):
            better = better_of_name(name)
            is_loss = better == "lower" and bool(_LOSS & set(words_of(name)))
            by_rank[0 if is_loss else 1 if better != "neither" else 2].append(name)
    losses, scores, others = by_rank.values()
    return [*losses[:1], *scores, *losses[1:]] or others


def _history(name: str, curve: StepCurve | None) -> str:
    """Return where a value comes from and its best: `from 2.31, best 0.308 at step 1,150`."""
    if curve is None or curve.first is None or curve.count < 2:
        return ""
    best = _best(name, curve)
    return f"from {scaled(curve.first)}" + (f", best {scaled(best[0])} at step {count(best[1])}" if best else "")


def _best(name: str, curve: StepCurve) -> tuple[float, int | None] | None:
    better = better_of_name(name)
    if better == "lower" and curve.min is not None:
        return curve.min, curve.min_step
    if better == "higher" and curve.max is not None:
        return curve.max, curve.max_step
    return None


def _of_curve(title: str, name: str, function: str, curve: StepCurve | None) -> Figure:
    if curve is None:
        return Figure(title, scaled(None))
    found = {
        "first": (curve.first, curve.steps[0] if curve.steps else None),
        "min": (curve.min, curve.min_step),
        "max": (curve.max, curve.max_step),
        "best": _best(name, curve) or (None, None),
    }
    value, step = found[function]
    note = "" if step is None or function == "first" else f"at step {count(step)}"
    return Figure(title, scaled(value), note, value=value)

"""Figures of an axis of steps: the step, its values, and the speed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

from telemetry.common.directions import better_of_name, is_count, words_of
from telemetry.common.formatting import count, duration_s, number_of, printable, scaled
from telemetry.history.headlines.model import DOT, Figure, Headline, per_second
from telemetry.wire.pictures import StepCurve
from telemetry.wire.snapshot import AxisStat, Progress

_VALUES: Final = 3
"""Largest number of values of an axis."""
_LOSS: Final = frozenset({"loss", "losses", "nll"})
_IN_SECONDS_S: Final = 120.0
"""Time left that is shown in seconds."""
_OF_VALIDATION: Final = frozenset({"val", "valid", "validation", "eval", "evaluation", "test", "dev"})
"""Words of values that were measured on other data than those of the training."""


class Training:
    """One axis of steps, with its speed in steps per second.

    `recent`: for a run that goes on. `progress`: the totals that are expected.
    """

    def __init__(
        self,
        axis: AxisStat,
        speed: float | None,
        *,
        recent: bool,
        curves: Sequence[StepCurve] = (),
        progress: Sequence[Progress] = (),
    ) -> None:
        self.axis = axis
        self._speed = speed
        self._recent = recent
        self._progress = next((item for item in progress if item.name == axis.name and item.total > 0), None)
        self.curves = {curve.name: curve for curve in curves if curve.axis == axis.name}

    def headline(self) -> Headline:
        """Return the step, the most telling values, and the speed."""
        figures = [self.step()]
        figures += [self.value(name) for name in telling(self.axis.values)[:_VALUES]]
        speed = self.steps_per_s()
        return Headline("training", printable(self.axis.name), (*figures, *([speed] if speed else [])))

    def step(self) -> Figure:
        """Return the newest step, of those that are expected: `120 of 500`, with share, time left and epoch."""
        newest, item = self.axis.newest, self._progress
        notes = [] if self._recent else [f"{number_of(self.axis.closed, 'step')} recorded"]
        text = count(newest)
        if item is not None and item.done < item.total:
            text = f"{text} of {count(item.total)}"
            notes = [*share_left(item, self._left_s()), *notes]
        elif item is not None:
            notes.insert(0, f"all of {count(item.total)}")
        epochs = [value for name, value in self.axis.values.items() if is_count(name) and "epoch" in name.lower()]
        notes += [f"epoch {scaled(value)}" for value in epochs[:1] if value is not None]
        return Figure("step", text, DOT.join(notes), value=None if newest is None else float(newest))

    def _left_s(self) -> float | None:
        """Return the time left at the present speed; None if it is unknown, or the run does not go on."""
        if self._progress is None or not self._recent or not self._speed:
            return None
        return (self._progress.total - self._progress.done) / self._speed

    def steps_per_s(self) -> Figure | None:
        """Return the speed; None if it is unknown."""
        return None if self._speed is None else per_second("steps/s", self._speed)

    def value(self, name: str, function: str = "") -> Figure:
        """Return a value: the newest, or the first, lowest, highest or best one."""
        title, curve = printable(name), self.curves.get(name)
        last = self.axis.values.get(name)
        if function in ("first", "best", "min", "max"):
            return _of_curve(f"{function} {title}", name, function, curve)
        if last is None or not math.isfinite(last):
            first = self.axis.not_finite.get(name)
            return Figure(
                title, "not finite", "" if first is None else f"first at step {count(first)}", health="bad"
            )
        return Figure(title, scaled(last), _history(name, curve), value=last)


def telling(names: Iterable[str]) -> list[str]:
    """Return names of values, the most telling first: the loss, the same on validation data beside it, then values
    that have a better and a worse side, then other losses.

    Return the other names only if there are no such names. Leave out values that count steps or epochs.
    """
    by_rank: dict[int, list[str]] = {0: [], 1: [], 2: []}
    for name in names:
        if not name.startswith("_") and not is_count(name):
            better = better_of_name(name)
            is_loss = better == "lower" and bool(_LOSS & set(words_of(name)))
            by_rank[0 if is_loss else 1 if better != "neither" else 2].append(name)
    losses, scores, others = by_rank.values()
    first = losses[:1]
    if others_of := [name for name in losses[1:] if _is_of_validation(name) is not _is_of_validation(losses[0])]:
        first = sorted([losses[0], others_of[0]], key=_is_of_validation)
    return [*first, *scores, *(name for name in losses if name not in first)] or others


def share_left(item: Progress, left_s: float | None) -> list[str]:
    """Return the share that is done, rounded down, and the time left if it is known: `24 %`, `18 s left`."""
    share = f"{int(max(0.0, min(1.0, item.done / item.total)) * 100)} %"
    return [share] if left_s is None else [share, left_words(left_s)]


def left_words(left_s: float) -> str:
    """Return the time left in whole seconds, or in minutes and hours: `18 s left`."""
    return f"{f'{left_s:.0f} s' if left_s < _IN_SECONDS_S else duration_s(left_s)} left"


def _is_of_validation(name: str) -> bool:
    return bool(_OF_VALIDATION & set(words_of(name)))


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
    points = {
        "first": (curve.first, curve.steps[0] if curve.steps else None),
        "min": (curve.min, curve.min_step),
        "max": (curve.max, curve.max_step),
        "best": _best(name, curve) or (None, None),
    }
    value, step = points[function]
    note = "" if step is None or function == "first" else f"at step {count(step)}"
    return Figure(title, scaled(value), note, value=value)

"""The steps behind a point of a curve: one step, or several whose mean it is."""

from __future__ import annotations

from telemetry.wire.pictures import StepCurve


def has_means(curve: StepCurve) -> bool:
    """Return whether points of the curve stand for several steps."""
    return curve.count > len(curve.steps)


def first_step(curve: StepCurve, index: int) -> int | None:
    """Return the first step of a point; its last step is `curve.steps[place]`. None: only the last one is known.

    A point of several steps begins after the point before it.
    """
    if not has_means(curve):
        return curve.steps[index]
    if index:
        return curve.steps[index - 1] + 1
    # The first point has no neighbour. It is a single step if its mean is the value of the lowest step.
    return curve.steps[0] if curve.values[0] == curve.first else None


def lowest_step(curve: StepCurve) -> int:
    """Return the lowest step of a curve with points, which may be too low by a part of a point that is a mean."""
    if not has_means(curve) or len(curve.steps) < 2:
        return curve.steps[0]
    first = first_step(curve, 0)
    return max(curve.steps[0] - (curve.steps[1] - curve.steps[0]) + 1, 0) if first is None else first

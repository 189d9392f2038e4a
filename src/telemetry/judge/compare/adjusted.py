"""Intervals of several figures that hold together, by the steps of Holm's method."""

from __future__ import annotations

from collections.abc import Sequence


def confidences(p_values: Sequence[float], level: float) -> list[float]:
    """Return the confidence of each interval, in the order of the p-values.

    All intervals hold together with a confidence of 1 - `level` at least. An interval excludes 0 exactly if
    Holm's method calls its figure different: the smallest p-value is compared with level / n, the next with
    level / (n - 1), and so on. The first figure that is not different, and all after it, share one level.
    """
    result = [0.0] * len(p_values)
    share, going = level, True
    for position, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        if going:
            share = level / (len(p_values) - position)
            going = p_values[index] < share
        result[index] = 1.0 - share
    return result

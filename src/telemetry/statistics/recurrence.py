"""Recurrence: does one of many ranks come last in more windows than chance explains?

Without a straggler, each of N ranks comes last in a window with the chance 1/N, and the number of windows in which
a rank comes last is binomial. Several slow ranks share the last place, so the last eighth of the ranks counts too.

Neighbouring windows are alike if a disturbance outlasts a window. Then they count for less: as many as independent
windows that would give a count with the same variance.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from statistics import NormalDist
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from telemetry.statistics.beta import incomplete_beta, t_two_sided

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Counts = npt.NDArray[np.intp]

HORIZONS: Final = (10, 40)
"""Numbers of newest windows that are judged: a short horizon shows a change sooner, a long one shows rarer hits."""
FEWEST: Final = 6
"""Number of windows from which on ranks are judged."""
LAST: Final = 1
EIGHTH: Final = 8
_EIGHTHS_FROM: Final = 16
"""Number of ranks from which the last eighth is more than the last rank."""
_NOTABLE: Final = 1e-2
_WAYS: Final = 2
"""Number of ways to be sure about one rank."""
_LEAST_SIZE: Final = 3.0
"""Least number of independent values that lags count as. Then only a lag of many times its changes is sure."""
_MEDIAN_FROM: Final = 4
"""Number of ranks from which one that becomes slow does not change the median over ranks."""
_MOST_ALIKE: Final = 0.9
_ORDERS: Final = 40
_DISTANCES: Final = 40
_NORMAL: Final = NormalDist()


class Recurrence(NamedTuple):
    """The rank that comes last most clearly."""

    column: int
    chance: float
    """Probability that one given rank comes last so often by chance."""
    among: int
    """LAST or EIGHTH: among which ranks it recurs."""


class Hits(NamedTuple):
    """The ranks that are among the last, by window and rank, and the chance to be one of them."""

    flags: Flags
    chance: float


def level(confidence: float, tests: int, windows: int) -> float:
    """Return the largest chance that counts, in a look after this many windows of the run, FEWEST or more.

    Over all looks and tests of a run, these levels add up to `1 - confidence` at most: the terms
    1 / (k (1 + ln k)²) add up to less than 1 / (1 + ln(FEWEST - 1)).
    """
    series = windows * (1.0 + math.log(windows)) ** 2 / (1.0 + math.log(FEWEST - 1))
    return (1.0 - confidence) / (series * tests)


def number_of_tests(windows: int, ranks: int) -> int:
    """Return the number of tests in one look."""
    return ranks * len(_horizons(windows)) * len(_shares(ranks)) * _WAYS


def most_recurrent(lags: Floats, away: Flags) -> Recurrence | None:
    """Return the rank that recurs most clearly, without those in `away`. Return None if there is none.

    `lags` has a row for each window and a column for each rank; the largest value is last, NaN is absent.
    """
    recurrences: list[Recurrence] = []
    ranks = int((~(np.isnan(lags[-1]) | away)).sum())
    whole = _alike(lags)
    for horizon in _horizons(len(lags)):
        newest = np.where(away, np.nan, lags[-horizon:])
        alike = whole if ranks >= _MEDIAN_FROM else _alike(lags[-horizon:])
        for among in _shares(ranks):
            hits = last_ones(lags[-horizon:], away, among)
            recurrences += _notable(newest, hits, alike, among)
    if not recurrences:
        return None
    least = min(recurrence.chance for recurrence in recurrences)
    equal = [recurrence for recurrence in recurrences if recurrence.chance == least]
    return max(equal, key=lambda recurrence: float(np.nanmean(lags[:, recurrence.column])))


def last_ones(lags: Floats, away: Flags, among: int) -> Hits:
    """Return the last rank of each window, or the last eighth, without those in `away`. Of equal ranks, none is."""
    shown = np.where(np.isnan(lags) | away, -np.inf, lags)
    windows, columns = shown.shape
    present = np.isfinite(shown).sum(axis=1)
    depth = np.minimum(np.maximum(present // among, 1) if among > 1 else np.ones_like(present), columns - 1)
    edge = np.empty(windows)
    for size in np.unique(depth).tolist():
        rows = depth == size
        edge[rows] = np.partition(shown[rows], columns - 1 - size, axis=1)[:, columns - 1 - size]
    chance = float((depth / np.maximum(present, 1)).max(initial=0.0))
    return Hits(shown > edge[:, None], min(chance, 1.0))


@lru_cache(1 << 14)
def tail(hits: float, trials: float, chance: float) -> float:
    """Return the probability of at least that many hits. The numbers may be fractions."""
    if hits <= 0 or hits > trials or chance >= 1.0:
        return 1.0
    return incomplete_beta(hits, trials - hits + 1.0, chance)


def _notable(lags: Floats, hits: Hits, alike: float, among: int) -> Iterator[Recurrence]:
    """Yield the ranks with few chances to be among the last as often.

    There are two ways to be sure in spite of windows that are alike: hits that are many enough if they count for
    less, and a lag that is large beside its changes.
    """
    counts, trials = hits.flags.sum(axis=0), (~np.isnan(lags)).sum(axis=0)
    weight = _weight(round(alike, 2), hits.chance)
    for count, of in {(count, of) for count, of in zip(counts.tolist(), trials.tolist(), strict=True) if count}:
        plain = tail(count, of, hits.chance)
        if plain >= _NOTABLE:
            continue
        weighted = tail(count * weight, of * weight, hits.chance)
        for column in np.flatnonzero((counts == count) & (trials == of)).tolist():
            probability = weighted if weight == 1.0 else min(weighted, max(plain, _steady(lags[:, column], alike)))
            if probability < _NOTABLE:
                yield Recurrence(column, probability, among)


def _steady(lags: Floats, alike: float) -> float:
    """Return the probability that lags are so large on average by chance, by Student's test for alike values."""
    present = lags[~np.isnan(lags)]
    size = max(len(present) * (1.0 - alike) / (1.0 + alike), _LEAST_SIZE)
    mean, deviation = float(present.mean()), float(present.std(ddof=1))
    if mean <= 0.0:
        return 1.0
    if deviation <= 0.0:
        return 0.0
    return t_two_sided(mean / deviation * math.sqrt(size), size - 1.0) / 2.0


def _alike(lags: Floats) -> float:
    """Return the correlation of neighbouring windows, from 0 up: the median over ranks, which a few slow ones leave
    unchanged. Levels of ranks are no correlation.
    """
    if len(lags) <= 3:
        return 0.0
    own = lags - np.nanmean(np.where(np.isnan(lags).all(axis=0), 0.0, lags), axis=0)
    own = np.nan_to_num(own)
    squares = (own**2).sum(axis=0)
    products = (own[1:] * own[:-1]).sum(axis=0)
    varies = squares > 0
    if not varies.any():
        return 0.0
    biased = float(np.median(products[varies] / squares[varies]))
    unbiased = (biased + 1.0 / len(lags)) / (
        1.0 - 3.0 / len(lags)
    )  # levels are estimated from the same few windows
    return min(max(unbiased, 0.0), _MOST_ALIKE)


@lru_cache(1 << 12)
def _weight(correlation: float, chance: float) -> float:
    """Return how much a window counts if the lags of neighbours have this correlation, and that of windows further
    apart falls geometrically.

    A hit is a lag above a threshold. The correlation of hits follows from that of normal lags by the expansion in
    Hermite polynomials.
    """
    if correlation <= 0.0 or chance >= 1.0:
        return 1.0
    threshold = _NORMAL.inv_cdf(1.0 - chance)
    factors, before, now = [], 0.0, 1.0  # Hermite polynomials, each divided by the root of its factorial
    for order in range(1, _ORDERS + 1):
        factors.append(now**2 / order)
        before, now = now, (threshold * now - math.sqrt(order - 1) * before) / math.sqrt(order)
    scale = _NORMAL.pdf(threshold) ** 2 / (chance * (1.0 - chance))
    total = 0.0
    for distance in range(1, _DISTANCES + 1):
        far = correlation**distance
        total += min(scale * sum(factor * far**order for order, factor in enumerate(factors, 1)), 1.0)
    return 1.0 / (1.0 + 2.0 * total)


def _horizons(windows: int) -> tuple[int, ...]:
    return tuple(dict.fromkeys(min(horizon, windows) for horizon in HORIZONS))


def _shares(ranks: int) -> tuple[int, ...]:
    return (LAST, EIGHTH) if ranks >= _EIGHTHS_FROM else (LAST,)

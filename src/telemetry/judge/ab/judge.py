"""The verdicts after each pair.

A figure has a verdict as soon as its interval shows one. `m` is the smallest effect that matters.

1. The whole interval is within ±m: `same`.
2. The interval has two ends and excludes 0, and the estimate is at least m: `worse` or `better`, or `changed` for a
   figure without direction.
3. Otherwise `cannot_tell`, and the next pair may tell.

A verdict stays as it was at that moment. Of K figures, k have verdicts at once if each of the k intervals, at the
level k/K · alpha, shows one. Then the expected share of wrong verdicts among all verdicts is at most alpha, however
the figures depend on each other (e-BH of Wang and Ramdas, and its intervals by Xu, Wang and Ramdas). The figures
that decide and the others are two such families.

A side that fails more requests has other requests left, so its figures are not comparable. The shares of failed
requests differ if the intervals of both, over all pairs, don't touch. Then no figure has a verdict. As requests of
one run may fail together, the side after is `worse` only if bets on each pair show it too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from telemetry.common.directions import Better
from telemetry.judge.ab.betting import PairedBets
from telemetry.judge.ab.model import AbFigure, AbPair, AbSettings, FailedRequests, FigureVerdict, Verdict
from telemetry.statistics.confidence import wilson

_CONFIDENCE: Final = 0.99
"""Confidence of the intervals of both shares of failed requests.

Equal shares of independent requests have intervals that don't touch in one of 3,700 looks. Over 60 looks, one after
each pair, that is still less than 1 %.
"""
_MOST_NEEDED: Final = 1e9
"""Largest estimate of the pairs that are needed: so many pairs of a millisecond take days."""
_HIGHEST: Final = 700.0
"""Logarithm near the end of the range of floats."""


class AbJudge:
    """The bets on each figure, and the verdicts that are final."""

    def __init__(
        self,
        settings: AbSettings,
        figures: Sequence[AbFigure],
        pairs: Iterable[AbPair] = (),
        final: Iterable[FigureVerdict] = (),
    ) -> None:
        """Take the pairs so far, without void ones, and the verdicts that were final after them."""
        self._settings = settings
        self._figures = {figure.name: figure for figure in figures}
        self._bets = {figure.name: PairedBets() for figure in figures}
        self._final = {state.figure: state for state in final}
        self._failures = _Failures()
        for pair in pairs:
            self._bet(pair)

    def add(self, pair: AbPair) -> None:
        """Bet on a pair that is not void, and settle what it shows."""
        self._bet(pair)
        for family in self._families():
            self._settle(family)

    def _bet(self, pair: AbPair) -> None:
        for name, bets in self._bets.items():
            difference = log_ratio(pair.before.values, pair.after.values, name)
            if difference is not None:
                bets.add(difference)
        self._failures.add(pair)

    @property
    def final(self) -> list[FigureVerdict]:
        """The verdicts that are final, as they were when they were reached."""
        return list(self._final.values())

    @property
    def is_decided(self) -> bool:
        """True if each figure that decides has a verdict, or surely can't have one: failed requests prevent it."""
        if self._failures.differ:
            return self._failures.is_sure(self._settings.alpha)
        names = [figure.name for figure in self._figures.values() if figure.decides]
        return bool(names) and all(name in self._final for name in names)

    @property
    def failures(self) -> FailedRequests | None:
        """The shares of failed requests, if they differ."""
        if not self._failures.differ:
            return None
        before, after = self._failures.shares
        is_worse = after > before and self._failures.is_sure(self._settings.alpha)
        return FailedRequests(before=before, after=after, verdict="worse" if is_worse else "cannot_tell")

    def verdicts(self) -> list[FigureVerdict]:
        """Return the final verdicts, and the state of all other figures, in the order of the figures."""
        states = {
            name: self._final.get(name) or self._open(name, self._next_level(family))
            for family in self._families()
            for name in family
        }
        if self._failures.differ:
            states = {name: replace(state, verdict="cannot_tell", needed=None) for name, state in states.items()}
        return [self._measured(states[name]) for name in self._figures]

    def _families(self) -> list[list[str]]:
        return [
            [name for name, figure in self._figures.items() if figure.decides == decides]
            for decides in (True, False)
        ]

    def _settle(self, family: Sequence[str]) -> None:
        """Make verdicts final: as many as possible at once, since each of them then needs less evidence.

        A figure that shows no verdict at a level shows none at a smaller one either.
        """
        waiting = [name for name in family if name not in self._final]
        settled, number = len(family) - len(waiting), len(family)
        while number > settled:
            level = self._settings.alpha * number / len(family)
            shown = [state for name in waiting if (state := self._at(name, level)).verdict != "cannot_tell"]
            if settled + len(shown) >= number:
                self._final |= {state.figure: state for state in shown}
                return
            waiting = [state.figure for state in shown]
            number = settled + len(shown)

    def _next_level(self, family: Sequence[str]) -> float:
        """Return the level at which one more figure would have its verdict."""
        settled = sum(name in self._final for name in family)
        return self._settings.alpha * (settled + 1) / len(family)

    def _open(self, name: str, level: float) -> FigureVerdict:
        needed = pairs_needed(self._bets[name], level, self._settings.min_effect)
        return replace(self._at(name, level), needed=needed)

    def _at(self, name: str, level: float) -> FigureVerdict:
        bets = self._bets[name]
        low, high = (relative(end) for end in bets.interval(level))
        difference = relative(bets.middle)
        return FigureVerdict(
            figure=name,
            verdict=verdict_of(low, high, difference, self._figures[name].better, self._settings.min_effect),
            pairs=bets.pairs,
            difference=difference if bets.pairs and math.isfinite(difference) else None,
            low=low if low > -1 else None,
            high=high if math.isfinite(high) else None,
            level=level,
            wealth=max(bets.more, bets.less) / 2,
        )

    def _measured(self, state: FigureVerdict) -> FigureVerdict:
        """Add the smallest difference that all pairs show, if both sides are the same."""
        if not self._settings.same:
            return state
        low, high = self._bets[state.figure].interval(self._settings.alpha)
        effect = relative((high - low) / 2)
        return replace(state, needed=None, least_effect=effect if math.isfinite(effect) else None)


class _Failures:
    """The failed requests of both sides: their numbers, and the bets on the difference of each pair."""

    def __init__(self) -> None:
        self._failed = [0, 0]
        self._ended = [0, 0]
        self._bets = PairedBets()

    def add(self, pair: AbPair) -> None:
        sides = (pair.before, pair.after)
        for side, run in enumerate(sides):
            self._failed[side] += run.failed
            self._ended[side] += run.ended
        if all(run.ended for run in sides):
            self._bets.add(pair.after.failed / pair.after.ended - pair.before.failed / pair.before.ended)

    @property
    def shares(self) -> tuple[float, float]:
        """Shares of failed requests of both sides, if both have requests."""
        return self._failed[0] / self._ended[0], self._failed[1] / self._ended[1]

    @property
    def differ(self) -> bool:
        """True if the intervals of both shares don't touch."""
        before, after = (wilson(*counts, _CONFIDENCE) for counts in zip(self._failed, self._ended, strict=True))
        return before[1] < after[0] or after[1] < before[0]

    def is_sure(self, alpha: float) -> bool:
        """Return whether the pairs show that the side with the larger share fails more."""
        before, after = self.shares
        return (self._bets.more if after > before else self._bets.less) >= 2 / alpha


def verdict_of(low: float, high: float, difference: float, better: Better, min_effect: float) -> Verdict:
    """Return the verdict by the rules of this module."""
    if -min_effect <= low and high <= min_effect:
        return "same"
    if low <= 0 <= high or low == -1 or high == math.inf or abs(difference) < min_effect:
        return "cannot_tell"
    if better == "neither":
        return "changed"
    return "better" if (low > 0) == (better == "higher") else "worse"


def pairs_needed(bets: PairedBets, level: float, min_effect: float) -> int | None:
    """Return how many pairs in all would probably show a verdict, if they go on like those so far.

    The interval narrows with the root of the number of pairs. Return None while it has no two ends, and beyond
    a billion pairs.
    """
    low, high = bets.interval(level)
    within = math.log1p(min_effect) - abs(bets.middle)
    target = within if within > 0 else abs(bets.middle)
    if not math.isfinite(high - low) or not target:
        return None
    ratio = (high - low) / 2 / target
    needed = bets.pairs * ratio * ratio
    return max(bets.pairs + 1, math.ceil(needed)) if needed <= _MOST_NEEDED else None


def log_ratio(before: Mapping[str, float], after: Mapping[str, float], name: str) -> float | None:
    """Return the logarithm of after / before; 0 for equal values. Return None if there is no such number."""
    old, new = before.get(name, math.nan), after.get(name, math.nan)
    if old == new and math.isfinite(old):
        return 0.0
    if not (old > 0 and new > 0 and math.isfinite(old) and math.isfinite(new)):
        return None
    return math.log(new) - math.log(old)


def relative(exponent: float) -> float:
    """Return the relative difference of a ratio from its logarithm; infinity beyond the range of floats."""
    return math.expm1(exponent) if exponent < _HIGHEST else math.inf

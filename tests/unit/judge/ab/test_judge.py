"""Tests of the verdicts after each pair."""

from __future__ import annotations

import math

import numpy as np
import pytest

from telemetry.judge.ab.betting import PairedBets
from telemetry.judge.ab.judge import AbJudge, log_ratio, pairs_needed, verdict_of
from telemetry.judge.ab.model import AbFigure, AbPair, AbResult, AbRun, AbSettings, FigureVerdict

WALL = AbFigure(name="wall time", unit="s", better="lower")
RATE = AbFigure(name="rate", unit="1", better="higher")
SETTINGS = AbSettings(before=["a"], after=["b"], labels=("a", "b"), seed=1)
RNG = np.random.default_rng(5)


def pair(**ratios: float) -> AbPair:
    """A pair whose figures after are these multiples of those before."""
    values = {name.replace("_", " "): ratio for name, ratio in ratios.items()}
    return AbPair(before=AbRun(values=dict.fromkeys(values, 1.0)), after=AbRun(values=values), first="before")


def noisy(effect: float, noise: float = 0.01) -> float:
    return (1 + effect) * math.exp(noise * RNG.standard_normal())


def judged(settings: AbSettings = SETTINGS, figures: tuple[AbFigure, ...] = (WALL,), *pairs: AbPair) -> AbJudge:
    judge = AbJudge(settings, figures)
    for each in pairs:
        judge.add(each)
    return judge


@pytest.mark.parametrize(
    ("low", "high", "difference", "better", "verdict"),
    [
        (0.03, 0.05, 0.04, "lower", "worse"),
        (0.03, 0.05, 0.04, "higher", "better"),
        (-0.05, -0.03, -0.04, "lower", "better"),
        (-0.05, -0.03, -0.04, "higher", "worse"),
        (0.03, 0.05, 0.04, "neither", "changed"),
        (-0.01, 0.02, 0.005, "lower", "same"),
        (0.005, 0.015, 0.01, "lower", "same"),
        (0.001, 0.03, 0.015, "lower", "cannot_tell"),
        (-0.01, 0.07, 0.04, "lower", "cannot_tell"),
        (-1.0, math.inf, 3.0, "lower", "cannot_tell"),
    ],
)
def test_the_rules(low: float, high: float, difference: float, better: str, verdict: str) -> None:
    """Small is `same`, apart and large is a direction, all else can't be told."""
    assert verdict_of(low, high, difference, better, 0.02) == verdict  # type: ignore[arg-type]


def test_a_verdict_comes_with_enough_pairs_and_stays() -> None:
    """The verdict has the pairs at its moment; later pairs of any kind don't change it."""
    judge = AbJudge(SETTINGS, [WALL])
    count = 0
    while not judge.is_decided:
        judge.add(pair(wall_time=noisy(0.2)))
        count += 1
    (verdict,) = judge.verdicts()
    assert (verdict.verdict, verdict.pairs, verdict.needed) == ("worse", count, None)
    assert verdict.low is not None
    assert verdict.high is not None
    assert 0 < verdict.low <= (verdict.difference or 0) <= verdict.high
    assert verdict.wealth >= 1 / SETTINGS.alpha
    for _ in range(30):
        judge.add(pair(wall_time=noisy(-0.5)))
    assert judge.verdicts() == [verdict]


def test_equal_runs_have_no_difference_that_matters() -> None:
    """Runs that differ by far less than the smallest effect that matters end as `same`."""
    judge = judged(SETTINGS, (WALL,), *(pair(wall_time=noisy(0, 0.002)) for _ in range(30)))
    assert judge.is_decided
    assert judge.verdicts()[0].verdict == "same"


def test_no_pairs_and_one_pair() -> None:
    """Nothing can be told, and the ends of the interval are open."""
    assert judged().verdicts() == [FigureVerdict(figure="wall time", level=0.05, wealth=0.5)]
    (verdict,) = judged(SETTINGS, (WALL,), pair(wall_time=3.0)).verdicts()
    assert (verdict.verdict, verdict.pairs, verdict.low, verdict.high) == ("cannot_tell", 1, None, None)
    assert verdict.difference == pytest.approx(2.0)


def test_several_figures_need_more_evidence_alone_than_together() -> None:
    """One of four figures has its verdict later than the only figure; four that all differ have it as early."""
    factors = [noisy(0.05) for _ in range(60)]
    names = [f"f{number}" for number in range(4)]
    figures = tuple(AbFigure(name=name, unit="s", better="lower") for name in names)
    alone = judged(SETTINGS, figures[:1], *(pair(f0=factor) for factor in factors))
    one_of_four = judged(
        SETTINGS,
        figures,
        *(pair(f0=factor, **{name: noisy(0, 0.5) for name in names[1:]}) for factor in factors),
    )
    together = judged(SETTINGS, figures, *(pair(**dict.fromkeys(names, factor)) for factor in factors))
    assert one_of_four.verdicts()[0].pairs > alone.verdicts()[0].pairs == together.verdicts()[0].pairs
    assert one_of_four.verdicts()[0].level == pytest.approx(0.05 / 4)
    assert {verdict.level for verdict in together.verdicts()} == {0.05}
    assert not one_of_four.is_decided
    assert together.is_decided


def test_final_verdicts_are_restored_without_judging_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pairs of an earlier call take no interval; with its final verdicts, the state is that of one call."""
    figures = tuple(AbFigure(name=name, unit="s", better="lower") for name in ("f0", "f1", "f2"))
    pairs = [pair(f0=noisy(0.2), f1=noisy(0.05, 0.1), f2=noisy(0, 0.5)) for _ in range(40)]
    whole = judged(SETTINGS, figures, *pairs)
    earlier = judged(SETTINGS, figures, *pairs[:25])
    assert [state.figure for state in earlier.final] == ["f0"]
    with monkeypatch.context() as patch:
        patch.setattr(PairedBets, "interval", None)
        resumed = AbJudge(SETTINGS, figures, pairs[:25], earlier.final)
    assert resumed.verdicts() == earlier.verdicts()
    for each in pairs[25:]:
        resumed.add(each)
    assert resumed.verdicts() == whole.verdicts()
    assert resumed.final == whole.final


def test_many_figures_take_two_intervals_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pair of 30 noisy figures costs two intervals a figure: at the level of all, and at that of the next one."""
    figures = tuple(AbFigure(name=f"f{number}", unit="s", better="lower") for number in range(30))
    pairs = [pair(**{figure.name: noisy(0, 0.5) for figure in figures}) for _ in range(8)]
    judge, ends = AbJudge(SETTINGS, figures, pairs[1:]), []
    end = PairedBets._end
    monkeypatch.setattr(PairedBets, "_end", lambda *words: ends.append(words) or end(*words))
    judge.add(pairs[0])
    judge.verdicts()
    judge.verdicts()
    assert len(ends) <= 2 * 2 * len(figures)


def test_figures_that_do_not_decide_do_not_delay_those_that_do() -> None:
    """A figure beside the one that decides costs it nothing."""
    beside = AbFigure(name="rate", unit="1", better="higher", decides=False)
    factors = [noisy(0.05) for _ in range(60)]
    alone = judged(SETTINGS, (WALL,), *(pair(wall_time=factor) for factor in factors))
    both = judged(SETTINGS, (WALL, beside), *(pair(wall_time=factor, rate=noisy(0, 0.5)) for factor in factors))
    assert both.is_decided
    assert both.verdicts()[0] == alone.verdicts()[0]
    assert both.verdicts()[1].verdict == "cannot_tell"


def requests(before: int, after: int, ended: int = 1_000, ratio: float = 10.0) -> AbPair:
    """A pair whose sides fail these numbers of requests."""
    sides = [
        AbRun(values={"wall time": value}, ended=ended, failed=failed)
        for value, failed in ((1.0, before), (ratio, after))
    ]
    return AbPair(before=sides[0], after=sides[1], first="before")


def test_requests_that_fail_are_no_slower_requests() -> None:
    """99 % failures are not "+900 %": no figure has a verdict from the first pair on; more pairs show `worse`."""
    judge = AbJudge(SETTINGS, [WALL])
    verdicts = []
    while not judge.is_decided:
        judge.add(requests(1, 990))
        assert judge.verdicts()[0].verdict == "cannot_tell"
        assert judge.failures is not None
        assert (judge.failures.before, judge.failures.after) == (0.001, 0.99)
        verdicts.append(judge.failures.verdict)
    assert verdicts == ["cannot_tell"] * (len(verdicts) - 1) + ["worse"]
    assert 5 <= len(verdicts) <= 12


def test_fewer_failures_are_no_better_figures() -> None:
    """A side after that fails less can't be told, and more pairs would not help."""
    judge = judged(SETTINGS, (WALL,), *[requests(990, 1)] * 20)
    assert judge.failures is not None
    assert judge.failures.verdict == "cannot_tell"
    assert judge.is_decided
    assert judge.verdicts()[0].verdict == "cannot_tell"


def test_failures_of_one_run_are_not_worse() -> None:
    """Requests that fail together in one run take the verdict away, and blame no side."""
    judge = judged(SETTINGS, (WALL,), *[requests(3, 3)] * 20, requests(3, 900), *[requests(3, 3)] * 20)
    assert judge.failures is not None
    assert judge.failures.verdict == "cannot_tell"
    assert not judge.is_decided


def test_as_many_failures_on_both_sides_change_nothing() -> None:
    """Of 300 comparisons with a look after each of 60 pairs, nearly all find that equal shares do not differ."""
    assert judged(SETTINGS, (WALL,), *[requests(50, 50)] * 20).verdicts()[0].verdict == "worse"
    different = 0
    for failed in RNG.binomial(400, 0.05, size=(300, 60, 2)):
        judge, looks = AbJudge(SETTINGS, []), []
        for before, after in failed.tolist():
            judge.add(requests(before, after, 400))
            looks.append(judge.failures)
        different += any(looks)
    assert different <= 6


def test_without_figures_nothing_is_decided() -> None:
    """No figure is no decision."""
    judge = judged(SETTINGS, ())
    assert (judge.is_decided, judge.verdicts()) == (False, [])


def test_a_figure_that_a_run_lacks_has_fewer_pairs() -> None:
    """Pairs without a ratio of a figure count for the others only."""
    pairs = [pair(wall_time=1.1, rate=2.0), pair(wall_time=1.1), pair(wall_time=1.1, rate=-1.0)]
    judge = judged(SETTINGS, (WALL, RATE), *pairs)
    assert [verdict.pairs for verdict in judge.verdicts()] == [3, 1]


def test_the_same_on_both_sides_measures_the_machine() -> None:
    """The smallest effect is about as large as the noise allows, and shrinks with more pairs."""
    same = AbSettings(before=["a"], after=["a"], labels=("a", "a"), seed=1, same=True)
    pairs = [pair(wall_time=noisy(0, 0.02)) for _ in range(60)]
    few, many = (judged(same, (WALL,), *pairs[:count]).verdicts()[0].least_effect for count in (15, 60))
    assert few is not None
    assert many is not None
    assert 0.001 < many < few < 0.2


def test_the_pairs_that_are_needed() -> None:
    """The estimate is unknown at first. Then it is above the pairs so far, and grows with a smaller limit."""
    bets = PairedBets()
    assert pairs_needed(bets, 0.05, 0.02) is None
    for _ in range(25):
        bets.add(0.004 + 0.02 * RNG.standard_normal())
    needed = [pairs_needed(bets, 0.05, effect) for effect in (0.1, 0.05, 0.02)]
    assert None not in needed
    assert 26 <= (needed[0] or 0) <= (needed[1] or 0) <= (needed[2] or 0)


@pytest.mark.parametrize("effect", [5e-324, 1e-200, 1e-8])
def test_pairs_that_are_never_run_are_not_estimated(effect: float) -> None:
    """The estimate stays unknown beyond a billion pairs; for the smallest effects, no float holds it."""
    bets = PairedBets()
    for number in range(30):
        bets.add(0.0 if number < 10 else 0.1 if number % 2 else -0.1)
    assert bets.middle == 0.0
    assert pairs_needed(bets, 0.05, 1e-3) is not None
    assert pairs_needed(bets, 0.05, effect) is None


@pytest.mark.parametrize(
    ("before", "after", "ratio"),
    [
        (1.0, math.e, 1.0),
        (0.0, 0.0, 0.0),
        (-2.0, -2.0, 0.0),
        (0.0, 1.0, None),
        (1.0, 0.0, None),
        (-1.0, -2.0, None),
        (math.nan, math.nan, None),
        (math.inf, math.inf, None),
        (1.0, math.inf, None),
    ],
)
def test_ratios(before: float, after: float, ratio: float | None) -> None:
    """Equal values are no difference; values that have no ratio are left out."""
    assert log_ratio({"x": before}, {"x": after}, "x") == ratio
    assert log_ratio({"x": before}, {}, "x") is None


def test_the_verdict_of_a_result_is_the_worst_of_those_that_decide() -> None:
    """One worse figure makes the result worse; a figure beside those that decide does not."""
    beside = AbFigure(name="x", unit="s", better="lower", decides=False)
    result = AbResult(
        settings=SETTINGS,
        most_pairs=60,
        figures=[WALL, RATE, beside],
        verdicts=[
            FigureVerdict(figure="wall time", verdict="better"),
            FigureVerdict(figure="rate", verdict="same"),
            FigureVerdict(figure="x", verdict="worse"),
        ],
    )
    assert result.verdict == "better"
    assert AbResult(settings=SETTINGS, most_pairs=60).verdict == "cannot_tell"

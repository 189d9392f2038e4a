"""Tests of what a comparison says in one word and in one line."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from telemetry.judge.compare.model import Comparison, MetricResult, SideRun, Verdict

RUN = SideRun(run_id="r", name="n")


def comparison(*verdicts: Verdict) -> Comparison:
    metrics = [MetricResult(of="command", statistic="wall", verdict=verdict) for verdict in verdicts]
    return Comparison(before=[RUN], after=[RUN, RUN], metrics=metrics)


@pytest.mark.parametrize(
    ("verdicts", "said"),
    [
        (("same", "not_shown", "changed", "better", "cannot_tell", "worse"), "worse"),
        (("same", "not_shown", "changed", "better", "cannot_tell", "differs"), "differs"),
        (("same", "not_shown", "changed", "better", "cannot_tell"), "cannot_tell"),
        (("same", "not_shown", "changed", "better"), "better"),
        (("same", "not_shown", "changed"), "changed"),
        (("same", "not_shown"), "not_shown"),
        (("same",), "same"),
        ((), "cannot_tell"),
    ],
)
def test_the_verdict_of_all(verdicts: tuple[Verdict, ...], said: str) -> None:
    """The verdict `cannot_tell` comes before `better`. A comparison of no figures has it too."""
    assert comparison(*verdicts).verdict == said


def test_the_headline_counts() -> None:
    """The headline counts the verdicts in the order in which they are listed."""
    assert comparison("same", "worse", "cannot_tell").headline() == (
        "worse: 1 worse, 1 cannot tell of 3 figures, 1 run against 2"
    )
    assert comparison("same", "not_shown").headline() == "no difference shown: 2 figures, 1 run against 2"
    assert comparison("worse", "worse").headline() == "worse: all 2 figures, 1 run against 2"
    assert comparison("same").headline() == "no difference that matters: 1 figure, 1 run against 2"
    assert comparison().headline() == "cannot tell: nothing to compare, 1 run against 2"


@pytest.mark.parametrize(
    ("verdicts", "said"),
    [
        (
            ["differs", "differs", "same", "cannot_tell"],
            "4 figures of two single runs: 2 differ, 1 does not, 1 can't be told",
        ),
        (["differs", "same", "same"], "3 figures of two single runs: 1 differs, 2 do not"),
        (
            ["not_shown", "cannot_tell", "left_out"],
            "2 figures of two single runs: 0 differ, 1 is within the noise, 1 can't be told",
        ),
        (["cannot_tell"], "cannot tell: 1 figure, 1 run against 1"),
        (["left_out"], "too few values: nothing to compare, 1 run against 1"),
    ],
)
def test_the_headline_of_two_single_runs(verdicts: list[Verdict], said: str) -> None:
    """The headline of two single runs counts each verdict once, in whole words."""
    assert replace(comparison(*verdicts), after=[RUN]).headline() == said

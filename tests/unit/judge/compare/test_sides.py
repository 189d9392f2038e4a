"""Sets of runs: what they are, whether they can be relied on, and which were neighbours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from telemetry.judge.compare.figures import FigureKey
from telemetry.judge.compare.sides import by_turns, facts, unfit
from telemetry.wire.report import Report
from telemetry.wire.snapshot import CommandFacts

LATENCY = FigureKey("series", "latency", (), "p50")
WALL = FigureKey("command", "", (), "wall")
Run = Callable[..., Report]


def sides(run: Run, order: str) -> tuple[list[Report], list[Report]]:
    """`a` and `b` in the order of their starts."""
    made = [(side, run(at=number)) for number, side in enumerate(order)]
    return [one for side, one in made if side == "a"], [one for side, one in made if side == "b"]


@pytest.mark.parametrize("order", ["ab" * 5, "ba" * 5, "abba" * 3, "abbaabbaab"])
def test_runs_by_turns_are_paired_with_their_neighbours(run: Run, order: str) -> None:
    """Whichever comes first in a pair."""
    before, after = sides(run, order)
    assert by_turns(before, after) == [(number, number) for number in range(len(order) // 2)]


def test_pairs_do_not_depend_on_the_order_in_which_runs_are_named(run: Run) -> None:
    """Pairs depend on when runs started, not on the order in which they are named."""
    before, after = sides(run, "ab" * 5)
    assert by_turns(before[::-1], after) == [(4 - number, number) for number in range(5)]


@pytest.mark.parametrize("order", ["a" * 5 + "b" * 5, "aabb" * 3, "ab" * 4, "ab" * 5 + "a", "abababaabb"])
def test_what_was_not_by_turns_is_not_paired(run: Run, order: str) -> None:
    """One side after the other, two of a side in a row, one left over, or too few pairs."""
    assert by_turns(*sides(run, order)) is None


def test_runs_that_started_at_once_have_no_order(run: Run) -> None:
    """Runs that started at the same time have no order, like runs without a start."""
    before, after = [run(at=0) for _ in range(5)], [run(at=0) for _ in range(5)]
    assert by_turns(before, after) is None


@pytest.mark.parametrize(
    ("parts", "series", "command"),
    [
        ({}, "", ""),
        ({"completeness": "lossy"}, "1 of 3 runs after is lossy", ""),
        ({"completeness": "incomplete"}, "1 of 3 runs after is incomplete", ""),
        ({"state": "INTERRUPTED", "completeness": "interrupted"}, *["1 of 3 runs after is interrupted"] * 2),
        ({"state": "LIVE", "completeness": "incomplete"}, *["1 of 3 runs after is still going"] * 2),
        (
            {"command": CommandFacts(argv=["x"], exit_code=3, wall_s=1.0)},
            *["the command failed in 1 of 3 runs after"] * 2,
        ),
        (
            {"command": CommandFacts(argv=["x"], signal="SIGKILL", wall_s=1.0)},
            *["the command failed in 1 of 3 runs after"] * 2,
        ),
        ({"command": None}, "", ""),
    ],
)
def test_a_run_that_can_t_be_relied_on(run: Run, parts: dict[str, Any], series: str, command: str) -> None:
    """Lost events leave the command's time alone; a run that was cut short, or that failed, leaves nothing."""
    reports: Sequence[Report] = [run(), run(**parts), run()]
    assert unfit(reports, "after", LATENCY) == series
    assert unfit(reports, "after", WALL) == command


def test_several_are_counted(run: Run) -> None:
    """Several runs are counted in correct grammar."""
    lossy = [run(completeness="lossy"), run(completeness="lossy")]
    assert unfit(lossy, "before", LATENCY) == "2 of 2 runs before are lossy"
    assert unfit(lossy[:1], "before", LATENCY) == "1 of 1 run before is lossy"


def test_facts_of_a_run(run: Run) -> None:
    """The facts of a run have what a reader needs to find it again."""
    fact = facts(run(at=1, name="bench", directory="/runs/x"))
    assert (fact.name, fact.directory, fact.seconds, fact.completeness) == ("bench", "/runs/x", 10.0, "complete")
    assert (fact.exit_code, fact.signal) == (0, None)
    assert facts(run(command=None)).exit_code is None

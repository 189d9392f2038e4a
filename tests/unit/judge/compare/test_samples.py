"""One figure over both sides, or why it can't be compared."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from telemetry.errors import UsageError
from telemetry.judge.compare.figures import FigureKey
from telemetry.judge.compare.options import Options
from telemetry.judge.compare.sides import SideSamples, samples
from telemetry.wire.report import Report
from telemetry.wire.snapshot import CounterStat, GaugeStat

Run = Callable[..., Report]
P50 = FigureKey("series", "latency", (), "p50")


def sample(before: list[Report], after: list[Report], figure: FigureKey = P50, **options: Any) -> SideSamples:
    found = samples(before, after, Options(**options)).compared
    return next(one for one in found if one.figure == figure)


def test_values_of_each_run_in_order(run: Run) -> None:
    """One a run, on the side it is on."""
    found = sample([run(3.0), run(1.0)], [run(2.0)])
    assert (found.before, found.after, found.unit, found.obstacle) == ([3.0, 1.0], [2.0], "ms", "")


def test_what_only_one_side_has(run: Run, series: Callable[..., Any]) -> None:
    """A renamed series is not a difference of 100 %."""
    other = run(series=[series("other", 1.0)])
    assert sample([run()], [other]).obstacle == "only the runs before have it"
    assert sample([other], [run()]).obstacle == "only the runs after have it"


def test_what_some_runs_lack(run: Run) -> None:
    """A figure that some runs lack is not compared: the cause may be what the user wants to learn."""
    assert sample([run(), run(series=[]), run()], [run()]).obstacle == "1 of 3 runs before lacks it"


def test_units_that_differ(run: Run, series: Callable[..., Any]) -> None:
    """Figures with different units are not compared: the change of the unit may be a mistake."""
    found = sample([run()], [run(series=[series("latency", 5.0, unit="")])])
    assert found.obstacle == "different units: ms, none"


def test_too_few_values_in_some_runs(run: Run, series: Callable[..., Any]) -> None:
    """The percentile of the others stands, but not against these."""
    p99 = FigureKey("series", "latency", (), "p99")
    few = run(series=[series("latency", 5.0, count=100)])
    assert sample([run(), run()], [run(), few], p99).obstacle == (
        "too few values in 1 of 2 runs after: p99 needs 368"
    )
    assert sample([run(), run()], [run(), few]).obstacle == ""


def test_too_few_values_in_all_runs_is_left_out(run: Run) -> None:
    """A figure with too few values in all runs is left out.

    Otherwise runs of few values would always be inconclusive.
    """
    found = samples([run()], [run()], Options())
    (left,) = found.left_out
    assert left.figure == FigureKey("series", "latency", (), "p99.9")
    assert left.obstacle == "needs 3,688 in each run, has at most 1,000"
    assert not [one for one in found.compared if one.figure.statistic == "p99.9"]


def test_numbers_that_are_none(run: Run) -> None:
    """A number that is not finite is an obstacle, not a crash."""
    value = FigureKey("counter", "c", (), "value")
    odd = [run(counters=[CounterStat(name="c", value=math.nan)])]
    assert sample(odd, [run(counters=[CounterStat(name="c", value=1)])], value).obstacle == ("not finite before")


def test_runs_that_are_not_complete(run: Run) -> None:
    """An obstacle, unless it is allowed."""
    lossy = run(completeness="lossy")
    assert sample([lossy], [run()]).obstacle == "1 of 1 run before is lossy"
    assert sample([lossy], [run()], allow_incomplete=True).obstacle == ""


@pytest.mark.parametrize(
    ("only", "statistics"),
    [
        (["latency"], ["mean", "p50", "p90", "p99", "rate"]),
        (["*:p99", "command:cpu"], ["cpu", "p99"]),
    ],
)
def test_only_what_was_asked_for(run: Run, only: list[str], statistics: list[str]) -> None:
    """`only` chooses figures by the name of an instrument or by that of the figure."""
    found = samples([run()], [run()], Options(only=only)).compared
    assert sorted(one.figure.statistic for one in found) == statistics


def test_a_pattern_that_means_nothing(run: Run, series: Callable[..., Any]) -> None:
    """An error, unless a run of either side has it, if with too few values."""
    other = run(series=[series("other", 1.0, count=3)], gauges=[GaugeStat(name="depth")])
    assert samples([run()], [other], Options(only=["other:mean"])).compared
    (left,) = samples([run()], [other], Options(only=["other:p50"])).left_out
    assert left.figure == FigureKey("series", "other", (), "p50")
    with pytest.raises(UsageError, match="the runs have no figure 'latncy'") as wrong:
        samples([run()], [other], Options(only=["latency", "latncy"]))
    assert wrong.value.hint == "did you mean latency?"
    with pytest.raises(UsageError, match="no figure 'depth'") as wrong:
        samples([run()], [other], Options(only=["depth"]))
    assert wrong.value.hint == "depth is a gauge, and gauges can't be compared"

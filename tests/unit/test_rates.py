"""The one rule of rates: over the time in which there were events."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from telemetry.history.rates import FEW, Pace, Paces, RecentSteps, recent_rate
from telemetry.wire.snapshot import AxisStat, CounterStat, MetricsSnapshot, SeriesStat, WindowStat

SECOND = 10**9
STARTED = 1_000 * SECOND


def counter(value: float, start_s: float, end_s: float, events: int = 100, **facts: Any) -> CounterStat:
    """A counter that was recorded between two times since the start of the run."""
    times = {"began_ns": STARTED + round(start_s * SECOND), "ended_ns": STARTED + round(end_s * SECOND)}
    return CounterStat(value=value, events=events, **{"name": "requests", **times, **facts})


def series(count: int, start_s: float, end_s: float, **facts: Any) -> SeriesStat:
    times = {"began_ns": STARTED + round(start_s * SECOND), "ended_ns": STARTED + round(end_s * SECOND)}
    return SeriesStat(count=count, **{"name": "latency", **times, **facts})


def run(*stats: CounterStat | SeriesStat, elapsed_s: float = 60.0) -> MetricsSnapshot:
    return MetricsSnapshot(
        run_id="r",
        name="n",
        started_ns=STARTED,
        elapsed_s=elapsed_s,
        counters=[stat for stat in stats if isinstance(stat, CounterStat)],
        series=[stat for stat in stats if isinstance(stat, SeriesStat)],
    )


def pace(*stats: CounterStat | SeriesStat, beside: tuple[CounterStat | SeriesStat, ...] = ()) -> Pace:
    return Paces(run(*stats, *beside)).of(*stats)


def test_the_time_before_the_first_event_does_not_count() -> None:
    """Nor the time after the last one: 500 requests in 1.58 s of a run of a minute."""
    found = pace(series(500, 5.0, 6.58))
    assert (found.number, found.seconds, found.is_of_run) == (500, 1.58, False)
    assert found.per_s == pytest.approx(316.46, abs=0.01)


def test_several_are_counted_together() -> None:
    """The rate of several counters is from the first begin to the last end.

    A counter without events has no effect.
    """
    found = pace(counter(30, 10.0, 13.0), counter(70, 12.0, 20.0), counter(0, 0.0, 0.0, events=0, began_ns=0))
    assert (found.number, found.seconds, found.per_s) == (100, 10.0, 10.0)


def test_nothing_begins_before_the_run() -> None:
    """A duration that began earlier is counted from the start. Events that are all older keep their times."""
    assert pace(series(20, -3_600.0, 10.0)).seconds == 10.0
    assert pace(series(20, -300.0, -100.0)).seconds == 200.0


def test_few_events_are_counted_over_the_time_of_all() -> None:
    """Three requests that came at once are no 300 a second. The machine's counters are no part of it."""
    few = counter(FEW - 1, 30.0, 30.01, events=FEW - 1)
    others = (
        series(1_000, 10.0, 40.0),
        counter(9, 0.0, 60.0, name="host.disk"),
        counter(1, 1.0, 2.0, name="telemetry.masked"),
    )
    assert pace(few, beside=others).seconds == 30.0
    assert pace(counter(FEW, 30.0, 30.5, events=FEW), beside=others).seconds == 0.5
    assert pace(few).seconds == pytest.approx(0.01)


def test_troubles_are_counted_over_the_time_of_all() -> None:
    """However many came at once."""
    errors = counter(50, 30.0, 30.1, name="http.errors")
    assert pace(errors, beside=(series(1_000, 10.0, 60.0),)).per_s == 1.0
    assert pace(series(50, 30.0, 30.1, name="failed_latency"), beside=(series(1_000, 10.0, 60.0),)).per_s == 1.0


def test_a_rare_event_does_not_lengthen_the_time_of_all() -> None:
    """8 errors in 400 requests are 2 % of their rate, whenever the first one came."""
    requests = counter(400, 10.0, 14.0, events=400)
    early = counter(8, 9.5, 13.9, events=8, name="errors")  # the first at 10.05 s, one each 0.55 s
    assert pace(early, beside=(requests,)).per_s == pytest.approx(2.0)
    before = counter(2, 8.0, 12.0, events=2, name="errors")  # the first at 10 s
    assert pace(before, beside=(requests,)).per_s == pytest.approx(0.5)
    connecting = counter(2, 2.0, 14.0, events=2, name="errors")  # the first at 8 s, before any request
    assert pace(connecting, beside=(requests,)).seconds == pytest.approx(6.0)
    assert pace(early).seconds == pytest.approx(4.4)


def test_one_event_alone_has_no_rate() -> None:
    """There is no time to count it over. No event at all is a rate of zero."""
    found = pace(counter(7, 30.0, 30.0, events=1))
    assert (found.number, found.seconds, found.per_s) == (7, None, None)
    assert pace(counter(0, 0.0, 0.0, events=0, began_ns=0, ended_ns=0)).per_s == 0.0
    beside = (series(1_000, 10.0, 60.0),)
    assert pace(counter(7, 30.0, 30.0, events=1), beside=beside).per_s is None
    assert pace(counter(1, 30.0, 30.0, events=1, name="errors"), beside=beside).per_s == 0.02


def test_a_few_events_at_the_same_moment_have_no_rate() -> None:
    """Three steps that did nothing in between were 50,000 a second. Other work beside them gives them a time."""
    few = counter(3, 30.0, 30.0005, events=3)
    assert pace(few).per_s is None
    assert steps_per_s(axis(0, 2, 30.0, 30.0005)) is None
    assert pace(few, beside=(counter(50, 10.0, 40.0, events=50),)).seconds == 30.0
    assert pace(counter(FEW, 30.0, 30.0005, events=FEW)).per_s == pytest.approx(FEW / 0.0005)


def test_a_result_without_times_has_rates_over_the_run() -> None:
    """A result without times has rates over the run and says so. A time range has rates over its length."""
    old = counter(120, 0.0, 0.0, began_ns=0, ended_ns=0)
    assert pace(old) == Pace(120, 60.0, is_of_run=True)
    assert pace(old, counter(1, 1.0, 2.0)).is_of_run
    assert Paces(run(old), seconds=10.0).of(old).per_s == 12.0
    assert Paces(run(old, elapsed_s=0.0)).of(old).per_s is None


def test_a_rate_beyond_all_floats_is_none() -> None:
    """A number beyond all floats, as in a forged result, has no rate."""
    assert pace(counter(10**400, 1.0, 2.0)).per_s is None


@pytest.mark.parametrize(
    ("start_s", "end_s", "known", "expected"),
    [
        (59.0, 59.9, 0.0, 100.0),
        (59.0, 59.9, 70.0, 70.0),
        (50.0, 59.9, 0.0, 0.0),
        (59.9, 59.9, 0.0, 0.0),
    ],
    ids=["young", "with a window", "silent", "a single event"],
)
def test_the_rate_of_the_last_seconds(start_s: float, end_s: float, known: float, expected: float) -> None:
    """The recent rate is that of the window.

    A young instrument without a window is counted since its first event.
    """
    for stat in (
        counter(100, start_s, end_s, rate=known),
        series(100, start_s, end_s, window=WindowStat(seconds=1, rate=known)),
    ):
        assert recent_rate(stat, run(stat)) == pytest.approx(expected)


# --- steps -----------------------------------------------------------------------------------------


def axis(lowest: int, highest: int, first_s: float, last_s: float, every: int = 1, **facts: Any) -> AxisStat:
    """An axis whose first and last values came at these times since the start of the run."""
    steps = (highest - lowest) // every + 1
    gap_s = (last_s - first_s) / max(steps - 1, 1)
    times = {
        "began_ns": STARTED + round((first_s - gap_s) * SECOND),
        "ended_ns": STARTED + round(last_s * SECOND),
    }
    return AxisStat(closed=steps, lowest=lowest, highest=highest, **{"name": "step", **times, **facts})


def steps_per_s(stat: AxisStat, *beside: CounterStat | SeriesStat) -> float | None:
    return Paces(replace(run(*beside), axes=[stat])).steps_per_s(stat.name)


def test_steps_are_counted_between_the_first_and_the_last_report() -> None:
    """Steps have the rate of a counter with one event a step, wherever they begin."""
    assert steps_per_s(axis(0, 60, 10.0, 40.0)) == pytest.approx(2.0)
    assert steps_per_s(axis(5_000, 5_060, 10.0, 40.0)) == pytest.approx(2.0)
    assert steps_per_s(axis(0, 60, 10.0, 40.0)) == pace(counter(61, 9.5, 40.0, events=61)).per_s


def test_steps_that_are_not_logged_count() -> None:
    """A loop that logs each 50th step is as fast as its steps."""
    assert steps_per_s(axis(0, 3_000, 10.0, 40.0, every=50)) == pytest.approx(100.0)


def test_few_steps_are_counted_over_the_time_of_all() -> None:
    """Three quick steps at the start of a run of half a minute are no 50,000 a second. One step has no rate."""
    beside = series(1_000, 10.0, 40.0)
    assert steps_per_s(axis(0, 2, 10.0, 10.00004), beside) == pytest.approx(0.1, rel=0.001)
    assert steps_per_s(axis(0, FEW - 1, 10.0, 10.9), beside) == pytest.approx(10.0)
    assert steps_per_s(axis(0, 0, 10.0, 10.0), beside) is None
    counted = replace(run(counter(3, 12.0, 12.1, events=3)), axes=[axis(0, 60, 10.5, 40.5)])
    assert Paces(counted).of(*counted.counters).seconds == pytest.approx(30.5), "steps are of the program, too"


def test_an_axis_without_times_has_no_rate() -> None:
    """An axis without times has no rate, as of an older version or in the report of a time range.

    The time of the program does not include it.
    """
    old = axis(0, 60, 10.0, 40.0, began_ns=0, ended_ns=0)
    few = counter(3, 12.0, 12.1, events=3)
    assert steps_per_s(old, few) is None
    assert Paces(replace(run(few), axes=[old])).of(few).seconds == pytest.approx(0.1)
    assert Paces(run()).steps_per_s("step") is None


def watched(*moments: tuple[float, AxisStat | None]) -> dict[str, float]:
    """The speeds after these snapshots, with their times since the start of the run."""
    recent, speeds = RecentSteps(), {}
    for at_s, stat in moments:
        axes = [stat] if stat is not None else []
        speeds = recent.learn(replace(run(elapsed_s=at_s), window_s=10.0, axes=axes))
    return speeds


def test_the_speed_of_the_last_seconds() -> None:
    """The speed is that of the window, or since the first step of a young axis.

    An axis without further steps has the speed 0.
    """
    going = [(float(second), axis(0, 4 * second, 0.0, float(second))) for second in range(1, 31)]
    assert watched(*going) == {"step": pytest.approx(4.0)}
    slower = [(30.0 + second, axis(0, 120 + second, 0.0, 30.0 + second)) for second in range(1, 11)]
    assert watched(*going, *slower) == {"step": pytest.approx(1.0)}
    silent = [(30.0 + second, axis(0, 120, 0.0, 30.0)) for second in range(1, 12)]
    assert watched(*going, *silent[:5]) == {"step": pytest.approx(2.0)}
    assert watched(*going, *silent) == {"step": 0.0}
    assert watched((3.0, None), (8.0, axis(0, 400, 4.0, 8.0, every=100))) == {"step": pytest.approx(100.0)}


def test_the_speed_is_unknown_at_first() -> None:
    """One step tells none, nor does the first snapshot of a run that has long been going on."""
    assert watched((3.0, None), (4.0, axis(7, 7, 3.5, 3.5))) == {}
    assert watched((50.0, axis(0, 400, 0.0, 50.0))) == {}
    assert watched((50.0, axis(0, 400, 0.0, 50.0)), (9.0, axis(0, 9, 0.0, 9.0))) == {}, "another run"


def test_steps_that_waited_for_a_rank_are_no_burst() -> None:
    """Steps count over the time of their values, however late and however many at once they arrive."""
    waiting = [(float(second), axis(0, 4, 0.0, 1.0)) for second in range(1, 26)]
    assert watched(*waiting, (25.5, axis(0, 100, 0.0, 25.0))) == {"step": pytest.approx(4.0)}


def test_quick_steps_are_no_burst() -> None:
    """Quick steps count until now, as other events of the last seconds do."""
    assert watched((3.0, None), (8.0, axis(0, 2, 4.0, 4.00004))) == {"step": pytest.approx(0.75, rel=0.001)}

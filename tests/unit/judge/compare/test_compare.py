"""Two sets of runs in, verdicts out."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from telemetry.errors import UsageError
from telemetry.judge.compare import (
    ChangedSetting,
    Comparison,
    Directions,
    MetricResult,
    Options,
    compare,
    largest,
    largest_outside,
    main_difference,
)
from telemetry.statistics.confidence import wilson
from telemetry.store.calibrations import Calibration, MetricNoise
from telemetry.wire.pictures import StepCurve
from telemetry.wire.report import Bounds, Report, SeriesBounds
from telemetry.wire.snapshot import AxisStat, CommandFacts, CounterStat

Run = Callable[..., Report]
ByTurns = Callable[..., tuple[list[Report], list[Report]]]
NOISY = [10.0, 10.4, 9.7, 10.1, 9.9, 10.3, 9.8, 10.2]


def metric(comparison: Comparison, statistic: str, name: str = "latency") -> MetricResult:
    return next(one for one in comparison.metrics if (one.name, one.statistic) == (name, statistic))


def scaled(values: list[float], factor: float) -> list[float]:
    """Return the values times about `factor`, with noise of their own."""
    source = random.Random(1)
    return [value * factor * source.gauss(1, 0.005) for value in values]


def test_what_became_slower_is_worse_and_comes_first(by_turns: ByTurns) -> None:
    """All percentiles of the series; the command and the counter did not change."""
    found = compare(*by_turns(NOISY, scaled(NOISY, 1.10)))
    assert found.paired
    assert found.verdict == "worse"
    worse = [(one.name, one.statistic) for one in found.metrics if one.verdict == "worse"]
    assert sorted(worse) == [("latency", statistic) for statistic in ("mean", "p50", "p90", "p99")]
    assert [one.verdict for one in found.metrics[:4]] == ["worse"] * 4
    p50 = metric(found, "p50")
    assert p50.low is not None
    assert p50.high is not None
    assert p50.low < 0.10 < p50.high
    assert p50.p_value is not None
    assert p50.p_adjusted is not None
    assert p50.p_value < p50.p_adjusted < 0.05
    assert metric(found, "wall", "").verdict == "same"


def test_what_became_faster_is_better(by_turns: ByTurns) -> None:
    """A latency that became shorter is better, and a pattern for `higher` turns that round."""
    sides = by_turns(NOISY, scaled(NOISY, 0.9))
    assert metric(compare(*sides), "p50").verdict == "better"
    turned = Options(directions=Directions(higher=["latency"]))
    assert metric(compare(*sides, turned), "p50").verdict == "worse"


def test_many_figures_need_more_than_one_does(run: Run, series: Callable[..., Any]) -> None:
    """A difference that would count alone does not among fifty series of noise (Holm); asked for alone it does."""
    source = random.Random(5)

    def noisy(p50: float, at: float) -> Report:
        others = [series(f"s{number}", source.gauss(10, 0.5)) for number in range(50)]
        return run(at=at, series=[series("latency", p50), *others])

    wave = [3.0, 2.0, 2.5, 1.0, 3.5, 0.5, 2.0, -0.5]
    before = [noisy(10.0, 2 * number) for number in range(8)]
    after = [noisy(10.0 * (1 + off / 100), 2 * number + 1) for number, off in enumerate(wave)]
    alone = compare(before, after, Options(only=["latency:p50"], min_effect=0.0))
    assert [one.verdict for one in alone.metrics] == ["worse"]
    p_alone = metric(alone, "p50").p_value
    assert p_alone is not None
    among = compare(before, after, Options(min_effect=0.0))
    p50 = metric(among, "p50")
    assert p50.p_value == p_alone
    assert p50.p_adjusted is not None
    assert p50.p_adjusted > 10 * p_alone
    assert p50.verdict == "not_shown"


@pytest.mark.slow
def test_noise_alone_raises_no_alarm_in_nineteen_of_twenty_comparisons(
    run: Run, series: Callable[..., Any]
) -> None:
    """Twenty series of noise, eight runs a side, sixty times: any figure called different is an alarm."""
    source = random.Random(11)

    def noisy(at: float) -> Report:
        made = [series(f"s{number}", source.lognormvariate(0, 0.1)) for number in range(20)]
        return run(at=at, series=made, counters=[], command=None)

    alarms = {True: 0, False: 0}
    for _ in range(60):
        for turns in alarms:
            before = [noisy(2 * number) for number in range(8)]
            after = [noisy(2 * number + 1 if turns else 100 + number) for number in range(8)]
            found = compare(before, after, Options(min_effect=0.0, only=["*:p50"]))
            assert found.paired is turns
            alarms[turns] += found.verdict != "not_shown"
    assert alarms[True] <= 9
    assert alarms[False] <= 7


def test_with_one_run_a_side_nothing_is_claimed(run: Run) -> None:
    """The difference and the bounds within each run are there, for information."""
    bounds = SeriesBounds(name="latency", percentiles={"50": Bounds(low=9.0, high=11.0)})
    before, after = replace(run(10.0), bounds=[bounds]), run(20.0)
    found = compare([before], [after])
    assert {one.verdict for one in found.metrics} == {"cannot_tell", "left_out"}
    assert "does not show run-to-run noise" in found.notes[0]
    p50 = metric(found, "p50")
    assert (p50.reason, p50.difference, p50.low, p50.p_value) == ("without bounds within a run", 1.0, None, None)
    assert p50.before_within is not None
    assert (p50.before_within.value, p50.before_within.low, p50.before_within.high) == (10.0, 9.0, 11.0)
    assert p50.after_within is not None
    assert (p50.after_within.value, p50.after_within.low) == (20.0, None)


WITHOUT, OVERLAP = "without bounds within a run", "the bounds within the two runs overlap"
MAYBE_SMALL = "there is a difference, but it may be smaller than 2 %"


@pytest.mark.parametrize(
    ("before", "after", "verdict", "reason"),
    [
        ((9.0, 10.0, 11.0), (19.0, 20.0, 21.0), "differs", ""),
        ((9.0, 10.0, 11.0), (10.5, 20.0, 21.0), "cannot_tell", OVERLAP),
        ((9.0, 10.0, 11.0), (9.0, 10.0, 11.0), "cannot_tell", OVERLAP),
        ((9.0, 10.0, 11.0), (None, 20.0, 21.0), "cannot_tell", WITHOUT),
        ((9.95, 10.0, 10.05), (9.95, 10.0, 10.05), "same", ""),
        ((9.95, 10.0, 10.05), (10.06, 10.1, 10.14), "same", ""),
        ((9.95, 10.0, 10.05), (10.06, 10.1, 10.16), "cannot_tell", MAYBE_SMALL),
        ((9.95, 10.0, None), (9.95, 10.0, 10.05), "cannot_tell", WITHOUT),
        ((9.95, 10.0, 10.05), (9.95, 10.0, None), "cannot_tell", OVERLAP),
        ((0.0, 0.0, 0.1), (0.0, 0.0, 0.1), "cannot_tell", OVERLAP),
    ],
)
def test_two_single_runs_by_their_bounds(
    run: Run, before: Sequence[float | None], after: Sequence[float | None], verdict: str, reason: str
) -> None:
    """Bounds apart show a difference, and only narrow ones show that none of them matters."""
    sides = [
        replace(run(value), bounds=[SeriesBounds(name="latency", percentiles={"50": Bounds(low=low, high=high)})])
        for low, value, high in (before, after)
    ]
    found = metric(compare(sides[:1], sides[1:]), "p50")
    assert (found.verdict, found.reason) == (verdict, reason)


def test_larger_differences_come_first_within_a_verdict(run: Run, series: Any) -> None:
    """A value that halves differs as much as one that doubles; figures of the command come last."""
    sides = [
        run(series=[series("a", 10.0), series("b", values[0]), series("c", values[1])],
            command=CommandFacts(argv=["x"], exit_code=0, wall_s=values[2], cpu_user_s=1.0))
        for values in ((10.0, 40.0, 1.0), (20.0, 10.0, 90.0))
    ]  # fmt: skip
    found = compare(sides[:1], sides[1:])
    p50 = [one.name for one in found.metrics if one.statistic == "p50"]
    assert p50 == ["c", "b", "a"]
    compared = [one.of for one in found.metrics if one.verdict == "cannot_tell"]
    assert compared[-2:] == ["command", "command"]
    assert largest(found) == []


def test_the_largest_differences_are_those_with_a_verdict(run: Run) -> None:
    """The largest differences are those with a verdict, with one figure for each instrument.

    New errors come first and figures of the command last.
    """

    def one(number: int, p50: float, errors: float, wall_s: float) -> Report:
        counters = [CounterStat(name="errors", value=errors, events=int(errors))]
        command = CommandFacts(argv=["x"], exit_code=0, wall_s=wall_s + number / 100, cpu_user_s=1.0)
        return run(p50 + number / 100, at=number, counters=counters, command=command)

    before, after = (
        [one(number, *values) for number in range(first, first + 8)]
        for first, values in ((0, (10.0, 0, 10.0)), (20, (20.0, 40, 90.0)))
    )
    found = largest(compare(before, after))
    assert [(one.name, one.statistic) for one in found] == [("errors", "share"), ("latency", "p99"), ("", "wall")]
    assert largest(compare(before[:4], before[4:], Options(min_effect=0.2))) == []


def test_the_largest_differences_are_in_the_order_of_what_they_show() -> None:
    """The largest differences are in the order of the figures that stand for their instruments.

    Other figures of an instrument don't count.
    """
    one = MetricResult(of="series", statistic="p99", name="a", unit="ms", better="lower", verdict="differs",
                       before=1.0, after=1.5, difference=0.5)  # fmt: skip
    metrics = [
        replace(one, statistic="p50", after=9.0, difference=8.0),
        one,
        replace(one, name="b", after=2.0, difference=1.0),
        replace(one, name="c", after=0.25, difference=-0.75),
    ]
    assert [(found.name, found.statistic) for found in largest(Comparison(metrics=metrics))] == [
        ("c", "p99"), ("b", "p99"), ("a", "p99"),
    ]  # fmt: skip


def test_times_of_requests_come_before_the_lateness_of_the_load() -> None:
    """The delay of the load generator may differ most, and says nothing about the service."""
    delay = MetricResult(of="series", statistic="p50", name="chat.queue_delay", unit="ns", better="lower",
                         verdict="differs", before=1.0, after=3624.0, difference=3623.0)  # fmt: skip
    tail = replace(delay, name="chat.latency", statistic="p99", after=2.0, difference=1.0)
    median = replace(delay, name="chat.ttft", after=1.5, difference=0.5)
    untold = replace(median, name="chat.itl", verdict="cannot_tell")
    for metrics, told in (
        ([delay, tail, median, untold], median),
        ([delay, tail, untold], tail),
        ([delay, untold], delay),
    ):
        assert main_difference(Comparison(metrics=metrics)) == told


def test_code_and_machine_come_after_the_parameters(run: Run) -> None:
    """Code and machine come after the parameters in the settings that differ.

    A change of the user's own explains more.
    """
    before = run(params={"git.commit": "a", "lr": 1.0, "env.OMP_NUM_THREADS": "1", "packages.torch": "2"})
    after = run(params={"git.commit": "b", "lr": 2.0, "env.OMP_NUM_THREADS": "2", "packages.torch": "2"})
    names = [one.name for one in compare([before], [after]).settings]
    assert names == ["lr", "env.OMP_NUM_THREADS", "git.commit"]


def test_an_environment_of_one_side_alone_is_no_difference(run: Run) -> None:
    """A program that starts its own run records none. What both sides have is compared."""
    plain, whole = run(params={"lr": 1.0}), run(params={"lr": 2.0, "machine.cpu": "c", "packages.torch": "2"})
    for sides, side in (((plain, whole), "before"), ((whole, plain), "after")):
        found = compare(*([one] for one in sides))
        assert [one.name for one in found.settings] == ["lr"]
        assert f"environment not recorded {side}: code, machine and packages are not compared" in found.notes
    partly = compare([run(params={"machine.cpu": "c"})], [whole])
    assert [one.name for one in partly.settings] == ["lr", "packages.torch"]
    assert not any("environment" in note for note in (*partly.notes, *compare([plain], [run()]).notes))


def test_settings_that_differ_are_told(run: Run) -> None:
    """Parameters of the runs and words of the command, but not the choice of figures to show first."""
    before = [
        run(params={"lr": 1.0, "seed": seed, "batch": 8, "telemetry.headline": str(seed)},
            command=CommandFacts(argv=["train", "1.0", "x"], exit_code=0, wall_s=1.0))
        for seed in (1, 2)
    ]  # fmt: skip
    after = run(
        params={"lr": 1.6, "seed": 1, "batch": 8, "amp": True},
        command=CommandFacts(argv=["train", "1.6", "x"], exit_code=0, wall_s=1.0),
    )
    assert compare(before, [after]).settings == [
        ChangedSetting(name="amp", after=["true"]),
        ChangedSetting(name="lr", before=["1.0"], after=["1.6"]),
        ChangedSetting(name="seed", before=["1", "2"], after=["1"]),
        ChangedSetting(name="command", before=["1.0"], after=["1.6"]),
    ]
    longer = run(command=CommandFacts(argv=["train", "it all"], exit_code=0, wall_s=1.0))
    assert compare([longer], [after]).settings[-1] == ChangedSetting(
        name="command", before=["train 'it all'"], after=["train 1.6 x"]
    )
    assert compare(before, [replace(before[0], snapshot=replace(before[0].snapshot, run_id="z"))]).settings == [
        ChangedSetting(name="seed", before=["1", "2"], after=["1"])
    ]


def test_with_one_run_a_side_a_calibration_says_whether_noise_reaches_so_far(run: Run) -> None:
    """A calibration tells whether the difference of two single runs exceeds the noise.

    There is still no verdict: something else may have changed between the two runs.
    """
    known = MetricNoise(of="series", statistic="p50", name="latency", values=[0.95, 1.05] * 5)
    calibration = Calibration(name="bench", metrics=[known])
    found = compare([run(10.0)], [run(20.0)], calibration=calibration)
    assert found.calibration == "bench"
    p50 = metric(found, "p50")
    assert p50.verdict == "cannot_tell"
    assert p50.noise is not None
    assert p50.noise.exceeded is True
    assert "beyond the noise of the calibration" in p50.reason
    assert metric(found, "p90").noise is None


@pytest.mark.parametrize(
    ("after", "verdict"), [(0.1, "differs"), (0.4, "not_shown"), (2.5, "not_shown"), (10.0, "differs")]
)
def test_loud_noise_treats_falls_like_rises(run: Run, after: float, verdict: str) -> None:
    """A value can't fall by more than 100 %, but it can fall to a tenth."""
    loud = MetricNoise(
        of="steps", statistic="last", name="loss", labels={"axis": "train"}, values=[0.64, 1.0, 1.56] * 4
    )
    calibration = Calibration(name="b", metrics=[loud])
    found = compare([steps(run, 1.0)], [steps(run, after)], Options(only=["loss:last"]), calibration)
    assert metric(found, "last", "loss").verdict == verdict


def test_the_noise_of_all_figures_holds_together(run: Run) -> None:
    """A figure that is beyond its noise alone may be within it among others, as with the intervals."""
    noise = [
        MetricNoise(of="steps", statistic=name, name="loss", labels={"axis": "train"}, values=[0.99, 1.0, 1.01] * 4)
        for name in ("last", "best")
    ]
    sides = [steps(run, 1.0)], [steps(run, 1.03)]
    alone, together = (
        compare(*sides, Options(only=[pattern]), Calibration(name="b", metrics=noise))
        for pattern in ("loss:last", "loss")
    )
    assert metric(alone, "last", "loss").verdict == "differs"
    assert metric(together, "last", "loss").verdict == "not_shown"


@pytest.mark.parametrize(("lone", "place"), [(30.0, "above all of"), (1.0, "below all of"), (10.0, "among")])
def test_one_run_against_many(run: Run, lone: float, place: str) -> None:
    """A single run against many has no verdict: the reason says where it lies among them."""
    many = [run(p50) for p50 in NOISY]
    assert metric(compare(many, [run(lone)]), "p50").reason == f"one run after: it is {place} the 8 before"
    assert metric(compare([run(lone)], many), "p50").reason == f"one run before: it is {place} the 8 after"


def test_figures_of_a_run_outside_of_many_are_named(run: Run) -> None:
    """The largest first, one of each instrument, and only those that are reliable and far enough outside."""
    near, many = [CounterStat(name="sent", value=1.0)], [run(10.0), run(11.0)]
    found = compare(many, [run(50.0, counters=near)])
    assert [(one.name, one.statistic) for one in largest_outside(found)] == [("latency", "p99")]
    assert largest_outside(compare([run(50.0)], many)) != []
    assert largest_outside(compare(many, [run(10.5)])) == []
    assert largest_outside(compare(many, [run(50.0, completeness="interrupted", state="INTERRUPTED")])) == []
    assert largest_outside(compare([run(10.0)], [run(50.0)])) == []


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (1, 1, "one run per side does not show run-to-run noise: what differs in these two runs may be noise"),
        (4, 1, "one run of a side does not show run-to-run noise: no figure has a verdict"),
        (2, 3, "2 runs of a side show little of the run-to-run noise"),
        (5, 5, ""),
    ],
)
def test_too_few_runs_are_said(run: Run, before: int, after: int, words: str) -> None:
    """Both numbers count: the smaller one decides."""
    sides = [run(at=2 * at) for at in range(before)], [run(at=2 * at + 1) for at in range(after)]
    notes = [note for note in compare(*sides).notes if "run-to-run" in note]
    assert [note.startswith(words) for note in notes] == ([True] if words else [])


def test_one_side_after_the_other_is_said(by_turns: ByTurns, run: Run) -> None:
    """A note warns if all runs of one side are older.

    A change of the machine in between looks like a difference of the program.
    """
    before, after = [run(10.0, at=number) for number in range(5)], [run(10.0, at=9 + number) for number in range(5)]
    assert any("all runs of one side are older" in note for note in compare(before, after).notes)
    assert any("all runs of one side are older" in note for note in compare(after, before).notes)
    assert not any("alternate the runs" in note for note in compare(*by_turns([10.0] * 5, [10.0] * 5)).notes)


def test_percentiles_nobody_can_compare_are_noted(run: Run, series: Any) -> None:
    """A percentile with too few values has a row without numbers. The reason tells how many values it needs.

    Such rows don't count for the verdict.
    """
    found = compare(*[[run(series=[series(name, 10.0) for name in "ab"]) for _ in "12"] for _ in "12"])
    left = [one for one in found.metrics if one.verdict == "left_out"]
    assert [(one.name, one.statistic, one.before) for one in left] == [("a", "p99.9", None), ("b", "p99.9", None)]
    assert {one.reason for one in left} == {"needs 3,688 in each run, has at most 1,000"}
    assert found.verdict == "same"
    assert f"all {len(found.metrics) - 2} figures" in found.headline()


def test_errors_that_were_not_there_before(run: Run) -> None:
    """The share of new errors comes first and is worse, though it has no relative difference from 0.

    The number of errors has changed.
    """
    before = [run(at=2 * number, counters=[CounterStat(name="errors", value=0)]) for number in range(6)]
    after = [run(at=2 * number + 1, counters=[CounterStat(name="errors", value=3 + number)]) for number in range(6)]
    found = compare(before, after)
    assert [(one.name, one.statistic, one.verdict, one.difference) for one in found.metrics[:2]] == [
        ("errors", "share", "worse", None),
        ("errors", "value", "changed", None),
    ]


def test_errors_are_compared_by_their_share_of_the_requests(run: Run) -> None:
    """Half the requests in a fifth of the time, with half the errors: no worse rate, and no better number."""
    pairs = []
    for number in range(6):
        many, few = (
            [CounterStat(name="requests", value=value), CounterStat(name="errors", value=value / 100)]
            for value in (1_000, 500)
        )
        pairs.append((run(at=2 * number, counters=many), run(at=2 * number + 1, counters=few, elapsed_s=2.0)))
    found = compare([before for before, _ in pairs], [after for _, after in pairs])
    assert metric(found, "share", "errors").verdict == "same"
    assert metric(found, "value", "errors").better == "neither"
    assert not [one for one in found.metrics if one.name == "errors" and one.statistic == "rate"]


def test_a_side_without_errors_has_a_share_of_none(run: Run) -> None:
    """A counter that never counted is not in the snapshot. The requests beside it say that there were none."""
    requests = CounterStat(name="http.requests", value=1_000, unit="1")
    errors = CounterStat(name="http.errors", value=400, unit="1")
    found = compare([run(counters=[requests])], [run(counters=[requests, errors])])
    share = metric(found, "share", "http.errors")
    assert (share.verdict, share.before, share.after) == ("differs", 0.0, 0.4)


def test_no_sign_contradicts_its_row(run: Run) -> None:
    """Pairs say 5 % slower, the typical runs of the sides alone would say faster; the row has what was compared."""
    before = [10.0, 10.0, 10.0, 20.0, 20.0, 20.0]
    after = [10.5, 10.5, 10.5, 21.0, 9.0, 9.0]
    sides = [
        [run(value, at=2 * number + side) for number, value in enumerate(values)]
        for side, values in enumerate((before, after))
    ]
    found = compare(*sides, Options(only=["latency:p50"]))
    assert found.paired
    for one in found.metrics:
        assert one.before is not None
        assert one.after is not None
        assert one.difference is not None
        assert one.after / one.before - 1 == pytest.approx(one.difference)


@pytest.mark.parametrize("side", [0, 1])
def test_both_sides_need_runs(run: Run, side: int) -> None:
    """A comparison raises an error if one side has no runs."""
    sides: list[list[Report]] = [[], [run()]]
    with pytest.raises(UsageError, match="runs on both sides"):
        compare(sides[side], sides[1 - side])


def test_a_run_is_on_one_side_once(run: Run) -> None:
    """A run that is given twice, on one side or on both, raises UsageError."""
    one = run()
    with pytest.raises(UsageError, match="is given twice"):
        compare([one], [run(), one])
    with pytest.raises(UsageError, match="is given twice"):
        compare([one, one], [run()])


def steps(run: Run, last: float | None, at: float = 0, best: float = 0.25) -> Report:
    axis = AxisStat(name="train", closed=7, values={"loss": last})
    curve = StepCurve(axis="train", name="loss", count=7, min=best)
    return replace(run(at=at, series=[], counters=[], command=None, axes=[axis]), curves=[curve])


@pytest.mark.parametrize(("last", "verdict"), [(0.6, "differs"), (0.5, "same"), (0.505, "same"), (-0.5, "differs")])
def test_steps_of_two_single_runs_differ_or_not(run: Run, last: float, verdict: str) -> None:
    """Steps of two single runs differ or are the same. Their noise is unknown, so no figure is better or worse."""
    found = compare([steps(run, 0.5)], [steps(run, last)])
    assert metric(found, "last", "loss").verdict == verdict
    assert metric(found, "last", "loss").reason == ""
    assert (metric(found, "best", "loss").verdict, metric(found, "steps", "train").verdict) == ("same", "same")


def test_the_speed_of_steps_of_two_single_runs_is_not_exact(run: Run) -> None:
    """The speed of steps in two single runs gets the verdict `cannot_tell`.

    A repeated run would have another speed. Values of steps, such as the last loss, are compared as exact numbers.
    """

    def trained(ended_s: int) -> Report:
        axis = AxisStat(
            name="train", closed=20, lowest=1, highest=20, began_ns=10**9, ended_ns=(1 + ended_s) * 10**9
        )
        return run(at=ended_s, series=[], counters=[], command=None, axes=[axis], started_ns=10**9)

    found = metric(compare([trained(10)], [trained(15)]), "rate", "train")
    assert (found.verdict, found.before, found.after) == ("cannot_tell", 2.0, pytest.approx(4 / 3))


def test_steps_of_two_single_runs_within_known_noise(run: Run) -> None:
    """A calibration says what differs anyway."""
    noise = MetricNoise(of="steps", statistic="last", name="loss", labels={"axis": "train"}, values=[0.8, 1.2] * 5)
    calibration = Calibration(name="b", metrics=[noise])
    found = metric(compare([steps(run, 0.5)], [steps(run, 0.6)], None, calibration), "last", "loss")
    assert found.verdict == "not_shown"
    assert found.reason.startswith("within the noise of the calibration")


def test_steps_of_several_runs_have_verdicts(run: Run) -> None:
    """A lower loss is better."""
    before = [steps(run, 0.5 + number / 1000, 2 * number) for number in range(8)]
    after = [steps(run, 0.4 + number / 1000, 2 * number + 1) for number in range(8)]
    assert metric(compare(before, after), "last", "loss").verdict == "better"
    assert metric(compare(after, before), "last", "loss").verdict == "worse"


def test_a_loss_that_is_not_finite_is_said(run: Run) -> None:
    """A loss that is not finite gives `cannot_tell` with the reason and has no difference."""
    found = metric(compare([steps(run, 0.5)], [steps(run, None)]), "last", "loss")
    assert (found.verdict, found.reason, found.after) == ("cannot_tell", "not finite after", None)


def test_the_best_of_a_loss_that_became_nan_is_no_figure(run: Run) -> None:
    """A loss that diverged may have been the lowest before. A loss that became finite again keeps its best."""

    def trained(last: float | None, best: float, number: int) -> Report:
        made = steps(run, last, number, best)
        axes = [replace(axis, not_finite={"loss": 100}) for axis in made.snapshot.axes]
        return replace(made, snapshot=replace(made.snapshot, axes=axes))

    found = compare([steps(run, 0.5)], [trained(None, 0.1, 1)])
    assert (metric(found, "best", "loss").verdict, metric(found, "best", "loss").reason) == (
        "cannot_tell",
        "not finite after",
    )
    assert found.concerns == ["after: loss is NaN or infinite, first at step 100 of train"]
    back = compare([steps(run, 0.5)], [trained(0.4, 0.1, 1)])
    assert metric(back, "best", "loss").verdict == "differs"
    assert back.concerns == ["after: loss was NaN or infinite, first at step 100 of train"]
    many = compare([steps(run, 0.5)], [trained(None, 0.1, number) for number in range(9)])
    *named, more = many.concerns
    assert all(line.startswith("after, run r") for line in named)
    assert more == "values were NaN or infinite in 6 more runs"


def test_the_interval_is_the_one_that_the_verdict_rests_on(by_turns: ByTurns) -> None:
    """The interval of a difference excludes 0.

    The interval of `same` is within the smallest effect, and all others are neither.
    """
    found = compare(*by_turns(NOISY, scaled(NOISY, 1.1)))
    judged = [one for one in found.metrics if one.low is not None and one.high is not None]
    assert {one.verdict for one in judged} > {"worse"}
    for one in judged:
        assert one.low is not None
        assert one.high is not None
        apart = not one.low <= 0 <= one.high
        assert apart == (one.verdict in ("worse", "better", "changed")) or one.reason
        assert (one.verdict == "same") == (max(-one.low, one.high) <= found.min_effect)


def test_more_figures_have_wider_intervals(run: Run, series: Any) -> None:
    """Each may be wrong less often, so that all hold together."""

    def width(names: str) -> float:
        sides = [
            [run(at=2 * at + after, series=[series(name, p50) for name in names]) for at, p50 in enumerate(p50s)]
            for after, p50s in enumerate((NOISY, scaled(NOISY, 1.0)))
        ]
        one = next(one for one in compare(*sides).metrics if one.statistic == "p50")
        assert one.low is not None
        assert one.high is not None
        return one.high - one.low

    assert width("abcdefgh") > width("a")


def test_attainment_of_two_single_runs_has_bounds_within_each(run: Run) -> None:
    """The attainment of a single run has the same bounds as in reports and gates."""
    numbers = {"issued": 100, "completed": 100, "good": 90}
    counters = [CounterStat(name=f"llm.{word}", unit="requests", value=value) for word, value in numbers.items()]
    found = metric(compare([run(counters=counters)], [run(counters=counters)]), "attainment", "llm")
    assert found.before_within is not None
    assert (found.before_within.low, found.before_within.high) == wilson(90, 100)

"""Points with their figures and verdicts, and the knee among them."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.unit.judge.sweeps.runs import load_run, training_run

from telemetry.errors import UsageError
from telemetry.judge.sweeps.build import sweep_of
from telemetry.judge.sweeps.model import Sweep
from telemetry.statistics.confidence import wilson
from telemetry.wire.snapshot import AxisStat, CommandFacts, CounterStat

FAILED = CommandFacts(argv=["x"], pid=7, exit_code=3, wall_s=1.0)


def verdicts(sweep: Sweep) -> list[str]:
    return [point.verdict for point in sweep.points]


def test_the_figures_of_a_load() -> None:
    """Rates of the whole run, percentiles, attainment with its interval."""
    sweep = sweep_of([load_run({"users": 1}), load_run({"users": 2}, 20.0, good=0.9)])
    assert (sweep.by, sweep.flavour, sweep.subject, sweep.throughput) == (["users"], "llm", "llm", "requests_per_s")
    second = sweep.points[1]
    assert second.params == {"users": 2}
    assert second.value("requests_per_s") == 20.0
    assert second.value("goodput_per_s") == 18.0
    assert second.value("latency_p99") == 20e6
    assert second.value("failed") == 0
    share = second.figures["attainment"]
    assert (share.value, (share.low, share.high)) == (0.9, wilson(180, 200))
    assert [column.title for column in sweep.columns][:4] == ["requests/s", "goodput/s", "attainment", "TTFT p50"]


def test_repeated_runs_are_one_point() -> None:
    """The figures of repeated runs are medians with the smallest and the largest value.

    Attainment is that of all requests together.
    """
    runs = [load_run({"users": 1}, rate, good=good) for rate, good in ((10.0, 1.0), (30.0, 0.9), (20.0, 1.0))]
    (point,) = sweep_of(runs, ["users"]).points
    rate = point.figures["requests_per_s"]
    assert (rate.value, rate.low, rate.high) == (20.0, 10.0, 30.0)
    assert point.value("attainment") == pytest.approx(570 / 600)
    assert len(point.runs) == 3


def test_the_knee_has_the_highest_throughput_within_limits() -> None:
    """A point with more throughput and less attainment is not the knee."""
    loads = ((1, 10.0, 1.0), (4, 38.0, 0.995), (8, 41.0, 0.7), (16, 40.0, 0.1))
    sweep = sweep_of([load_run({"users": users}, rate, good=good) for users, rate, good in loads])
    assert verdicts(sweep) == ["pass", "pass", "fail", "fail"]
    assert sweep.knee is not None
    assert (sweep.knee.params, sweep.knee.throughput, sweep.knee.is_last) == ({"users": 4}, 38.0, False)
    short = sweep_of([load_run({"users": users}, rate, good=good) for users, rate, good in loads[:2]])
    assert short.knee is not None
    assert short.knee.is_last


def test_gates_come_before_attainment() -> None:
    """A point with gates passes by the gates alone, whatever its attainment."""
    runs = [
        load_run({"users": 1}, gate="pass", good=0.5),
        load_run({"users": 2}, 20.0, gate="inconclusive"),
        load_run({"users": 4}, 40.0, gate="fail", command=replace(FAILED, exit_code=None, signal="SIGTERM")),
    ]
    sweep = sweep_of(runs)
    assert (sweep.judged, verdicts(sweep)) == ("gates", ["pass", "inconclusive", "fail"])
    assert sweep.points[2].reason == "p99(latency) < 1s: it is so"
    assert sweep.knee is not None
    assert sweep.knee.params == {"users": 1}


def test_failed_and_incomplete_runs_do_not_pass() -> None:
    """One of several runs is enough."""
    runs = [
        load_run({"users": 1}),
        load_run({"users": 1}, command=FAILED),
        load_run({"users": 2}, completeness="lossy"),
    ]
    sweep = sweep_of(runs)
    assert verdicts(sweep) == ["failed", "incomplete"]
    assert [point.reason for point in sweep.points] == ["exit code 3", "lossy"]
    assert sweep.knee is None


def test_runs_without_limits_have_no_verdict() -> None:
    """There is nothing that they could fail."""
    sweep = sweep_of([load_run({"users": users}, good=None) for users in (1, 2)])
    assert (sweep.judged, verdicts(sweep), sweep.knee) == ("", ["none", "none"], None)
    assert "attainment" not in sweep.points[0].figures


def test_runs_that_do_not_fit_are_left_out_with_a_note() -> None:
    """Runs that still go on, and runs without the parameter."""
    runs = [
        load_run({"users": 1}),
        load_run({"users": 2}),
        load_run({"users": 4}, state="LIVE"),
        load_run({"other": 4}),
    ]
    sweep = sweep_of(runs, ["users"])
    assert len(sweep.points) == 2
    assert sweep.notes == ["1 run is still going and left out", "1 run has no parameter users and left out"]


def test_a_training_has_last_and_best_values() -> None:
    """A training has the last and best values of its steps, its duration and its number of steps."""
    sweep = sweep_of([training_run({"lr": 0.01}, 0.5, 0.4), training_run({"lr": 0.1}, 2.0, 0.9)])
    assert (sweep.flavour, sweep.subject, sweep.throughput) == ("training", "train", "")
    assert [point.value("last(loss)") for point in sweep.points] == [0.5, 2.0]
    assert [point.value("best(loss)") for point in sweep.points] == [0.4, 0.9]
    assert sweep.points[0].value("wall_s") == 10.0
    assert sweep.points[0].value("steps") == 100


def test_a_value_that_is_not_finite_is_missing() -> None:
    """A loss that became NaN has no place in a chart."""
    broken = training_run({"lr": 1.0}, 0.0, 0.4)
    axis = AxisStat(name="train", closed=100, newest=100, values={"loss": None})
    broken = replace(broken, snapshot=replace(broken.snapshot, axes=[axis]))
    sweep = sweep_of([training_run({"lr": 0.1}, 0.5, 0.4), broken])
    assert "last(loss)" not in sweep.points[1].figures


def test_a_kind_of_request_can_be_chosen() -> None:
    """Unknown kinds are refused with those that there are."""
    runs = [load_run({"users": users}) for users in (1, 2)]
    assert sweep_of(runs, kind="llm").subject == "llm"
    with pytest.raises(UsageError, match="no requests of kind 'chat'") as error:
        sweep_of(runs, kind="chat")
    assert error.value.hint == "kinds: llm"


def test_other_programs_have_their_headline() -> None:
    """A counter has its rate, and the title says that it is one."""
    counter = CounterStat(name="rows", value=500, events=500)
    runs = [load_run({"n": n}, counters=[counter], series=[]) for n in (1, 2)]
    sweep = sweep_of(runs)
    assert (sweep.flavour, sweep.throughput) == ("metrics", "")
    assert [column.title for column in sweep.columns] == ["rows/s"]
    assert sweep.points[0].value("rows/s") == 50.0

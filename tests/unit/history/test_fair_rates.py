"""A steady load is level from its first step to its last, in every chart."""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from telemetry.history.rates import Activity, Paces, RateSteps
from telemetry.wire.snapshot import CounterStat, MetricsSnapshot

SECOND = 10**9


def steps_of(seconds: list[float]) -> RateSteps:
    """Steps one after the other; of a negative length are gaps."""
    edges = [0.0]
    for length in seconds:
        edges.append(edges[-1] + abs(length))
    return RateSteps(edges[:-1], edges[1:], [max(length, 0.0) for length in seconds])


def steady(steps: RateSteps, begin_s: float, end_s: float, per_s: float) -> list[float]:
    """Increases of a load that lasts from one moment to another, in steps that are no gaps."""
    return [
        per_s * max(0.0, min(end, end_s) - max(start, begin_s)) if seconds else 0.0
        for start, end, seconds in zip(steps.starts_s, steps.ends_s, steps.seconds, strict=True)
    ]


@given(
    lengths=st.lists(st.sampled_from([0.1, 0.09, 0.12, 0.02]), min_size=20, max_size=60),
    begin_s=st.floats(0.0, 0.5),
    silence_s=st.floats(0.0, 0.9),
)
@example(lengths=[0.1] * 20, begin_s=0.0, silence_s=0.1 - 5e-8)
def test_a_steady_load_is_level(lengths: list[float], begin_s: float, silence_s: float) -> None:
    """Wherever it begins and ends within its first and last step, and however long the steps are."""
    steps = steps_of(lengths)
    end_s = max(sum(lengths) - silence_s, begin_s + 0.3)
    rates = steps.rates(steady(steps, begin_s, end_s, 300.0), Activity(begin_s, end_s, 300.0))
    drawn = [rate for rate in rates if rate is not None]
    assert drawn == pytest.approx([300.0] * len(drawn))
    for start, end, rate in zip(steps.starts_s, steps.ends_s, rates, strict=True):
        outside = end <= begin_s or start >= end_s
        assert (rate is None) == outside, "nothing is drawn outside, and nothing is left out inside"


def test_a_silence_longer_than_the_end_of_a_run_is_zero() -> None:
    """A load that stalled is not one that ended."""
    steps = steps_of([1.0] * 8)
    assert steps.rates([0.0, 5.0, 10.0, 10.0, 2.0, 0.0, 0.0, 0.0], Activity(1.5, 4.2, 10.0)) == pytest.approx(
        [None, 10.0, 10.0, 10.0, 10.0, 0.0, 0.0, 0.0]
    )


@pytest.mark.parametrize("silence_s", [1.0, 5.0])
def test_events_that_arrive_after_the_end_count_in_the_last_step(silence_s: float) -> None:
    """Events of a killed program are salvaged seconds later, and count in the last step."""
    steps = steps_of([0.1] * 10 + [silence_s, 0.1, 0.1])
    increases = [10.0] * 9 + [3.0, 0.0, 5.0, 2.0]
    found = steps.rates(increases, Activity(0.0, steps.starts_s[10], 100.0))
    assert found[:10] == pytest.approx([100.0] * 10)
    assert not any(found[10:])


def test_a_last_step_that_is_too_short_belongs_to_the_one_before() -> None:
    """A short last step is joined if the times of events are unknown, too, as in an older result."""
    steps = steps_of([1.0, 1.0, 1.0, 0.1])
    assert steps.rates([20.0, 20.0, 20.0, 0.0], Activity()) == pytest.approx([20.0, 20.0, 20 / 1.1, 20 / 1.1])


def test_regular_events_that_are_rare_are_no_comb() -> None:
    """Steps below a second share a rate, so that two events a second are two a second."""
    steps = steps_of([0.1] * 40)
    events = [1.0 if place % 5 == 2 else 0.0 for place in range(40)]
    assert steps.rates(events, Activity(0.0, 4.0, 2.0)) == pytest.approx([2.0] * 40)
    seconds = steps_of([1.0] * 4)
    assert seconds.rates([0.0, 2.0, 1.0, 1.0], Activity(0.0, 4.0, 1.0)) == [0.0, 2.0, 1.0, 1.0]


@pytest.mark.parametrize(("name", "drawn"), [("errors", [0.0, 0.0, 10.0, 0.0, 0.0]), ("epochs", [2.0] * 5)])
def test_a_failure_is_drawn_when_it_happened(name: str, drawn: list[float]) -> None:
    """Bars of failures show whether these came together, unlike the rate of a slow loop."""
    stat = CounterStat(name=name, value=8, events=8, began_ns=SECOND, ended_ns=5 * SECOND)
    snapshot = MetricsSnapshot(run_id="r", name="n", started_ns=SECOND, elapsed_s=4.0, counters=[stat])
    activity = Activity.of(Paces(snapshot), [stat], SECOND)
    steps = steps_of([0.1] * 40)
    events = [1.0 if place % 5 == 2 else 0.0 for place in range(40)]
    assert steps.rates(events, activity) == pytest.approx(drawn * 8)


def test_no_rate_is_made_across_a_gap() -> None:
    """Rates across a gap are missing, because nothing is known without history."""
    steps = steps_of([1.0, 0.2, -5.0, 0.3, 1.0])
    found = steps.rates([10.0, 2.0, 0.0, 3.0, 10.0], Activity())
    assert found == pytest.approx([10.0, 10.0, None, 10.0, 10.0])


@pytest.mark.parametrize("seconds", [[], [-1.0], [0.05]])
def test_few_steps(seconds: list[float]) -> None:
    """A run without steps gives no error, and a single step has its rate."""
    steps = steps_of(seconds)
    expected = [length and 20.0 if length > 0 else None for length in seconds]
    assert steps.rates([1.0] * len(seconds), Activity()) == expected
    assert Activity().per_s == math.inf

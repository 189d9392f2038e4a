"""Figures for pictures add up to the totals of the run, whatever was recorded and however long the steps are."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.history.runs import Making

from telemetry.history.rates import Paces, Stat
from telemetry.history.request_model import number_of_events
from telemetry.history.run import RecordedRun
from telemetry.history.step_curves import StepCurves
from telemetry.history.time_range import TimeRangeChoice
from telemetry.wire.events import ClosedStep, Define, StreamRecord
from telemetry.wire.pictures import Pictures
from telemetry.wire.report import Report
from telemetry.wire.version import PROTOCOL

DEFINITIONS = (
    Define(0, "latency", "series", "ms"),
    Define(1, "served", "counter"),
    Define(2, "chat.issued", "counter", "requests"),
    Define(3, "chat.completed", "counter", "requests"),
    Define(4, "chat.failed", "counter", "requests", {"reason": "timeout"}),
    Define(5, "chat.output_tokens", "series", "tokens"),
    Define(6, "chat.latency", "series", "ns"),
    Define(7, "size", "series", "bytes", low=0.5, digits=1),
)
SERIES = (0, 5, 6, 7)
VALUES = {
    0: st.floats(0.0, 1e7) | st.sampled_from([0.0, 100.0, 110.0]),
    5: st.integers(0, 1 << 40).map(float),
    6: st.integers(0, 1 << 52).map(float),
    7: st.floats(0.0, 1e9),
}
ROWS = st.sampled_from(sorted(VALUES)).flatmap(lambda row: st.tuples(st.just(row), VALUES[row])) | st.tuples(
    st.sampled_from([1, 2, 3, 4]), st.integers(0, 1_000).map(float)
)
MILLISECONDS = st.integers(0, 80_000)
SECONDS = st.lists(st.lists(ROWS, max_size=30), min_size=1, max_size=40)


class Totals:
    """Sums of drawn rates over the time in which their instruments had events, as docs/METRICS.md counts it."""

    def __init__(self, run: RecordedRun, edges_s: list[float]) -> None:
        snapshot = run.result.snapshot
        self._started_ns = snapshot.started_ns
        self._paces = Paces(snapshot)
        self._stats: dict[str, list[Stat]] = {}
        for stat in (*snapshot.counters, *snapshot.series):
            if number_of_events(stat):
                self._stats.setdefault(stat.name, []).append(stat)
        self._edges_s = edges_s

    def agree(self, rates: list[float | None], name: str, total: float) -> None:
        """Compare the sum of the rates with a total. Events at one single moment have no rate."""
        steps = list(zip(rates, pairwise(self._edges_s), strict=True))
        time_range = self._paces.time_range(self._stats.get(name, []))
        begin_s, end_s = ((at_ns - self._started_ns) / 1e9 for at_ns in time_range or (0, 0))
        covered = [max(0.0, min(end, end_s) - max(start, begin_s)) for _, (start, end) in steps]
        if time_range is not None and sum(covered) > 1e-3:
            drawn = sum((rate or 0.0) * seconds for (rate, _), seconds in zip(steps, covered, strict=True))
            assert drawn == pytest.approx(total, rel=1e-6)


def agrees(run: RecordedRun, report: Report, found: Pictures) -> None:
    """Compare pictures with the totals of the same report."""
    totals = Totals(run, found.edges_s)
    for counter in found.counters:
        totals.agree(counter.rates, counter.name, report.counter(counter.name).value)
    for chat in found.requests:
        values = {stat.name: stat.value for stat in report.snapshot.counters}
        totals.agree(chat.completed_per_s, "chat.completed", values.get("chat.completed", 0))
        totals.agree(chat.failed_per_s, "chat.failed", values.get("chat.failed", 0))
        tokens = [stat.total for stat in report.snapshot.series if stat.name == "chat.output_tokens"]
        if chat.output_tokens_per_s:
            totals.agree(chat.output_tokens_per_s, "chat.output_tokens", sum(tokens))
    for heat in found.heat_maps:
        assert sum(sum(counts) for counts in heat.counts) == report.series(heat.name).count
        assert all(len(counts) in (0, len(heat.edges) - 1) for counts in heat.counts)
        assert all(low < high for low, high in pairwise(heat.edges))
    for one in found.distributions:
        assert sum(one.counts) + one.below + one.above == report.series(one.name).count
        assert min(one.below, one.above, *one.counts) >= 0
        assert all(low < high for low, high in pairwise(one.edges))


@pytest.mark.slow
@settings(deadline=None)
@given(SECONDS, st.data())
def test_sums_over_time_are_the_totals(rows: list[list[tuple[int, float]]], data: st.DataObject) -> None:
    """Rates times seconds are counters; rows of heat maps and bars of distributions hold each value once."""
    lengths = [data.draw(st.integers(10**9, 2 * 10**9)) for _ in rows]
    start_s, end_s = sorted(at / 1e3 for at in data.draw(st.tuples(MILLISECONDS, MILLISECONDS)))
    with TemporaryDirectory() as folder:
        run = Making(Path(folder), DEFINITIONS, seconds_ns=lengths, is_timed=True).run(rows)
        report = run.report(pictures=True)
        assert report.pictures is not None
        agrees(run, report, report.pictures)
        held = {stat.name for stat in report.snapshot.series if stat.count}
        assert {one.name for one in report.pictures.distributions} == held
        issued, ended = (
            sum(stat.value for stat in report.snapshot.counters if stat.name in names)
            for names in (("chat.issued",), ("chat.completed", "chat.failed"))
        )
        for chat in report.pictures.requests:
            assert chat.in_flight[-1] == max(issued - ended, 0)
        if start_s < min(end_s, run.end_s):
            part = run.time_range(TimeRangeChoice(from_s=start_s, to_s=end_s), pictures=True)
            assert part.pictures is not None
            agrees(run, part, part.pictures)
            if report.pictures.requests and end_s >= run.end_s:
                assert part.pictures.requests[0].in_flight[-1] == report.pictures.requests[0].in_flight[-1]


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["train", "eval"]),
        st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(0, 300),
        st.none() | st.floats(-1e300, 1e300),
    ),
    max_size=300,
    unique_by=lambda one: one[:2],
)


@given(STEPS, st.integers(2, 40), st.integers(1, 50))
def test_points_hold_every_step_once(steps: list[tuple[str, int, float | None]], points: int, at_once: int) -> None:
    """Curves are bounded and in order; counts and extremes are exact, means lie between the extremes."""
    collector = StepCurves(points=points)
    records = [
        StreamRecord(PROTOCOL, "r1", seq, "", seq, ClosedStep(axis, step, {"loss": value}))
        for seq, (axis, step, value) in enumerate(steps)
    ]
    for begin in range(0, len(records), at_once):
        collector.feed(records[begin : begin + at_once])
        collector.curves()
    found = {curve.axis: curve for curve in collector.curves()}
    assert found.keys() == {axis for axis, _, _ in steps}
    for axis, curve in found.items():
        own = sorted((step, value) for of, step, value in steps if of == axis)
        known = [value for _, value in own if value is not None]
        assert curve.count == len(own)
        assert 1 <= len(curve.steps) <= points
        assert curve.steps == sorted(set(curve.steps))
        assert (curve.steps[-1], curve.first, curve.last) == (own[-1][0], own[0][1], own[-1][1])
        assert (curve.min, curve.max) == (min(known, default=None), max(known, default=None))
        for value, low, high in zip(
            curve.values, curve.low or curve.values, curve.high or curve.values, strict=True
        ):
            assert (value is None) == (low is None) == (high is None)
            if value is not None and low is not None and high is not None:
                assert low - abs(low) * 1e-9 <= value <= high + abs(high) * 1e-9

"""Anybody may have written a run's files: whatever they say, a report is made of them without an error."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.property.test_intervals import nonsense

from telemetry.history import RecordedRun, interval_sums
from telemetry.history.bounds import bound_ranks
from telemetry.history.interval_sums import Sum, SumRows
from telemetry.history.intervals.columns import Columns
from telemetry.wire.control import SeriesKey
from telemetry.wire.history import Interval
from telemetry.wire.report import Report
from telemetry.wire.snapshot import Accounting, MetricsSnapshot, SelfCost, SeriesStat

pytestmark = pytest.mark.slow

NUMBERS = st.sampled_from([0, 1, -1, 40, 10**6, (1 << 63) - 1, -(1 << 63)]) | st.integers(-10, 10**4)
VALUES = st.floats() | NUMBERS
KEYS = st.sampled_from(["50", "99.9", "100", "100.0", "0", "-1", "most", "1e3", "", "99.99999999"])
STATS = st.builds(
    SeriesStat,
    name=st.text(max_size=5),
    labels=st.dictionaries(st.text(max_size=2), st.text(max_size=2), max_size=2),
    unit=st.sampled_from(["", "ms", "parsecs"]),
    digits=NUMBERS,
    count=NUMBERS,
    min=st.none() | VALUES,
    max=st.none() | VALUES,
    percentiles=st.dictionaries(KEYS, VALUES, max_size=4),
    histogram=st.lists(st.tuples(NUMBERS, NUMBERS), max_size=4),
    cell_unit=st.floats(),
)
SNAPSHOTS = st.builds(
    MetricsSnapshot,
    run_id=st.just("r"),
    name=st.text(max_size=3),
    state=st.sampled_from(["LIVE", "COMPLETE", "INTERRUPTED"]),
    completeness=st.sampled_from(["complete", "lossy", "incomplete", "interrupted"]),
    started_ns=NUMBERS,
    time_ns=NUMBERS,
    elapsed_s=st.floats(),
    accounting=st.builds(Accounting, emitted=NUMBERS, missing=NUMBERS, waiting=NUMBERS),
    cost=st.builds(SelfCost, ticks=NUMBERS, ticks_late=NUMBERS),
    series=st.lists(STATS, max_size=6),
)


@given(SNAPSHOTS)
def test_any_result_has_a_report(snapshot: MetricsSnapshot) -> None:
    """Bounds contain what is shown wherever there are some, and findings are printable lines."""
    report = RecordedRun(Report(snapshot=snapshot, source="file"), None).report()
    assert report.snapshot is snapshot
    for stat in snapshot.series:
        for percentile in stat.percentiles:
            assert report.trusted(stat, percentile) in (True, False)
    for bounds in report.bounds:
        for found in bounds.percentiles.values():
            assert found.low is None or found.high is None or not found.low > found.high
    assert all(line.isprintable() for line in report.findings)


@pytest.mark.parametrize("pending", [1 << 20, 0], ids=["sorted", "paged"])
@given(st.lists(nonsense(), max_size=5))
def test_any_intervals_add_up(pending: int, intervals: list[Interval]) -> None:
    """Nonsense intervals add up to wrong numbers at worst."""
    rows = SumRows([SeriesKey(index=index, name=f"s{index}", kind="series") for index in (0, 2, 3)])
    total = Sum(rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(interval_sums, "_PENDING_SLOTS", pending)
        for interval in intervals:
            total.add(Columns.of(interval), 1.0)
    for added in (total.added(), total.added(lambda counts: bound_ranks(counts, ["50", "99.9"]))):
        histograms = added.histograms(rows)
        assert len(histograms.figures(["50"])) == added.rows.size
        assert len(histograms.bounds(["50", "99.9"])) == added.rows.size
        for row in range(3):
            added.only(row, rows).figures(["50"])

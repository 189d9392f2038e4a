"""Bounds of the percentiles of histograms that another program has counted."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.history.test_step_curves import logged

from telemetry.history import RecordedRun
from telemetry.history.distributions import read
from telemetry.judge.gates.check import check
from telemetry.judge.gates.parser import parse
from telemetry.judge.gates.run_evidence import evidence_of
from telemetry.report.distributions import between, distributions
from telemetry.report.html import render_html
from telemetry.statistics.hdr.percentiles import parse_percentile, rank
from telemetry.wire.events import Bins
from telemetry.wire.report import Report
from telemetry.wire.snapshot import Accounting, CounterStat, MetricsSnapshot, SeriesStat

LABELS = {"route": "/a"}
NAME = "latency{route=/a}"


def snapshot(count: int, total: float | None = None, **changes: object) -> MetricsSnapshot:
    counters = [CounterStat(name="latency.count", labels=LABELS, value=count, events=1)]
    if total is not None:
        counters.append(CounterStat(name="latency.sum", labels=LABELS, unit="ms", value=total, events=1))
    made: dict[str, object] = {"run_id": "r1", "name": "job", "state": "COMPLETE", "completeness": "complete"}
    return MetricsSnapshot(**{**made, "counters": counters, **changes})  # type: ignore[arg-type]


def binned(values: Sequence[float], edges: Sequence[float]) -> tuple[Bins | None, int]:
    """Return the values in bins, and the number of those outside of all bins. A bin has its upper edge."""
    counts = [0] * (len(edges) - 1)
    outside = 0
    for value in values:
        place = bisect.bisect_left(edges, value) - 1
        if 0 <= place < len(counts):
            counts[place] += 1
        else:
            outside += 1
    return (Bins(NAME, list(edges), counts) if any(counts) else None), outside


EDGES = st.lists(st.floats(-50, 50), min_size=2, max_size=8, unique=True).map(sorted)
EXPORTS = st.lists(st.tuples(st.lists(st.floats(-60, 60), min_size=1, max_size=30), EDGES), min_size=1, max_size=4)


@given(EXPORTS)
def test_a_percentile_lies_between_its_bounds(
    tmp_path_factory: object, exports: list[tuple[list[float], list[float]]]
) -> None:
    """The bounds hold for any buckets of each export, and with values that no bucket holds."""
    folder = tmp_path_factory.mktemp("run")  # type: ignore[attr-defined]
    values = sorted(value for own, _ in exports for value in own)
    parts = [binned(*export) for export in exports]
    bins = [part for part, _ in parts if part is not None]
    found = read(logged(folder, bins), snapshot(len(values), sum(values)))
    assert bool(found) is bool(bins)
    for one in found:
        assert (one.count, one.unknown) == (len(values), sum(outside for _, outside in parts))
        for number, value in enumerate(values, start=1):
            low, high = one.between(number)
            assert low <= value <= high
        for key, (low_end, high_end) in one.bounds().percentiles.items():
            value = values[rank(parse_percentile(key), len(values)) - 1]
            assert low_end is None or low_end <= value
            assert high_end is None or value <= high_end


def test_bounds_are_those_of_the_bucket(tmp_path: Path) -> None:
    """Exports with the same buckets add up. Values in a last bucket without an end have no upper bound."""
    run = logged(tmp_path, [Bins(NAME, [0.0, 10.0, 20.0], [40, 9]), Bins(NAME, [0.0, 10.0, 20.0], [40, 9])])
    (one,) = read(run, snapshot(100, 500.0))
    assert (one.name, one.labels, one.unit, one.unknown) == ("latency", LABELS, "ms", 2)
    assert one.bounds().percentiles == {
        "50": (0.0, 10.0),
        "90": (10.0, 20.0),
        "99": (10.0, None),
        "99.9": (10.0, None),
    }


def test_other_bins_are_no_such_histograms(tmp_path: Path) -> None:
    """Bins that a program logs, of steps, or of a series are left out.

    Bins with more values than the counter are, too.
    """
    bins = Bins(NAME, [0.0, 1.0], [3])
    run = logged(tmp_path / "1", [Bins("weights", [0.0, 1.0], [3]), Bins(NAME, [0.0, 1.0], [3], 0, "train", 1)])
    assert read(run, snapshot(3)) == []
    run = logged(tmp_path / "2", [bins])
    assert read(run, snapshot(2)) == []
    assert read(run, snapshot(3, series=[SeriesStat(name="latency", labels=LABELS)])) == []
    assert [one.count for one in read(run, snapshot(3))] == [3]


def exponential(count: int) -> tuple[list[float], list[int]]:
    """Return buckets of scale 5 from 1 up, with `count` values in each."""
    edges = [2 ** (number / 32) for number in range(65)]
    return edges, [count] * 64


def outcomes(folder: Path, bins: Sequence[Bins], result: MetricsSnapshot, *texts: str) -> list[str]:
    report = Report(snapshot=result, source="final")
    evidence = evidence_of(RecordedRun(report, logged(folder, bins)))
    return [one.outcome for one in check([parse(text) for text in texts], evidence)]


def test_gates_pass_and_fail_by_the_bounds(tmp_path: Path) -> None:
    """A gate within a percentile's bounds, or on a figure that buckets lack, is inconclusive."""
    bins, result = Bins(NAME, *exponential(1_000)), snapshot(64_000, 128_000.0)
    texts = {
        "p99(latency) <= 4ms": "pass",
        "p99(latency) < 3.5ms": "fail",
        "p99(latency) < 3.95ms": "inconclusive",
        "p50(latency{route=/a}) < 2.1ms": "pass",
        "p100(latency) < 9ms": "inconclusive",
        "min(latency) > 0ms": "inconclusive",
        "mean(latency) < 2.5ms": "pass",
        "count(latency) == 64000": "pass",
        "share(latency <= 2ms) > 49%": "pass",
        "p99(latency) < 4ms in every 1s": "inconclusive",
    }
    assert outcomes(tmp_path, [bins], result, *texts) == list(texts.values())


def test_gates_are_inconclusive_without_a_bound(tmp_path: Path) -> None:
    """A gate is inconclusive if values are in no bucket, the sum is missing, or the run lost events."""
    bins = Bins(NAME, *exponential(1_000))
    assert outcomes(tmp_path / "1", [bins], snapshot(66_000), "p99(latency) < 90", "mean(latency) < 9") == [
        "inconclusive",
        "inconclusive",
    ]
    lost = Accounting(emitted=10, received=9, applied=9, missing=1)
    result = snapshot(64_000, 128_000.0, completeness="lossy", accounting=lost)
    assert outcomes(tmp_path / "2", [bins], result, "p99(latency) < 90ms") == ["inconclusive"]


def test_the_section_shows_bounds(tmp_path: Path) -> None:
    """Narrow ones as an error, others as a range."""
    run = logged(tmp_path, [Bins(NAME, *exponential(1))])
    report = Report(snapshot=snapshot(64, 128.0), source="final")
    assert not distributions(report)
    report = RecordedRun(report, run).report()
    section = distributions(report)
    assert section.table is not None
    assert section.table.rows == [
        ["latency{route=/a}", "64", "1.98 ms ±1.08 %", "3.47 ms ±1.08 %", "3.96 ms ±1.08 %", "3.96 ms ±1.08 %"]
    ]
    page = render_html(report)
    assert 'id="histograms"' in page
    assert "3.96 ms ±1.08 %" in page
    assert between(50.0, 75.0, "ms") == "50.0 ms to 75.0 ms"
    assert (between(50.0, None, "ms"), between(None, 5.0, "ms"), between(None, None, "")) == (
        "over 50.0 ms",
        "up to 5.00 ms",
        "–",
    )
    assert between(0.0, 0.0, "ms") == "0 s to 0 s"

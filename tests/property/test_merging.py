"""Values that were split over several runs and merged are the values of one run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from telemetry.aggregator import Aggregator, AggregatorConfig, SnapshotFacts
from telemetry.history.intervals.range_sums import RangeSums
from telemetry.judge.merge import Merged, MergeTarget, gather, merge
from telemetry.store.final_snapshot import read_final, write_final
from telemetry.store.history import LEVELS, HistoryReader, HistoryWriter
from telemetry.store.run_directory import Manifest, RunDirectory
from telemetry.testing import batch
from telemetry.testing.builders import MONO_NS, WALL_NS
from telemetry.wire.events import Define
from telemetry.wire.snapshot import MetricsSnapshot, SeriesStat

pytestmark = pytest.mark.slow

SECOND = 1_000_000_000
PERCENTILES = ("0.1", "50", "90", "99", "99.9", "100")
DEFINITIONS = (
    Define(0, "time", "series", "ns"),
    Define(1, "coarse", "series", "s", digits=1),
    Define(2, "fine", "series", "ms", digits=5),
    Define(3, "bounded", "series", "tokens", low=0.5, high=200.0),
    Define(4, "events", "counter"),
)
VALUES = st.one_of(
    st.floats(0.0, 1e7),
    st.integers(0, 5_000).map(float),
    st.sampled_from([0.0, 0.1, 1.0, 2.0**40 + 1, 2.0**53, 1e300]),
)
SPLIT = st.integers(2, 4).flatmap(
    lambda runs: st.lists(
        st.tuples(st.integers(0, runs - 1), st.integers(0, 8), st.integers(0, 4), VALUES), min_size=1, max_size=60
    ).map(lambda rows: (runs, rows))
)
"""How many runs, and (run, second, series or counter, value)."""
Row = tuple[int, int, int, float]


def recorded(
    root: Path, name: str, rows: Sequence[Row], *, offset_ns: int = 0, order: Sequence[int] = range(5)
) -> tuple[RunDirectory, MetricsSnapshot]:
    """A run of these values as an aggregator leaves it, which defines its instruments in some order."""
    run = RunDirectory.create(root, name, name, WALL_NS, latest=False)
    run.write_manifest(Manifest(run_id=name, name="job", host=name))
    aggregator = Aggregator(AggregatorConfig(percentiles=PERCENTILES))
    history = HistoryWriter(run.history)
    first = 0
    for second in range(9):
        mine = [(series, MONO_NS, value) for _, at, series, value in rows if at == second]
        records = [DEFINITIONS[at] for at in order] if not second else []
        sent = batch(name, seq=second, first=first, records=records, rows=mine)
        first += len(mine)
        aggregator.admit(sent, MONO_NS)
        aggregator.apply([sent], MONO_NS, WALL_NS)
        start_ns = WALL_NS + offset_ns + second * SECOND
        history.append(aggregator.roll(start_ns, start_ns + SECOND, SECOND), aggregator.keys())
    history.close()
    facts = SnapshotFacts(run_id=name, name="job", state="COMPLETE")
    snapshot = aggregator.snapshot(facts, MONO_NS, WALL_NS)
    snapshot = replace(snapshot, started_ns=WALL_NS + offset_ns, elapsed_s=9.0, directory=str(run.path))
    write_final(snapshot, [run.final])
    return run, snapshot


@contextmanager
def folder() -> Iterator[Path]:
    with TemporaryDirectory(prefix="tm") as name:
        yield Path(name)


def split(root: Path, runs: int, rows: Sequence[Row], offset_ns: int) -> Merged:
    found = [
        recorded(
            root,
            f"r{at}",
            [row for row in rows if row[0] == at],
            offset_ns=at * offset_ns,
            order=range(5) if at % 2 else range(4, -1, -1),
        )
        for at in range(runs)
    ]
    return merge(gather(found), MergeTarget(root=root))


def same(merged: SeriesStat, alone: SeriesStat) -> None:
    """Check that two series agree, except for how sums round and for exact percentiles of one run."""
    words = ("count", "min", "max", "digits", "below", "above", "imprecise", "histogram", "cell_unit")
    for word in (*words, "percentiles", "error_bound", "resolution"):
        assert getattr(merged, word) == getattr(alone, word), word
    assert merged.total == pytest.approx(alone.total, rel=1e-12)
    assert merged.mean == pytest.approx(alone.mean, rel=1e-12)
    if alone.stddev is not None and alone.count and alone.max is not None and alone.max < 1e100:
        assert merged.stddev == pytest.approx(alone.stddev, rel=1e-9, abs=1e-7 * alone.max)


@settings(max_examples=25)
@given(SPLIT, st.sampled_from([0, 1, 400_000_000, 500_000_000, 7_300_000_000]))
def test_a_split_run_is_the_whole_run(drawn: tuple[int, list[Row]], offset_ns: int) -> None:
    """Counts, extremes, cells and percentiles are equal to the last bit, moments but for rounding; the history says
    the same at every level."""
    runs, rows = drawn
    with folder() as root:
        _, alone = recorded(root, "whole", rows)
        merged = split(root, runs, rows, offset_ns)
        assert read_final(merged.directory.final) == merged.snapshot
        found = {stat.name: stat for stat in merged.snapshot.series}
        for stat in alone.series:
            same(found[stat.name], stat)
        reader = HistoryReader(merged.directory.history)
        known = reader.keys()
        keys = {key.index: key.name for key in known if key.kind == "series"}
        for level in (0, *LEVELS):
            time_range = RangeSums(known, PERCENTILES)
            end_ns = 0
            for interval in reader.intervals(level_s=level):
                assert interval.end_ns > interval.start_ns >= end_ns
                end_ns = interval.end_ns
                assert time_range.add(interval)
            for index, figures in time_range.figures().items():
                assert figures.count == found[keys[index]].count
                assert figures.percentiles == found[keys[index]].percentiles


@settings(max_examples=10)
@given(
    st.lists(st.lists(st.integers(0, 10**6), min_size=1, max_size=20), min_size=2, max_size=5),
    st.sampled_from([0, 10**9, 10**12]),
)
def test_the_spread_of_large_numbers_survives(parts: list[list[int]], base: int) -> None:
    """Values that differ by a millionth of themselves: integers are added as integers, and the spread is that of
    what they differ by."""
    with folder() as root:
        rows = [(at, 0, 0, float(base + value)) for at, part in enumerate(parts) for value in part]
        (stat,) = [one for one in split(root, len(parts), rows, 0).snapshot.series if one.name == "time"]
    values = [value for part in parts for value in part]
    assert stat.total == sum(values) + base * len(values)
    assert isinstance(stat.total, int)
    mean = sum(values) / len(values)
    expected = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))
    assert stat.stddev == pytest.approx(expected, rel=1e-6, abs=1e-3)


@settings(max_examples=8)
@given(SPLIT)
def test_merging_merged_runs_is_merging_all(drawn: tuple[int, list[Row]]) -> None:
    """Merging in one step or in two gives the same numbers, of the same sources."""
    _, rows = drawn
    with folder() as root:
        parts = [recorded(root, f"r{at}", [row for row in rows if row[0] % 3 == at]) for at in range(3)]
        at_once = merge(gather(parts), MergeTarget(root=root, name="one"))
        some = merge(gather(parts[:2]), MergeTarget(root=root, name="some"))
        again = merge(gather([(some.directory, some.snapshot), parts[2]]), MergeTarget(root=root, name="two"))
    assert [stat.run_id for stat in again.sources] == [stat.run_id for stat in at_once.sources]
    assert again.sources == at_once.sources
    for found, expected in zip(again.snapshot.series, at_once.snapshot.series, strict=True):
        same(found, expected)
    assert again.snapshot.counters == at_once.snapshot.counters
    assert again.snapshot.accounting == at_once.snapshot.accounting

"""Tests of what may be merged, and of what runs are called."""

from __future__ import annotations

import pytest
from tests.unit.judge.merge.conftest import LATENCY, SECOND, MakeRun

from telemetry.errors import RunDirectoryError, UsageError
from telemetry.judge.merge import MergeTarget, gather, merge, sources
from telemetry.judge.merge.sources import labels, name_of
from telemetry.wire.events import Define
from telemetry.wire.snapshot import ProducerStat


def test_a_single_run_is_refused(make_run: MakeRun) -> None:
    """A merge of a single run is refused, because no user means it."""
    with pytest.raises(UsageError, match="a merge needs at least two runs"):
        gather([make_run("a", {})])


def test_no_run_counts_twice(make_run: MakeRun) -> None:
    """A run is refused if it is named twice or is already part of a merged run."""
    one, two = make_run("a", {0: [1.0]}), make_run("b", {0: [2.0]})
    with pytest.raises(UsageError, match=r"run a would be counted twice: it is in [^ ]*-a \(give it once\)"):
        gather([one, two, one])
    merged = merge(gather([one, two]), MergeTarget(root=one[0].path.parent))
    with pytest.raises(UsageError, match=r"run b would be counted twice: it is in [^ ]* and in [^ ]*-b \("):
        gather([(merged.directory, merged.snapshot), two])


def test_a_run_that_somebody_has_is_refused(make_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """An aggregator that has written its result may still be at its files."""
    monkeypatch.setattr(sources, "_PATIENCE_S", 0.0)
    one, two = make_run("a", {}), make_run("b", {})
    lock = two[0].lock()
    with pytest.raises(RunDirectoryError, match="is still going") as error:
        gather([one, two])
    assert str(two[0].path) in str(error.value)
    lock.release()
    assert len(gather([one, two])) == 2
    with pytest.raises(RunDirectoryError, match="is still going"):
        gather([one, make_run("c", {}, state="LIVE")])


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (Define(0, "latency", "series", "s"), "a series in ms in .*-a and a series in s in .*-b"),
        (Define(0, "latency", "counter", "ms"), "a series in ms in .*-a and a counter in ms in .*-b"),
        (Define(0, "latency", "series"), "a series in ms in .*-a and a series without a unit in .*-b"),
    ],
)
def test_a_name_means_one_thing(make_run: MakeRun, other: Define, words: str) -> None:
    """Both runs are named, and both meanings."""
    one, two = make_run("a", {0: [1.0]}), make_run("b", {0: [1.0]}, definitions=[other])
    with pytest.raises(UsageError, match=words):
        gather([one, two])


def test_what_had_no_room_is_of_any_kind(make_run: MakeRun) -> None:
    """The instrument called `overflow` is whatever it had to be."""
    one = make_run("a", {0: [1.0]}, definitions=[Define(0, "overflow", "series")])
    assert len(gather([one, make_run("b", {0: [1.0]}, definitions=[Define(0, "overflow", "counter")])])) == 2


def test_runs_are_told_apart_by_what_differs() -> None:
    """Names, hosts, both, or ids, whichever tells all of them apart first."""
    assert labels([("a", "h", "1"), ("b", "h", "2")]) == ["a", "b"]
    assert labels([("a", "h", "1"), ("a", "i", "2")]) == ["h", "i"]
    assert labels([("a", "h", "1"), ("b", "h", "2"), ("a", "i", "3")]) == ["a@h", "b@h", "a@i"]
    assert labels([("a", "h", "1"), ("a", "h", "2")]) == ["1", "2"]
    assert labels([("a", "h", "1"), ("a", "", "2")]) == ["1", "2"]


def test_starts_are_aligned_on_request(make_run: MakeRun) -> None:
    """The later ones are moved to the first; otherwise nothing moves."""
    found = [make_run("a", {0: [1.0]}, start_s=5.5), make_run("b", {0: [1.0]})]
    assert [one.shift_ns for one in gather(found)] == [0, 0]
    aligned = gather(found, align_starts=True)
    assert [one.shift_ns for one in aligned] == [-5_500_000_000, 0]
    assert aligned[0].begin_ns == aligned[1].begin_ns
    assert aligned[0].end_ns == aligned[0].begin_ns + SECOND


def test_the_merged_run_is_named_after_its_runs(make_run: MakeRun) -> None:
    """The merged run is named after the one name of its runs, also if some are merged already."""
    one, two = make_run("a", {}), make_run("b", {}, name="job-merged")
    assert name_of(gather([one, two])) == "job-merged"
    assert name_of(gather([one, make_run("c", {}, name="other")])) == "merged"


def test_a_run_without_a_manifest_was_where_its_producers_were(make_run: MakeRun) -> None:
    """A run without a manifest has the host of its producers if they agree."""
    here = ProducerStat(producer="p", host="here")
    runs = [make_run("a", {}, producers=[here]), make_run("b", {}, producers=[here, ProducerStat(producer="q")])]
    for run, _ in runs:
        run.manifest.unlink()
    assert [one.host for one in gather(runs)] == ["here", ""]


def test_sources_say_what_each_run_came_to(make_run: MakeRun) -> None:
    """Series without values are left out."""
    unused = Define(1, "unused", "series")
    one = make_run("a", {0: [4.0, 2.0]}, definitions=[LATENCY, unused], host="h")
    (source,) = gather([one, make_run("b", {})])[0].sources
    assert (source.run_id, source.host, source.elapsed_s, source.directory) == ("a", "h", 2.0, str(one[0].path))
    (stat,) = source.series
    percentiles = one[1].series[0].percentiles
    assert (stat.name, stat.unit, stat.count, stat.mean, stat.p50, stat.p99, stat.max) == (
        *("latency", "ms", 2, 3.0, percentiles["50"], percentiles["99"], 4.0),
    )

"""The directory of a merged run: whole or not there, and like any other."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest
from msgspec import Raw
from tests.unit.judge.merge.conftest import MakeRun

from telemetry.errors import RunDirectoryError, UsageError
from telemetry.history.request_log import facts, read
from telemetry.history.run import open_run
from telemetry.judge.merge import Merged, MergeTarget, gather, merge
from telemetry.judge.merge import run as module
from telemetry.store.final_snapshot import read_final
from telemetry.store.history import HistoryReader
from telemetry.store.merge_sources import read_sources
from telemetry.store.request_log import FILE_NAME, RequestLogWriter
from telemetry.store.run_directory import MergedRun, RunDirectory, list_runs, resolve
from telemetry.testing import ended
from telemetry.wire.request_log import LoggedRecords
from telemetry.wire.snapshot import RequestLogStat


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "runs"


def two(make_run: MakeRun, root: Path, **place: object) -> Merged:
    runs = [make_run("a", {0: [1.0, 2.0]}, host="h"), make_run("b", {0: [4.0]}, host="i", start_s=5.0)]
    return merge(gather(runs), MergeTarget(root=root, **place), argv=["telemetry", "merge"])  # type: ignore[arg-type]


def test_a_merged_run_is_a_run(make_run: MakeRun, root: Path) -> None:
    """A merged run is found by name and id and has all that readers ask for. `latest` stays the same."""
    merged = two(make_run, root, name="all")
    assert resolve("all", root).path == merged.directory.path == resolve(merged.directory.run_id, root).path
    assert resolve("latest", root).run_id == "b"
    assert read_final(merged.directory.final) == merged.snapshot
    assert merged.snapshot.directory == str(merged.directory.path)
    assert read_sources(merged.directory) == list(merged.sources)
    assert len(list(HistoryReader(merged.directory.history).intervals())) == 3
    assert not merged.directory.locked()


def test_the_manifest_names_the_sources(make_run: MakeRun, root: Path) -> None:
    """The manifest names no process that could be taken for the aggregator of the merged run."""
    merged = two(make_run, root)
    manifest = merged.directory.read_manifest()
    paths = {run.run_id: str(run.path) for run in list_runs(root)}
    assert manifest.merged_from == [
        MergedRun(run_id="a", name="job", host="h", directory=paths["a"]),
        MergedRun(run_id="b", name="job", host="i", directory=paths["b"]),
    ]
    assert (manifest.name, manifest.pid, manifest.endpoint) == ("job-merged", 0, "")
    assert manifest.started_ns == merged.snapshot.started_ns


def test_it_goes_where_it_is_told_to(make_run: MakeRun, root: Path, tmp_path: Path) -> None:
    """Folders on the way are made; what is there already is left alone."""
    place = tmp_path / "deep" / "down"
    merged = two(make_run, root, directory=place)
    assert merged.directory.path == place
    assert RunDirectory.open(place).run_id == merged.snapshot.run_id
    runs = [make_run("c", {}), make_run("d", {})]
    for there in (place, root / "latest"):
        with pytest.raises(RunDirectoryError, match="exists already"):
            merge(gather(runs), MergeTarget(root=root, directory=there))


def test_what_fails_leaves_nothing(make_run: MakeRun, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A merge that fails leaves no directory, whole or partial, however far it came."""
    runs = gather([make_run("a", {0: [1.0]}), make_run("b", {0: [2.0]}, history=False)])
    before = sorted(root.iterdir())
    with pytest.raises(UsageError, match="can't add the histograms of"):
        merge(runs, MergeTarget(root=root))
    assert sorted(root.iterdir()) == before

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "write_final", interrupted)
    with pytest.raises(KeyboardInterrupt):
        merge(runs, MergeTarget(root=root), coarse=True)
    assert sorted(root.iterdir()) == before


def test_a_disk_that_refuses_is_told(make_run: MakeRun, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error for a full disk says so in words and offers another place."""
    runs = gather([make_run("a", {}), make_run("b", {})])

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "rename", refuse)
    with pytest.raises(RunDirectoryError, match="can't write the merged run: No space left") as error:
        merge(runs, MergeTarget(root=root))
    assert "-o" in error.value.hint


def test_who_has_no_history_is_named(make_run: MakeRun, root: Path) -> None:
    """The result has no history either."""
    runs = [make_run("a", {0: [1.0]}), make_run("b", {1: [2]}, history=False)]
    merged = merge(gather(runs), MergeTarget(root=root))
    assert merged.snapshot.warnings[0] == "no history was written: b has none"
    assert not merged.directory.history.exists()
    assert merged.snapshot.series[0].count == 1


def log_requests(run: RunDirectory, numbers: range) -> None:
    log = RequestLogWriter(run.requests)
    records = [Raw(msgspec.msgpack.encode(ended(numbers)))]
    log.append([LoggedRecords(f"p-{run.run_id}", 1_000, 7, records)], 0)
    log.close()


def test_requests_of_all_runs_are_in_one_log(make_run: MakeRun, root: Path) -> None:
    """One log has the requests of all runs with their producers, moved in time as their runs are.

    Counts are added, and a run without a log adds none.
    """
    stats = {"a": RequestLogStat(kept=2, left_out=1, cap_bytes=99), "b": RequestLogStat(kept=3), "c": None}
    runs = [
        make_run(name, {0: [1.0]}, start_s=5.0 * at, request_log=stat)
        for at, (name, stat) in enumerate(stats.items())
    ]
    log_requests(runs[0][0], range(2))
    log_requests(runs[1][0], range(3))
    merged = merge(gather(runs, align_starts=True), MergeTarget(root=root))
    found = [(one.producer, one.entry.number, one.offset_ns) for one in read(merged.directory)]
    moved_ns = 1_000 - 5 * 10**9
    assert found == [("p-a", 0, 1_000), ("p-a", 1, 1_000), *(("p-b", number, moved_ns) for number in range(3))]
    assert merged.snapshot.request_log == RequestLogStat(kept=5, left_out=1, cap_bytes=99)


def test_a_full_log_of_one_run_is_told(make_run: MakeRun, root: Path) -> None:
    """The requests that are missing are not the last ones of the merged log, so it does not have the first ones."""
    stats = {"a": RequestLogStat(kept=2, left_out=1, cap_bytes=1 << 20), "b": RequestLogStat(kept=3)}
    runs = [make_run(name, {0: [1.0]}, request_log=stat) for name, stat in stats.items()]
    log_requests(runs[0][0], range(2))
    log_requests(runs[1][0], range(3))
    merged = merge(gather(runs), MergeTarget(root=root))
    known = facts(merged.directory)
    assert known is not None
    words = (
        "the request log has 5 of 6 requests: the log of one of the merged runs or more is full "
        "(run.request_log_cap, 1.00 MiB)"
    )
    assert known.reason == words
    assert words in open_run(merged.directory.path).report().findings


def test_a_damaged_log_of_a_run_is_told(make_run: MakeRun, root: Path) -> None:
    """The requests before the damage are there."""
    runs = [make_run("a", {0: [1.0]}), make_run("b", {0: [1.0]})]
    log_requests(runs[0][0], range(2))
    log_requests(runs[1][0], range(3))
    path = runs[0][0].requests / FILE_NAME
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    merged = merge(gather(runs), MergeTarget(root=root))
    assert [one.producer for one in read(merged.directory)] == ["p-b"] * 3
    (said,) = [line for line in merged.snapshot.warnings if "request log" in line]
    assert said.endswith(": a part of its request log can't be read and is left out")

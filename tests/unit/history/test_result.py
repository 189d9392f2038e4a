"""Reports from disk, through the package's public face."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from telemetry.errors import RunDirectoryError, RunNotFoundError
from telemetry.history import load_report
from telemetry.store.final_snapshot import final_candidates, write_final
from telemetry.store.journal import JournalWriter
from telemetry.store.run_directory import RunDirectory, manifest_for
from telemetry.wire.snapshot import MetricsSnapshot


def test_a_result_comes_from_its_final_file(tmp_path: Path) -> None:
    """A run named by directory, id or `latest` is read from its final file, and the report says so."""
    directory = RunDirectory.create(tmp_path, "job", "aaaa1111", 10**18)
    snapshot = MetricsSnapshot(run_id="aaaa1111", name="job", state="COMPLETE", completeness="complete")
    write_final(snapshot, [directory.final])
    for spec in (directory.path, "aaaa1111", "latest"):
        report = load_report(spec, tmp_path)
        assert (report.snapshot, report.source, report.source_reason) == (snapshot, "file", "")
        assert report.final


def test_what_can_not_be_read_is_an_error_of_ours(tmp_path: Path) -> None:
    """A missing run, a run without a result and a damaged file are three clear errors."""
    with pytest.raises(RunNotFoundError):
        load_report("nope", tmp_path)
    directory = RunDirectory.create(tmp_path, "job", "aaaa1111", 10**18)
    directory.write_manifest(manifest_for(directory, "job", "aaaa1111", [], ""))
    with pytest.raises(RunDirectoryError, match=r"no final result: its aggregator died.*left no journal"):
        load_report("job", tmp_path)
    directory.final.write_text("{")
    with pytest.raises(RunDirectoryError, match="damaged"):
        load_report("job", tmp_path)


def test_a_dead_run_is_offered_for_recovery(tmp_path: Path) -> None:
    """The error for a dead run gives the time of death, the journal's size and the recovery command.

    The one for a live run says that it still goes on.
    """
    directory = RunDirectory.create(tmp_path, "job", "aaaa1111", 10**18)
    JournalWriter(directory.journal, b"state", 1).close()
    os.utime(directory.journal / "00000000.seg", ns=(0, 1_772_366_400 * 10**9))
    with pytest.raises(RunDirectoryError) as caught:
        load_report("job", tmp_path)
    said = str(caught.value)
    assert "its aggregator died, last seen 2026-03-01 12:00:00 UTC; its journal holds 38 B in 1 segment" in said
    assert f"`telemetry recover {directory.path}`" in said
    directory.write_manifest(manifest_for(directory, "job", "aaaa1111", [], ""))
    lock = directory.lock()
    with pytest.raises(RunDirectoryError, match=f"the run is still going, on {socket.gethostname()}") as caught:
        load_report("job", tmp_path)
    assert "wait for its end; `telemetry report aaaa1111` shows it so far" in str(caught.value)
    lock.release()


def test_a_result_that_went_elsewhere_is_found(tmp_path: Path) -> None:
    """A result that lies outside its run directory is loaded. The report says why and where it is."""
    directory = RunDirectory.create(tmp_path, "job", "aaaa1111", 10**18)
    spare = tmp_path / "spare"
    snapshot = MetricsSnapshot(run_id="aaaa1111", name="job", state="COMPLETE", completeness="complete")
    path = write_final(snapshot, final_candidates(directory, [str(spare)])[1:])
    report = load_report("job", tmp_path, [str(spare)])
    assert (report.snapshot, report.source) == (snapshot, "file")
    assert report.source_reason == f"can't write to the run directory, so the result is in {path}"


def test_a_damaged_result_can_be_made_anew(tmp_path: Path) -> None:
    """The error for a damaged result offers `telemetry recover` if there is a journal."""
    directory = RunDirectory.create(tmp_path, "job", "aaaa1111", 10**18)
    directory.final.write_text("{")
    with pytest.raises(RunDirectoryError, match="damaged") as caught:
        load_report("job", tmp_path)
    assert "recover" not in str(caught.value)
    JournalWriter(directory.journal, b"state", 1).close()
    with pytest.raises(RunDirectoryError, match="damaged") as caught:
        load_report("job", tmp_path)
    assert f"`telemetry recover {directory.path}` makes it again from the journal" in str(caught.value)


def test_what_can_not_be_recovered_is_not_offered(tmp_path: Path) -> None:
    """The reason is said instead."""
    directory = RunDirectory.create(tmp_path, "job", "aaaa1111", 10**18)
    directory.write_manifest(manifest_for(directory, "job", "aaaa1111", [], ""))
    directory.journal.mkdir()
    (directory.journal / "00000000.seg").write_bytes(b"noise")
    with pytest.raises(RunDirectoryError) as caught:
        load_report("job", tmp_path)
    assert "telemetry recover" not in str(caught.value)
    assert "starts with a readable checkpoint" in str(caught.value)


def test_gates_that_can_not_be_read_are_not_taken_for_none(tmp_path: Path) -> None:
    """One inconclusive result says so in every form; the numbers are there all the same."""
    directory = RunDirectory.create(tmp_path, "job", "aaaa1111", 10**18)
    snapshot = MetricsSnapshot(run_id="aaaa1111", name="job", state="COMPLETE", completeness="complete")
    write_final(snapshot, final_candidates(directory, []))
    (directory.path / "gates.json").write_text("{")
    report = load_report("job", tmp_path)
    assert (report.snapshot, report.source_reason) == (snapshot, "")
    (gate,) = report.gates
    assert (gate.expression, gate.outcome) == ("gates.json", "inconclusive")
    assert "gates.json is damaged" in gate.reason

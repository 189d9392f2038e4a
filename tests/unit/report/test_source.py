"""Reports from disk, through the package's public face."""

from __future__ import annotations

from pathlib import Path

import pytest

from telemetry.errors import RunDirectoryError, RunNotFoundError
from telemetry.report import load_report
from telemetry.store.final import write_final
from telemetry.store.rundir import RunDirectory, manifest_for
from telemetry.wire.snapshot import MetricsSnapshot


def test_a_result_comes_from_its_final_file(tmp_path: Path) -> None:
    """By directory, id or `latest`, the final file is read and named as the source."""
    directory = RunDirectory.create(tmp_path, "job", "aaaa1111", 10**18)
    snapshot = MetricsSnapshot(run_id="aaaa1111", name="job", state="COMPLETE", completeness="complete")
    write_final(snapshot, [directory.final])
    for spec in (directory.path, "aaaa1111", "latest"):
        report = load_report(spec, tmp_path)
        assert (report.snapshot, report.source, report.source_reason) == (snapshot, "file", "")
        assert report.final


def test_what_can_not_be_read_is_an_error_of_ours(tmp_path: Path) -> None:
    """No such run, a run without a result, and a damaged file are three clear errors."""
    with pytest.raises(RunNotFoundError):
        load_report("nope", tmp_path)
    directory = RunDirectory.create(tmp_path, "job", "aaaa1111", 10**18)
    directory.write_manifest(manifest_for(directory, "job", "aaaa1111", [], ""))
    with pytest.raises(RunDirectoryError, match="no final result"):
        load_report("job", tmp_path)
    directory.final.write_text("{")
    with pytest.raises(RunDirectoryError, match="damaged"):
        load_report("job", tmp_path)

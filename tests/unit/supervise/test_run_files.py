"""Tests of where the result of a run may be."""

from __future__ import annotations

from pathlib import Path

import pytest

from telemetry.supervise import run_files
from telemetry.supervise.run_files import FINAL_FILE, RunFiles
from telemetry.wire.codec import snapshot_to_json
from telemetry.wire.snapshot import MetricsSnapshot, State


@pytest.fixture(autouse=True)
def own_temporary_folder(short_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last resort of a final file."""
    (short_dir / "tmp").mkdir()
    monkeypatch.setattr(run_files.tempfile, "gettempdir", lambda: str(short_dir / "tmp"))


def final_file(path: Path, state: State = "COMPLETE") -> None:
    path.write_bytes(snapshot_to_json(MetricsSnapshot(run_id="r", name="job", state=state, seq=99)))


@pytest.mark.parametrize("place", ["configured", "tmp"])
def test_the_file_may_be_in_a_fallback_directory(short_dir: Path, place: str) -> None:
    """A fallback directory may hold the result if the run directory is not writable. The name tells whose it is."""
    (short_dir / "configured").mkdir()
    files = RunFiles(str(short_dir / "run"), "r", "job", (str(short_dir / "configured"),))
    final_file(short_dir / place / f"telemetry-another-{FINAL_FILE}")
    assert files.final()[0] is None
    final_file(short_dir / place / f"telemetry-r-{FINAL_FILE}")
    found, why = files.final()
    assert found is not None
    assert (found.seq, why) == (99, "")
    assert files.has_result()


def test_only_the_file_of_a_run_that_ended_is_a_result(short_dir: Path) -> None:
    """One that an aggregator can still be started for is not."""
    files = RunFiles(str(short_dir), "r", "job")
    assert not files.has_result()
    final_file(short_dir / FINAL_FILE, "LIVE")
    assert not files.has_result()
    final_file(short_dir / FINAL_FILE, "INTERRUPTED")
    assert files.has_result()


def test_a_folder_without_files_is_no_journal(short_dir: Path) -> None:
    """There would be nothing to start another aggregator from."""
    files = RunFiles(str(short_dir), "r", "job")
    assert not files.has_journal
    (short_dir / "journal").mkdir()
    assert not files.has_journal
    (short_dir / "journal" / "00000000.seg").touch()
    assert files.has_journal

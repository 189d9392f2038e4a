"""The `parquet` backend at its start: what a user can mend is told before the run, not after it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from telemetry.backends.backend import NotConfigured, RunFacts
from telemetry.backends.parquet.backend import ParquetBackend, ParquetOptions


@pytest.mark.sdk
def test_a_folder_that_cant_be_written_is_told_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk may be read-only, although the folder is there."""
    backend = ParquetBackend(ParquetOptions(path=str(tmp_path / "lake")), tmp_path)
    facts = RunFacts(run_id="r1", name="job", started_ns=1, directory=tmp_path)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(NotConfigured, match=f"can't write to {tmp_path}/lake"):
        backend.open(facts, {})
    assert backend.where() == ""
    monkeypatch.undo()
    backend.open(facts, {})
    assert backend.where() == f"{tmp_path}/lake"

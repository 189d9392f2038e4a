"""Tests of what the disk has of a run, and of whether it is that run's."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from telemetry.errors import RunDirectoryError
from telemetry.store.backends import WriterFacts, writer_folder
from telemetry.store.final_snapshot import write_final
from telemetry.store.journal import JournalWriter
from telemetry.tui.feed.local_files import directory_of, remedy_of, result_of
from telemetry.wire.snapshot import BackendStat, MetricsSnapshot

SnapshotOf = Callable[..., MetricsSnapshot]


def test_a_directory_is_only_taken_if_it_is_the_runs(run: Any, tmp_path: Path) -> None:
    """The first of several that is; without a run id any."""
    path = os.fspath(run.path)
    assert directory_of("r1", "", os.fspath(tmp_path), path) == directory_of("r1", path)
    assert directory_of("r1", path) is not None
    assert directory_of("r2", path) is None
    assert directory_of("", path) == directory_of("r1", path)
    assert directory_of("r1", "/nowhere\0", "") is None


def test_a_result_is_one_of_a_run_that_is_over(run: Any, snapshot_of: SnapshotOf, tmp_path: Path) -> None:
    """Wherever it was written to."""
    assert result_of(run) is None
    write_final(snapshot_of(state="DRAINING"), [run.final])
    assert result_of(run) is None
    run.final.unlink()
    elsewhere = tmp_path / f"telemetry-r1-{run.final.name}"
    write_final(snapshot_of(state="COMPLETE"), [elsewhere])
    assert result_of(run) is None
    found = result_of(run, [os.fspath(tmp_path)])
    assert found is not None
    assert found.state == "COMPLETE"


def test_a_result_has_the_last_words_of_its_writers(run: Any, snapshot_of: SnapshotOf) -> None:
    """A result has the last status of its writers, which go on after it was written."""
    told = [BackendStat(name="a", state="writing", written=1)]
    write_final(snapshot_of(state="COMPLETE", backends=told), [run.final])
    folder = writer_folder(run.path, "a")
    folder.make()
    folder.write_facts(WriterFacts(name="a", kind="jsonl", to="jsonl"))
    folder.write_status(BackendStat(name="a", state="done", written=9))
    found = result_of(run)
    assert found is not None
    assert [(stat.state, stat.written) for stat in found.backends] == [("done", 9)]


def test_a_result_that_can_not_be_read_is_an_error(run: Any) -> None:
    """A result that can't be read is an error, which is not the same as no result."""
    run.final.write_text("{")
    with pytest.raises(RunDirectoryError, match="damaged"):
        result_of(run)


def test_a_dead_run_with_a_journal_can_be_recovered(run: Any, snapshot_of: SnapshotOf) -> None:
    """A dead run with a journal can be recovered.

    A run that is alive, has a result, or left nothing has no remedy.
    """
    assert remedy_of(run) == ""
    writer = JournalWriter(run.journal, b"state", 1)
    writer.close()
    assert remedy_of(run) == f"`telemetry recover {run.path}` makes a result of what it left"
    lock = run.lock()
    assert remedy_of(run) == ""
    lock.release()
    write_final(snapshot_of(state="COMPLETE"), [run.final])
    assert remedy_of(run) == ""

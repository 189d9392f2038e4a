"""Dead is a run that nobody has and that has no result; what it left is counted."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from telemetry.store.dead_run import is_dead, remains
from telemetry.store.final_snapshot import final_candidates, write_final
from telemetry.store.journal import JournalWriter
from telemetry.store.run_directory import RunDirectory, manifest_for
from telemetry.wire.snapshot import MetricsSnapshot

RESULT = MetricsSnapshot(run_id="r1", name="job", state="INTERRUPTED")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunDirectory:
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path / "tmp"))
    made = RunDirectory.create(tmp_path / "my runs", "job", "r1", 10**18)
    made.write_manifest(manifest_for(made, "job", "r1", [], ""))
    return made


def test_a_run_that_somebody_has_is_not_dead(run: RunDirectory) -> None:
    """The lock tells, and its end."""
    lock = run.lock()
    assert not is_dead(run)
    lock.release()
    assert is_dead(run)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_run_with_a_result_is_not_dead(run: RunDirectory, tmp_path: Path, place: int) -> None:
    """Wherever the result is."""
    spare = str(tmp_path / "spare")
    write_final(RESULT, [final_candidates(run, [spare])[place]])
    assert not is_dead(run, [spare])


def test_what_is_no_result_changes_nothing(run: RunDirectory) -> None:
    """A broken file, or the state of a run that went on."""
    run.final.write_text("{")
    assert is_dead(run)
    write_final(replace(RESULT, state="LIVE"), [run.final])
    assert is_dead(run)


def test_what_is_left_is_counted(run: RunDirectory) -> None:
    """Segments and bytes of the journal, when it was last written, and the command that makes a result of it."""
    writer = JournalWriter(run.journal, b"state", 1)
    writer.append([b"x" * 100], 2)
    writer.begin(b"state", 3)
    writer.close()
    files = sorted(run.journal.iterdir())
    os.utime(files[0], ns=(1, 2 * 10**18))
    os.utime(files[1], ns=(1, 10**18))
    left = remains(run)
    assert (left.segments, left.since_ns, left.recoverable) == (2, 2 * 10**18, True)
    assert left.journal_bytes == sum(path.stat().st_size for path in files)
    assert left.remedy == f"telemetry recover '{run.path}'"


def test_without_a_journal_nothing_can_be_recovered(run: RunDirectory, tmp_path: Path) -> None:
    """A run without a journal, or with empty files, can't be recovered.

    Its last sign of life is that of other files, or its beginning.
    """
    os.utime(run.manifest, ns=(1, 10**18))
    os.utime(run.path, ns=(1, 10**18 + 5))
    assert remains(run).since_ns == 10**18 + 5
    run.journal.mkdir()
    (run.journal / "00000000.seg").touch()
    assert remains(run).obstacle == "it left no journal to make a result from"
    gone = remains(RunDirectory(tmp_path / "gone", "r2", "gone", 7))
    assert (gone.segments, gone.since_ns, gone.recoverable) == (0, 7, False)


def test_what_was_written_last_is_the_last_sign_of_life(run: RunDirectory) -> None:
    """History, records and log go on when there is no journal; who looks after the dead writes to the manifest."""
    for folder, second in ((run.history, 3), (run.records, 2)):
        folder.mkdir()
        (folder / "file").touch()
        os.utime(folder / "file", ns=(1, second * 10**18))
    run.log.touch()
    os.utime(run.log, ns=(1, 10**18))
    os.utime(run.manifest, ns=(1, 4 * 10**18))
    assert remains(run).since_ns == 3 * 10**18


def test_a_journal_without_a_checkpoint_that_can_be_read_is_none(run: RunDirectory) -> None:
    """A journal without a readable checkpoint counts as none, so that no user tries to recover it."""
    JournalWriter(run.journal, b"state", 1).close()
    (path,) = run.journal.iterdir()
    path.write_bytes(b"noise" * 100)
    left = remains(run)
    assert (left.journal_bytes, left.recoverable) == (500, False)
    assert left.obstacle.startswith("can't make a result from its journal: no segment in ")

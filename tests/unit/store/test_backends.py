"""Tests of the files that a writer leaves in its folder, and of reading them back."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from telemetry.errors import RunDirectoryError
from telemetry.store.backends import (
    Counts,
    Unconfirmed,
    WriterCheckpoint,
    WriterFacts,
    WriterFolder,
    read_backends,
    writer_folder,
    writer_folders,
)
from telemetry.wire.snapshot import BackendStat

FACTS = WriterFacts(name="w", kind="wandb", to="wandb:project=x,as=w", every_s=2.0, cwd="/home")


def test_everything_comes_back(tmp_path: Path) -> None:
    """Files read back as they were written. A folder without files gives no facts and a new checkpoint."""
    folder = writer_folder(tmp_path, "w")
    assert (folder.read_facts(), folder.read_status(), folder.read_checkpoint()) == (None, None, WriterCheckpoint())
    folder.make()
    folder.make()
    checkpoint = WriterCheckpoint(
        serial=4, position={"next_record": 7}, state={"id": "x"}, counts=Counts(written=3)
    )
    stat = BackendStat(name="w", state="idle", dropped={"refused": 1})
    folder.write_facts(FACTS)
    folder.write_checkpoint(checkpoint)
    folder.write_status(stat)
    assert (folder.read_facts(), folder.read_checkpoint(), folder.read_status()) == (FACTS, checkpoint, stat)
    assert msgspec.convert(msgspec.json.decode(folder.status.read_bytes())["status"], BackendStat) == stat
    assert folder.data.is_dir()


def test_all_writers_of_a_run(tmp_path: Path) -> None:
    """Writers are listed by name. A broken report, or a folder without files, hides no other."""
    assert (writer_folders(tmp_path), read_backends(tmp_path)) == ([], [])
    for name in ("b", "a", "c"):
        folder = writer_folder(tmp_path, name)
        folder.make()
        folder.write_facts(FACTS)
        folder.write_status(BackendStat(name=name))
    writer_folder(tmp_path, "c").status.write_text("{")
    writer_folder(tmp_path, "empty").make()
    assert [folder.path.name for folder in writer_folders(tmp_path)] == ["a", "b", "c"]
    assert [stat.name for stat in read_backends(tmp_path)] == ["a", "b"]


@pytest.mark.parametrize(
    ("text", "said"),
    [("", "damaged"), ("[]", "damaged"), ('{"schema_version":9}', "version 9"), ('{"serial":"x"}', "damaged")],
)
def test_a_file_that_cant_be_used_is_said(tmp_path: Path, text: str, said: str) -> None:
    """A broken or newer checkpoint is an error, so that no writer goes on from it."""
    folder = WriterFolder(tmp_path)
    folder.checkpoint.write_text(text)
    with pytest.raises(RunDirectoryError, match=said):
        folder.read_checkpoint()


def test_a_disk_that_refuses_is_said(tmp_path: Path) -> None:
    """A refusal of the disk is an error in our words, whatever the reason."""
    folder = WriterFolder(tmp_path / "gone")
    with pytest.raises(RunDirectoryError, match=r"can't write .*checkpoint\.json"):
        folder.write_checkpoint(WriterCheckpoint())
    (tmp_path / "file").touch()
    with pytest.raises(RunDirectoryError, match="can't create"):
        WriterFolder(tmp_path / "file" / "x").make()
    WriterFolder(tmp_path).checkpoint.mkdir()
    with pytest.raises(RunDirectoryError, match="can't read"):
        WriterFolder(tmp_path).read_checkpoint()


def test_what_was_handed_over_is_known_for_its_checkpoint_only(tmp_path: Path) -> None:
    """The number handed over is read only for its checkpoint, and is 0 for another.

    Half of a file counts as 0, and no call raises.
    """
    ahead = Unconfirmed(tmp_path / "ahead")
    assert ahead.read(0) == 0
    ahead.write(3, 1_000)
    ahead.write(3, 20)
    assert (ahead.read(3), ahead.read(2), ahead.read(4)) == (20, 0, 0)
    ahead.close()
    ahead.close()
    (tmp_path / "ahead").write_bytes(b"0000")
    assert ahead.read(0) == 0
    nowhere = Unconfirmed(tmp_path / "no" / "ahead")
    nowhere.write(1, 1)
    assert nowhere.read(1) == 0


def test_links_that_lead_out_of_the_run_are_removed(tmp_path: Path) -> None:
    """Libraries of trackers follow them. Links within the run stay: W&B makes some."""
    run, victim = tmp_path / "run", tmp_path / "victim"
    victim.write_bytes(b"precious")
    folder = writer_folder(run, "w")
    folder.make()
    (run / "copy").write_bytes(b"")
    (folder.data / "out").symlink_to(victim)
    (folder.data / "up").symlink_to("../../../..")
    (folder.data / "in").symlink_to(run / "copy")
    folder.make()
    assert [path.name for path in folder.data.iterdir()] == ["in"]
    assert victim.read_bytes() == b"precious"

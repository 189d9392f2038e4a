"""Files of an offline session, without ClearML: tests/backends has it."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from tests.unit.backends.clearml.sessions import begun, lines

from telemetry.backends.backend import NotConfigured, Unavailable
from telemetry.backends.clearml.backend import ClearMLIdentity, OfflineSession
from telemetry.backends.items import Artifact

EVENT = {"type": "training_stats_scalar", "iter": 1, "metric": "a", "variant": "b", "value": 1.0}


def session(folder: Path, state: dict[str, Any]) -> OfflineSession:
    return OfflineSession(ClearMLIdentity("p", "n"), folder, folder, state)


def test_events_are_lines_of_the_task(tmp_path: Path) -> None:
    """Events of the console are in a file apart.

    Each picture has a line of its own, since an importer may fail at it.
    """
    made = session(tmp_path, begun(tmp_path))
    image = {"type": "training_debug_image", "url": "u", "key": "k"}
    made.send([EVENT, image, {"type": "log", "msg": "ü"}, EVENT, image])
    task = {"task": "offline-1"}
    assert lines(tmp_path / "offline-1" / "metrics.jsonl") == [
        [EVENT | task, EVENT | task],
        [image | task],
        [image | task],
    ]
    assert lines(tmp_path / "offline-1" / "log.jsonl")[0][0]["msg"] == "ü"


def test_what_no_checkpoint_knows_is_cut_off(tmp_path: Path) -> None:
    """A session cuts off the events after its checkpoint, since they come again."""
    state = begun(tmp_path)
    made = session(tmp_path, state)
    made.send([EVENT])
    made.sync()
    state = made.state()
    made.send([EVENT, {"type": "log", "msg": "later"}])
    session(tmp_path, state)
    assert len(lines(tmp_path / "offline-1" / "metrics.jsonl")) == 1
    assert lines(tmp_path / "offline-1" / "log.jsonl") == []


@pytest.mark.parametrize("damaged", ["", "5", "[" * 100_000], ids=["empty", "number", "deep"])
def test_a_task_that_cannot_be_read_is_an_error(tmp_path: Path, damaged: str) -> None:
    """A session refuses to begin if its task file holds something else, whatever that is."""
    state = begun(tmp_path)
    (tmp_path / "offline-1" / "task.json").write_text(damaged)
    with pytest.raises(NotConfigured, match="can't use"):
        session(tmp_path, state)


def test_files_that_were_shortened_are_an_error(tmp_path: Path) -> None:
    """Going on would leave a hole that nobody sees."""
    made = session(tmp_path, begun(tmp_path))
    made.send([EVENT])
    made.sync()
    (tmp_path / "offline-1" / "metrics.jsonl").write_bytes(b"")
    with pytest.raises(NotConfigured, match="shorter"):
        session(tmp_path, made.state())
    with pytest.raises(NotConfigured):
        session(tmp_path, {"session": str(tmp_path / "gone")})


def test_a_full_disk_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk is a failure that passes, and the part of the batch that was written is taken back."""
    made = session(tmp_path, begun(tmp_path))
    made.send([EVENT])
    made.sync()

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "writev", full)
        with pytest.raises(Unavailable, match="No space"):
            made.send([EVENT])
    made.send([EVENT])
    assert len(lines(tmp_path / "offline-1" / "metrics.jsonl")) == 2


def test_the_end_is_a_zip(tmp_path: Path) -> None:
    """The end of a session makes a zip with the settings, the artifacts and the pictures."""
    (tmp_path / "p.png").write_bytes(b"picture")
    made = session(tmp_path, begun(tmp_path))
    artifact = Artifact(key="r1", time_ns=0, name="model", uri="s3://b/c")
    found = made.picture(Artifact(key="r2", time_ns=0, name="p", uri=str(tmp_path / "p.png"), kind="image"))
    assert found is not None
    assert made.picture(Artifact(key="r3", time_ns=0, name="p", uri="https://there/p.png", kind="image")) is None
    made.update({"lr": 0.5}, {"model": artifact})
    made.end()
    with ZipFile(f"{made.where()}.zip") as zipped:
        task = json.loads(zipped.read("task.json"))
        assert zipped.read(f"data/{found[1]}") == b"picture"
    assert task["hyperparams"]["General"]["lr"]["value"] == "0.5"
    assert [one["key"] for one in task["execution"]["artifacts"]] == ["model"]

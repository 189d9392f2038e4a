"""Tests of the axis that a name belongs to."""

from __future__ import annotations

from pathlib import Path

import pytest

from telemetry.backends.naming import AxisOwners


def test_the_first_axis_has_the_name(tmp_path: Path) -> None:
    """The first axis of a name keeps it for ever, whichever axis comes later."""
    owners = AxisOwners(tmp_path / "names.json")
    assert owners.has("loss", "train")
    assert not owners.has("loss", "eval")
    assert owners.has("loss", "train")


def test_the_next_process_knows_it(tmp_path: Path) -> None:
    """The next process knows owners that were kept, and not the others. An unreadable file counts as none."""
    owners = AxisOwners(tmp_path / "names.json")
    owners.has("loss", "train")
    owners.keep()
    owners.has("λ", "train")
    later = AxisOwners(tmp_path / "names.json")
    assert not later.has("loss", "eval")
    assert later.has("λ", "eval")
    (tmp_path / "names.json").write_bytes(b"{")
    assert AxisOwners(tmp_path / "names.json").has("loss", "eval")


@pytest.mark.parametrize(
    "damaged",
    [b"5", b"[1]", b'[["loss", "eval"]]', b'{"loss": 1}', b'{"loss": ["eval"]}', b"\xff", b'{"a":' * 5_000],
    ids=["number", "list", "pairs", "axis of number", "axis of list", "no text", "deep"],
)
def test_a_file_of_something_else_is_as_none(tmp_path: Path, damaged: bytes) -> None:
    """A file with other content counts as none, whatever it holds. Names are text, and so are axes."""
    path = tmp_path / "names.json"
    path.write_bytes(damaged)
    owners = AxisOwners(path)
    assert owners == {}
    assert owners.has("loss", "train")
    owners.keep()
    assert AxisOwners(path) == {"loss": "train"}


def test_nothing_is_written_without_need(tmp_path: Path) -> None:
    """A checkpoint a second must not cost a file of 10,000 names each."""
    owners = AxisOwners(tmp_path / "names.json")
    owners.keep()
    assert not (tmp_path / "names.json").exists()
    owners.has("loss", "train")
    owners.keep()
    (tmp_path / "names.json").unlink()
    owners.has("loss", "train")
    owners.keep()
    assert not (tmp_path / "names.json").exists()

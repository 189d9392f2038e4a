"""Which axis a name belongs to."""

from __future__ import annotations

from pathlib import Path

from telemetry.backends.owners import Owners


def test_the_first_axis_has_the_name(tmp_path: Path) -> None:
    """For ever, whoever comes later."""
    owners = Owners(tmp_path / "names.json")
    assert owners.has("loss", "train")
    assert not owners.has("loss", "eval")
    assert owners.has("loss", "train")


def test_the_next_process_knows_it(tmp_path: Path) -> None:
    """Once it was kept; what was not is forgotten, and a file that is none is as none."""
    owners = Owners(tmp_path / "names.json")
    owners.has("loss", "train")
    owners.keep()
    owners.has("λ", "train")
    later = Owners(tmp_path / "names.json")
    assert not later.has("loss", "eval")
    assert later.has("λ", "eval")
    (tmp_path / "names.json").write_bytes(b"{")
    assert Owners(tmp_path / "names.json").has("loss", "eval")


def test_nothing_is_written_without_need(tmp_path: Path) -> None:
    """A checkpoint a second must not cost a file of 10,000 names each."""
    owners = Owners(tmp_path / "names.json")
    owners.keep()
    assert not (tmp_path / "names.json").exists()
    owners.has("loss", "train")
    owners.keep()
    (tmp_path / "names.json").unlink()
    owners.has("loss", "train")
    owners.keep()
    assert not (tmp_path / "names.json").exists()

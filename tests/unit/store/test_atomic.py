"""A file is replaced whole, or stays as it was."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from telemetry.store.atomic import replacing, write_atomic, write_folder


def test_writes_and_replaces(tmp_path: Path) -> None:
    """The new content is there, and nothing else is left in the directory."""
    path = tmp_path / "file.json"
    write_atomic(path, b"one")
    write_atomic(path, b"two")
    assert path.read_bytes() == b"two"
    assert os.listdir(tmp_path) == ["file.json"]


def _write_half(path: Path) -> None:
    with replacing(path) as file:
        file.write(b"half")
        raise RuntimeError


def test_a_failure_in_the_block_keeps_the_old_file(tmp_path: Path) -> None:
    """An exception while writing leaves the old content and no temporary file."""
    path = tmp_path / "file.json"
    write_atomic(path, b"old")
    with pytest.raises(RuntimeError):
        _write_half(path)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file.json"]


def test_a_failing_rename_leaves_no_temporary(tmp_path: Path) -> None:
    """A rename onto a directory fails, and the temporary file is removed."""
    (tmp_path / "taken").mkdir()
    with pytest.raises(OSError, match="taken"):
        write_atomic(tmp_path / "taken", b"data")
    assert os.listdir(tmp_path) == ["taken"]


def test_a_very_long_name_still_has_room_for_a_temporary(tmp_path: Path) -> None:
    """The temporary's name stays within what a file system takes."""
    path = tmp_path / ("n" * 250)
    write_atomic(path, b"data")
    assert path.read_bytes() == b"data"


def test_data_is_on_disk_before_the_rename(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The order is fsync of the file, rename, fsync of the directory."""
    steps: list[str] = []
    real_fsync, real_replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda fd: (steps.append("fsync"), real_fsync(fd))[1])
    monkeypatch.setattr(os, "replace", lambda a, b: (steps.append("replace"), real_replace(a, b))[1])
    write_atomic(tmp_path / "file", b"data")
    assert steps == ["fsync", "replace", "fsync"]


def test_one_of_many_does_without_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that need not last replaces the file by a rename and never waits for the disk."""
    monkeypatch.setattr(os, "fsync", lambda fd: pytest.fail("nobody is to wait"))
    write_atomic(tmp_path / "file", b"data", durable=False)
    assert os.listdir(tmp_path) == ["file"]
    assert (tmp_path / "file").read_bytes() == b"data"


@pytest.mark.parametrize(("number", "fails"), [(errno.EINVAL, False), (errno.ENOTSUP, False), (errno.EIO, True)])
def test_a_directory_that_cant_be_synced_at_all_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, fails: bool
) -> None:
    """Network file systems refuse it: what was written is there. A disk that fails at it is another matter."""
    real_fsync = os.fsync

    def fsync(fd: int) -> None:
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            raise OSError(number, os.strerror(number))
        real_fsync(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(OSError, match="error") if fails else nullcontext():
        write_atomic(tmp_path / "file", b"data")
    assert (tmp_path / "file").read_bytes() == b"data"


def test_a_folder_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    """A file that fails leaves no folder behind, nor what was to become one."""

    def failing() -> Iterator[tuple[str, bytes]]:
        yield "a.txt", b"a"
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        write_folder(tmp_path / "all", failing())
    assert list(tmp_path.iterdir()) == []
    write_folder(tmp_path / "all", [("a.txt", b"a"), ("b.txt", b"b")])
    assert {path.name: path.read_bytes() for path in (tmp_path / "all").iterdir()} == {"a.txt": b"a", "b.txt": b"b"}
    with pytest.raises(OSError, match="not empty"):
        write_folder(tmp_path / "all", [("c.txt", b"c")])
    assert [path.name for path in tmp_path.iterdir()] == ["all"]

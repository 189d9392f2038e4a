"""Files of a run directory that somebody else may have made."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from telemetry import limits
from telemetry.common.files import cut_file, make_folder, open_file, open_reader, read_file, read_owned

APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run directory that is reached through a link, beside a file that must stay as it is."""
    (tmp_path / "run" / "folder").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "file").write_bytes(b"precious")
    (tmp_path / "latest").symlink_to("run")
    return tmp_path / "latest"


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    return tmp_path / "elsewhere" / "file"


def test_the_run_itself_may_be_reached_through_a_link(run: Path) -> None:
    """A run that is reached through a link is read and written as any other."""
    for path, depth in ((run / "file", 1), (run / "folder" / "file", 2)):
        os.close(open_file(path, APPEND, depth=depth))
        path.write_bytes(b"content")
        assert read_file(path, 7, depth=depth) == b"content"
        cut_file(path, 3, depth=depth)
        assert path.read_bytes() == b"con"
        assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("depth", [1, 2])
def test_a_link_to_a_file_is_not_followed(run: Path, victim: Path, depth: int) -> None:
    """A link is followed neither for reading nor for writing. A link to a missing file makes no file."""
    path = (run if depth == 1 else run / "folder") / "link"
    for target in (victim, victim.with_name("missing")):
        path.unlink(missing_ok=True)
        path.symlink_to(target)
        for flags in (os.O_RDONLY, os.O_RDWR, APPEND):
            with pytest.raises(OSError, match="it is a link") as refused:
                open_file(path, flags, depth=depth)
            assert refused.value.filename == str(path)
    assert os.listdir(victim.parent) == ["file"]
    assert victim.read_bytes() == b"precious"


def test_a_link_to_a_folder_is_not_followed(run: Path, victim: Path) -> None:
    """The file in it is a good one."""
    (run / "link").symlink_to(victim.parent)
    with pytest.raises(OSError, match="it is a link"):
        open_reader(run / "link" / "file")
    with pytest.raises(OSError, match="it is a link"):
        make_folder(run / "link")
    make_folder(run / "folder")
    make_folder(run / "new")
    assert (run / "new").stat().st_mode & 0o777 == 0o700


def test_a_file_with_another_name_is_only_read(run: Path, victim: Path) -> None:
    """Writing to it would change the file outside."""
    (run / "hard").hardlink_to(victim)
    assert read_file(run / "hard", 100) == b"precious"
    with pytest.raises(OSError, match="hard link"):
        open_file(run / "hard", APPEND, depth=1)


def test_special_files_are_not_opened(run: Path) -> None:
    """Special files are refused at once, because opening a pipe would wait for its other end."""
    os.mkfifo(run / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(run / "socket"))
    for name in ("pipe", "socket"):
        for flags in (os.O_RDONLY, APPEND):
            with pytest.raises(OSError, match="not a regular file"):
                open_file(run / name, flags, depth=1)
    with pytest.raises(IsADirectoryError):
        open_reader(run / "folder", depth=1)
    with pytest.raises(FileNotFoundError, match=r"latest/missing"):
        open_reader(run / "missing", depth=1)


def test_a_huge_file_takes_no_memory(run: Path) -> None:
    """A file above the limit is refused by its size before it is read.

    A sparse file of a terabyte has a few bytes in an archive.
    """
    with (run / "huge").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(OSError, match=r"1,099,511,627,776 bytes, but at most 1,024 are read"):
        read_file(run / "huge", limits.KIB)
    with pytest.raises(OSError, match="at most 1,024"):
        read_owned(run / "huge", {os.geteuid()}, limits.KIB)


def test_no_descriptor_is_left(run: Path, victim: Path) -> None:
    """No descriptor stays open after an error."""
    (run / "link").symlink_to(victim)
    before = os.listdir("/dev/fd")
    for name in ("link", "missing", "folder"):
        with pytest.raises(OSError, match=name):
            open_reader(run / name, depth=1)
    with pytest.raises(OSError, match="link"):
        open_reader(run / "link" / "file")
    assert os.listdir("/dev/fd") == before

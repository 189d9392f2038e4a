"""Pieces are appended whole or not at all."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from telemetry.store.append_file import AppendFile, describe


def test_appends_after_what_is_there(tmp_path: Path) -> None:
    """An existing file is continued, and `size` follows."""
    path = tmp_path / "log"
    path.write_bytes(b"old")
    file = AppendFile(path)
    assert file.append([b"ab", bytearray(b"cd"), memoryview(b"ef")]) == 6
    assert file.size == 9
    file.close()
    file.close()
    assert path.read_bytes() == b"oldabcdef"


def test_more_buffers_than_one_writev_takes(tmp_path: Path) -> None:
    """Past 1,024 buffers several writes are made, and the order holds."""
    parts = [f"{n};".encode() for n in range(3_000)]
    file = AppendFile(tmp_path / "log")
    file.append(parts)
    file.close()
    assert (tmp_path / "log").read_bytes() == b"".join(parts)


def test_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that takes only a few bytes at a time gets the rest."""
    monkeypatch.setattr(os, "writev", lambda fd, buffers: os.write(fd, b"".join(buffers)[:3]))
    file = AppendFile(tmp_path / "log")
    file.append([b"abcd", b"", b"efghij"])
    file.close()
    assert (tmp_path / "log").read_bytes() == b"abcdefghij"


def test_a_disk_that_fills_up_midway_leaves_no_half_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A piece that is half written when the disk fills up is cut off again."""
    room = [5]

    def writev(fd: int, buffers: list[bytes]) -> int:
        if not room[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = os.write(fd, b"".join(buffers)[: room[0]])
        room[0] -= written
        return written

    monkeypatch.setattr(os, "writev", writev)
    file = AppendFile(tmp_path / "log")
    file.append([b"abc"])
    with pytest.raises(OSError, match="No space left"):
        file.append([b"defgh"])
    assert file.size == 3
    file.close()
    assert (tmp_path / "log").read_bytes() == b"abc"


def test_describe_names_the_file() -> None:
    """The one line for people says what and where."""
    assert describe(OSError(errno.ENOSPC, "No space left on device", "/x")) == "No space left on device: /x"
    assert describe(OSError("odd")) == "odd"

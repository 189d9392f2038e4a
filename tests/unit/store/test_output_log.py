"""Tests of the log of a command's output, in two files of bounded size."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from telemetry.store.output_log import OLDER, OUTPUT, OutputLog


def test_bytes_are_kept_as_they_come(tmp_path: Path) -> None:
    """Bytes are written without decoding, after the old content of the file."""
    (tmp_path / OUTPUT).write_bytes(b"before\n")
    log = OutputLog(tmp_path)
    log.append(b"\x1b[31mred\xff\r")
    log.append(b"\n")
    log.close()
    log.close()
    assert (tmp_path / OUTPUT).read_bytes() == b"before\n\x1b[31mred\xff\r\n"
    assert (log.lost_bytes, log.failure) == (0, "")


def test_a_silent_command_leaves_no_file(tmp_path: Path) -> None:
    """The first byte makes it."""
    log = OutputLog(tmp_path)
    log.close()
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_full_becomes_the_older_one(tmp_path: Path) -> None:
    """Both together hold the newest bytes, and neither is larger than it may be."""
    log = OutputLog(tmp_path, file_bytes=10)
    for number in range(10):
        log.append(b"%03d\n" % number)
        assert (tmp_path / OUTPUT).stat().st_size <= 10
    log.close()
    assert (tmp_path / OLDER).read_bytes() == b"006\n007\n"
    assert (tmp_path / OUTPUT).read_bytes() == b"008\n009\n"


def test_an_unfinished_line_stays_in_order_over_two_files(tmp_path: Path) -> None:
    """An unfinished line waits for its end, also while a file is full."""
    log = OutputLog(tmp_path, file_bytes=10)
    for piece in (b"01234567\nab", b"cdefghij\nk", b"l\n"):
        log.append(piece)
    log.close()
    assert (tmp_path / OLDER).read_bytes() == b"abcdefghij\n"
    assert (tmp_path / OUTPUT).read_bytes() == b"kl\n"


def test_secrets_are_masked_over_the_ends_of_pieces(tmp_path: Path) -> None:
    """A secret is masked across pieces, also if a process writes half a line first."""
    log = OutputLog(tmp_path)
    for piece in (b"password=hun", b"ter2\nnext ghp_" + b"a1B2" * 4, b"a1B2" * 5 + b" end"):
        log.append(piece)
    log.settle()
    assert (tmp_path / OUTPUT).read_bytes() == b"password=***\nnext *** end"
    log.close()


def test_a_piece_that_is_larger_than_a_file_is_kept_whole(tmp_path: Path) -> None:
    """A piece larger than a file has a file of its own, which the next piece replaces."""
    log = OutputLog(tmp_path, file_bytes=10)
    for piece in (b"a\n", b"b" * 99 + b"\n", b"c\n"):
        log.append(piece)
    log.close()
    assert (tmp_path / OLDER).read_bytes() == b"b" * 99 + b"\n"
    assert (tmp_path / OUTPUT).read_bytes() == b"c\n"


def test_what_a_full_disk_does_not_take_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk raises no error, and the lost bytes are counted. The log goes on once there is room."""
    log = OutputLog(tmp_path)
    log.append(b"one\n")

    def full(fd: int, buffers: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as disk:
        disk.setattr(os, "writev", full)
        log.append(b"two\n")
        log.append(b"three\n")
    log.append(b"four\n")
    log.close()
    assert (tmp_path / OUTPUT).read_bytes() == b"one\nfour\n"
    assert (log.lost_bytes, log.failure) == (10, "No space left on device")


def test_a_directory_that_is_gone_is_waited_for(tmp_path: Path) -> None:
    """The removal of a run directory costs what is written meanwhile, and no more."""
    log = OutputLog(tmp_path / "run")
    log.append(b"lost\n")
    (tmp_path / "run").mkdir()
    log.append(b"kept\n")
    log.close()
    assert log.lost_bytes == 5
    assert log.failure.startswith("No such file or directory: ")
    assert log.path.read_bytes() == b"kept\n"

"""A file is there whole or not at all, also after a power cut unless its writer does without that."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO, Final

OWNER_ONLY: Final = 0o600
"""Mode of the files of a run."""
_AS_UMASK: Final = 0o666
_NOT_FOR_DIRECTORIES: Final = (errno.EINVAL, errno.ENOTSUP)
"""What network file systems answer that only know how to sync files."""


def write_atomic(path: Path, data: bytes, *, durable: bool = True, mode: int = _AS_UMASK) -> None:
    """Replaces `path` by `data`. Blocks until it is on the disk. Raises OSError, and then `path` is as it was.

    Not `durable`, it blocks for the page cache alone: for one of many files that can be made anew, which a power
    cut within the minute may leave empty.
    """
    with replacing(path, durable=durable, mode=mode) as file:
        file.write(data)


@contextmanager
def replacing(path: Path, *, durable: bool = True, mode: int = _AS_UMASK) -> Iterator[BinaryIO]:
    """A new file that takes the place of `path` when the block ends well, and vanishes when it does not.

    It lies beside `path`, because a rename is atomic only within one file system.
    """
    temporary = _beside(path)
    try:
        with open(temporary, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            yield file
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    if durable:
        sync_directory(path.parent)


def write_folder(path: Path, files: Iterable[tuple[str, bytes]]) -> None:
    """Makes a new folder of files by name, which is there whole or not at all. Blocks for the page cache alone.

    Raises OSError, also for a folder that is there and not empty.
    """
    temporary = _beside(path)
    temporary.mkdir()
    try:
        for name, data in files:
            with open(temporary / name, "xb", buffering=0) as file:
                file.write(data)
        os.rename(temporary, path)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def _beside(path: Path) -> Path:
    """Where no reader looks."""
    return path.with_name(f".{path.name[:100]}.{os.getpid()}-{token_hex(4)}.tmp")


def sync_directory(path: Path) -> None:
    """Puts the names in a directory on the disk, where the file system can. Blocks. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in _NOT_FOR_DIRECTORIES:
            raise
    finally:
        os.close(fd)

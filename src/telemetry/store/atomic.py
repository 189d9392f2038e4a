"""Atomic writes: a file appears completely or not at all, even after a power cut if the write is durable."""

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
"""Errors of network file systems that can sync files but not directories."""


def write_atomic(path: Path, data: bytes, *, durable: bool = True, mode: int = _AS_UMASK) -> None:
    """Replace the content of `path` by `data`.

    Blocks until the data is on the disk. Raises OSError and then leaves `path` unchanged.

    If not `durable`, it blocks for the page cache only. Use that for one of many files that can be made again: a
    power cut within the next minute may leave such a file empty.
    """
    with replacing(path, durable=durable, mode=mode) as file:
        file.write(data)


@contextmanager
def replacing(path: Path, *, durable: bool = True, mode: int = _AS_UMASK) -> Iterator[BinaryIO]:
    """Yield a new file that replaces `path` if the block succeeds, and is deleted if it fails.

    The file lies beside `path`, because a rename is atomic only within one file system.
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
    """Create a folder with files by name, completely or not at all. Blocks for the page cache only.

    Raises OSError, also if a folder of that name exists and is not empty.
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
    """Return a hidden temporary path beside `path` that readers ignore."""
    return path.with_name(f".{path.name[:100]}.{os.getpid()}-{token_hex(4)}.tmp")


def sync_directory(path: Path) -> None:
    """Sync the names in a directory to the disk, if the file system can. Blocks. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in _NOT_FOR_DIRECTORIES:
            raise
    finally:
        os.close(fd)

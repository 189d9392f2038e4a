"""Files of a run directory, whoever made it: no link in it is followed, and only regular files are opened.

Links and special files survive `tar` and `cp -a`, so a run directory of somebody else may hold any of them. The
path of the run directory itself may contain links. `depth` is the number of names at the end of a path that are in
the run directory: 1 for its own files, 2 for the files in its folders.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import Final

_FOLDER: Final = os.O_DIRECTORY | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)  # macOS has no O_PATH
_FILE: Final = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_OWNER_ONLY: Final = 0o600


def open_file(path: Path, flags: int = os.O_RDONLY, mode: int = _OWNER_ONLY, *, depth: int) -> int:
    """Open a regular file of a run directory and return its descriptor. Never waits for a pipe or a device.

    Raises OSError, also for a link, for a special file, and for writing to a file that has other names, which may
    be outside of the run directory.
    """
    try:
        with _folder_of(path, depth) as folder:
            with suppress(FileNotFoundError):  # opening a device can have effects of its own
                _check_regular(os.stat(path.name, dir_fd=folder, follow_symlinks=False))
            fd = os.open(path.name, flags | _FILE, mode, dir_fd=folder)
        try:
            facts = os.fstat(fd)
            _check_regular(facts)
            if flags & os.O_ACCMODE != os.O_RDONLY and facts.st_nlink > 1:
                raise OSError(errno.EPERM, "it is a hard link: writing would change another file too")
        except OSError:
            os.close(fd)
            raise
    except OSError as error:
        error.filename = os.fspath(path)
        raise
    return fd


def opener(depth: int, mode: int = _OWNER_ONLY) -> Callable[[str, int], int]:
    """Return the `opener` for `open` that opens as `open_file` does."""
    return lambda path, flags: open_file(Path(path), flags, mode, depth=depth)


def open_reader(path: Path, *, depth: int = 2) -> FileIO:
    """Open a file for reading, without a buffer. Raises as `open_file`."""
    return open(open_file(path, depth=depth), "rb", buffering=0)


def read_file(path: Path, most_bytes: int, *, depth: int = 1) -> bytes:
    """Return the content of a file. Raises as `open_file`, and for a file larger than `most_bytes`."""
    with open_reader(path, depth=depth) as file:
        return _read(file, path, most_bytes)


def cut_file(path: Path, size: int, *, depth: int = 2) -> None:
    """Drop the bytes of a file after `size`. Raises as `open_file`."""
    fd = open_file(path, os.O_WRONLY, depth=depth)
    try:
        os.ftruncate(fd, size)
    finally:
        os.close(fd)


def make_folder(path: Path) -> None:
    """Create a folder of a run directory, and the folders above it, unless it exists. Raises OSError for a link.

    In a folder that is no link, names can be removed and replaced without harm: neither follows a link.
    """
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    if path.is_symlink():
        raise _link(path)


def read_owned(path: Path, owners: Collection[int], most_bytes: int) -> bytes:
    """Read a regular file in a folder where other users may write, such as the folder for temporary files.

    It must belong to one of `owners`, and only its owner may be able to write to it. Raises OSError for any other
    file, also for a link to such a file.
    """
    with open_reader(path, depth=1) as file:
        facts = os.fstat(file.fileno())
        if facts.st_uid not in owners:
            raise OSError(errno.EPERM, "it belongs to another user", os.fspath(path))
        if facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise OSError(errno.EPERM, "other users can write to it", os.fspath(path))
        return _read(file, path, most_bytes)


@contextmanager
def _folder_of(path: Path, depth: int) -> Iterator[int]:
    """Yield a descriptor of the folder of a file. Raises OSError for a link inside the run directory."""
    fd = os.open(path.parents[depth - 1], _FOLDER)
    try:
        for name in path.parts[len(path.parts) - depth : -1]:
            if stat.S_ISLNK(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode):
                raise _link()
            inner = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=fd)
            os.close(fd)
            fd = inner
        yield fd
    finally:
        os.close(fd)


def _read(file: FileIO, path: Path, most_bytes: int) -> bytes:
    size = os.fstat(file.fileno()).st_size
    if size > most_bytes:
        raise OSError(errno.EFBIG, f"it has {size:,} bytes, but at most {most_bytes:,} are read", os.fspath(path))
    return file.readall()


def _check_regular(facts: os.stat_result) -> None:
    if stat.S_ISLNK(facts.st_mode):
        raise _link()
    if stat.S_ISDIR(facts.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(facts.st_mode):
        raise OSError(errno.EPERM, "it is not a regular file")


def _link(path: Path | None = None) -> OSError:
    message = "it is a link, and links in a run directory are not followed"
    return OSError(errno.ELOOP, message, *([os.fspath(path)] if path is not None else []))

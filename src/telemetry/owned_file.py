"""Reading a file in a folder where other users may write, such as the folder for temporary files."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Collection
from pathlib import Path


def read_owned(path: Path, owners: Collection[int]) -> bytes:
    """Read a regular file that belongs to one of `owners` and that only its owner can write to.

    Raises OSError for any other file, also for a link to such a file.
    """
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(fd, "rb") as file:
        facts = os.fstat(fd)
        if not stat.S_ISREG(facts.st_mode):
            raise OSError(errno.EPERM, "it is not a regular file", str(path))
        if facts.st_uid not in owners:
            raise OSError(errno.EPERM, "it belongs to another user", str(path))
        if facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise OSError(errno.EPERM, "other users can write to it", str(path))
        return file.read()

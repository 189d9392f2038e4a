"""Processes of this host, by pid."""

from __future__ import annotations

import os
from pathlib import Path


def start_of(pid: int) -> int:
    """Return when a process started, in clock ticks since boot; 0 if that is unknown."""
    return _stat(pid)[0]


def process_lives(pid: int, started: int = 0) -> bool:
    """Return whether a process of this host has this pid and has not ended.

    With `started`, its start in clock ticks since boot, a later process of the same pid does not count.
    """
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):  # no system has a pid that large
        return False
    except PermissionError:
        pass  # the process of another user, perhaps a later one
    start_ticks, zombie = _stat(pid)
    return not zombie and (not start_ticks or not started or start_ticks == started)


def _stat(pid: int) -> tuple[int, bool]:
    """Return (clock ticks from boot to the start, whether it is a zombie); (0, False) without /proc."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[19]), fields[0] == "Z"
    except (OSError, ValueError, IndexError):
        return 0, False

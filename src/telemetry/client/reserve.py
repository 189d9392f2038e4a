"""File descriptors kept for a forked child that has none left.

A child needs sockets of its own. In a process at its limit of open files it could not make them, and what it
records would be lost. So a producer keeps a few descriptors that lead nowhere, and a child gives up its copies.
"""

from __future__ import annotations

import os
from typing import Final

_NEEDED: Final = 16
"""A ZeroMQ context with two connected sockets takes 8. libzmq ends the process where it finds too few."""


class DescriptorReserve:
    """Descriptors of the null device. Not thread-safe: the owner of the process holds its lock."""

    def __init__(self) -> None:
        self._held: list[int] = []

    def hold(self) -> None:
        """Open the reserve, unless the process would have too few descriptors left for itself."""
        if not self._held and _can_open(3 * _NEEDED):
            self._held = [os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC) for _ in range(_NEEDED)]

    def release(self) -> None:
        """Close the reserve, so that others can open as many."""
        held, self._held = self._held, []
        for descriptor in held:
            os.close(descriptor)

    def has_room(self) -> bool:
        """Return True if the process can open as many descriptors as sockets need, giving up the reserve for it."""
        if _can_open(_NEEDED):
            return True
        self.release()
        return _can_open(_NEEDED)


def _can_open(count: int) -> bool:
    opened: list[int] = []
    try:
        for _ in range(count):
            opened.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    except OSError:
        return False
    finally:
        for descriptor in opened:
            os.close(descriptor)
    return True

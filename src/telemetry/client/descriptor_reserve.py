"""File descriptors kept for a forked child that has no free ones.

A child needs its own sockets. In a process at its limit of open files, the child could not create them, and its
events would be lost. So a producer keeps a few descriptors of the null device, and the child closes its copies.
"""

from __future__ import annotations

import os
from typing import Final

_NEEDED: Final = 16
"""A ZeroMQ context with two connected sockets takes 8 descriptors. libzmq aborts the process if it has too few."""


class DescriptorReserve:
    """A reserve of null device descriptors. Not thread-safe: callers hold the lock of the process."""

    def __init__(self) -> None:
        self._held: list[int] = []

    def hold(self) -> None:
        """Open the reserve, unless the process would have too few descriptors left."""
        if not self._held and _can_open(3 * _NEEDED):
            self._held = [os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC) for _ in range(_NEEDED)]

    def release(self) -> None:
        """Close the reserve and free its descriptors."""
        held, self._held = self._held, []
        for descriptor in held:
            os.close(descriptor)

    def has_room(self) -> bool:
        """Check that the process can open the descriptors that sockets need.

        Closes the reserve if that is necessary.
        """
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

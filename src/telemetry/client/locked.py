"""Locks for objects that signal handlers and forked children use, too."""

from __future__ import annotations

import os
import threading
import weakref
from typing import Final


class Locked:
    """Base of classes whose methods hold `_lock` for a moment.

    A signal handler may call a method while its own thread is in another one. A forked child gets a new lock,
    because a thread of the parent may have held the old one.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        _ALL.add(self)

    def renew_lock(self) -> None:
        """Replace the lock."""
        self._lock = threading.RLock()


_ALL: Final[weakref.WeakSet[Locked]] = weakref.WeakSet()


def _renew_locks() -> None:
    for each in list(_ALL):
        each.renew_lock()


os.register_at_fork(after_in_child=_renew_locks)

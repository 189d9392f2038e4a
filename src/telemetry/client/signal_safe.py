"""Locks, a counter and a set that signal handlers, threads and forked children may use."""

from __future__ import annotations

import itertools
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable
from typing import Final, Generic, Protocol, TypeVar

_T = TypeVar("_T")


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


class LivingObjects(Generic[_T]):
    """Weak references to objects. One thread may read them while others add.

    Iterating a `WeakSet` then raises RuntimeError, since it runs Python code between two objects.
    """

    def __init__(self) -> None:
        self._references: set[weakref.ref[_T]] = set()

    def add(self, item: _T) -> None:
        self._references.add(weakref.ref(item, self._references.discard))

    def living(self) -> list[_T]:
        """Return the objects that live now."""
        return [item for reference in self._references.copy() if (item := reference()) is not None]


_ALL: Final[weakref.WeakSet[Locked]] = weakref.WeakSet()


def _renew_locks() -> None:
    for each in list(_ALL):
        each.renew_lock()


os.register_at_fork(after_in_child=_renew_locks)


class HitCounter(Protocol):
    """A counter as `Tally`."""

    @property
    def hit(self) -> Callable[[], object]: ...

    def hit_many(self, times: int, /) -> None: ...

    @property
    def total(self) -> int: ...

    def take(self) -> int: ...


class Tally:
    """A counter. `hit()` and `hit_many(n)` are single atomic C calls, safe from anywhere.

    Only one thread at a time may use `take` and `total`.
    """

    __slots__ = ("_count", "_looks", "_taken", "hit")

    def __init__(self) -> None:
        self._count = itertools.count()
        self._looks = 0
        self._taken = 0
        self.hit = self._count.__next__

    def hit_many(self, times: int) -> None:
        """Add several hits at once."""
        deque(itertools.islice(self._count, times), maxlen=0)

    @property
    def total(self) -> int:
        """Number of hits so far. Reading the counter increments it, so earlier reads are subtracted."""
        seen = next(self._count) - self._looks
        self._looks += 1
        return seen

    def take(self) -> int:
        """Return the number of hits since the last `take`."""
        total = self.total
        new = total - self._taken
        self._taken = total
        return new

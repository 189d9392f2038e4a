"""Watch over the processes that a run belongs to. A death is noticed within one tick, whoever the parent is.

PR_SET_PDEATHSIG is not suitable: it fires when the starting *thread* ends.
"""

from __future__ import annotations

import os
import select
from typing import Protocol

from telemetry import limits


class _Watched(Protocol):
    def dead(self) -> bool: ...


class _Pidfd:
    """A watch by pidfd, which is readable once the process has ended, reaped or not."""

    def __init__(self, pid: int) -> None:
        self._fd = os.pidfd_open(pid)

    def dead(self) -> bool:
        poller = select.poll()  # `select` accepts only descriptors up to 1,023
        poller.register(self._fd, select.POLLIN)
        return bool(poller.poll(0))

    def __del__(self) -> None:
        if hasattr(self, "_fd"):
            os.close(self._fd)


class _Polled:
    """A watch by polling, for systems without pidfd.

    It mistakes a reused pid for the old process, and an unreaped process for a living one.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid

    def dead(self) -> bool:
        try:
            os.kill(self._pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            return False
        return False


class _Gone:
    def dead(self) -> bool:
        return True


def _watch(pid: int) -> _Watched:
    try:
        return _Pidfd(pid)
    except ProcessLookupError:
        return _Gone()
    except (AttributeError, OSError):
        return _Polled(pid)


def alive(pid: int) -> bool:
    """Check that a process of this host has this pid and has not ended."""
    return pid > 0 and not _watch(pid).dead()


def exists(pid: int) -> bool:
    """Check that a process of this host has this pid. It may have ended if its parent has not collected it yet."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except OSError:
        return False
    return True


class ProcessWatch:
    """Watched processes of a run. The run lives while one of them lives."""

    def __init__(self) -> None:
        self._watched: dict[int, _Watched] = {}
        self.watching = False
        self.last = 0
        """Process that died last."""

    def watch(self, pid: int) -> bool:
        """Watch a process. Return False if too many are watched."""
        if pid not in self._watched and len(self._watched) >= limits.PROCESSES_WATCHED:
            return False
        self._watched[pid] = _watch(pid)
        self.watching = True
        return True

    def departed(self) -> list[int]:
        """Return the pids that died since the last call."""
        gone = [pid for pid, watched in self._watched.items() if watched.dead()]
        for pid in gone:
            del self._watched[pid]
            self.last = pid
        return gone

    @property
    def orphaned(self) -> bool:
        """True if all processes that the run belonged to are dead."""
        return self.watching and not self._watched

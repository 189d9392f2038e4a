"""The base of threads that read something of a run and follow its snapshots."""

from __future__ import annotations

from abc import ABC, abstractmethod
from threading import Condition, Thread
from typing import Final

from telemetry.wire.snapshot import MetricsSnapshot

_JOIN_S: Final = 1.0


class ReaderThread(ABC):
    """A thread with the newest snapshot, woken up by each. All methods may be called from any thread."""

    def __init__(self, name: str) -> None:
        """Prepare the thread called `telemetry-<name>`."""
        self._changed = Condition()
        self._closing = False
        self._newest: MetricsSnapshot | None = None
        self._unseen = False
        """True if a snapshot arrived that the thread has not looked at."""
        self._thread = Thread(target=self._run, name=f"telemetry-{name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def saw(self, snapshot: MetricsSnapshot) -> None:
        """Take a new snapshot of the run."""
        with self._changed:
            self._newest, self._unseen = snapshot, True
            self._changed.notify()

    def close(self) -> None:
        """End the thread. Waits at most a second for it."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join(_JOIN_S)

    @abstractmethod
    def _run(self) -> None:
        """Work until `_closing`. Runs on the thread."""

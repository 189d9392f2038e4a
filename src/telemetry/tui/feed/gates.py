"""Results of the gates of a run, from the files in its run directory."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from typing import Final

from telemetry.errors import RunDirectoryError
from telemetry.store.gate_results import read_gates, read_gates_so_far
from telemetry.tui.feed.news import GatesOf, Tell

_PERIOD_S: Final = 0.5
_JOIN_S: Final = 2.0


class GatesWatch:
    """A watch for the files that `telemetry run` writes during and after a run. Without gates there is no news."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._closing = Event()
        self._thread: Thread | None = None

    def start(self, tell: Tell) -> None:
        """Start a thread that looks twice a second until the results at the end of the run are there."""
        self._thread = Thread(target=self._follow, args=(tell,), name="telemetry-gates", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Wait for the thread. May be called twice, and without `start`."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join(_JOIN_S)

    def look(self) -> GatesOf | None:
        """Return the results, or None if there are none that can be read. Never raises."""
        with suppress(RunDirectoryError):  # the report names the problem
            if gates := read_gates(self._directory):
                return GatesOf(tuple(gates))
            if gates := read_gates_so_far(self._directory):
                return GatesOf(tuple(gates), final=False)
        return None

    def _follow(self, tell: Tell) -> None:
        previous: GatesOf | None = None
        while not self._closing.is_set():
            gates = self.look()
            if gates is not None and gates != previous:
                tell(gates)
                previous = gates
            if gates is not None and gates.final:
                return
            self._closing.wait(_PERIOD_S)

"""The collector `host`: the figures of machine, container and processes as gauges of a run."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from msgspec import Meta, Struct

from telemetry.client.process import ENDPOINT_VARIABLE
from telemetry.collectors.collector import NotAvailable, Target
from telemetry.collectors.host.container import Container
from telemetry.collectors.host.files import Files
from telemetry.collectors.host.machine import Figure, Machine
from telemetry.collectors.host.tree import CommandTree, Tree
from telemetry.wire.collectors import PROCESS_LABEL

if TYPE_CHECKING:
    from telemetry.client.instruments import Gauge
    from telemetry.client.run import Run

UNITS: Final = {
    "host.cpu": "%",
    "host.cpu_iowait": "%",
    "host.cpu_steal": "%",
    "host.load": "",
    "host.memory": "B",
    "host.memory_percent": "%",
    "host.memory_available": "B",
    "host.swap": "B",
    "host.disk_read": "B/s",
    "host.disk_written": "B/s",
    "host.disk_busy": "%",
    "host.net_received": "B/s",
    "host.net_sent": "B/s",
    "host.pressure_cpu": "%",
    "host.pressure_memory": "%",
    "host.pressure_io": "%",
    "container.cpu": "%",
    "container.cpu_throttled": "%",
    "container.memory": "B",
    "container.memory_percent": "%",
    "process.cpu": "%",
    "process.memory": "B",
    "process.count": "",
    "process.threads": "",
    "process.open_files": "",
    "process.read": "B/s",
    "process.written": "B/s",
}
"""Gauges and their units. `docs/COLLECTORS.md` explains each."""
COUNTERS: Final = ("host.net_errors", "host.net_drops")
_PROGRAMS: Final = 8
"""Largest number of values of that label in a run: the programs that were among the largest first."""
_LARGEST: Final = 3
"""Programs that are the largest at a reading, by CPU and by memory."""
_OPEN_FILES_EVERY: Final = 10
"""Readings for one count of open files, which takes as long as all the rest."""
_LEAST_S: Final = 0.2
"""Shortest time since the last reading for which rates are more than rounding."""


class HostCollector:
    """A collector of figures from Linux's `/proc` and `/sys`."""

    class Options(Struct, frozen=True, forbid_unknown_fields=True):
        interval_s: Annotated[float, Meta(ge=0.2, le=3_600)] = 0.0
        """Pause between two readings; 0 for that of the setting `collect.interval_s`."""

    def __init__(
        self,
        options: Options,
        target: Target,
        *,
        root: Path = Path("/"),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not (root / "proc/stat").exists():
            raise NotAvailable("host figures need Linux's /proc", f"this system is {sys.platform}")
        self.interval_s = options.interval_s
        self._labels = dict(target.labels)
        self._clock = clock
        self._files = Files(root)
        self._machine = Machine(self._files)
        self._container = Container(self._files)
        variable = f"{ENDPOINT_VARIABLE}={os.environ.get(ENDPOINT_VARIABLE, '')}"
        self._tree = CommandTree(target.pid, root, variable) if target.pid else None
        self._programs: list[str] = []
        self._readings = 0
        self._read_at_s = 0.0

    def sample(self, run: Run) -> None:
        """Read all figures and set the gauges. Skip a call right after another one: its rates would be noise."""
        now_s = self._clock()
        seconds = now_s - self._read_at_s if self._readings else 0.0
        if self._readings and seconds < _LEAST_S:
            return
        self._read_at_s = now_s
        self._gauge(run, "host.cpu")  # first, so that reports show it first; the first sample has no value for it
        for name, value in self._figures(seconds):
            self._set(run, name, value)
        for name, increase in self._machine.trouble.items():
            if increase:
                run.counter(name, labels=self._labels).add(increase)
        if self._tree is not None:
            self._record_tree(run, self._tree, seconds)
        self._readings += 1

    def close(self) -> None:
        self._files.close()

    def _figures(self, seconds: float) -> Iterator[Figure]:
        yield from self._machine.figures(seconds)
        yield from self._container.figures(seconds)

    def _record_tree(self, run: Run, command: CommandTree, seconds: float) -> None:
        tree = command.read(seconds)
        if not tree.processes:
            return  # the command has ended: its last figures say more than zeros
        self._gauge(run, "process.cpu")  # as above
        figures: list[tuple[str, float | None]] = [
            ("process.cpu", tree.cpu),
            ("process.memory", tree.memory),
            ("process.count", tree.processes),
            ("process.threads", tree.threads),
            ("process.read", tree.read),
            ("process.written", tree.written),
        ]
        if self._readings % _OPEN_FILES_EVERY == 0:
            figures.append(("process.open_files", command.open_files()))
        for name, value in figures:
            if value is not None:
                self._set(run, name, value)
        for program in self._chosen(tree):
            use = tree.by_name.get(program)
            labels = self._labels | {PROCESS_LABEL: program}
            run.gauge("process.memory", unit="B", labels=labels).set(use.memory if use else 0)
            if tree.cpu is not None:
                run.gauge("process.cpu", unit="%", labels=labels).set(use.cpu if use else 0.0)

    def _chosen(self, tree: Tree) -> list[str]:
        """Return the programs with gauges of their own: none while all processes run the same program."""
        for largest in (
            sorted(tree.by_name, key=lambda name: -tree.by_name[name].memory)[:_LARGEST],
            sorted(tree.by_name, key=lambda name: -tree.by_name[name].cpu)[:_LARGEST],
        ):
            for program in largest:
                if program not in self._programs and len(self._programs) < _PROGRAMS:
                    self._programs.append(program)
        return self._programs if len(self._programs) > 1 else []

    def _set(self, run: Run, name: str, value: float) -> None:
        self._gauge(run, name).set(value)

    def _gauge(self, run: Run, name: str) -> Gauge:
        return run.gauge(name, unit=UNITS[name], labels=self._labels)

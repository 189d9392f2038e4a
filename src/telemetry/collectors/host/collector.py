"""The collector `host`: the figures of machine, container and processes as gauges of a run."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from msgspec import Meta, Struct

from telemetry.client.process import ENDPOINT_VARIABLE
from telemetry.collectors.collector import NotAvailable, Target
from telemetry.collectors.host.machine import Figure, Files, Increases, Machine
from telemetry.collectors.host.tree import CommandTree, Tree
from telemetry.wire.collectors import PROCESS_LABEL

if TYPE_CHECKING:
    from telemetry.client.instruments import Gauge
    from telemetry.client.run import Run

_MOUNT: Final = "sys/fs/cgroup"
_OWN: Final = re.compile(rb"^0::(/.*)$", re.MULTILINE)
_USEC: Final = 1_000_000
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


# Inside a container `/proc` tells of the whole machine, so a job may be out of memory on a machine that has plenty.


class Container:
    """The cgroups of version 2 with the tightest limits, from that of this process up to the root."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._increases = Increases()
        groups = list(_groups(files))
        memory = {group: limit for group in groups if (limit := _memory_limit(files, group))}
        cpus = {group: cores for group in groups if (cores := _cpu_limit(files, group))}
        self._memory = min(memory, key=lambda group: memory[group], default="")
        self._cpu = min(cpus, key=lambda group: cpus[group], default="")

    def figures(self, seconds: float) -> Iterator[Figure]:
        """Yield the figures of limited resources; those without a limit have none."""
        if self._memory:
            yield from self._of_memory()
        if self._cpu:
            yield from self._of_cpu(seconds)

    def _of_memory(self) -> Iterator[Figure]:
        limit = _memory_limit(self._files, self._memory)
        used = _number(self._files, f"{self._memory}/memory.current")
        if not limit or used is None:
            return
        # the kernel drops inactive pages of files before it kills a process
        used = max(0, used - _fields(self._files, f"{self._memory}/memory.stat").get("inactive_file", 0))
        yield "container.memory", used
        yield "container.memory_percent", 100.0 * used / limit

    def _of_cpu(self, seconds: float) -> Iterator[Figure]:
        cores = _cpu_limit(self._files, self._cpu)
        fields = _fields(self._files, f"{self._cpu}/cpu.stat")
        used = self._increases.of("used", fields.get("usage_usec", 0))
        throttled = self._increases.of("throttled", fields.get("nr_throttled", 0))
        periods = self._increases.of("periods", fields.get("nr_periods", 0))
        if cores and used is not None and seconds > 0:
            yield "container.cpu", 100.0 * used / _USEC / seconds / cores
        if throttled is not None and periods is not None:
            yield "container.cpu_throttled", 100.0 * throttled / periods if periods else 0.0


def _groups(files: Files) -> Iterator[str]:
    """Yield the folders of the cgroup of this process and of all above it.

    A container that sees only its own part of the tree has the path `/`.
    """
    own = _OWN.search(files.read_if_there("proc/self/cgroup"))
    if own is None:
        return
    path = own[1].decode(errors="replace").rstrip("/")
    while True:
        yield f"{_MOUNT}{path}"
        if not path:
            return
        path = path.rpartition("/")[0]


def _memory_limit(files: Files, group: str) -> int | None:
    """Return the limit in bytes; None without one."""
    return _number(files, f"{group}/memory.max")


def _cpu_limit(files: Files, group: str) -> float | None:
    """Return the limit in cores; None without one."""
    fields = files.read_if_there(f"{group}/cpu.max").split()
    if len(fields) != 2 or fields[0] == b"max":
        return None
    with suppress(ValueError, ZeroDivisionError):
        return int(fields[0]) / int(fields[1])
    return None


def _number(files: Files, path: str) -> int | None:
    """Return the number in a file; None if there is none, as in that of an absent limit: `max`."""
    try:
        return int(files.read_if_there(path))
    except ValueError:
        return None


def _fields(files: Files, path: str) -> dict[str, int]:
    pairs = (line.split() for line in files.read_if_there(path).decode(errors="replace").splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdecimal()}

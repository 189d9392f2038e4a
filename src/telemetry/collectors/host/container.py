"""Figures of the container that this process is in: its use of CPU and memory, by the limits of its cgroups.

Inside a container `/proc` tells of the whole machine, so a job may be out of memory on a machine that has plenty.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from telemetry.collectors.host.files import Files, Increases
from telemetry.collectors.host.machine import Figure

_MOUNT: Final = "sys/fs/cgroup"
_OWN: Final = re.compile(rb"^0::(/.*)$", re.MULTILINE)
_USEC: Final = 1_000_000


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
    words = files.read_if_there(f"{group}/cpu.max").split()
    if len(words) != 2 or words[0] == b"max":
        return None
    with suppress(ValueError, ZeroDivisionError):
        return int(words[0]) / int(words[1])
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

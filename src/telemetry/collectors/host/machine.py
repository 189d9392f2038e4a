"""Figures of a whole machine, from the text files of the Linux kernel."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

Figure = tuple[str, float]
"""Name and value of a gauge."""

_SECTOR_BYTES: Final = 512
"""Unit of `/proc/diskstats`, whatever the sectors of the disk are."""
_USEC: Final = 1_000_000
_KIB: Final = 1_024
_TOTAL: Final = re.compile(rb"^some .*total=(\d+)", re.MULTILINE)
_MEMORY: Final = re.compile(rb"^(MemTotal|MemFree|MemAvailable|SwapTotal|SwapFree):\s+(\d+) kB", re.MULTILINE)


class Machine:
    """The machine as its kernel counts it. In a container too, these are figures of the whole machine."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._increases = Increases()
        self._is_disk: dict[bytes, bool] = {}
        self._is_card: dict[bytes, bool] = {}
        self.trouble: dict[str, float] = {}
        """Errors and dropped packets of the network since the last reading, by name of the counter."""

    def figures(self, seconds: float) -> Iterator[Figure]:
        """Yield the figures. Rates are over the `seconds` since the last call; the first call has none."""
        yield from self._cpu()
        yield from self._load()
        yield from self._memory()
        yield from self._disks(seconds)
        yield from self._network(seconds)
        yield from self._pressure(seconds)

    def _cpu(self) -> Iterator[Figure]:
        line = self._files.read("proc/stat").split(b"\n", 1)[0]
        ticks = [int(word) for word in line.split()[1:9]]  # guest time is part of user time
        idle, iowait = ticks[3], ticks[4]
        steal = ticks[7] if len(ticks) > 7 else 0
        total = self._increases.of("cpu", sum(ticks))
        changes = {
            "host.cpu": self._increases.of("busy", sum(ticks) - idle - iowait),
            "host.cpu_iowait": self._increases.of("iowait", iowait),
            "host.cpu_steal": self._increases.of("steal", steal),
        }
        for name, change in changes.items():
            if total and change is not None:
                yield name, min(100.0, 100.0 * change / total)

    def _load(self) -> Iterator[Figure]:
        if fields := self._files.read_if_there("proc/loadavg").split():
            yield "host.load", float(fields[0])

    def _memory(self) -> Iterator[Figure]:
        sizes = {name: int(kib) * _KIB for name, kib in _MEMORY.findall(self._files.read("proc/meminfo"))}
        total, free = sizes.get(b"MemTotal", 0), sizes.get(b"MemFree", 0)
        available = sizes.get(b"MemAvailable", free)
        if total:
            yield "host.memory", total - available
            yield "host.memory_percent", 100.0 * (total - available) / total
            yield "host.memory_available", available
        if swap := sizes.get(b"SwapTotal", 0):
            yield "host.swap", swap - sizes.get(b"SwapFree", 0)

    def _disks(self, seconds: float) -> Iterator[Figure]:
        read = written = 0
        busy: list[float] = []
        has_disk = False
        for line in self._files.lines("proc/diskstats"):
            fields = line.split()
            if len(fields) < 13 or not self._is_whole_disk(fields[2]):
                continue
            has_disk = True
            read += int(fields[5])
            written += int(fields[9])
            change_ms = self._increases.of(f"busy {fields[2]!r}", int(fields[12]))
            busy += [change_ms] if change_ms is not None else []
        if not has_disk:
            return
        for name, sectors in (("host.disk_read", read), ("host.disk_written", written)):
            change = self._increases.of(name, sectors)
            if change is not None and seconds > 0:
                yield name, change * _SECTOR_BYTES / seconds
        if busy and seconds > 0:
            yield "host.disk_busy", min(100.0, max(busy) / (10 * seconds))

    def _is_whole_disk(self, name: bytes) -> bool:
        """Return whether a block device is a piece of hardware, also a virtual one.

        Partitions, RAID sets and encrypted volumes would count the bytes of their disks again.
        """
        is_disk = self._is_disk.get(name)
        if is_disk is None:
            path = name.decode(errors="replace").replace("/", "!")
            is_disk = self._is_disk[name] = self._files.exists(f"sys/block/{path}/device")
        return is_disk

    def _network(self, seconds: float) -> Iterator[Figure]:
        self.trouble = {}
        cards = list(self._cards())
        if not cards:
            return
        received, sent, errors, drops = (sum(column) for column in zip(*cards, strict=True))
        for name, total in (("host.net_received", received), ("host.net_sent", sent)):
            change = self._increases.of(name, total)
            if change is not None and seconds > 0:
                yield name, change / seconds
        troubles = {"host.net_errors": errors, "host.net_drops": drops}
        self.trouble = {name: self._increases.of(name, total) or 0 for name, total in troubles.items()}

    def _cards(self) -> Iterator[tuple[int, int, int, int]]:
        """Yield received and sent bytes, errors and drops of each network card.

        In a container no interface is a card; then all but the loopback count.
        """
        rows = {}
        for line in self._files.lines("proc/net/dev")[2:]:
            name, _, text = line.partition(b":")
            fields = text.split()
            if len(fields) >= 12:
                numbers = [int(word) for word in fields]
                rows[name.strip()] = (
                    numbers[0],
                    numbers[8],
                    numbers[2] + numbers[10],
                    numbers[3] + numbers[11],
                )
        rows.pop(b"lo", None)
        cards = [row for name, row in rows.items() if self._is_network_card(name)]
        yield from cards or rows.values()

    def _is_network_card(self, name: bytes) -> bool:
        is_card = self._is_card.get(name)
        if is_card is None:
            is_card = self._files.exists(f"sys/class/net/{name.decode(errors='replace')}/device")
            self._is_card[name] = is_card
        return is_card

    def _pressure(self, seconds: float) -> Iterator[Figure]:
        """Yield the share of time in which some task waited for CPU, memory or a disk."""
        for what in ("cpu", "memory", "io"):
            match = _TOTAL.search(self._files.read_if_there(f"proc/pressure/{what}"))
            change = self._increases.of(f"pressure {what}", int(match[1])) if match else None
            if change is not None and seconds > 0:
                yield f"host.pressure_{what}", min(100.0, 100.0 * change / _USEC / seconds)


_BYTES: Final = 1 << 16
"""Size of one reading. The kernel gives lists in pieces of a page."""
_LIST_BYTES: Final = 1 << 20
"""Largest size of a list: `/proc/diskstats` of ten thousand disks."""


class Files:
    """Files below a root, which are `/proc` and `/sys` of this machine unless a test says otherwise.

    Descriptors stay open, because opening a file takes longer than reading it.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self.root = root
        self._open: dict[str, int] = {}

    def read(self, path: str) -> bytes:
        """Return the content of a file that stays. Raises OSError."""
        fd = self._open.get(path)
        if fd is None:
            fd = self._open[path] = os.open(self.root / path, os.O_RDONLY | os.O_CLOEXEC)
        return os.pread(fd, _BYTES, 0)

    def lines(self, path: str) -> list[bytes]:
        """Return the lines of a list, such as one of disks; none if it can't be read."""
        content = piece = self.read_if_there(path)
        try:
            while piece and len(content) < _LIST_BYTES:
                piece = os.pread(self._open[path], _BYTES, len(content))
                content += piece
        except OSError:
            return []
        return content.splitlines()

    def read_if_there(self, path: str) -> bytes:
        """Return the content of a file; empty if it can't be read."""
        try:
            return self.read(path)
        except OSError:
            return b""

    def exists(self, path: str) -> bool:
        return (self.root / path).exists()

    def close(self) -> None:
        for fd in self._open.values():
            with suppress(OSError):
                os.close(fd)
        self._open.clear()


class Increases:
    """Increases of totals between two readings, by name."""

    def __init__(self) -> None:
        self._before: dict[str, float] = {}

    def of(self, name: str, total: float) -> float | None:
        """Return the increase since the last call for this name.

        None for the first call, and after a total went back, as that of a network card which was reset.
        """
        before = self._before.get(name)
        self._before[name] = total
        return None if before is None or total < before else total - before

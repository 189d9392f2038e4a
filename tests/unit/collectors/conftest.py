"""A run whose recorded values a test can read, and a folder that looks like /proc and /sys of a machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from telemetry.client.process import Process
from telemetry.client.recording import Recording
from telemetry.client.run import Run
from telemetry.wire.events import Define

STAT = "cpu  {user} 0 {system} {idle} {iowait} 0 0 {steal} 0 0\ncpu0 1 2 3 4 5 6 7 8 9 10\nintr 12345 0 9\n"
MEMINFO = """MemTotal:       16000000 kB
MemFree:         1000000 kB
MemAvailable:   {available} kB
Buffers:          100000 kB
SwapTotal:       2000000 kB
SwapFree:        1500000 kB
"""
DISKSTATS = """   7       0 loop0 5 0 900 0 5 0 900 0 0 900 0
 259       0 nvme0n1 100 0 {read} 10 200 0 {written} 20 0 {busy_ms} 30 0 0 0 0
 259       1 nvme0n1p1 100 0 {read} 10 200 0 {written} 20 0 {busy_ms} 30 0 0 0 0
 253       0 dm-0 100 0 {read} 10 200 0 {written} 20 0 {busy_ms} 30 0 0 0 0
"""
NET = """Inter-|   Receive   |  Transmit
 face |bytes packets errs drop fifo frame compressed multicast|bytes packets errs drop fifo colls carrier compressed
    lo: 9999999 1 0 0 0 0 0 0 9999999 1 0 0 0 0 0 0
  eth0: {received} 10 {errors} 0 0 0 0 0 {sent} 10 0 {drops} 0 0 0 0
docker0: {received} 10 0 0 0 0 0 0 {sent} 10 0 0 0 0 0 0
"""
PRESSURE = "some avg10=0.00 avg60=0.00 avg300=0.00 total={total}\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=1\n"


class MadeMachine:
    """A folder with the files of a machine: one disk with a partition and an encrypted volume, one network card."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.write("proc/loadavg", "1.50 1.00 0.50 2/300 4711\n")
        for path in ("sys/block/nvme0n1/device", "sys/class/net/eth0/device"):
            (root / path).mkdir(parents=True)
        self.stat()
        self.meminfo()
        self.disks()
        self.net()
        self.pressure(0)

    def write(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def stat(self, user: int = 0, system: int = 0, idle: int = 0, iowait: int = 0, steal: int = 0) -> None:
        self.write("proc/stat", STAT.format(user=user, system=system, idle=idle, iowait=iowait, steal=steal))

    def meminfo(self, available: int = 12_000_000) -> None:
        self.write("proc/meminfo", MEMINFO.format(available=available))

    def disks(self, read: int = 0, written: int = 0, busy_ms: int = 0) -> None:
        self.write("proc/diskstats", DISKSTATS.format(read=read, written=written, busy_ms=busy_ms))

    def net(self, received: int = 0, sent: int = 0, errors: int = 0, drops: int = 0) -> None:
        self.write("proc/net/dev", NET.format(received=received, sent=sent, errors=errors, drops=drops))

    def pressure(self, total: int) -> None:
        for what in ("cpu", "memory", "io"):
            self.write(f"proc/pressure/{what}", PRESSURE.format(total=total))

    def process(self, pid: int, parent: int, name: str = "python", state: str = "S", **more: int) -> None:
        """Write a process. CPU times are in ticks; memory is in pages."""
        facts = {"group": 1, "session": 1, "user": 0, "system": 0, "of_children": 0, "started": 100} | more
        facts = {"threads": 1, "pages": 10, "read": 0, "written": 0} | facts
        words = [
            *(state, parent, facts["group"], facts["session"], 0, -1, 0, 0, 0, 0, 0),
            *(facts["user"], facts["system"], facts["of_children"], 0, 20, 0, facts["threads"], 0),
            *(facts["started"], 1_000_000, facts["pages"], 99, 0, 0),
        ]
        self.write(f"proc/{pid}/stat", f"{pid} ({name}) {' '.join(map(str, words))}\n")
        self.write(f"proc/{pid}/io", f"rchar: 1\nread_bytes: {facts['read']}\nwrite_bytes: {facts['written']}\n")

    def end(self, pid: int) -> None:
        folder = self.root / "proc" / str(pid)
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()


class Recorded:
    """A run without an aggregator, and what was recorded."""

    def __init__(self) -> None:
        self._process = Process()
        self._rows: list[Any] = []
        self._process.recorders.install(self._rows.extend)
        self.run = cast(Run, Recording(self._process))

    @property
    def values(self) -> dict[str, list[float]]:
        """All values by name and labels, such as `process.cpu{process=sh}`."""
        definitions = [msgspec.msgpack.decode(raw, type=Define) for raw in self._process.catalog.definitions]
        found: dict[str, list[float]] = {}
        for row_id, value in zip(self._rows[::3], self._rows[2::3], strict=True):
            one = definitions[int(row_id)]
            labels = ",".join(f"{key}={text}" for key, text in one.labels.items())
            found.setdefault(f"{one.name}{{{labels}}}" if labels else one.name, []).append(value)
        return found

    @property
    def last(self) -> dict[str, float]:
        return {name: values[-1] for name, values in self.values.items()}

    @property
    def units(self) -> dict[str, str]:
        definitions = [msgspec.msgpack.decode(raw, type=Define) for raw in self._process.catalog.definitions]
        return {one.name: one.unit for one in definitions}


@pytest.fixture
def made_machine(tmp_path: Path) -> MadeMachine:
    return MadeMachine(tmp_path)


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Recorded:
    monkeypatch.delenv("TELEMETRY_ENDPOINT", raising=False)
    return Recorded()

"""What a subscriber sees of a run whose load comes from another process."""

from __future__ import annotations

import json
import shutil
import tempfile
import threading
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from benchmarks.harness import Worker
from telemetry.limits import KIB
from telemetry.transport.subscription import Subscription, subscribe
from telemetry.wire.snapshot import MetricsSnapshot

_LOOK_S: Final = 0.5
_SETTLE_S: Final = 120.0


@dataclass(frozen=True)
class Sight:
    """One snapshot as it came."""

    arrived_ns: int
    """Monotonic."""
    seq: int
    time_ns: int
    """The aggregator's wall clock."""
    emitted: int
    applied: int
    lost: int
    cpu_s: float
    rss_bytes: int


class Watch(threading.Thread):
    """Collects every snapshot until it is told to stop."""

    def __init__(self, endpoint: str) -> None:
        super().__init__(daemon=True)
        self.sights: list[Sight] = []
        self._over = threading.Event()
        self._subscription: Subscription = subscribe(endpoint, conflate=False)
        self.start()

    def run(self) -> None:
        with self._subscription as snapshots:
            while not self._over.is_set():
                snapshot = snapshots.recv(_LOOK_S)
                if snapshot is not None:
                    self.sights.append(_sight(snapshot))

    def stop(self) -> None:
        self._over.set()
        self.join()

    def between(self, begin_ns: int, end_ns: int) -> list[Sight]:
        """Those that arrived in this time range of monotonic time."""
        return [sight for sight in list(self.sights) if begin_ns <= sight.arrived_ns <= end_ns]

    def applied_by(self, events: int) -> Sight:
        """The first sight of so many events applied. Waits for it; raises TimeoutError."""
        deadline = time.monotonic() + _SETTLE_S
        while time.monotonic() < deadline:
            for sight in list(self.sights):
                if sight.applied + sight.lost >= events:
                    return sight
            time.sleep(_LOOK_S / 10)
        raise TimeoutError(f"{events} events were not applied within {_SETTLE_S:g} s")


def _sight(snapshot: MetricsSnapshot) -> Sight:
    account, cost = snapshot.accounting, snapshot.cost
    return Sight(
        arrived_ns=time.monotonic_ns(),
        seq=snapshot.seq,
        time_ns=snapshot.time_ns,
        emitted=account.emitted,
        applied=account.applied,
        lost=account.lost,
        cpu_s=cost.cpu_s,
        rss_bytes=cost.rss_bytes,
    )


def ticks_per_s(sights: list[Sight]) -> float:
    """Snapshots a second as they arrived."""
    if len(sights) < 2:
        return 0.0
    return (len(sights) - 1) / ((sights[-1].arrived_ns - sights[0].arrived_ns) / 1e9)


def longest_gap_ms(sights: list[Sight]) -> float:
    """Between two snapshots."""
    gaps = [b.arrived_ns - a.arrived_ns for a, b in pairwise(sights)]
    return max(gaps, default=0) / 1e6


def cpu_percent(sights: list[Sight]) -> float:
    """Of one core, by the aggregator's own clock of CPU time."""
    if len(sights) < 2:
        return 0.0
    first, last = sights[0], sights[-1]
    return 100.0 * (last.cpu_s - first.cpu_s) / ((last.time_ns - first.time_ns) / 1e9)


class WatchedRun:
    """A run in a temporary directory: its program in a process of its own, its watcher here."""

    def __init__(self, name: str, policy: str, module: str = "benchmarks.load") -> None:
        """`module` has the program among its alternatives."""
        self.folder = Path(tempfile.mkdtemp(prefix="tm"))
        self.program = Worker(module, "program")
        opened = self.program.measure(action="open", name=name, directory=str(self.folder), policy=policy)
        self.watch = Watch(opened["endpoint"])

    def __enter__(self) -> WatchedRun:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.watch.stop()
        self.program.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def record(self, **load: Any) -> dict[str, Any]:
        """Blocks until the load is done, not until it has been ingested."""
        return self.program.measure(action="record", **load)

    def peak_bytes(self) -> int:
        """The most memory the aggregator ever had resident. For as long as its process lives."""
        manifest = json.loads(next(self.folder.glob("*/manifest.json")).read_bytes())
        status = Path(f"/proc/{manifest['pid']}/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) * KIB

    def finish(self, timeout_s: float = 120.0) -> dict[str, Any]:
        return self.program.measure(action="finish", timeout_s=timeout_s)

"""What a sample of the collector `host` costs beside a tree of processes, and psutil for the same figures.

    python -m benchmarks.collectors [--tiny]

The bound is 5 ms of CPU a sample: half a percent of a core at one sample a second. The last row is the process of
the collectors with its sockets, over some seconds.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import psutil

from benchmarks.forms import tiny_asked
from telemetry.cli.beside_run.collectors import RunCollectors
from telemetry.client.process import Process
from telemetry.client.recording import Recording
from telemetry.collectors.collector import Target
from telemetry.collectors.host import HostCollector
from telemetry.supervise.spawn import dismiss, spawn

PROCESSES: Final = 50
LIMIT_MS: Final = 5.0
_PARENT: Final = """
import subprocess, sys, time
children = [subprocess.Popen(["sleep", "600"]) for _ in range(int(sys.argv[1]))]
print("ready", flush=True)
sys.stdin.read()
for child in children:
    child.kill()
"""


@contextmanager
def tree(processes: int) -> Iterator[int]:
    """A process with this many children; its pid."""
    parent = subprocess.Popen(
        [sys.executable, "-c", _PARENT, str(processes)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert parent.stdout is not None
    parent.stdout.readline()
    try:
        yield parent.pid
    finally:
        parent.communicate()


def cpu_ms(work: Callable[[], object], rounds: int, pause_s: float) -> float:
    """Median CPU time of a call in ms."""
    taken = []
    for _ in range(rounds):
        time.sleep(pause_s)
        begin = time.thread_time_ns()
        work()
        taken.append((time.thread_time_ns() - begin) / 1e6)
    return statistics.median(taken)


def with_psutil(pid: int) -> Callable[[], None]:
    """Return a function that reads the same figures with psutil."""
    root = psutil.Process(pid)

    def read() -> None:
        psutil.cpu_times()
        psutil.getloadavg()
        psutil.virtual_memory()
        psutil.swap_memory()
        psutil.disk_io_counters(perdisk=True)
        psutil.net_io_counters(pernic=True)
        for one in (root, *root.children(recursive=True)):
            with one.oneshot():
                one.name(), one.cpu_times(), one.memory_info(), one.num_threads(), one.io_counters()

    return read


def whole_process(pid: int, seconds: float) -> float:
    """Percent of a core of the process of the collectors at one sample a second."""
    with tempfile.TemporaryDirectory() as folder:
        aggregator = spawn("cost", {"run.dir": folder}, owner_pid=os.getpid(), timeout_s=30.0)
        try:
            with RunCollectors([], ["host", "gpu"], print) as collectors:
                collectors.start(aggregator.endpoint, pid)
                process = psutil.Process(collectors.pids[0])
                time.sleep(min(3.0, seconds))
                before = process.cpu_times()
                time.sleep(seconds)
                after = process.cpu_times()
        finally:
            dismiss(aggregator.process)
    return 100.0 * (after.user + after.system - before.user - before.system) / seconds


def main() -> None:
    tiny = tiny_asked("cost of the collector host")
    rounds, pause_s = (2, 0.21) if tiny else (50, 0.25)
    with tree(PROCESSES) as pid:
        collector = HostCollector(HostCollector.Options(), Target(pid=pid))
        run = Recording(Process())
        ours = cpu_ms(lambda: collector.sample(run), rounds, pause_s)  # type: ignore[arg-type]
        theirs = cpu_ms(with_psutil(pid), max(2, rounds // 5), 0.0)
        collector.close()
        share = whole_process(pid, 0.5 if tiny else 30.0)
    machine = len([name for name in os.listdir("/proc") if name.isdecimal()])
    print(f"tree of {PROCESSES + 1} processes, {machine} on the machine, {os.cpu_count()} cores")
    print("| what | figure | bound |")
    print("|---|---:|---:|")
    print(f"| a sample of `host` | {ours:.2f} ms CPU | {LIMIT_MS:g} ms |")
    print(f"| the same figures with psutil | {theirs:.2f} ms CPU | |")
    print(f"| process of the collectors `host` and `gpu`, one sample a second | {share:.2f} % of a core | 0.5 % |")


if __name__ == "__main__":
    main()

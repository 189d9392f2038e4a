"""Figures of a container by the limits of its cgroups."""

from __future__ import annotations

from pathlib import Path

from telemetry.collectors.host.collector import Container
from telemetry.collectors.host.machine import Files

GIB = 1 << 30


class Groups:
    """A folder with cgroups of version 2."""

    def __init__(self, root: Path, own: str) -> None:
        self.root = root
        self.write("proc/self/cgroup", f"0::{own}\n")

    def write(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def memory(self, group: str, limit: int | str, used: int, inactive: int = 0) -> None:
        self.write(f"sys/fs/cgroup{group}/memory.max", f"{limit}\n")
        self.write(f"sys/fs/cgroup{group}/memory.current", f"{used}\n")
        self.write(f"sys/fs/cgroup{group}/memory.stat", f"anon 1\ninactive_file {inactive}\n")

    def cpu(self, group: str, limit: str, used_s: float = 0, periods: int = 0, throttled: int = 0) -> None:
        self.write(f"sys/fs/cgroup{group}/cpu.max", f"{limit}\n")
        self.write(
            f"sys/fs/cgroup{group}/cpu.stat",
            f"usage_usec {int(used_s * 1e6)}\nnr_periods {periods}\nnr_throttled {throttled}\n",
        )


def figures(container: Container, seconds: float = 1.0) -> dict[str, float]:
    return dict(container.figures(seconds))


def test_memory_is_what_the_limit_counts_without_old_pages_of_files(tmp_path: Path) -> None:
    """The kernel drops such pages before it kills a process."""
    groups = Groups(tmp_path, "/")
    groups.memory("", 8 * GIB, used=3 * GIB, inactive=GIB)
    assert figures(Container(Files(tmp_path))) == {"container.memory": 2 * GIB, "container.memory_percent": 25.0}


def test_cpu_is_the_share_of_the_cores_that_the_container_may_use(tmp_path: Path) -> None:
    """150 ms of every 100 ms are one and a half cores. Throttling is the share of periods that were cut."""
    groups = Groups(tmp_path, "/job")
    groups.cpu("/job", "150000 100000", used_s=10.0, periods=100, throttled=10)
    container = Container(Files(tmp_path))
    figures(container)
    groups.cpu("/job", "150000 100000", used_s=11.5, periods=120, throttled=15)
    assert figures(container, seconds=2.0) == {"container.cpu": 50.0, "container.cpu_throttled": 25.0}


def test_the_tightest_limit_of_all_groups_above_counts(tmp_path: Path) -> None:
    """A group without a limit is held by the one above it."""
    groups = Groups(tmp_path, "/pod/job")
    groups.memory("/pod/job", "max", used=GIB)
    groups.memory("/pod", 4 * GIB, used=2 * GIB)
    groups.memory("", 64 * GIB, used=60 * GIB)
    assert figures(Container(Files(tmp_path))) == {"container.memory": 2 * GIB, "container.memory_percent": 50.0}


def test_without_limits_there_are_no_figures(tmp_path: Path) -> None:
    """The figures of the machine and of the command's tree say all without limits.

    A machine may also have no such cgroups.
    """
    groups = Groups(tmp_path, "/user")
    groups.memory("/user", "max", used=GIB)
    groups.cpu("/user", "max 100000")
    container = Container(Files(tmp_path))
    figures(container)
    assert figures(container) == {}
    assert figures(Container(Files(tmp_path / "nothing"))) == {}

"""Figures of a machine: from files with known numbers, and from this machine against psutil."""

from __future__ import annotations

import time
from collections.abc import Callable

import psutil
import pytest
from tests.unit.collectors.conftest import MadeMachine

from telemetry.collectors.host.machine import Files, Increases, Machine


def figures(machine: Machine, seconds: float) -> dict[str, float]:
    return dict(machine.figures(seconds))


def test_the_first_reading_has_no_rates(made_machine: MadeMachine) -> None:
    """Totals since the machine's start say nothing about now."""
    found = figures(Machine(Files(made_machine.root)), 0.0)
    assert found == {
        "host.load": 1.5,
        "host.memory": 4_000_000 * 1024,
        "host.memory_percent": 25.0,
        "host.memory_available": 12_000_000 * 1024,
        "host.swap": 500_000 * 1024,
    }


def test_cpu_is_the_share_of_the_ticks_since_the_last_reading(made_machine: MadeMachine) -> None:
    """A CPU that waits for a disk is not busy, and one that was given to another guest is."""
    machine = Machine(Files(made_machine.root))
    made_machine.stat(user=1_000, system=500, idle=9_000)
    figures(machine, 1.0)
    made_machine.stat(user=1_040, system=520, idle=9_100, iowait=30, steal=10)
    found = figures(machine, 1.0)
    assert {name: found[name] for name in ("host.cpu", "host.cpu_iowait", "host.cpu_steal")} == {
        "host.cpu": 35.0,
        "host.cpu_iowait": 15.0,
        "host.cpu_steal": 5.0,
    }


def test_disks_count_once(made_machine: MadeMachine) -> None:
    """A partition and an encrypted volume have the bytes of their disk, and a loop device those of a file on it."""
    machine = Machine(Files(made_machine.root))
    figures(machine, 1.0)
    made_machine.disks(read=100, written=4_000, busy_ms=500)
    found = figures(machine, 2.0)
    assert found["host.disk_read"] == 100 * 512 / 2
    assert found["host.disk_written"] == 4_000 * 512 / 2
    assert found["host.disk_busy"] == 25.0


def test_only_network_cards_count(made_machine: MadeMachine) -> None:
    """A bridge has the bytes of the card, and the loopback has those of this machine alone."""
    machine = Machine(Files(made_machine.root))
    figures(machine, 1.0)
    made_machine.net(received=1_000, sent=3_000, errors=2, drops=5)
    found = figures(machine, 2.0)
    assert (found["host.net_received"], found["host.net_sent"]) == (500.0, 1_500.0)
    assert machine.trouble == {"host.net_errors": 2, "host.net_drops": 5}


def test_a_container_has_interfaces_without_a_card(made_machine: MadeMachine) -> None:
    """All interfaces but the loopback count if none has a card."""
    (made_machine.root / "sys/class/net/eth0/device").rmdir()
    machine = Machine(Files(made_machine.root))
    figures(machine, 1.0)
    made_machine.net(received=1_000)
    assert figures(machine, 1.0)["host.net_received"] == 2_000.0


def test_pressure_is_the_share_of_time(made_machine: MadeMachine) -> None:
    """The kernel counts microseconds in which some task waited."""
    machine = Machine(Files(made_machine.root))
    figures(machine, 1.0)
    made_machine.pressure(250_000)
    found = figures(machine, 1.0)
    assert [found[f"host.pressure_{what}"] for what in ("cpu", "memory", "io")] == [25.0, 25.0, 25.0]


def test_files_that_a_kernel_lacks_are_left_out(made_machine: MadeMachine) -> None:
    """A kernel may have no pressure, no disks and no network."""
    for name in ("pressure/cpu", "pressure/memory", "pressure/io", "diskstats", "net/dev", "loadavg"):
        (made_machine.root / "proc" / name).unlink()
    machine = Machine(Files(made_machine.root))
    figures(machine, 1.0)
    made_machine.stat(user=50, idle=50)
    assert set(figures(machine, 1.0)) == {
        *("host.cpu", "host.cpu_iowait", "host.cpu_steal"),
        *("host.memory", "host.memory_percent", "host.memory_available", "host.swap"),
    }


def test_a_list_of_the_kernel_is_read_whole() -> None:
    """The kernel gives a list a page at a time, such as the one of many disks or network cards."""
    files = Files()
    lines = files.lines("proc/self/maps")  # longer than a page
    assert len(files.read("proc/self/maps")) < sum(map(len, lines))
    assert lines[-1].split()[-1] in (b"[vsyscall]", b"[stack]", b"[vdso]")
    files.close()
    assert files.lines("proc/no_such_list") == []


def test_errors_of_the_network_count_once(made_machine: MadeMachine) -> None:
    """Network errors belong to the reading that saw them, also when no card is left later."""
    machine = Machine(Files(made_machine.root))
    figures(machine, 1.0)
    made_machine.net(errors=3)
    figures(machine, 1.0)
    assert machine.trouble["host.net_errors"] == 3
    made_machine.write("proc/net/dev", "")
    figures(machine, 1.0)
    assert machine.trouble == {}


@pytest.mark.parametrize(("totals", "increases"), [((5, 8), [None, 3]), ((5, 2, 4), [None, None, 2])])
def test_increases_begin_anew_when_a_total_goes_back(totals: tuple[int, ...], increases: list[int | None]) -> None:
    """A driver that was loaded again counts from zero."""
    made = Increases()
    assert [made.of("bytes", total) for total in totals] == increases


@pytest.mark.slow
def test_this_machine_has_the_figures_of_psutil(wait_until: Callable[..., object]) -> None:
    """CPU times, memory and totals of disks and network agree between two readings of psutil around ours."""
    machine = Machine(Files())
    cpu_before, begin = psutil.cpu_times(), time.monotonic()
    figures(machine, 0.0)
    wait_until(lambda: sum(range(10_000)) and time.monotonic() - begin > 1.0)
    found, cpu_after = figures(machine, time.monotonic() - begin), psutil.cpu_times()
    memory = psutil.virtual_memory()
    spent = [after - before for before, after in zip(cpu_before[:8], cpu_after[:8], strict=True)]
    busy = 100.0 * (sum(spent) - spent[3] - spent[4]) / sum(spent)
    assert found["host.cpu"] == pytest.approx(busy, abs=10.0)
    assert found["host.memory"] == pytest.approx(memory.total - memory.available, rel=0.25)
    assert found["host.memory_percent"] == pytest.approx(memory.percent, abs=10.0)
    assert found["host.load"] == pytest.approx(psutil.getloadavg()[0], abs=2.0)

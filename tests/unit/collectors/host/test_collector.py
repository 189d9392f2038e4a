"""The collector `host`: what it records, and when."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.collectors.conftest import MadeMachine, Recorded

from telemetry.collectors.collector import NotAvailable, Target
from telemetry.collectors.host.collector import COUNTERS, UNITS, HostCollector
from telemetry.testing.clock import FakeClock
from telemetry.wire.collectors import is_of_machine


def collector(machine: MadeMachine, clock: FakeClock, target: Target | None = None) -> HostCollector:
    return HostCollector(
        HostCollector.Options(),
        target or Target(pid=10),
        root=machine.root,
        clock=lambda: clock.monotonic_ns() / 1e9,
    )


def test_two_samples_give_every_figure_with_its_unit(made_machine: MadeMachine, recorded: Recorded) -> None:
    """All gauges of the table but those of the container, which has no limit here."""
    made_machine.process(10, parent=1)
    clock = FakeClock()
    made = collector(made_machine, clock)
    made.sample(recorded.run)
    assert "host.cpu" not in recorded.last
    clock.advance(2.0)
    made_machine.stat(user=60, idle=40)
    made_machine.net(received=4_096)
    made.sample(recorded.run)
    made.close()
    expected = {name for name in UNITS if not name.startswith("container.")}
    assert set(recorded.last) == expected
    assert {name: unit for name, unit in recorded.units.items() if UNITS[name] != unit} == {}
    assert (recorded.last["host.cpu"], recorded.last["host.net_received"]) == (60.0, 2_048.0)


def test_all_names_are_told_from_those_of_the_job() -> None:
    """Reports and the cockpit show them apart."""
    assert all(is_of_machine(name) for name in (*UNITS, *COUNTERS))
    assert not any(is_of_machine(name) for name in ("hosts", "process.items", "latency", "processes"))


def test_a_sample_right_after_another_records_nothing(made_machine: MadeMachine, recorded: Recorded) -> None:
    """Rates over a moment are noise; the last sample of a run may come at any time."""
    made_machine.process(10, parent=1)
    clock = FakeClock()
    made = collector(made_machine, clock)
    made.sample(recorded.run)
    before = recorded.values
    clock.advance(0.1)
    made.sample(recorded.run)
    assert recorded.values == before


def test_errors_of_the_network_are_counted_from_the_first_one_on(
    made_machine: MadeMachine, recorded: Recorded
) -> None:
    """A counter that is always zero would stand in every report."""
    clock = FakeClock()
    made = collector(made_machine, clock, Target())
    for errors in (5, 5, 8):
        made_machine.net(errors=errors)
        made.sample(recorded.run)
        clock.advance(1.0)
    assert recorded.values["host.net_errors"] == [3.0]
    assert "host.net_drops" not in recorded.values


def test_the_largest_programs_have_gauges_of_their_own(made_machine: MadeMachine, recorded: Recorded) -> None:
    """One that has ended uses nothing from then on. A tree of one program has none: they would be the sums."""
    made_machine.process(10, parent=1, name="python")
    clock = FakeClock()
    made = collector(made_machine, clock)
    made.sample(recorded.run)
    assert "process.memory{process=python}" not in recorded.last
    clock.advance(1.0)
    made_machine.process(11, parent=10, name="ffmpeg", pages=100)
    made.sample(recorded.run)
    page = recorded.last["process.memory{process=ffmpeg}"] / 100
    assert recorded.last["process.memory"] == 110 * page
    clock.advance(1.0)
    made_machine.end(11)
    made.sample(recorded.run)
    assert recorded.last["process.memory{process=ffmpeg}"] == 0
    assert recorded.last["process.memory{process=python}"] == 10 * page


def test_programs_with_gauges_are_few(made_machine: MadeMachine, recorded: Recorded) -> None:
    """However many programs a script starts, the labels of a run stay bounded."""
    made_machine.process(10, parent=1, name="make")
    clock = FakeClock()
    made = collector(made_machine, clock)
    for number in range(30):
        made_machine.process(100 + number, parent=10, name=f"cc{number}", pages=1_000 + number)
        made.sample(recorded.run)
        clock.advance(1.0)
    labelled = [name for name in recorded.last if name.startswith("process.memory{")]
    assert len(labelled) == 8


def test_an_ended_command_keeps_its_last_figures(made_machine: MadeMachine, recorded: Recorded) -> None:
    """The last sample comes after the end of the command."""
    made_machine.process(10, parent=1, pages=7)
    clock = FakeClock()
    made = collector(made_machine, clock)
    made.sample(recorded.run)
    used = recorded.last["process.memory"]
    made_machine.end(10)
    clock.advance(1.0)
    made.sample(recorded.run)
    assert (recorded.last["process.memory"], recorded.last["process.count"]) == (used, 1)


def test_figures_of_a_node_carry_its_name(made_machine: MadeMachine, recorded: Recorded) -> None:
    """Figures carry the name of their node. Otherwise the gauges of all nodes would be one."""
    made = collector(made_machine, FakeClock(), Target(labels={"node": "a"}))
    made.sample(recorded.run)
    assert "host.memory{node=a}" in recorded.last
    assert all("node=a" in name for name in recorded.last)


def test_a_system_without_proc_has_no_host_figures(tmp_path: Path) -> None:
    """Host figures are absent without /proc, as on a Mac. The reason is given to the user who asks for them."""
    with pytest.raises(NotAvailable, match="host figures need Linux's /proc"):
        HostCollector(HostCollector.Options(), Target(), root=tmp_path)

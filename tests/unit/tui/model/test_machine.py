"""Gauges of the machine in a line."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.tui.model.scenes import NOON, SECOND, scene, text

from telemetry.tui.model.overview import machine_line
from telemetry.tui.model.scene import RangeFigures, Scene, View
from telemetry.wire.collectors import is_of_machine
from telemetry.wire.snapshot import GaugeStat


def machine(*stats: GaugeStat) -> Scene:
    trends = {(stat.name, tuple(sorted(stat.labels.items()))): (10.0, 50.0, 100.0) for stat in stats}
    return replace(scene(gauges=list(stats)), trends=trends)


CPU = GaugeStat(name="host.cpu", unit="%", value=43.4)
MEMORY = GaugeStat(name="host.memory", unit="B", value=2.0**34)
GPUS = [GaugeStat(name="gpu.utilization", unit="%", labels={"gpu": str(at)}, value=80.0 + 10 * at) for at in (0, 1)]


@pytest.mark.parametrize(("name", "expected"), [("host.cpu", True), ("gpu.memory", True), ("gpus", False)])
def test_by_the_name(name: str, expected: bool) -> None:
    """A gauge is one of the machine by the first part of its name."""
    assert is_of_machine(name) is expected


def test_a_gauge_is_its_trend_and_its_value() -> None:
    """Percentages are drawn from 0 to 100."""
    assert text(machine_line(machine(CPU), View(), 80)) == f"host.cpu {'▁▄▇'.rjust(20)} 43 %"


def test_several_of_a_name_are_one() -> None:
    """Several gauges of a name are one, with their mean and how many they are."""
    assert text(machine_line(machine(*GPUS), View(), 80)).endswith("▁▄▇ 2 × 85 %")


def test_what_does_not_fit_is_shorter_then_left_out() -> None:
    """First trends get shorter; no gauge is cut."""
    shown = machine(CPU, MEMORY, *GPUS)
    assert text(machine_line(shown, View(), 200)).count("▁▄▇") == 3
    assert text(machine_line(shown, View(), 100)).count("▁▄▇") == 3
    narrow = text(machine_line(shown, View(), 40))
    assert narrow.endswith("43 %")
    assert "16.0 GiB" not in narrow


def test_a_run_without_such_gauges_has_no_line() -> None:
    """Nor has a moment of the past, nor a gauge that was never set."""
    assert machine_line(scene(), View(), 80) == ()
    assert machine_line(Scene(), View(), 80) == ()
    assert machine_line(machine(GaugeStat(name="host.cpu", unit="%")), View(), 80) == ()
    past = replace(machine(CPU), moment=RangeFigures(start_ns=NOON, end_ns=NOON + SECOND))
    assert machine_line(past, View(), 80) == ()


def test_the_figures_that_matter_first_come_first() -> None:
    """However many a collector records, and without those of single programs."""
    programs = [GaugeStat(name="process.cpu", unit="%", labels={"process": name}, value=1.0) for name in ("a", "b")]
    process = GaugeStat(name="process.cpu", unit="%", value=77.0)
    rest = [GaugeStat(name=f"host.pressure_{what}", unit="%", value=5.0) for what in ("cpu", "memory", "io")]
    line = text(machine_line(machine(*rest, *programs, process, MEMORY, CPU), View(), 110))
    names = [word for word in line.split() if "." in word and word[0].isalpha()]
    assert names[:3] == ["host.cpu", "host.memory", "process.cpu"]
    assert "77 %" in line
    assert "2 ×" not in line

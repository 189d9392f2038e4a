"""The line of a report about the machine."""

from __future__ import annotations

from typing import Any

from telemetry.report.brief import machine_words
from telemetry.wire.pictures import GaugeOverTime, Pictures
from telemetry.wire.report import Report
from telemetry.wire.snapshot import GaugeStat, MetricsSnapshot

GIB = 1 << 30


def gauge(name: str, unit: str, most: float, last: float | None = None, **labels: str) -> GaugeStat:
    value = most if last is None else last
    return GaugeStat(name=name, unit=unit, labels=labels, value=value, min=0.0, max=most, events=9)


def words(*gauges: GaugeStat, **more: Any) -> str:
    snapshot = MetricsSnapshot(run_id="r", name="job", gauges=list(gauges))
    return machine_words(Report(snapshot=snapshot, source="file", **more))


HOST = (
    gauge("host.cpu", "%", 98.4),
    gauge("host.memory", "B", 3 * GIB, 2 * GIB),
    gauge("host.memory_percent", "%", 15, 10),
)


def test_cpu_and_memory_of_the_machine() -> None:
    """Peaks, and the memory that there is."""
    assert words(*HOST) == "CPU peak 98 % · memory peak 3.00 GiB of 20.0 GiB"


def test_the_mean_is_there_if_the_figures_over_time_are() -> None:
    """Times without a value do not count."""
    over_time = GaugeOverTime(name="host.cpu", unit="%", values=[20.0, None, 40.0])
    assert words(HOST[0], pictures=Pictures(gauges=[over_time])) == "CPU mean 30 %, peak 98 %"


def test_containers_and_gpus_follow() -> None:
    """The line names containers and GPUs after the host. The fullest of several GPUs counts."""
    gpus = [gauge("gpu.utilization", "%", 90.0 + at, gpu=str(at)) for at in (0, 1)]
    memory = [gauge("gpu.memory", "B", (10 + at) * GIB, gpu=str(at)) for at in (0, 1)]
    share = [gauge("gpu.memory_percent", "%", 50.0, last, gpu=at) for at, last in (("0", 12.5), ("1", 50.0))]
    container = (gauge("container.cpu", "%", 100.0), gauge("container.memory", "B", GIB))
    assert words(HOST[0], *container, *gpus, *memory, *share) == (
        "CPU peak 98 % · CPU of the container peak 100 % · memory of the container peak 1.00 GiB · "
        "2 GPUs peak 91 % · GPU memory peak 11.0 GiB of 22.0 GiB"
    )


def test_machines_of_several_nodes_are_counted() -> None:
    """Each has its own gauge."""
    assert words(*(gauge("host.cpu", "%", 50.0, node=node) for node in "ab")) == "CPU of 2 machines peak 50 %"


def test_a_run_that_ended_at_once_has_no_line() -> None:
    """A run that ended at once has no rate and so no line. Programs of the command are no part of the machine."""
    assert words(HOST[1], HOST[2]) == ""
    assert words(gauge("process.cpu", "%", 50.0), gauge("process.cpu", "%", 50.0, process="sh")) == ""

"""Charts of the machine: a few instead of one for each gauge."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace
from tests.unit.report.html.samples import STEPS, load_report

from telemetry.report.html.document import machine_data
from telemetry.report.html.grids import gauges_data
from telemetry.wire.pictures import GaugeOverTime
from telemetry.wire.report import Report


def report_of(*gauges: GaugeOverTime) -> Report:
    report = load_report()
    assert report.pictures is not None
    return replace(report, pictures=replace(report.pictures, gauges=list(gauges)))


def gauge(name: str, unit: str = "%", value: float = 1.0, **labels: str) -> GaugeOverTime:
    return GaugeOverTime(name=name, unit=unit, labels=labels, values=[value, *([None] * (STEPS - 2)), 3 * value])


def items_of(*gauges: GaugeOverTime) -> list[dict[str, Any]]:
    data = machine_data(report_of(*gauges))
    assert data is not None
    return list(data["items"])


def test_gauges_of_one_stem_and_unit_share_a_chart() -> None:
    """Reading and writing belong together; a share and an amount don't."""
    found = items_of(
        gauge("gpu.utilization", gpu="0"),
        gauge("host.disk_read", "B/s"),
        gauge("host.disk_written", "B/s"),
        gauge("host.disk_busy"),
        gauge("process.read", "B/s"),
        gauge("process.written", "B/s"),
        gauge("gpu.utilization", gpu="1"),
        gauge("host.cpu"),
        gauge("host.cpu_iowait"),
    )
    assert [(item["group"], item["name"], [line["name"] for line in item["lines"]]) for item in found] == [
        ("Host", "host.disk", ["read", "written"]),
        ("Host", "host.disk_busy [%]", [""]),
        ("Host", "host.cpu [%]", ["cpu", "iowait"]),
        ("GPU", "gpu.utilization [%]", ["gpu=0", "gpu=1"]),
        ("Processes", "process.disk", ["read", "written"]),
    ]


def test_a_chart_tells_mean_and_maximum() -> None:
    """A value holds until the next one; several lines have their means."""
    (alone,) = items_of(gauge("host.cpu", value=10.0))
    mean = (10.0 * (STEPS - 1) + 30.0) / STEPS
    assert alone["facts"] == [("mean", f"{mean:.1f}"), ("max", "30")]
    (several,) = items_of(gauge("process.cpu", value=10.0), gauge("process.cpu", value=5.0, process="python"))
    assert [(line["name"], line["whole"]) for line in several["lines"]] == [
        ("all", f"{mean:.1f}"),
        ("python", f"{mean / 2:.2f}"),
    ]


def test_more_lines_than_colours_are_a_band() -> None:
    """The mean of all, between the lowest and the highest."""
    (item,) = items_of(*(gauge("gpu.power", "W", value=float(at), gpu=str(at)) for at in range(1, 17)))
    (line,) = item["lines"]
    assert (line["low"][0], line["values"][0], line["high"][0]) == (1, 8.5, 16)
    assert item["facts"][0][0] == "mean of 16"


def test_only_gauges_that_are_alike_have_a_mean() -> None:
    """A mean over nodes is a figure. One over user time and steal, or over reasons, is none."""
    names = {"host.cpu": 60.0, "host.cpu_iowait": 3.0, "host.cpu_steal": 1.0}
    (item,) = items_of(*(gauge(name, value=value, node=node) for node in "abc" for name, value in names.items()))
    assert [line["name"] for line in item["lines"]] == ["cpu", "iowait", "steal"]
    assert [line["values"][0] for line in item["lines"]] == [60, 3, 1]
    assert item["facts"] == [("mean of 3:", "")]
    reasons = [gauge("gpu.throttled", "", at, gpu=gpu, reason=f"r{at}") for gpu in "01" for at in range(1, 11)]
    (item,) = items_of(*reasons)
    assert [line["name"] for line in item["lines"]] == [f"reason=r{at}" for at in range(3, 11)]
    assert item["facts"] == [("2 smaller", "not drawn"), ("mean of 2:", "")]


def test_other_gauges_stay_where_they_are() -> None:
    """A gauge of the job is not one of the machine, whatever its name begins with."""
    report = report_of(gauge("hostility"), gauge("process.state"), gauge("host.load", ""))
    machine, own = machine_data(report), gauges_data(report)
    assert machine is not None
    assert own is not None
    assert [item["name"] for item in machine["items"]] == ["host.load"]
    assert [item["name"] for item in own["items"]] == ["hostility", "process.state"]
    assert machine_data(report_of(gauge("queue"))) is None

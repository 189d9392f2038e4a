"""A line of the report about the machine: how busy it was, and how much of its memory was in use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from telemetry.common import formatting
from telemetry.common.formatting import number_of
from telemetry.report.table import DOT
from telemetry.wire.collectors import PROCESS_LABEL
from telemetry.wire.report import Report
from telemetry.wire.snapshot import GaugeStat

_HUNDRED: Final = 100.0


def machine_words(report: Report) -> str:
    """Return CPU and memory of the machine, of the container and of the GPUs.

    Empty without collectors, and for a run that ended before their second sample.
    """
    is_known = _named(report, "host.cpu") or _named(report, "gpu.utilization")
    return DOT.join(_facts(report)) if is_known else ""


def _facts(report: Report) -> Iterator[str]:
    host, container = _named(report, "host.cpu"), _named(report, "container.cpu")
    several = f" of {number_of(len(host), 'machine')}" if len(host) > 1 else ""
    yield from _percent(report, f"CPU{several}", host)
    yield from _memory(report, "memory", "host.memory")
    if container:
        yield from _percent(report, "CPU of the container", container)
    yield from _memory(report, "memory of the container", "container.memory")
    gpus = _named(report, "gpu.utilization")
    yield from _percent(report, f"{number_of(len(gpus), 'GPU')}", gpus)
    yield from _memory(report, "GPU memory", "gpu.memory")


def _percent(report: Report, title: str, stats: Sequence[GaugeStat]) -> Iterator[str]:
    """Yield the mean, if the report has the values over time, and the peak."""
    peaks = [stat.max for stat in stats if stat.max is not None]
    if peaks:
        mean = _mean(report, stats)
        parts = [f"mean {_whole(mean)}"] if mean is not None else []
        yield f"{title} {', '.join([*parts, f'peak {_whole(max(peaks))}'])}"


def _memory(report: Report, title: str, name: str) -> Iterator[str]:
    """Yield the peak of the machine or GPU that used the most, and all that it has."""
    stats = [stat for stat in _named(report, name) if stat.max is not None]
    if not stats:
        return
    fullest = max(stats, key=lambda stat: stat.max or 0.0)
    share = next((stat for stat in _named(report, f"{name}_percent") if stat.labels == fullest.labels), None)
    total = ""
    if share is not None and share.value and fullest.value:
        total = f" of {formatting.size(_HUNDRED * fullest.value / share.value)}"
    yield f"{title} peak {formatting.quantity(fullest.max, fullest.unit)}{total}"


def _named(report: Report, name: str) -> list[GaugeStat]:
    """Return the gauges of this name, without those of single programs."""
    return [
        stat
        for stat in report.snapshot.gauges
        if stat.name == name and stat.value is not None and PROCESS_LABEL not in stat.labels
    ]


def _mean(report: Report, stats: Sequence[GaugeStat]) -> float | None:
    """Return the mean over time of these gauges together; None if the report has no values over time."""
    wanted = [(stat.name, stat.labels) for stat in stats]
    drawn = report.pictures.gauges if report.pictures else []
    values = [
        value
        for gauge in drawn
        if (gauge.name, gauge.labels) in wanted
        for value in gauge.values
        if value is not None
    ]
    return sum(values) / len(values) if values else None


def _whole(percent: float) -> str:
    return f"{percent:.0f} %"

"""Gauges of the machine, its GPUs and the command's processes: a few small charts instead of one for each gauge."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any, Final

from telemetry import formatting, wording
from telemetry.formatting import printable
from telemetry.report.html.grids import held, over_time
from telemetry.report.html.main_series import LINES
from telemetry.report.html.numbers import Column, column
from telemetry.wire.collectors import is_of_machine
from telemetry.wire.pictures import GaugeOverTime
from telemetry.wire.report import Report

_GROUPS: Final = {"host": "Host", "gpu": "GPU", "container": "Container", "process": "Processes"}
_TRANSFER: Final = "B/s"

Item = dict[str, Any]
_Key = tuple[str, str, str]
"""Prefix, first word, and unit: gauges that share them are lines of one chart."""


def machine_data(report: Report) -> dict[str, Any] | None:
    """Return the charts; None without such gauges."""
    gauges = report.pictures.gauges if report.pictures else []
    charts: dict[_Key, list[GaugeOverTime]] = {}
    for one in gauges:
        if is_of_machine(one.name) and any(value is not None for value in one.values):
            charts.setdefault(_key(one), []).append(one)
    order = list(_GROUPS)
    items = [_item(key, of) for key, of in sorted(charts.items(), key=lambda item: order.index(item[0][0]))]
    found = over_time(report, items, "charts")
    return None if found is None else found | {"held": True, "size": "small"}


def _key(one: GaugeOverTime) -> _Key:
    prefix, _, rest = one.name.partition(".")
    if prefix == "gpu":
        return prefix, rest, one.unit
    if prefix == "process" and one.unit == _TRANSFER:
        return prefix, "disk", one.unit
    stem = rest.partition("_")[0] if prefix != "process" else rest
    return prefix, stem, one.unit


def _item(key: _Key, of: Sequence[GaugeOverTime]) -> Item:
    prefix, stem, unit = key
    name = of[0].name if len({one.name for one in of}) == 1 else f"{prefix}.{stem}"
    item: Item = {"name": wording.instrument(name, {}, unit), "group": _GROUPS[prefix], "unit": printable(unit)}
    values = [held(one.values) for one in of]
    if len(of) == 1:
        known = _known(values[0])
        facts = [("mean", formatting.quantity(fmean(known), unit))]
        if min(known) < max(known):
            facts.append(("max", formatting.quantity(max(known), unit)))
        return item | {"lines": [{"name": "", "values": column(values[0])}], "facts": facts}
    if len(of) > LINES:
        rows = [_known(row) for row in zip(*values, strict=True)]
        means: Column = [fmean(row) if row else None for row in rows]
        line = {
            "name": "",
            "values": column(means),
            "low": column([min(row, default=None) for row in rows]),
            "high": column([max(row, default=None) for row in rows]),
        }
        facts = [(f"mean of {len(of)}", formatting.quantity(fmean(_known(means)), unit))]
        return item | {"lines": [line], "facts": facts}
    lines = [
        {
            "name": _name_of(one, stem, of),
            "values": column(values_of),
            "whole": formatting.quantity(fmean(_known(values_of)), unit),
        }
        for one, values_of in zip(of, values, strict=True)
    ]
    return item | {"lines": lines, "facts": [("mean:", "")]}


def _name_of(one: GaugeOverTime, stem: str, of: Sequence[GaugeOverTime]) -> str:
    """Return a short name among the lines of a chart: its labels, or what its name has beyond the others."""
    labels = wording.instrument("", one.labels).strip("{}").removeprefix("process=")
    if len({other.name for other in of}) == 1:
        return labels or "all"
    rest = one.name.partition(".")[2]
    word = rest.removeprefix(f"{stem}_")
    return printable(" ".join(filter(None, (word, labels))))


def _known(values: Column) -> list[float]:
    return [value for value in values if value is not None]

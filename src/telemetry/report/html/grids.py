"""Data of the grids of small charts: counters and gauges over time, and the values of steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final, TypeVar

from telemetry.common import formatting, wording
from telemetry.common.directions import better_of_name
from telemetry.common.formatting import printable
from telemetry.history.curve_points import first_step, has_means, lowest_step
from telemetry.history.rates import Paces
from telemetry.redaction import COUNTER
from telemetry.report.html.data import Column, column
from telemetry.report.html.main_series import LINES
from telemetry.report.html.over_time import LEAST_STEPS, marks
from telemetry.report.series import part_s
from telemetry.wire import spans as words
from telemetry.wire.collectors import is_of_machine
from telemetry.wire.pictures import CounterOverTime, GaugeOverTime, StepCurve
from telemetry.wire.report import Report
from telemetry.wire.snapshot import CounterStat

_SHOWN: Final = 60
"""Largest number of charts of counters, and of gauges: the busiest ones. The tables have all."""

Item = dict[str, Any]
_OverTime = TypeVar("_OverTime", CounterOverTime, GaugeOverTime)


def counters_data(report: Report) -> dict[str, Any] | None:
    """Return the rates of counters over time; None without any."""
    counters = report.pictures.counters if report.pictures else []
    own = [counter for counter in counters if not counter.name.startswith(words.SELF) and counter.name != COUNTER]
    moved = [counter for counter in own if any(counter.rates)]
    values = {_key(stat): stat for stat in report.snapshot.counters}
    paces, items = Paces(report.snapshot, part_s(report)), []
    for same in _together(moved):
        facts = []
        if len(same) == 1:
            counter = same[0]
            stat = values.get(_key(counter))
            if stat is not None:
                pace = paces.of(stat)
                over = f" over {formatting.duration_s(pace.seconds)}" if pace.seconds else ""
                facts = [
                    ("", _amount(stat.value, counter.unit)),
                    (f"mean{over}", formatting.rate(pace.per_s, counter.unit)),
                ]
        items.append(_item(same, [counter.rates for counter in same], facts, " per second"))
    return over_time(report, items, "counters")


def gauges_data(report: Report) -> dict[str, Any] | None:
    """Return gauges over time; None without any. Those of the machine have charts of their own."""
    gauges = [gauge for gauge in report.pictures.gauges if not is_of_machine(gauge.name)] if report.pictures else []
    items = []
    for same in _together([gauge for gauge in gauges if any(value is not None for value in gauge.values)]):
        facts = []
        if len(same) == 1:
            gauge = same[0]
            values = [value for value in gauge.values if value is not None]
            facts = [("last", formatting.quantity(values[-1], gauge.unit))]
            if min(values) < max(values):
                lowest, highest = (formatting.quantity(end, gauge.unit) for end in (min(values), max(values)))
                facts.append(("range", f"{lowest} to {highest}"))
        items.append(_item(same, [held(gauge.values) for gauge in same], facts))
    data = over_time(report, items, "gauges")
    return None if data is None else data | {"held": True}


def steps_data(axis: str, curves: Sequence[StepCurve]) -> dict[str, Any]:
    """Return the curves of one axis; those with the same steps share them."""
    xs: list[list[int]] = []
    items = []
    sizes = Counter(curve.name.partition("/")[0] for curve in curves if "/" in curve.name)
    for curve in curves:
        differences = [*curve.steps[:1], *(other - previous for previous, other in pairwise(curve.steps))]
        if differences not in xs:
            xs.append(differences)
        prefix = curve.name.partition("/")[0]
        item: Item = {
            "name": printable(curve.name),
            "group": printable(prefix) if sizes[prefix] > 1 else "",  # a curve alone needs no row of its own
            "unit": "",
            "x": xs.index(differences),
            "lines": [{"name": "", "values": column(curve.values)}],
            "facts": _facts(curve),
        }
        if has_means(curve):
            item["means"] = True
            item["from"] = first_step(curve, 0)
        if curve.low and curve.high and curve.producers > 1:
            item["lines"][0] |= {"low": column(curve.low), "high": column(curve.high)}
        items.append(item)
    ends = [curve.steps for curve in curves if curve.steps]
    domain = [min(map(lowest_step, curves)), max(steps[-1] for steps in ends)] if ends else [0, 1]
    return {"axis_name": printable(axis), "xs": xs, "items": items, "domain": domain, "band": "rank"}


def _facts(curve: StepCurve) -> list[tuple[str, str]]:
    """Return last, first and best; without a direction the extremes."""
    last = formatting.scaled(curve.last) if curve.last is not None else "not finite"
    if curve.count < 2:
        return [("", last)]
    facts = [("last", last), ("first", formatting.scaled(curve.first))]
    better = better_of_name(curve.name)
    if better == "neither":
        if curve.min is not None and curve.max is not None and curve.min < curve.max:
            return [*facts, ("range", f"{formatting.scaled(curve.min)} to {formatting.scaled(curve.max)}")]
        return facts
    best, step = (curve.min, curve.min_step) if better == "lower" else (curve.max, curve.max_step)
    return [*facts, ("best", f"{formatting.scaled(best)} at step {formatting.count(step)}")]


def _together(of: Sequence[_OverTime]) -> list[list[_OverTime]]:
    """Return instruments of one name together, in the order of the first ones; each alone if they are many."""
    by_name: dict[tuple[str, str], list[_OverTime]] = {}
    for instrument in of:
        by_name.setdefault((instrument.name, instrument.unit), []).append(instrument)
    charts = [
        part
        for same in by_name.values()
        for part in ([sorted(same, key=_key)] if len(same) <= LINES else [[instrument] for instrument in same])
    ]
    return charts[:_SHOWN]


def _item(
    same: Sequence[CounterOverTime | GaugeOverTime],
    columns: Sequence[Column],
    facts: list[tuple[str, str]],
    ending: str = "",
) -> Item:
    first = same[0]
    name = wording.instrument(first.name, first.labels) if len(same) == 1 else printable(first.name)
    lines = [
        {"name": wording.instrument("", instrument.labels).strip("{}") or "none", "values": column(values)}
        for instrument, values in zip(same, columns, strict=True)
    ]
    return {"name": f"{name}{ending}", "unit": printable(first.unit), "lines": lines, "facts": facts}


def over_time(report: Report, items: list[Item], what: str) -> dict[str, Any] | None:
    """Return the data of a grid over time; None without charts, and for a run too short to have a course."""
    if not items or report.pictures is None or len(report.pictures.edges_s) <= LEAST_STEPS:
        return None
    edges = report.pictures.edges_s
    middles = [(edge + other) / 2 for edge, other in pairwise(edges)]
    return {
        "x": column(middles),
        "items": items,
        "what": what,
        "domain": [edges[0], edges[-1]],
        "marks": marks(report),
    }


def held(values: Column) -> Column:
    """Return values in which each one lasts until the next; none before the first."""
    last: float | None = None
    return [last := value if value is not None else last for value in values]


def _key(
    of: CounterOverTime | GaugeOverTime | CounterStat,
) -> tuple[str, tuple[tuple[str, str], ...]]:
    return of.name, tuple(sorted(of.labels.items()))


def _amount(value: float, unit: str) -> str:
    return formatting.quantity(value, unit) if formatting.carries_unit(unit) else formatting.count(value)

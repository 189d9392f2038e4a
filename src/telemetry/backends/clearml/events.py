"""The conversion of items to ClearML events, for its server and for offline sessions. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from telemetry.backends.items import Artifact, Histogram, Item, Mark, Reading, Step, Table, Text
from telemetry.backends.naming import FINAL, AxisOwners, flat
from telemetry.common.wording import labelled
from telemetry.wire.events import Scalar

Event = dict[str, Any]
"""An event without its task, which the sender adds."""

_SINGLE: Final = -(1 << 31)
"""Iteration of a value that belongs to no iteration."""
_TIME: Final = "elapsed_s"


class ClearMLEvents:
    """A converter of items to events with a title and a series.

    ClearML draws all series of a title in one chart. The title is the part of a name before its last slash. A name
    belongs to the axis that used it first; on other axes, the axis is appended.
    """

    def __init__(self, started_ns: int, owners: AxisOwners, *, spread: bool) -> None:
        self._started_ns = started_ns
        self._owners = owners
        self._spread = spread
        self.odd = 0
        """Number of values that are not finite. ClearML would show them as 0, so they are left out."""

    def of(self, item: Item) -> Iterator[Event]:
        """Yield the events of an item. Yields no event if ClearML can't store any of its values."""
        match item:
            case Step():
                yield from self._scalars(item, item.axis, item.step, self._values(item))
            case Reading() if item.final:
                for name, value in self._finite(flat(item)):
                    yield _scalar(item, "Summary", name.removeprefix(FINAL), _SINGLE, value)
                yield from self._distributions(item, 0)
            case Reading():
                seconds = math.floor(item.elapsed_s)
                yield from self._scalars(item, _TIME, seconds, flat(item))
                yield from self._distributions(item, seconds)
            case Mark():
                labels = " ".join(f"{key}={value}" for key, value in item.labels.items())
                yield _head(item, "log") | {"level": "info", "msg": f"{item.text} {labels}".rstrip()}
            case Text():
                yield self._plot(item, _table(["text"], [[item.text]]))
            case Table():
                yield self._plot(item, _table(item.columns, item.rows))
            case Histogram():
                cells = zip(item.edges, item.edges[1:], item.counts, strict=False)
                yield self._plot(item, _bars(list(cells)))

    def image(self, item: Artifact, url: str, key: str) -> Event:
        """Return the event of an image that a browser finds at `url`."""
        title, series = self._place(item.name, item.axis or _TIME)
        where = {"iter": self._iteration(item), "metric": title, "variant": series}
        return _head(item, "training_debug_image") | where | {"url": url, "key": key}

    def _values(self, item: Step) -> Mapping[str, float]:
        if not self._spread:
            return item.values
        values = dict(item.values)
        for name, spread in item.spread.items():
            values |= {f"{name}/min": spread.min, f"{name}/max": spread.max}
        return values

    def _scalars(self, item: Item, axis: str, iteration: int, values: Mapping[str, float]) -> Iterator[Event]:
        for name, value in self._finite(values):
            title, series = self._place(name, axis)
            yield _scalar(item, title, series, iteration, value)

    def _finite(self, values: Mapping[str, float]) -> Iterator[tuple[str, float]]:
        for name, value in values.items():
            if math.isfinite(value):
                yield name, value
            else:
                self.odd += 1

    def _distributions(self, item: Reading, iteration: int) -> Iterator[Event]:
        head = FINAL if item.final else ""
        for series in item.series:
            if series.cells:
                title = head + labelled(series.name, series.labels)
                yield _plot(item, title, "histogram", iteration, _bars(series.cells, series.unit))

    def _plot(self, item: Text | Table | Histogram, figure: Event) -> Event:
        title, series = self._place(item.name, item.axis or _TIME)
        return _plot(item, title, series, self._iteration(item), figure)

    def _iteration(self, item: Text | Table | Histogram | Artifact) -> int:
        return item.step if item.axis else max(0, item.time_ns - self._started_ns) // 1_000_000_000

    def _place(self, name: str, axis: str) -> tuple[str, str]:
        title, series = split(name)
        return (title, series) if self._owners.has(name, axis) else (title, f"{series} @{axis}")


def split(name: str) -> tuple[str, str]:
    """Split a name into title and series. Different names stay different. A slash in braces belongs to a label."""
    title, slash, series = name.rpartition("/")
    if not slash or not title or not series or title == series or "}" in series:
        return name, name
    return title, series


def _head(item: Item, kind: str) -> Event:
    return {"timestamp": item.time_ns // 1_000_000, "type": kind, "method": "get"}


def _scalar(item: Item, title: str, series: str, iteration: int, value: float) -> Event:
    where = {"iter": iteration, "metric": title, "variant": series}
    return _head(item, "training_stats_scalar") | where | {"value": float(value)}


def _plot(item: Item, title: str, series: str, iteration: int, figure: Event) -> Event:
    figure["layout"]["title"] = title
    where = {"iter": iteration, "metric": title, "variant": series}
    return _head(item, "plot") | where | {"plot_str": json.dumps(figure)}


def _table(columns: Sequence[str], rows: Sequence[Sequence[Scalar]]) -> Event:
    cells = [[_shown(row[at]) for row in rows] for at in range(len(columns))]
    table = {"type": "table", "header": {"values": list(columns)}, "cells": {"values": cells}}
    return {"data": [table], "layout": {}}


def _shown(value: Scalar) -> Scalar:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _bars(cells: Sequence[tuple[float, float, int]], unit: str = "") -> Event:
    bars = {
        "type": "bar",
        "x": [(low + high) / 2 for low, high, _ in cells],
        "width": [high - low for low, high, _ in cells],
        "y": [count for _, _, count in cells],
    }
    return {"data": [bars], "layout": {"bargap": 0, "xaxis": {"title": unit}, "yaxis": {"title": "count"}}}

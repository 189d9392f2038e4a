"""A leaf and a root to try things on, and columns made by hand."""

from __future__ import annotations

from typing import Any

import numpy as np

from telemetry.aggregator import Aggregator, AggregatorConfig, SnapshotFacts
from telemetry.aggregator.nodes.columns import CounterArrays, ExtentArrays, GaugeArrays, SeriesArrays
from telemetry.aggregator.nodes.outgoing import OutgoingInterval
from telemetry.testing import batch
from telemetry.testing.builders import MONO_NS, WALL_NS
from telemetry.wire.control import Hello
from telemetry.wire.events import Define
from telemetry.wire.snapshot import MetricsSnapshot

SECOND = 1_000_000_000


def aggregator(*, leaf: bool = False, cap: int = 100) -> Aggregator:
    return Aggregator(AggregatorConfig(percentiles=("50", "99"), series_cap=cap, leaf=leaf))


class Leaf:
    """A leaf with one producer, whose rows are a millisecond apart."""

    def __init__(self, *definitions: Define, cap: int = 100) -> None:
        self.aggregator = aggregator(leaf=True, cap=cap)
        self._sent = self._events = 0
        self.define(*definitions)

    def define(self, *definitions: Define) -> None:
        self._send(batch("w", self._sent, self._events, records=definitions))

    def record(self, *rows: tuple[int, float], at_ns: int = 0) -> None:
        timed = [(of, MONO_NS + at_ns + at * 1_000_000, value) for at, (of, value) in enumerate(rows)]
        self._send(batch("w", self._sent, self._events, rows=timed))
        self._events += len(rows)

    def _send(self, sent: Any) -> None:
        self._sent += 1
        assert self.aggregator.admit(sent, MONO_NS + 100 * SECOND)
        self.aggregator.apply([sent], MONO_NS + 100 * SECOND, WALL_NS + 100 * SECOND)

    def take(self) -> OutgoingInterval:
        """End an interval."""
        self.aggregator.roll(WALL_NS, WALL_NS + SECOND, SECOND)
        taken = self.aggregator.leaf.take_interval()
        assert taken is not None
        return taken


class Root:
    """A root that leaves have said hello to."""

    def __init__(self, *leaves: str, cap: int = 100, is_leaf: bool = False) -> None:
        self.aggregator = aggregator(cap=cap, leaf=is_leaf)
        self._batches: dict[str, int] = {}
        self._events: dict[str, int] = {}
        for leaf in leaves or ("l",):
            hello = Hello(producer=leaf, node=f"node-{leaf}", mono_ns=MONO_NS)
            assert self.aggregator.hello(hello, MONO_NS, WALL_NS)

    def send(self, *records: Any, leaf: str = "l", at: int | None = None) -> None:
        """Send a batch of a leaf, by default with the next number."""
        number = self._batches.get(leaf, 0) if at is None else at
        first = self._events.get(leaf, 0) if at is None else at
        sent = batch(leaf, number, first, records=records)
        self._batches[leaf] = max(self._batches.get(leaf, 0), number + 1)
        self._events[leaf] = first + sum(not isinstance(record, Define) for record in records)
        assert self.aggregator.admit(sent, MONO_NS + 100 * SECOND)
        self.aggregator.apply([sent], MONO_NS + 100 * SECOND, WALL_NS + 100 * SECOND)

    def add(self, interval: OutgoingInterval, leaf: str = "l") -> int:
        """Send an interval, and return the number of values of the leaf in the numbers."""
        self.send(*interval.records(0, WALL_NS, WALL_NS + SECOND, 1 << 20), leaf=leaf)
        return self.values(leaf)

    def values(self, leaf: str = "l") -> int:
        node = self.aggregator.book[leaf].node
        assert node is not None
        return node.values

    def dropped(self, leaf: str = "l") -> dict[str, int]:
        return self.aggregator.book.losses(leaf)[0]

    def snapshot(self) -> MetricsSnapshot:
        facts = SnapshotFacts(run_id="r", name="n", state="COMPLETE")
        return self.aggregator.snapshot(facts, MONO_NS + 100 * SECOND, WALL_NS + 100 * SECOND)


def series(number: int, values: list[float], slots: list[int], counts: list[int]) -> SeriesArrays:
    """One line of a series."""
    mean = sum(values) / len(values)
    line = {
        "id": number,
        "count": len(values),
        "total": sum(values),
        "rest": 0.0,
        "mean": mean,
        "squares": sum((value - mean) ** 2 for value in values),
        "min": min(values),
        "max": max(values),
        "integral": all(value.is_integer() for value in values),
        "imprecise": 0,
        "below": 0,
        "above": 0,
        "occupied": len(slots),
    }
    columns = [np.array([value]) for value in line.values()]
    times = [np.zeros(1, np.int64)] * 2
    return SeriesArrays.of([*columns, np.array(slots, np.uint32), np.array(counts, np.uint32), *times])


def counter(number: int, events: int, whole: int, huge: float = 0.0, fraction: float = 0.0) -> CounterArrays:
    """One line of a counter."""
    line = (number, events, whole, huge, fraction, bool(fraction), 0, 0, 0)
    return CounterArrays.of([np.array([value]) for value in line])


def gauge(number: int, value: float, time_ns: int, least: float, most: float) -> GaugeArrays:
    """One line of a gauge."""
    return GaugeArrays.of([np.array([one]) for one in (number, 1, value, time_ns, least, most, 0)])


def extent(number: int, times: tuple[int, int, int, int], inside: int, total: float) -> ExtentArrays:
    """One line of an extent."""
    return ExtentArrays.of([np.array([one]) for one in (number, *times, inside, total)])

"""Sums of counters of one name, such as `sum(errors)`: all of them, or those that match the rest of a gate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from telemetry.judge.gates.catalog import GateCatalog, with_labels
from telemetry.judge.gates.evidence import GateInstrument, Labels
from telemetry.judge.gates.tree import GateMetric
from telemetry.wire import requests as words


@dataclass(frozen=True, kw_only=True)
class CounterSum:
    """Counters that count as a single one."""

    metric: GateMetric
    """The metric, with all labels that tell this sum from others."""
    counters: tuple[GateInstrument, ...]
    """The counters; empty, with a sum of 0, for requests to which the event never happened."""
    unit: str


def summed(metric: GateMetric, catalog: GateCatalog) -> CounterSum | None:
    """Return the sum of all counters with that name and labels.

    Returns None if there are no such counters and also no requests that they could count.
    """
    return Summing(metric, [()], catalog).beside(())


class Summing:
    """A `sum(…)` of a gate, matched with the gate's other metrics."""

    def __init__(self, metric: GateMetric, others: Sequence[Labels], catalog: GateCatalog) -> None:
        """Match the counters. `others`: labels of the sets of instruments that the rest of the gate is about."""
        self._metric = metric
        self._own = words.LABEL_OF.get(metric.name.rpartition(".")[2], "")
        counters = [item for item in catalog.named(metric.name) if item.kind == "counter"]
        issued = catalog.issued(metric) if counters or not catalog.named(metric.name) else ()
        theirs = {key for labels in others for key, _ in labels}
        ours = {key for item in (*counters, *issued) for key, _ in item.labels}
        self._keys = sorted(theirs & ours - {key for key, _ in metric.labels})
        self._places: dict[Labels, list[GateInstrument]] = {}
        for item in counters:
            if item.has(metric.labels):
                self._places.setdefault(self._apart(item.labels), []).append(item)
        self._issued = {self._of_requests(self._apart(item.labels)) for item in issued}
        self._met = {self._apart(labels) for labels in others}

    def named(self, labels: Labels) -> GateMetric:
        """Return the metric of the sum that matches these labels."""
        return with_labels(self._metric, self._apart(labels))

    def beside(self, labels: Labels) -> CounterSum | None:
        """Return the sum that matches these labels, or None if no counter or request matches."""
        apart = self._apart(labels)
        if counters := self._places.get(apart):
            return CounterSum(metric=self.named(labels), counters=tuple(counters), unit=counters[0].unit)
        if self._of_requests(apart) in self._issued:
            return CounterSum(metric=self.named(labels), counters=(), unit=words.INSTRUMENTS[words.ISSUED][1])
        return None

    def lonely(self) -> list[GateMetric]:
        """Return the metrics of counters that match no other instrument of the gate."""
        return [self.named(apart) for apart in self._places if apart not in self._met]

    def _apart(self, labels: Labels) -> Labels:
        """Reduce labels to the keys that tell these counters apart. Other keys can't contradict and are dropped."""
        value_by_key: Mapping[str, str] = dict(labels)
        return tuple((key, value_by_key.get(key, "")) for key in self._keys)

    def _of_requests(self, apart: Labels) -> Labels:
        """Drop the label that belongs to this counter and not to its requests."""
        return tuple(label for label in apart if label[0] != self._own)

"""`sum(errors)`: counters of one name added up, all of them or those that go with the rest of a gate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from telemetry.gates.catalog import Catalog, with_labels
from telemetry.gates.evidence import Instrument, Labels
from telemetry.gates.tree import Metric
from telemetry.wire import requests as words

SUM: Final = "sum"
"""The function."""


@dataclass(frozen=True, kw_only=True)
class Sum:
    """Counters that are as one."""

    metric: Metric
    """With all labels that tell them from those of other sums."""
    counters: tuple[Instrument, ...]
    """None of requests to which it never happened: then it is 0."""
    unit: str


def summed(metric: Metric, catalog: Catalog) -> Sum | None:
    """All counters of that name and labels. None if there are none, and no requests either of which they would
    count something."""
    return Summing(metric, [()], catalog).beside(())


class Summing:
    """One `sum(…)` of a gate, beside what its other metrics are."""

    def __init__(self, metric: Metric, others: Sequence[Labels], catalog: Catalog) -> None:
        """`others`: labels of the sets of instruments that the rest of the gate is about."""
        self._metric = metric
        self._own = words.LABEL_OF.get(metric.name.rpartition(".")[2], "")
        counters = [item for item in catalog.named(metric.name) if item.kind == "counter"]
        issued = catalog.issued(metric) if counters or not catalog.named(metric.name) else ()
        theirs = {key for labels in others for key, _ in labels}
        ours = {key for item in (*counters, *issued) for key, _ in item.labels}
        self._keys = sorted(theirs & ours - {key for key, _ in metric.labels})
        self._places: dict[Labels, list[Instrument]] = {}
        for item in counters:
            if item.has(metric.labels):
                self._places.setdefault(self._apart(item.labels), []).append(item)
        self._issued = {self._of_requests(self._apart(item.labels)) for item in issued}
        self._met = {self._apart(labels) for labels in others}

    def named(self, labels: Labels) -> Metric:
        """What goes with the others of these labels is called."""
        return with_labels(self._metric, self._apart(labels))

    def beside(self, labels: Labels) -> Sum | None:
        """What goes with the others of these labels; None if nothing does."""
        apart = self._apart(labels)
        if counters := self._places.get(apart):
            return Sum(metric=self.named(labels), counters=tuple(counters), unit=counters[0].unit)
        if self._of_requests(apart) in self._issued:
            return Sum(metric=self.named(labels), counters=(), unit=words.INSTRUMENTS[words.ISSUED][1])
        return None

    def lonely(self) -> list[Metric]:
        """Counters that go with nothing."""
        return [self.named(apart) for apart in self._places if apart not in self._met]

    def _apart(self, labels: Labels) -> Labels:
        """What of these labels tells our counters apart. What ours don't have, they don't contradict."""
        known: Mapping[str, str] = dict(labels)
        return tuple((key, known.get(key, "")) for key in self._keys)

    def _of_requests(self, apart: Labels) -> Labels:
        """Without what is not theirs, but this counter's."""
        return tuple(label for label in apart if label[0] != self._own)

"""`sum(errors)`: counters of one name added up, all of them or those that go with the rest of a gate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from telemetry.funnel import issued_kind
from telemetry.gates.evidence import Instrument, Labels
from telemetry.gates.tree import Metric
from telemetry.wire import requests as words

SUM: Final = "sum"
"""The function."""
Apart = tuple[tuple[str, str | None], ...]
"""Labels that tell counters apart, as each of a sum has them; None: as none has."""

_OWN: Final = {words.COMPLETED: words.FINISH, words.FAILED: words.REASON}
"""Counters of requests that are several, and the label which says of what."""


@dataclass(frozen=True, kw_only=True)
class Sum:
    """Counters that are as one."""

    counters: tuple[Instrument, ...]
    """None of requests to which it never happened: then it is 0."""
    unit: str
    apart: Apart = ()


def summed(metric: Metric, apart: Apart, instruments: Iterable[Instrument]) -> Sum | None:
    """All counters of that name with the labels of both. None if there are none, and no requests either of which
    they would count something."""
    named = [item for item in instruments if item.name == metric.name]
    wanted = (*metric.labels, *apart)
    found = tuple(item for item in named if item.kind == "counter" and _has(item, wanted))
    if found:
        return Sum(counters=found, unit=found[0].unit, apart=apart)
    if any(item.kind != "counter" for item in named) or not _of_requests(metric.name, wanted, instruments):
        return None
    return Sum(counters=(), unit=words.INSTRUMENTS[words.ISSUED][1], apart=apart)


def with_labels(metric: Metric, apart: Apart) -> Metric:
    """What such a sum is called."""
    own = [(key, value) for key, value in apart if value is not None]
    return Metric(metric.name, tuple(sorted([*metric.labels, *own])))


class Summing:
    """One `sum(…)` of a gate, beside what its other metrics are."""

    def __init__(self, metric: Metric, others: Sequence[Labels], instruments: Sequence[Instrument]) -> None:
        """`others`: labels of the sets of instruments that the rest of the gate is about."""
        self._metric = metric
        self._instruments = instruments
        everything = summed(metric, (), instruments)
        counters = everything.counters if everything else ()
        theirs = {key for labels in others for key, _ in labels}
        ours = {key for item in counters for key, _ in item.labels}
        self._keys = sorted(theirs & ours - {key for key, _ in metric.labels})
        self._places: dict[Apart, list[Instrument]] = {}
        for item in counters:
            self._places.setdefault(self.apart(item.labels), []).append(item)
        self._met = {self.apart(labels) for labels in others}

    def apart(self, labels: Labels) -> Apart:
        """What of these labels tells our counters apart. What ours don't have, they don't contradict."""
        known: Mapping[str, str] = dict(labels)
        return tuple((key, known.get(key)) for key in self._keys)

    def beside(self, labels: Labels) -> Sum | None:
        """What goes with the others of these labels; None if nothing does."""
        apart = self.apart(labels)
        return summed(self._metric, apart, self._places.get(apart, self._instruments))

    def lonely(self) -> list[Apart]:
        """Of counters that go with nothing."""
        return [apart for apart in self._places if apart not in self._met]


def _has(item: Instrument, wanted: Apart) -> bool:
    labels = dict(item.labels)
    return all(labels.get(key) == value for key, value in wanted)


def _of_requests(name: str, wanted: Apart, instruments: Iterable[Instrument]) -> bool:
    """Whether it is an outcome of requests, and some of these labels were issued."""
    kind, _, word = name.rpartition(".")
    if not kind or word not in words.INSTRUMENTS or words.INSTRUMENTS[word][0] != "counter":
        return False
    labels = tuple(item for item in wanted if item[0] != _OWN.get(word))
    counters = (item for item in instruments if item.kind == "counter")
    return any(issued_kind(item.name, item.unit) == kind and _has(item, labels) for item in counters)

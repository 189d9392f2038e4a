"""The instruments of a run as gates look for them, and the requests among them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from telemetry.funnel import issued_kind
from telemetry.gates.evidence import Instrument, Labels
from telemetry.gates.tree import Metric, Term
from telemetry.wire import requests as words

_OF_FIGURES: Final = frozenset(words.LABEL_OF.values())
"""Labels that are not of requests, but of one of their figures."""


class Catalog:
    """Of one run."""

    def __init__(self, instruments: Sequence[Instrument]) -> None:
        self.instruments = instruments
        self._named: dict[str, list[Instrument]] = {}
        self._issued: dict[str, list[Instrument]] = {}
        """By kind."""
        for item in instruments:
            self._named.setdefault(item.name, []).append(item)
            if item.kind == "counter" and (kind := issued_kind(item.name, item.unit)):
                self._issued.setdefault(kind, []).append(item)

    def named(self, name: str) -> Sequence[Instrument]:
        return self._named.get(name, ())

    def issued(self, metric: Metric) -> Sequence[Instrument]:
        """What counts the issues of those requests whose outcomes a counter of this name and labels counts, or
        would. Empty: it is no outcome."""
        kind, word = self._request(metric.name)
        if words.INSTRUMENTS.get(word, ("",))[0] != "counter":
            return ()
        labels = tuple(label for label in metric.labels if label[0] != words.LABEL_OF.get(word))
        return [item for item in self._issued[kind] if item.has(labels)]

    def paced(self, series: Instrument) -> bool:
        """Whether there are requests whose rates are told by it."""
        kind, _, word = series.name.rpartition(".")
        return word in words.WITHIN and kind in self._issued and words.TURN not in dict(series.labels)

    def meant(self, terms: Iterable[Term]) -> dict[Term, Metric]:
        """What each stands for: labels of requests that are given to one figure of a kind hold for its others,
        unless these have their own."""
        asked = list(terms)
        given: dict[str, dict[str, set[str]]] = {}
        for term in asked:
            values = given.setdefault(self._request(term.metric.name)[0], {})
            for key, value in term.metric.labels:
                values.setdefault(key, set()).add(value)
        return {term: self._with(term.metric, given) for term in asked}

    def _with(self, metric: Metric, given: dict[str, dict[str, set[str]]]) -> Metric:
        kind, _ = self._request(metric.name)
        if not kind:
            return metric
        alone = [(key, *values) for key, values in given[kind].items() if len(values) == 1]
        return with_labels(metric, tuple((key, value) for key, value in alone if key not in _OF_FIGURES))

    def _request(self, name: str) -> tuple[str, str]:
        """Kind and word; empty if it is no figure of requests."""
        head, _, last = name.rpartition(".")
        kind, _, before = head.rpartition(".")
        for one, word in ((kind, f"{before}.{last}"), (head, last)):
            if one in self._issued and word in words.INSTRUMENTS:
                return one, word
        return "", ""


def with_labels(metric: Metric, labels: Labels) -> Metric:
    """With these too, where it has none of its own."""
    return replace(metric, labels=tuple(sorted({**dict(labels), **dict(metric.labels)}.items())))

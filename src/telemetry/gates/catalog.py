"""The instruments of a run as gates look for them, and the requests among them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from telemetry.gates.evidence import Instrument, Labels
from telemetry.gates.tree import Metric, Term
from telemetry.request_model import issued_kind
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
        self._lacking: dict[str, dict[str, str]] = {}
        """Kind → labels of its requests, empty."""
        for item in instruments:
            self._named.setdefault(item.name, []).append(item)
            if item.kind == "counter" and (kind := issued_kind(item.name, item.unit)):
                self._issued.setdefault(kind, []).append(item)
                self._lacking.setdefault(kind, {}).update((key, "") for key, _ in item.labels)

    def named(self, name: str) -> Sequence[Instrument]:
        return self._named.get(name, ())

    def issued(self, metric: Metric) -> Sequence[Instrument]:
        """What counts the issues of those requests whose outcomes a counter of this name and labels counts, or
        would. Empty: it is no outcome."""
        kind, word = self._request(metric.name)
        if words.INSTRUMENTS.get(word, ("",))[0] != "counter":
            return ()
        labels = _without(words.LABEL_OF.get(word, ""), metric.labels)
        return [item for item in self._issued[kind] if item.has(labels)]

    def unseen(self, metric: Metric) -> list[Instrument]:
        """What a figure of requests of this name would be wherever they were issued and there is none. `metric`: of
        its labels that one counts which is the name's own, such as a reason. Empty: it is no figure of requests."""
        kind, word = self._request(metric.name)
        named = self.named(metric.name)
        of, unit = words.INSTRUMENTS.get(word, (None, ""))
        if of is None or any(item.kind != of for item in named):
            return []
        key = words.LABEL_OF.get(word, "")
        own = tuple(label for label in metric.labels if label[0] == key)
        seen = {_without(key, item.labels) for item in named if item.has(own)}
        given = tuple(label for label in own if label[1])
        places = [item.labels for item in self._issued[kind] if item.labels not in seen]
        return [Instrument(of, metric.name, tuple(sorted(labels + given)), unit) for labels in places]

    def told(self, item: Instrument) -> Labels:
        """Its labels; of requests also an empty one for each that others of their kind have."""
        kind, _ = self._request(item.name)
        return tuple(sorted({**self._lacking.get(kind, {}), **dict(item.labels)}.items()))

    def paced(self, series: Instrument) -> bool:
        """Whether there are requests whose rates are told by it."""
        kind, _, word = series.name.rpartition(".")
        return word in words.WITHIN and kind in self._issued and words.TURN not in dict(series.labels)

    def meant(self, terms: Iterable[Term]) -> dict[Term, Metric]:
        """What each stands for: labels of requests that are given to one name of a kind hold for its others, unless
        these have their own, or uses of one name differ in them."""
        asked = list(terms)
        uses: dict[str, dict[str, list[Labels]]] = {}
        for term in asked:
            kind, _ = self._request(term.metric.name)
            uses.setdefault(kind, {}).setdefault(term.metric.name, []).append(term.metric.labels)
        given = {kind: _agreed(names.values()) if kind else () for kind, names in uses.items()}
        return {term: with_labels(term.metric, given[self._request(term.metric.name)[0]]) for term in asked}

    def _request(self, name: str) -> tuple[str, str]:
        """Kind and word; empty if it is no figure of requests."""
        head, _, last = name.rpartition(".")
        kind, _, before = head.rpartition(".")
        for one, word in ((kind, f"{before}.{last}"), (head, last)):
            if one in self._issued and word in words.INSTRUMENTS:
                return one, word
        return "", ""


def _agreed(names: Iterable[Sequence[Labels]]) -> Labels:
    """Labels that some names have, in all their uses and with one value. `names`: labels of each use."""
    asked = [[dict(labels) for labels in uses] for uses in names]
    agreed = []
    for key in {key for uses in asked for labels in uses for key in labels} - _OF_FIGURES:
        values = {labels[key] for uses in asked for labels in uses if key in labels}
        if len(values) == 1 and all(len({key in labels for labels in uses}) == 1 for uses in asked):
            agreed.append((key, values.pop()))
    return tuple(agreed)


def _without(key: str, labels: Labels) -> Labels:
    return tuple(label for label in labels if label[0] != key)


def with_labels(metric: Metric, labels: Labels) -> Metric:
    """With these too, where it has none of its own."""
    return replace(metric, labels=tuple(sorted({**dict(labels), **dict(metric.labels)}.items())))

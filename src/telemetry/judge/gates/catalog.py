"""A lookup of a run's instruments for gates, including those of requests and sums of counters of one name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from telemetry.common import slo
from telemetry.history.request_model import issued_kind
from telemetry.judge.gates.evidence import AXIS, GateInstrument, Labels
from telemetry.judge.gates.functions import function_of
from telemetry.judge.gates.tree import GateMetric, Term
from telemetry.judge.gates.value import Unknown
from telemetry.wire import requests as words

_OF_FIGURES: Final = frozenset(words.LABEL_OF.values())
"""Labels that belong to a single figure of requests, such as a failure reason, and not to the requests."""


class GateCatalog:
    """An index over the instruments of a run."""

    def __init__(self, instruments: Sequence[GateInstrument]) -> None:
        self.instruments = instruments
        self._named: dict[str, list[GateInstrument]] = {}
        """Name, with the present words of requests → instruments."""
        self._issued: dict[str, list[GateInstrument]] = {}
        """Kind of request → counters of issued requests."""
        self._lacking: dict[str, dict[str, str]] = {}
        """Kind of request → labels of its issued requests, each with an empty value."""
        for item in instruments:
            if item.kind == "counter" and (kind := issued_kind(item.name, item.unit)):
                self._issued.setdefault(kind, []).append(item)
                self._lacking.setdefault(kind, {}).update((key, "") for key, _ in item.labels)
        for item in instruments:
            self._named.setdefault(self._present(item.name), []).append(item)

    def named(self, name: str) -> Sequence[GateInstrument]:
        return self._named.get(self._present(name), ())

    @property
    def kinds(self) -> Iterable[str]:
        """The kinds of requests."""
        return self._issued

    def limited(self, term: Term) -> tuple[str, str]:
        """Return the (kind of request, key of a limit) of a term such as `attainment(chat.ttft)`.

        The key is empty for all limits together, and both are empty if there are no such requests.
        """
        name = term.metric.name
        if name in self._issued:
            return name, ""
        kind, _, key = name.rpartition(".")
        return (kind, key) if kind in self._issued else ("", "")

    def issued(self, metric: GateMetric) -> Sequence[GateInstrument]:
        """Return the counters of issued requests that match an outcome counter of this name and labels.

        The outcome counter may not exist yet. Returns an empty list if the name is not an outcome of requests.
        """
        kind, word = self._request(metric.name)
        if words.INSTRUMENTS.get(word, ("",))[0] != "counter":
            return ()
        labels = _without(words.LABEL_OF.get(word, ""), metric.labels)
        return [item for item in self._issued[kind] if item.has(labels)]

    def unseen(self, metric: GateMetric) -> list[GateInstrument]:
        """Return empty instruments for label sets where requests were issued but this figure was never recorded.

        From the labels of `metric`, only the label of the figure itself counts, such as a reason. Returns an empty
        list if the name is not a figure of requests.
        """
        kind, word = self._request(metric.name)
        named = self.named(metric.name)
        of, unit = words.INSTRUMENTS.get(word, (None, ""))
        if of is None or word in (words.GOOD, words.MET) or any(item.kind != of for item in named):
            return []  # a kind without counters of good requests has no limits
        key = words.LABEL_OF.get(word, "")
        own = tuple(label for label in metric.labels if label[0] == key)
        seen = {_without(key, item.labels) for item in named if item.has(own)}
        given = tuple(label for label in own if label[1])
        places = [item.labels for item in self._issued[kind] if item.labels not in seen]
        return [GateInstrument(of, metric.name, tuple(sorted(labels + given)), unit) for labels in places]

    def told(self, item: GateInstrument) -> Labels:
        """Return an item's labels. Add an empty label for each label that other requests of its kind have."""
        kind, _ = self._request(item.name)
        return tuple(sorted({**self._lacking.get(kind, {}), **dict(item.labels)}.items()))

    def paced(self, series: GateInstrument) -> bool:
        """Check whether the series measures requests that have issue rates."""
        kind, _, word = series.name.rpartition(".")
        return word in words.WITHIN and kind in self._issued and words.TURN not in dict(series.labels)

    def meant(self, terms: Iterable[Term]) -> dict[Term, GateMetric]:
        """Return each term with its complete metric.

        A label given to one figure of a kind of request also applies to the other figures of that kind. It does not
        apply to a metric with its own value for the label, or if uses of one name differ in the label.

        A short name such as `ttft` is completed. Raises Unknown if there are several names that end so.
        """
        asked = {term: replace(term, metric=self._whole(term)) for term in terms}
        uses: dict[str, dict[str, list[Labels]]] = {}
        for whole in asked.values():
            name = whole.metric.name
            uses.setdefault(self._kind_of(whole), {}).setdefault(name, []).append(whole.metric.labels)
        given = {kind: _agreed(names.values()) if kind else () for kind, names in uses.items()}
        return {term: with_labels(whole.metric, given[self._kind_of(whole)]) for term, whole in asked.items()}

    def _kind_of(self, term: Term) -> str:
        """Return the kind of request that a term is about, or an empty string."""
        return self.limited(term)[0] if function_of(term.function).of_limits else self._request(term.metric.name)[0]

    def _whole(self, term: Term) -> GateMetric:
        """Return the metric of a term with its whole name. Raises Unknown if there are several."""
        metric, name = term.metric, term.metric.name
        function = function_of(term.function)
        if function.of_limits:
            alone = self.limited(term) == ("", "") and name in slo.KEYS
            ends = [f"{kind}.{name}" for kind in self._issued] if alone else []
        elif self.named(name) or self._request(name)[0]:
            return metric
        elif placed := self._on_axis(metric):
            return placed
        else:
            word, kinds = words.canonical(name), function.kinds
            ends = [f"{kind}.{word}" for kind in self._issued if self.named(f"{kind}.{word}")]
            if not ends and words.INSTRUMENTS.get(word, ("",))[0] in kinds:
                ends = [f"{kind}.{word}" for kind in self._issued]
            if not ends:
                fitting = {item.name for item in self.instruments if item.kind in kinds}
                ends = sorted(full_name for full_name in fitting if full_name.endswith((f".{name}", f"/{name}")))
        if len(ends) > 1:
            raise Unknown(f"{name} may be {', '.join(ends[:-1])} or {ends[-1]}: write one of them")
        return replace(metric, name=ends[0]) if ends else metric

    def _on_axis(self, metric: GateMetric) -> GateMetric | None:
        """Return the metric of `train/loss` if that is the value `loss` of the axis `train`."""
        axis, slash, name = metric.name.partition("/")
        placed = replace(metric, name=name)
        matches = [item for item in self.named(name) if item.kind == "step" and item.has(((AXIS, axis),))]
        return with_labels(placed, ((AXIS, axis),)) if slash and matches else None

    def _present(self, name: str) -> str:
        """Return the current name for a name from an earlier version, such as `chat.itl` for `chat.chunk_gap`."""
        kind, _, word = name.rpartition(".")
        return words.name_of(kind, words.canonical(word)) if kind in self._issued else name

    def _request(self, name: str) -> tuple[str, str]:
        """Return (kind, figure) of a request metric, or two empty strings if the name is not one."""
        head, _, last = self._present(name).rpartition(".")
        kind, _, before = head.rpartition(".")
        for candidate, word in ((kind, f"{before}.{last}"), (head, last)):
            if candidate in self._issued and word in words.INSTRUMENTS:
                return candidate, word
        return "", ""


def _agreed(names: Iterable[Sequence[Labels]]) -> Labels:
    """Return the labels that have a single value and that each name uses always or never.

    `names`: for each name, the labels of each use.
    """
    asked = [[dict(labels) for labels in uses] for uses in names]
    agreed = []
    for key in {key for uses in asked for labels in uses for key in labels} - _OF_FIGURES:
        values = {labels[key] for uses in asked for labels in uses if key in labels}
        if len(values) == 1 and all(len({key in labels for labels in uses}) == 1 for uses in asked):
            agreed.append((key, values.pop()))
    return tuple(agreed)


def _without(key: str, labels: Labels) -> Labels:
    return tuple(label for label in labels if label[0] != key)


def with_labels(metric: GateMetric, labels: Labels) -> GateMetric:
    """Add these labels to a metric. Labels that it already has keep their values."""
    return replace(metric, labels=tuple(sorted({**dict(labels), **dict(metric.labels)}.items())))


@dataclass(frozen=True, kw_only=True)
class CounterSum:
    """Counters that a gate adds up with `sum(…)`."""

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
        """Group the counters by the labels that they share with the other metrics of the gate.

        `others` has the labels of each set of instruments that the other metrics use.
        """
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
        """Return the metrics of counters whose labels match no other instrument of the gate.

        Example: in `sum(errors) / count(ttft)`, errors have `route=/a` and `route=/b`, but `ttft` only has
        `route=/a`. Then `errors{route=/b}` is returned.
        """
        return [self.named(apart) for apart in self._places if apart not in self._met]

    def _apart(self, labels: Labels) -> Labels:
        """Reduce labels to the keys that tell these counters apart. Other keys can't contradict and are dropped."""
        value_by_key: Mapping[str, str] = dict(labels)
        return tuple((key, value_by_key.get(key, "")) for key in self._keys)

    def _of_requests(self, apart: Labels) -> Labels:
        """Drop the label that only this counter has, such as the reason of a failure. Issued requests lack it."""
        return tuple(label for label in apart if label[0] != self._own)

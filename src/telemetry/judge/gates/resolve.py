"""The lookup of names in a gate among the instruments of a run."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Final, NamedTuple

from telemetry.common.formatting import printable
from telemetry.judge.gates.catalog import CounterSum, GateCatalog, Summing, summed, with_labels
from telemetry.judge.gates.evidence import GateInstrument, Labels
from telemetry.judge.gates.functions import FUNCTIONS, SUM, function_of
from telemetry.judge.gates.lexer import wrong
from telemetry.judge.gates.tree import Gate, GateMetric, Negated, Node, Operation, Term
from telemetry.judge.gates.value import Unknown
from telemetry.wire import requests as words

Bound = GateInstrument | CounterSum
"""The instrument or sum that a term of a gate stands for."""

_ARTICLES: Final = {
    "series": "a series",
    "counter": "a counter",
    "gauge": "a gauge",
    "step": "a value of steps",
    "axis": "an axis of steps",
}
_KINDS: Final = {"step": "value of steps", "axis": "axis of steps"}
_SHOWN: Final = 3


@dataclass(frozen=True, kw_only=True)
class Binding:
    """A set of instruments that a gate is about."""

    bound: dict[Term, Bound]
    text: str
    """The gate as it was written. All labels are added if several sets exist or if its names share labels."""
    missing: str = ""
    """Reason why an instrument of this set is missing; empty if the set is complete."""


def bindings(gate: Gate, instruments: Sequence[GateInstrument]) -> list[Binding]:
    """Return a binding for each set of instruments that a gate is about.

    A metric that matches several instruments yields a set for each of them. If two metrics do so, instruments with
    the same labels, apart from the given ones, form a set. A metric with one instrument belongs to every set that
    its labels don't contradict. A missing label contradicts a present one if that label tells instruments apart,
    and always for requests of one kind. A sum adds the counters that match the other instruments of the set in the
    labels that tell its counters apart.

    Raises Unknown for a name that no instrument has, and UsageError for a function of another kind of instrument.
    """
    catalog = GateCatalog(instruments)
    names = catalog.meant(gate.terms)
    candidates = {term: _by_labels(gate, term, name, catalog) for term, name in names.items() if not _is_sum(term)}
    alone = {term: next(iter(items.items())) for term, items in candidates.items() if len(items) == 1}
    shared = _sorted(label for labels, _ in alone.values() for label in labels)
    if _contradict(shared):
        alone, shared = {}, ()
    several = {term: items for term, items in candidates.items() if term not in alone}
    label_keys = {key for items in several.values() for key in _keys(items)}
    places = {term: _LabelPlaces(names[term], items, label_keys) for term, items in several.items()}
    keys = list(dict.fromkeys(key for group in places.values() for key in group.items)) or [()]
    others = [_with(shared, key) for key in keys]
    sums = {term: _summing(gate, term, name, others, catalog) for term, name in names.items() if _is_sum(term)}
    parts = _GateTerms(names, alone, places, sums)
    sets = [parts.joined(gate, key, labels) for key, labels in zip(keys, others, strict=True)]
    lonely = [_lonely(gate, term, metric) for term, summing in sums.items() for metric in summing.lonely()]
    if not places and not lonely and all(name == term.metric for term, name in names.items()):
        return [replace(sets[0], text=gate.text or str(gate))]
    return sets + lonely


def each(bound: Mapping[Term, Bound]) -> Iterator[GateInstrument]:
    """Yield all instruments. A sum yields each of its counters."""
    for item in bound.values():
        yield from item.counters if isinstance(item, CounterSum) else (item,)


def elsewhere(bound: Mapping[Term, Bound], instruments: Sequence[GateInstrument], what: str) -> dict[Term, Bound]:
    """Return the same instruments in another run, called `what` in messages. A sum takes all its counters there.

    Raises Unknown if the run lacks an instrument. A counter of requests that never happened there counts as 0, but
    a missing series is an error.
    """
    catalog = GateCatalog(instruments)
    counterparts: dict[Term, Bound] = {}
    for term, item in bound.items():
        if isinstance(item, CounterSum):
            other: Bound | None = summed(item.metric, catalog)
            kind, metric = "counter", item.metric
        else:
            kind, metric = item.kind, GateMetric(item.name, item.labels)
            candidates = [*catalog.named(item.name), *(catalog.unseen(metric) if kind == "counter" else ())]
            other = next(
                (
                    candidate
                    for candidate in candidates
                    if (candidate.kind, candidate.labels) == (kind, item.labels)
                ),
                None,
            )
        if other is None:
            raise Unknown(f"{what} has no {kind} {metric}")
        counterparts[term] = other
    return counterparts


class _LabelPlaces:
    """Several instruments of one name, indexed by the labels that tell them apart."""

    def __init__(self, name: GateMetric, items: Mapping[Labels, GateInstrument], keys: Iterable[str]) -> None:
        """Index the instruments.

        `keys`: all labels that tell instruments of the gate apart; a missing one counts as empty.
        """
        lacking = _sorted((key, "") for key in keys)
        self.items = {_with(lacking, labels): item for labels, item in items.items()}
        self._name = name
        self._own = _keys(items)

    def called(self, key: Labels) -> GateMetric:
        """Return the metric with all labels that select this instrument alone."""
        return _at_place(self._name, key, self._own)


class _GateTerms(NamedTuple):
    """The instruments that the terms of a gate stand for."""

    names: dict[Term, GateMetric]
    alone: dict[Term, tuple[Labels, GateInstrument]]
    """Terms with one instrument, with its labels apart from the given ones."""
    places: dict[Term, _LabelPlaces]
    """Terms with several instruments."""
    sums: dict[Term, Summing]

    def joined(self, gate: Gate, key: Labels, others: Labels) -> Binding:
        """Join the instruments of one set. `others`: labels of all instruments of the set except sums."""
        bound: dict[Term, Bound] = {}
        full: dict[Term, Term] = {}
        missing = []
        for term in self.names:
            item, metric = self._at(term, key, others)
            if metric != term.metric:
                full[term] = replace(term, metric=metric)
            if item is not None:
                bound[term] = item
            else:
                missing.append(f"{metric} is missing for the other terms")
        return Binding(bound=bound, text=_text(gate, full), missing=printable("; ".join(missing)))

    def _at(self, term: Term, key: Labels, others: Labels) -> tuple[Bound | None, GateMetric]:
        """Return a term's instrument in this set, if it has one, and its full metric."""
        name = self.names[term]
        if (summing := self.sums.get(term)) is not None:
            return summing.beside(others), summing.named(others)
        if term in self.alone:
            labels, item = self.alone[term]
            return (None, _at_place(name, key, _keys([labels]))) if _contradict([*labels, *key]) else (item, name)
        return self.places[term].items.get(key), self.places[term].called(key)


def _is_sum(term: Term) -> bool:
    return term.function == SUM


def _summing(gate: Gate, term: Term, name: GateMetric, others: Sequence[Labels], catalog: GateCatalog) -> Summing:
    """Return a sum. Raises Unknown and UsageError, like other functions."""
    if summed(name, catalog) is None:
        _candidates(gate, term, name, catalog)
    return Summing(name, others, catalog)


def _lonely(gate: Gate, term: Term, metric: GateMetric) -> Binding:
    """Return a binding for counters that no sum includes: their counts must not be dropped silently."""
    message = f"no match for {metric}; use `sum` for the other terms too, to add them all up"
    return Binding(bound={}, text=_text(gate, {term: replace(term, metric=metric)}), missing=printable(message))


def _text(gate: Gate, full: dict[Term, Term]) -> str:
    return str(replace(gate, left=_renamed(gate.left, full), right=_renamed(gate.right, full)))


def _renamed(node: Node, names: dict[Term, Term]) -> Node:
    if isinstance(node, Term):
        return names.get(node, node)
    if isinstance(node, Operation):
        return replace(node, left=_renamed(node.left, names), right=_renamed(node.right, names))
    return replace(node, inner=_renamed(node.inner, names)) if isinstance(node, Negated) else node


def _candidates(gate: Gate, term: Term, name: GateMetric, catalog: GateCatalog) -> list[GateInstrument]:
    function = function_of(term.function)
    kinds = function.kinds
    named = [*catalog.named(name.name), *(catalog.unseen(name) if function.of_nothing else ())]
    if not named:
        raise Unknown(printable(_no_such(name.name, catalog.instruments, kinds)))
    fitting = [item for item in named if item.kind in kinds]
    if any(item.kind != "step" for item in fitting):  # a series or gauge of the same name comes first
        fitting = [item for item in fitting if item.kind != "step"]
    wanted = " or ".join(_ARTICLES[kind] for kind in kinds)
    is_ = _ARTICLES[named[0].kind]
    if fitting and function.rate:
        fitting = [item for item in fitting if catalog.paced(item)]
        wanted = f"the {words.LATENCY} or the {words.OUTPUT_TOKENS} of requests"
        is_ = "neither"
    if not fitting:
        message = f"`{term.function}` applies to {wanted}, but `{name.name}` is {is_}"
        raise wrong(gate.text or str(gate), term.metric.span, f"{message}{_instead(term, named[0].kind)}")
    matches = [item for item in fitting if item.has(name.labels)]
    if not matches:
        raise Unknown(printable(_no_labels(name, fitting)))
    return matches


def _within_limits(name: GateMetric, term: Term, catalog: GateCatalog) -> list[GateInstrument]:
    """Return the counters of requests within their limits, for `goodput` and `attainment`. Raises Unknown."""
    kind, key = catalog.limited(replace(term, metric=name))
    if not kind:
        choices = sorted(catalog.kinds)
        near = get_close_matches(name.name.partition(".")[0], choices, n=_SHOWN, cutoff=0.6)
        has = f"; did you mean {' or '.join(near)}?" if near else f"; the run has {_some(choices)}"
        raise Unknown(
            printable(f"no kind of request is named {name.name}{has if choices else ': the run has none'}")
        )
    counters = catalog.named(words.name_of(kind, words.MET if key else words.GOOD))
    if not counters:
        how = f"give them with `telemetry run --goodput` or with `slo=` of run.requests({kind!r})"
        raise Unknown(printable(f"the requests of {kind} have no limits: {how}"))
    keyed = [item for item in counters if not key or dict(item.labels).get(words.SLO) == key]
    if not keyed:
        choices = sorted({dict(item.labels).get(words.SLO, "") for item in counters})
        raise Unknown(printable(f"the requests of {kind} have no limit for {key}; they have {_some(choices)}"))
    chosen = [item for item in keyed if item.has(name.labels)]
    if not chosen:
        raise Unknown(printable(_no_labels(name, keyed)))
    return chosen


def _by_labels(gate: Gate, term: Term, name: GateMetric, catalog: GateCatalog) -> dict[Labels, GateInstrument]:
    """Return the candidates for a name by their labels, apart from the given ones.

    Raises Unknown and UsageError.
    """
    given = _keys([name.labels])
    if function_of(term.function).of_limits:
        given.add(words.SLO)
        items = _within_limits(name, term, catalog)
    else:
        items = _candidates(gate, term, name, catalog)
    return {tuple(label for label in catalog.told(item) if label[0] not in given): item for item in items}


def _at_place(name: GateMetric, key: Labels, own: Collection[str]) -> GateMetric:
    """Add labels to a name. `own`: label keys that instruments of this name have."""
    return with_labels(name, tuple(label for label in key if label[1] or label[0] in own))


def _with(labels: Labels, others: Labels) -> Labels:
    """Merge labels; `others` take precedence."""
    return _sorted({**dict(labels), **dict(others)}.items())


def _keys(several: Iterable[Labels]) -> set[str]:
    return {key for labels in several for key, _ in labels}


def _sorted(labels: Iterable[tuple[str, str]]) -> Labels:
    return tuple(sorted(set(labels)))


def _contradict(labels: Sequence[tuple[str, str]]) -> bool:
    """Check whether a label has more than one value."""
    return len(set(labels)) > len({key for key, _ in labels})


def _no_such(name: str, instruments: Sequence[GateInstrument], kinds: Sequence[str]) -> str:
    names = sorted({item.name for item in instruments if item.kind in kinds})
    near = get_close_matches(name, names, n=_SHOWN, cutoff=0.6)
    message = f"no {' or '.join(_KINDS.get(kind, kind) for kind in kinds)} is named {name}"
    if near:
        return f"{message}; did you mean {' or '.join(near)}?"
    if not names:
        return f"{message}: the run has none"
    return f"{message}; the run has {_some(names)}"


def _no_labels(name: GateMetric, fitting: Sequence[GateInstrument]) -> str:
    asked = _keys([name.labels])
    if asked <= _keys(item.labels for item in fitting):
        there = {str(replace(name, labels=_asked(item, asked))) for item in fitting}
        near = get_close_matches(str(name), there, n=len(there), cutoff=0.0)
    else:
        near = [str(GateMetric(item.name, item.labels)) for item in fitting]
    return f"no {_KINDS.get(fitting[0].kind, fitting[0].kind)} matches {name}; the run has {_some(near)}"


def _asked(item: GateInstrument, keys: Iterable[str]) -> Labels:
    """Return these labels of an item; missing ones are empty."""
    return _sorted((key, dict(item.labels).get(key, "")) for key in keys)


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return f"{', '.join(names[:_SHOWN])}{more}"


def _instead(term: Term, kind: str) -> str:
    functions = [
        name for name in ("p99", *FUNCTIONS) if kind in (function := function_of(name)).kinds and not function.rate
    ]
    functions.sort(key=lambda name: name != function_of(term.function).nearest)
    return f"; use {', '.join(f'`{name}({term.metric})`' for name in functions[:_SHOWN])}"

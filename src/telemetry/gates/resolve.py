"""Names in a gate → the instruments of a run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Final, NamedTuple

from telemetry.gates.catalog import Catalog, with_labels
from telemetry.gates.evidence import Instrument, Labels
from telemetry.gates.grammar import FUNCTIONS, PERCENTILE_KINDS, THROUGHPUTS
from telemetry.gates.sums import SUM, Sum, Summing, summed
from telemetry.gates.tokens import wrong
from telemetry.gates.tree import Gate, Metric, Negated, Node, Operation, Term
from telemetry.gates.value import Unknown
from telemetry.humane import printable
from telemetry.wire import requests as words

Bound = Instrument | Sum
"""What a term of a gate stands for."""

_ARTICLES: Final = {"series": "a series", "counter": "a counter", "gauge": "a gauge"}
_SHOWN: Final = 3
_NEAREST: Final = {SUM: "total", "total": SUM, **dict.fromkeys(THROUGHPUTS, "rate")}
"""Function → what is most like it of other kinds."""


@dataclass(frozen=True, kw_only=True)
class Binding:
    """One set of instruments that a gate is about."""

    bound: dict[Term, Bound]
    text: str
    """The gate as it was written, or with all labels where it is about several sets or its names share labels."""
    missing: str = ""
    """Why this set is not whole; empty if it is."""


def bindings(gate: Gate, instruments: Sequence[Instrument]) -> list[Binding]:
    """A gate whose metric is several instruments is about each of them. Where two metrics are, those belong
    together that have the same labels beside those given; what is one instrument belongs to all that its own don't
    contradict. A sum is of the counters that have the same labels as the others of a set, of those labels that tell
    its own apart.

    Raises Unknown for a name nobody has, UsageError for a function that is not of its kind.
    """
    catalog = Catalog(instruments)
    names = catalog.meant(gate.terms)
    candidates = {term: _candidates(gate, term, name, catalog) for term, name in names.items() if not _is_sum(term)}
    several = {term: found for term, found in candidates.items() if len(found) > 1}
    one = {term: found[0] for term, found in candidates.items() if len(found) == 1}
    shared = [label for term, item in one.items() for label in _free(names[term], item)]
    if not several and _contradict(shared):
        several, one, shared = candidates, {}, []
    places = {term: _Places(names[term], items) for term, items in several.items()}
    keys = list(dict.fromkeys(key for place in places.values() for key in place.items)) or [()]
    others = [_sorted([*shared, *key]) for key in keys]
    sums = {term: _summing(gate, term, name, others, catalog) for term, name in names.items() if _is_sum(term)}
    parts = _Parts(names, one, places, sums)
    found = [parts.joined(gate, key, labels) for key, labels in zip(keys, others, strict=True)]
    lonely = [_lonely(gate, term, metric) for term, summing in sums.items() for metric in summing.lonely()]
    if not several and not lonely and all(name == term.metric for term, name in names.items()):
        return [replace(found[0], text=gate.text or str(gate))]
    return found + lonely


def each(bound: Mapping[Term, Bound]) -> Iterator[Instrument]:
    """All instruments, those of sums one by one."""
    for item in bound.values():
        yield from item.counters if isinstance(item, Sum) else (item,)


def elsewhere(bound: Mapping[Term, Bound], instruments: Sequence[Instrument], what: str) -> dict[Term, Bound]:
    """The same instruments of another run, `what`; a sum is of all that it has there. Raises Unknown if it lacks
    one."""
    catalog = Catalog(instruments)
    known = {(item.kind, item.name, item.labels): item for item in instruments}
    found: dict[Term, Bound] = {}
    for term, item in bound.items():
        if isinstance(item, Sum):
            other: Bound | None = summed(item.metric, catalog)
            kind, metric = "counter", item.metric
        else:
            other = known.get((item.kind, item.name, item.labels))
            kind, metric = item.kind, Metric(item.name, item.labels)
        if other is None:
            raise Unknown(f"{what} has no {kind} {metric}")
        found[term] = other
    return found


class _Places:
    """Several instruments of one name, by the labels that tell them apart."""

    def __init__(self, name: Metric, items: Iterable[Instrument]) -> None:
        self.items = {_free(name, item): item for item in items}
        self._name = name
        self._lacking = _sorted((label, "") for key in self.items for label, _ in key)

    def called(self, key: Labels) -> Metric:
        """So that it is this one alone."""
        return with_labels(with_labels(self._name, key), self._lacking)


class _Parts(NamedTuple):
    """What the terms of a gate stand for."""

    names: dict[Term, Metric]
    one: dict[Term, Instrument]
    places: dict[Term, _Places]
    """Of those that are several."""
    sums: dict[Term, Summing]

    def joined(self, gate: Gate, key: Labels, others: Labels) -> Binding:
        """Those that go together at one place. `others`: labels of all but the sums."""
        bound: dict[Term, Bound] = {}
        full: dict[Term, Term] = {}
        missing = []
        for term, name in self.names.items():
            item, metric = self._at(term, key, others)
            if metric != name or name.labels != term.metric.labels:
                full[term] = Term(term.function, metric)
            if item is not None:
                bound[term] = item
            else:
                missing.append(f"there is no {metric} to go with the others")
        return Binding(bound=bound, text=_text(gate, full), missing=printable("; ".join(missing)))

    def _at(self, term: Term, key: Labels, others: Labels) -> tuple[Bound | None, Metric]:
        """What it is there, and what that is called."""
        name = self.names[term]
        if (summing := self.sums.get(term)) is not None:
            return summing.beside(others), summing.named(others)
        if (item := self.one.get(term)) is not None:
            if not _contradict([*_free(name, item), *key]):
                return item, name
            return None, with_labels(name, key)
        return self.places[term].items.get(key), self.places[term].called(key)


def _is_sum(term: Term) -> bool:
    return term.function == SUM


def _summing(gate: Gate, term: Term, name: Metric, others: Sequence[Labels], catalog: Catalog) -> Summing:
    """Raises Unknown and UsageError as for other functions."""
    if summed(name, catalog) is None:
        _candidates(gate, term, name, catalog)
    return Summing(name, others, catalog)


def _lonely(gate: Gate, term: Term, metric: Metric) -> Binding:
    """Counters that would be in no sum: what they counted must not vanish."""
    said = f"there is nothing to go with {metric}; with `sum` of the others too, all are added up"
    return Binding(bound={}, text=_text(gate, {term: Term(term.function, metric)}), missing=printable(said))


def _text(gate: Gate, full: dict[Term, Term]) -> str:
    return str(replace(gate, left=_renamed(gate.left, full), right=_renamed(gate.right, full)))


def _renamed(node: Node, names: dict[Term, Term]) -> Node:
    if isinstance(node, Term):
        return names.get(node, node)
    if isinstance(node, Operation):
        return replace(node, left=_renamed(node.left, names), right=_renamed(node.right, names))
    return replace(node, inner=_renamed(node.inner, names)) if isinstance(node, Negated) else node


def _candidates(gate: Gate, term: Term, name: Metric, catalog: Catalog) -> list[Instrument]:
    kinds = FUNCTIONS.get(term.function, PERCENTILE_KINDS)
    named = catalog.named(name.name)
    if not named:
        raise Unknown(printable(_no_such(term, catalog.instruments, kinds)))
    fitting = [item for item in named if item.kind in kinds]
    wanted = " or ".join(_ARTICLES[kind] for kind in kinds)
    is_ = _ARTICLES[named[0].kind]
    if fitting and term.function in THROUGHPUTS:
        fitting = [item for item in fitting if catalog.paced(item)]
        wanted = f"the {words.LATENCY} or the {words.OUTPUT_TOKENS} of requests"
        is_ = "neither"
    if not fitting:
        said = f"`{term.function}` is of {wanted}, and `{name.name}` is {is_}"
        raise wrong(gate.text or str(gate), term.metric.span, f"{said}{_instead(term, named[0].kind)}")
    found = [item for item in fitting if item.has(name.labels)]
    if not found:
        raise Unknown(printable(_no_labels(name, fitting)))
    return found


def _sorted(labels: Iterable[tuple[str, str]]) -> Labels:
    return tuple(sorted(set(labels)))


def _free(name: Metric, item: Instrument) -> Labels:
    """Labels beside those that were given."""
    given = {key for key, _ in name.labels}
    return tuple(label for label in item.labels if label[0] not in given)


def _contradict(labels: Sequence[tuple[str, str]]) -> bool:
    """Whether one of them has more than one value."""
    return len(set(labels)) > len({key for key, _ in labels})


def _no_such(term: Term, instruments: Sequence[Instrument], kinds: Sequence[str]) -> str:
    names = sorted({item.name for item in instruments if item.kind in kinds})
    near = get_close_matches(term.metric.name, names, n=_SHOWN, cutoff=0.6)
    said = f"no {' or '.join(kinds)} is called {term.metric.name}"
    if near:
        return f"{said}; did you mean {' or '.join(near)}?"
    if not names:
        return f"{said}: the run has none"
    return f"{said}; there {'is' if len(names) == 1 else 'are'} {_some(names)}"


def _no_labels(name: Metric, fitting: Sequence[Instrument]) -> str:
    shown = _some([str(Metric(item.name, item.labels)) for item in fitting])
    return f"no {fitting[0].kind} is {name}; there {'is' if len(fitting) == 1 else 'are'} {shown}"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return f"{', '.join(names[:_SHOWN])}{more}"


def _instead(term: Term, kind: str) -> str:
    functions = [name for name, kinds in FUNCTIONS.items() if kind in kinds]
    functions = ["p99", *functions] if kind in PERCENTILE_KINDS else functions
    functions.sort(key=lambda name: name != _NEAREST.get(term.function))
    return f"; there is {', '.join(f'`{name}({term.metric})`' for name in functions[:_SHOWN])}"

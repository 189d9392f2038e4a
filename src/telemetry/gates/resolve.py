"""Names in a gate → the instruments of a run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Final, NamedTuple

from telemetry.funnel import issued_kind
from telemetry.gates.evidence import Instrument, Labels
from telemetry.gates.grammar import FUNCTIONS, PERCENTILE_KINDS, THROUGHPUTS
from telemetry.gates.sums import SUM, Apart, Sum, Summing, summed, with_labels
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
    """The gate as it was written, or with all labels where it is about several sets."""
    missing: str = ""
    """Why this set is not whole; empty if it is."""


def bindings(gate: Gate, instruments: Sequence[Instrument]) -> list[Binding]:
    """A gate whose metric is several instruments is about each of them. Where two metrics are, those belong
    together that have the same labels beside those given; what is one instrument belongs to all that its own don't
    contradict. A sum is of the counters that have the same labels as the others of a set, of those labels that tell
    its own apart.

    Raises Unknown for a name nobody has, UsageError for a function that is not of its kind.
    """
    candidates = {term: _candidates(gate, term, instruments) for term in gate.terms if term.function != SUM}
    several = {term: found for term, found in candidates.items() if len(found) > 1}
    one = {term: found[0] for term, found in candidates.items() if len(found) == 1}
    if not several and _contradict([_free(term, item) for term, item in one.items()]):
        several, one = candidates, {}
    places = {term: {_free(term, item): item for item in items} for term, items in several.items()}
    keys = list(dict.fromkeys(key for items in places.values() for key in items)) or [()]
    shared = [label for term, item in one.items() for label in _free(term, item)]
    wholes = [_labels([*shared, *key]) for key in keys]
    sums = {term: _summing(gate, term, wholes, instruments) for term in gate.terms if term.function == SUM}
    sets = zip(keys, wholes, strict=True)
    found = [_joined(gate, key, one, places, _Beside(sums, whole)) for key, whole in sets]
    lonely = [_lonely(gate, term, apart) for term, sum_ in sums.items() for apart in sum_.lonely()]
    if not several and not lonely:
        return [replace(found[0], text=gate.text or str(gate))]
    return found + lonely


def each(bound: Mapping[Term, Bound]) -> Iterator[Instrument]:
    """All instruments, those of sums one by one."""
    for item in bound.values():
        yield from item.counters if isinstance(item, Sum) else (item,)


def elsewhere(bound: Mapping[Term, Bound], instruments: Sequence[Instrument], what: str) -> dict[Term, Bound]:
    """The same instruments of another run, `what`; a sum is of all that it has there. Raises Unknown if it lacks
    one."""
    known = {(item.kind, item.name, item.labels): item for item in instruments}
    found: dict[Term, Bound] = {}
    for term, item in bound.items():
        if isinstance(item, Sum):
            other: Bound | None = summed(term.metric, item.apart, instruments)
            kind, metric = "counter", with_labels(term.metric, item.apart)
        else:
            other = known.get((item.kind, item.name, item.labels))
            kind, metric = item.kind, Metric(item.name, item.labels)
        if other is None:
            raise Unknown(f"{what} has no {kind} {metric}")
        found[term] = other
    return found


class _Beside(NamedTuple):
    """The sums of a gate, and the labels of a set of its other instruments."""

    sums: dict[Term, Summing]
    labels: Labels


def _joined(
    gate: Gate,
    key: Labels,
    one: dict[Term, Instrument],
    places: dict[Term, dict[Labels, Instrument]],
    beside: _Beside,
) -> Binding:
    bound: dict[Term, Bound] = {**one}
    missing = []
    full: dict[Term, Term] = {}
    clashing: dict[Term, dict[Labels, Instrument]] = {
        term: {} for term, item in one.items() if _contradict([_free(term, item), key])
    }
    for term, found in {**places, **clashing}.items():
        metric = Metric(term.metric.name, tuple(sorted({**dict(key), **dict(term.metric.labels)}.items())))
        full[term] = Term(term.function, metric)
        if key in found:
            bound[term] = found[key]
        else:
            missing.append(f"there is no {metric} to go with the others")
    for term, sum_ in beside.sums.items():
        metric = with_labels(term.metric, sum_.apart(beside.labels))
        full[term] = Term(term.function, metric)
        if added := sum_.beside(beside.labels):
            bound[term] = added
        else:
            missing.append(f"there is no {metric} to go with the others")
    return Binding(bound=bound, text=_text(gate, full), missing=printable("; ".join(missing)))


def _summing(gate: Gate, term: Term, others: Sequence[Labels], instruments: Sequence[Instrument]) -> Summing:
    """Raises Unknown and UsageError as for other functions."""
    if summed(term.metric, (), instruments) is None:
        _candidates(gate, term, instruments)
    return Summing(term.metric, others, instruments)


def _lonely(gate: Gate, term: Term, apart: Apart) -> Binding:
    """Counters that would be in no sum: what they counted must not vanish."""
    metric = with_labels(term.metric, apart)
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


def _candidates(gate: Gate, term: Term, instruments: Sequence[Instrument]) -> list[Instrument]:
    kinds = FUNCTIONS.get(term.function, PERCENTILE_KINDS)
    named = [item for item in instruments if item.name == term.metric.name]
    if not named:
        raise Unknown(printable(_no_such(term, instruments, kinds)))
    fitting = [item for item in named if item.kind in kinds]
    wanted = " or ".join(_ARTICLES[kind] for kind in kinds)
    is_ = _ARTICLES[named[0].kind]
    if fitting and term.function in THROUGHPUTS:
        fitting = [item for item in fitting if _paced(item, instruments)]
        wanted = f"the {words.LATENCY} or the {words.OUTPUT_TOKENS} of requests"
        is_ = "neither"
    if not fitting:
        said = f"`{term.function}` is of {wanted}, and `{term.metric.name}` is {is_}"
        raise wrong(gate.text or str(gate), term.metric.span, f"{said}{_instead(term, named[0].kind)}")
    labels = set(term.metric.labels)
    found = [item for item in fitting if labels <= set(item.labels)]
    if not found:
        raise Unknown(printable(_no_labels(term, fitting)))
    # A name given in full is that one, also where others have more labels.
    exactly = [item for item in found if set(item.labels) == labels]
    return exactly if labels and exactly else found


def _paced(series: Instrument, instruments: Iterable[Instrument]) -> bool:
    """Whether there are requests whose rates are told by it."""
    kind, _, word = series.name.rpartition(".")
    if word not in words.WITHIN or words.TURN in dict(series.labels):
        return False
    return any(item.kind == "counter" and issued_kind(item.name, item.unit) == kind for item in instruments)


def _labels(labels: Iterable[tuple[str, str]]) -> Labels:
    return tuple(sorted(set(labels)))


def _free(term: Term, item: Instrument) -> Labels:
    """Labels beside those that were given."""
    given = set(term.metric.labels)
    return tuple(label for label in item.labels if label not in given)


def _contradict(sets: Sequence[Labels]) -> bool:
    """Whether a label has more than one value in them."""
    labels = {label for one in sets for label in one}
    return len(labels) > len({key for key, _ in labels})


def _no_such(term: Term, instruments: Sequence[Instrument], kinds: Sequence[str]) -> str:
    names = sorted({item.name for item in instruments if item.kind in kinds})
    near = get_close_matches(term.metric.name, names, n=_SHOWN, cutoff=0.6)
    said = f"no {' or '.join(kinds)} is called {term.metric.name}"
    if near:
        return f"{said}; did you mean {' or '.join(near)}?"
    if not names:
        return f"{said}: the run has none"
    return f"{said}; there {'is' if len(names) == 1 else 'are'} {_some(names)}"


def _no_labels(term: Term, fitting: Sequence[Instrument]) -> str:
    shown = _some([str(Metric(item.name, item.labels)) for item in fitting])
    return f"no {fitting[0].kind} is {term.metric}; there {'is' if len(fitting) == 1 else 'are'} {shown}"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return f"{', '.join(names[:_SHOWN])}{more}"


def _instead(term: Term, kind: str) -> str:
    functions = [name for name, kinds in FUNCTIONS.items() if kind in kinds]
    functions = ["p99", *functions] if kind in PERCENTILE_KINDS else functions
    functions.sort(key=lambda name: name != _NEAREST.get(term.function))
    return f"; there is {', '.join(f'`{name}({term.metric})`' for name in functions[:_SHOWN])}"

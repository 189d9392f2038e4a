"""Names in a gate → the instruments of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Final

from telemetry.gates.evidence import Instrument, Labels
from telemetry.gates.grammar import FUNCTIONS, PERCENTILE_KINDS
from telemetry.gates.tokens import wrong
from telemetry.gates.tree import Gate, Metric, Negated, Node, Operation, Term
from telemetry.gates.value import Unknown
from telemetry.humane import printable

_ARTICLES: Final = {"series": "a series", "counter": "a counter", "gauge": "a gauge"}
_SHOWN: Final = 3


@dataclass(frozen=True, kw_only=True)
class Binding:
    """One set of instruments that a gate is about."""

    bound: dict[Term, Instrument]
    text: str
    """The gate as it was written, or with all labels where it is about several sets."""
    missing: str = ""
    """Why this set is not whole; empty if it is."""


def bindings(gate: Gate, instruments: Sequence[Instrument]) -> list[Binding]:
    """A gate whose metric is several instruments is about each of them. Where two metrics are, those belong
    together that have the same labels beside those given; what is one instrument belongs to all that its own don't
    contradict.

    Raises Unknown for a name nobody has, UsageError for a function that is not of its kind.
    """
    candidates = {term: _candidates(gate, term, instruments) for term in gate.terms}
    several = {term: found for term, found in candidates.items() if len(found) > 1}
    one = {term: found[0] for term, found in candidates.items() if len(found) == 1}
    if not several and _contradict([_free(term, item) for term, item in one.items()]):
        several, one = candidates, {}
    if not several:
        return [Binding(bound=one, text=gate.text or str(gate))]
    places = {term: {_free(term, item): item for item in found} for term, found in several.items()}
    keys = list(dict.fromkeys(key for found in places.values() for key in found))
    return [_joined(gate, key, one, places) for key in keys]


def elsewhere(
    bound: dict[Term, Instrument], instruments: Sequence[Instrument], what: str
) -> dict[Term, Instrument]:
    """The same instruments of another run, `what`. Raises Unknown if it lacks one."""
    known = {(item.kind, item.name, item.labels): item for item in instruments}
    found = {}
    for term, item in bound.items():
        other = known.get((item.kind, item.name, item.labels))
        if other is None:
            raise Unknown(f"{what} has no {item.kind} {Metric(item.name, item.labels)}")
        found[term] = other
    return found


def _joined(
    gate: Gate, key: Labels, one: dict[Term, Instrument], places: dict[Term, dict[Labels, Instrument]]
) -> Binding:
    bound, missing = dict(one), []
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
    left, right = _renamed(gate.left, full), _renamed(gate.right, full)
    text = str(replace(gate, left=left, right=right))
    return Binding(bound=bound, text=text, missing=printable("; ".join(missing)))


def _renamed(node: Node, names: dict[Term, Term]) -> Node:
    if isinstance(node, Term):
        return names.get(node, node)
    if isinstance(node, Operation):
        return replace(node, left=_renamed(node.left, names), right=_renamed(node.right, names))
    return replace(node, inner=_renamed(node.inner, names)) if isinstance(node, Negated) else node


def _candidates(gate: Gate, term: Term, instruments: Sequence[Instrument]) -> list[Instrument]:
    kinds = PERCENTILE_KINDS if term.percentile else FUNCTIONS[term.function]
    named = [item for item in instruments if item.name == term.metric.name]
    if not named:
        raise Unknown(printable(_no_such(term, instruments, kinds)))
    fitting = [item for item in named if item.kind in kinds]
    if not fitting:
        wanted = " or ".join(_ARTICLES[kind] for kind in kinds)
        said = f"`{term.function}` is of {wanted}, and `{term.metric.name}` is {_ARTICLES[named[0].kind]}"
        raise wrong(gate.text or str(gate), term.metric.span, f"{said}{_instead(named[0].kind, term.metric)}")
    labels = set(term.metric.labels)
    found = [item for item in fitting if labels <= set(item.labels)]
    if not found:
        raise Unknown(printable(_no_labels(term, fitting)))
    # A name given in full is that one, also where others have more labels.
    exactly = [item for item in found if set(item.labels) == labels]
    return exactly if labels and exactly else found


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


def _instead(kind: str, metric: Metric) -> str:
    functions = [name for name, kinds in FUNCTIONS.items() if kind in kinds]
    functions = ["p99", *functions] if kind in PERCENTILE_KINDS else functions
    return f"; there is {', '.join(f'`{name}({metric})`' for name in functions[:_SHOWN])}"

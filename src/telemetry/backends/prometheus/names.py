"""Names of instruments, labels and units in Prometheus. Pure.

Names end with their unit, as Prometheus recommends: `latency` in ms becomes `latency_seconds`, with values in
seconds. Invalid characters become `_`. Two instruments never share a name. A second instrument that would get a
used name, and a name with letters beyond ASCII, are escaped by the rules of Prometheus for UTF-8 names (`U__`,
escaping `values`). A suffix that means another kind of metric gets a word behind it: the gauge `process.count`
becomes `process_count_value`. A namespace, if there is one, stands before each name: `NAMESPACE_latency_seconds`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from functools import lru_cache
from itertools import count
from typing import Final, NamedTuple

from telemetry.wire.events import Kind
from telemetry.wire.units import BYTES, TIME_NS

OWN: Final = "telemetry_"
"""Prefix of metrics about the run itself. Names of instruments never begin with it."""
_WRITTEN_OUT: Final = "U__"
_SUFFIXES: Final[dict[Kind, tuple[str, ...]]] = {
    "counter": ("", "_total", "_created"),
    "gauge": ("",),
    "series": ("", "_bucket", "_sum", "_count", "_created", "_percentile", "_min", "_max"),
}
"""Kind → suffixes of the names that an instrument uses."""
_OF_OTHER_KINDS: Final[dict[Kind, tuple[str, ...]]] = {
    "counter": (),  # their names end with `_total`
    "gauge": ("_total", "_bucket", "_sum", "_count"),
    "series": ("_total",),
}
"""Kind → suffixes that Prometheus keeps for metrics of another kind."""
_NAMESPACE: Final = re.compile(r"(?!telemetry(_|$)|U__)[A-Za-z_][A-Za-z0-9_]{0,99}")
_LABEL: Final = re.compile(r"(?!__|U__)[A-Za-z_][A-Za-z0-9_]*")
_RESERVED_LABELS: Final = frozenset({"le", "percentile", "quantile"})
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_]")
_CONTESTED_KEPT: Final = 1_000  # entries kept in a checkpoint; the names of a run with more are unreadable anyway
_REMEMBERED: Final = 1 << 14


class PrometheusUnit(NamedTuple):
    word: str
    """Suffix of the name, and OpenMetrics' unit; empty for none."""
    scale: Fraction
    """Factor from values to this unit."""


class NameClaim(NamedTuple):
    """The owner of a contested name, or an instrument that did not get its preferred name."""

    kind: Kind
    name: str
    family: str


class Names:
    """The names of instruments, fixed for the lifetime of this object. Use it from one thread at a time."""

    def __init__(self, claims: Iterable[NameClaim] = (), namespace: str = "") -> None:
        """Start with the `claims` of the previous process, which used the same namespace."""
        self.namespace = namespace
        self._families: dict[tuple[Kind, str], str] = {}
        self._owners: dict[str, tuple[Kind, str]] = {}
        self._contested: dict[tuple[Kind, str], None] = {}
        for claim in claims:
            self._take((claim.kind, claim.name), claim.family)
            self._contested[claim.kind, claim.name] = None

    def family(self, kind: Kind, name: str, unit: PrometheusUnit) -> str:
        """Return an instrument's name, without sample suffixes such as `_total`."""
        who = (kind, name)
        existing = self._families.get(who)
        if existing is not None:
            return existing
        for family in _wanted(kind, name, unit.word, self.namespace):
            rivals = self._rivals(kind, family)
            if not rivals:
                self._take(who, family)
                return family
            self._contested.update(dict.fromkeys([who, *rivals]))
        raise AssertionError("there is always one more name")

    def unit_of(self, name: str, unit: str) -> PrometheusUnit:
        """Return the base unit of an instrument.

        In a namespace, a name that ends with its unit stays as it is, with values in this unit: `step_latency_ms`.
        """
        is_named = self.namespace and unit and name.endswith((f"_{unit}", f".{unit}"))
        return unit_of("" if is_named else unit)

    def claims(self) -> list[NameClaim]:
        """Return the data that lets the next process choose the same names."""
        contested = [who for who in self._contested if who in self._families]
        return [NameClaim(*who, self._families[who]) for who in contested[:_CONTESTED_KEPT]]

    def _rivals(self, kind: Kind, family: str) -> list[tuple[Kind, str]]:
        taken = (f"{family}{suffix}" for suffix in _SUFFIXES[kind])
        return [self._owners[name] for name in taken if name in self._owners]

    def _take(self, who: tuple[Kind, str], family: str) -> None:
        self._families[who] = family
        self._owners.update({f"{family}{suffix}": who for suffix in _SUFFIXES[who[0]]})


def is_namespace(text: str) -> bool:
    """Return whether names of instruments may begin with this text."""
    return _NAMESPACE.fullmatch(text) is not None


@lru_cache(_REMEMBERED)
def label(key: str) -> str:
    """Return the name of a label. Different labels stay different, and reserved names are avoided."""
    if _LABEL.fullmatch(key) and key not in _RESERVED_LABELS:
        return key
    return _WRITTEN_OUT + _values(key)


def labels(instrument_labels: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return labels sorted by name."""
    return tuple(sorted((label(key), value) for key, value in instrument_labels.items()))


@lru_cache(_REMEMBERED)
def unit_of(unit: str) -> PrometheusUnit:
    """Return the base unit: seconds, bytes or ratios. An unknown unit keeps its own word."""
    above, *below = unit.split("/")
    word, scale = _base(above)
    for part in below:
        under, divisor = _base(part)
        word += f"_per_{under.removesuffix('s')}"
        scale /= divisor
    return PrometheusUnit(word.strip("_") if below else word, scale)


def _base(unit: str) -> tuple[str, Fraction]:
    if unit in TIME_NS:
        return "seconds", Fraction(TIME_NS[unit], TIME_NS["s"])
    if unit in BYTES:
        return "bytes", Fraction(BYTES[unit])
    if unit in _KNOWN:
        return _KNOWN[unit]
    word = _NOT_IN_NAMES.sub("_", unit).strip("_") if unit.isascii() else ""
    return word, Fraction(1)


_KNOWN: Final[dict[str, tuple[str, Fraction]]] = {
    "": ("", Fraction(1)),
    "1": ("", Fraction(1)),
    "B": ("bytes", Fraction(1)),
    "bit": ("bits", Fraction(1)),
    "%": ("ratio", Fraction(1, 100)),
    "percent": ("ratio", Fraction(1, 100)),
    "K": ("kelvin", Fraction(1)),
    "C": ("celsius", Fraction(1)),
    "°C": ("celsius", Fraction(1)),
    "W": ("watts", Fraction(1)),
    "J": ("joules", Fraction(1)),
    "V": ("volts", Fraction(1)),
    "A": ("amperes", Fraction(1)),
    "m": ("meters", Fraction(1)),
    "g": ("grams", Fraction(1)),
    "Hz": ("hertz", Fraction(1)),
}


def _wanted(kind: Kind, name: str, unit: str, namespace: str) -> Iterator[str]:
    """Yield candidate names, the most readable first."""
    if namespace:
        name = f"{namespace}_{name}"
    if name.isascii():
        nice = _NOT_IN_NAMES.sub("_", name)
        nice = f"_{nice}" if nice[:1].isdigit() else nice
        nice = _with_unit((nice.removesuffix("_total") or nice) if kind == "counter" else nice, unit)
        if not namespace and nice.endswith(
            _OF_OTHER_KINDS[kind]
        ):  # dashboards that need a namespace know the names
            nice += "_value"
        if not nice.startswith((OWN, _WRITTEN_OUT)):
            yield nice
    exact = _WRITTEN_OUT + _values(name) + (f"_{unit}" if unit else "")
    yield exact
    yield from (f"{exact}_{kind}_{number}" for number in count(1))


def _with_unit(name: str, unit: str) -> str:
    return name if not unit or name == unit or name.endswith(f"_{unit}") else f"{name}_{unit}"


def _values(name: str) -> str:
    """Double each `_`, and replace an invalid character by its hexadecimal number between two `_`."""
    return "".join(
        "__" if char == "_" else char if _fits(char, at) else f"_{ord(char):x}_" for at, char in enumerate(name)
    )


def _fits(char: str, at: int) -> bool:
    return char.isascii() and (char.isalpha() or (char.isdigit() and at > 0))

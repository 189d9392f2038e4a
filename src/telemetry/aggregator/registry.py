"""Which instruments exist: (name, labels) → route. A name has one kind and one unit, whatever its labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, ClassVar, Final, NamedTuple

import msgspec

from telemetry import limits
from telemetry.aggregator.routes import CONFLICT, INDEX_BITS, INVALID, UNKNOWN, route
from telemetry.errors import InstrumentError
from telemetry.wire.control import SeriesKey
from telemetry.wire.events import KINDS, Kind

OVERFLOW: Final = "overflow"
"""The instrument of each kind that stands for all beyond the cap. A definition of this name means it, too."""
_MOST: Final = (1 << INDEX_BITS) - 1  # one less than the indices of a route: the last is for overflow
_DISTINCT_COUNTED: Final = 50_000  # names beyond the cap that are told apart: 6 MB of hashes


class Bounds(NamedTuple):
    """How a series counts. Nothing to counters and gauges."""

    digits: int = 3
    low: float | None = None
    high: float | None = None


Add = Callable[[str, dict[str, str], str, Bounds], int]
"""(name, labels, unit, bounds) → the index of a new instrument among its kind, dense from 0.
Raises InstrumentError for bounds that can't be."""


@dataclass(frozen=True, slots=True)
class Instrument:
    kind: Kind
    index: int
    name: str
    labels: dict[str, str]
    unit: str


class Name(NamedTuple):
    """What all instruments of a name have in common."""

    kind: Kind
    unit: str
    indices: list[int]


class DefinedInstrument(NamedTuple):
    """An instrument as it was first asked for."""

    name: str
    labels: dict[str, str]
    unit: str
    bounds: Bounds


_Key = tuple[str, tuple[tuple[str, str], ...]]
_DEFAULT: Final = Bounds()


class Registry:
    """Bounded: `cap` instruments of each kind, INSTRUMENT_CHARS of all, and the overflow instruments."""

    STATE: ClassVar[Mapping[str, Any]] = {
        "listed": dict[Kind, list[DefinedInstrument]],
        "_beyond": dict[Kind, dict[int, None]],
    }
    DERIVED: ClassVar[tuple[str, ...]] = (
        *("_add_to", "_cap", "_chars_left", "_warn", "_routes", "_bounds", "_overflow_routes"),
        *("names", "instruments"),
    )

    def __init__(self, add: Mapping[Kind, Add], cap: int, warn: Callable[[str], None]) -> None:
        self._add_to = add
        self._cap = min(cap, _MOST)
        self._chars_left = limits.INSTRUMENT_CHARS
        self._warn = warn
        self._routes: dict[_Key, int] = {}
        self._bounds: dict[int, Bounds] = {}
        self._overflow_routes: dict[Kind, int] = {}
        self._beyond: dict[Kind, dict[int, None]] = {}
        """Hashes of the instruments that found no room."""
        self.names: dict[str, Name] = {}
        self.instruments: dict[Kind, list[Instrument]] = {kind: [] for kind in KINDS}

    def resolve(self, kind: Kind, name: str, labels: dict[str, str], unit: str, bounds: Bounds = _DEFAULT) -> int:
        """The route of the instrument, made if it is new; CONFLICT or INVALID if it can't be."""
        if name == OVERFLOW:
            return self._overflow(kind)
        known = self.names.get(name)
        if known is not None and (known.kind != kind or known.unit != unit):
            self._warn(
                f"{kind} {name!r} in {unit or 'no unit'} contradicts the {known.kind} of that name "
                f"in {known.unit or 'no unit'}: its events are dropped"
            )
            return CONFLICT
        key = _key(name, labels)
        found = self._routes.get(key)
        if found is not None:
            self._compare_bounds(found, name, bounds)
            return found
        shortage = self._shortage(kind, name, labels)
        if shortage:
            return self._put_beyond(kind, key, shortage)
        try:
            return self._create(kind, name, labels, unit, bounds)
        except InstrumentError as error:
            self._warn(f"{error}; its events are dropped")
            return INVALID

    def find(self, kind: Kind, name: str, labels: dict[str, str], unit: str) -> int:
        """The route `resolve` gave for the same arguments, without making anything."""
        known = self.names.get(name)
        if known is not None and (known.kind != kind or known.unit != unit):
            return CONFLICT
        found = self._routes.get(_key(name, labels))
        return self._overflow_routes.get(kind, UNKNOWN) if found is None else found

    def series(self, name: str, labels: dict[str, str]) -> int | None:
        """The index of the series, None if there is none that is not `overflow`."""
        found = self._routes.get(_key(name, labels))
        return found if found is not None and found < route("counter", 0) else None

    @property
    def listed(self) -> dict[Kind, list[DefinedInstrument]]:
        """All instruments by index. Once, a new registry can be given them, and adds them as it did."""
        return {
            kind: [
                DefinedInstrument(
                    item.name, item.labels, item.unit, self._bounds.get(route(kind, item.index), _DEFAULT)
                )
                for item in instruments
            ]
            for kind, instruments in self.instruments.items()
        }

    @listed.setter
    def listed(self, listed: dict[Kind, list[DefinedInstrument]]) -> None:
        for kind, items in listed.items():
            for index, item in enumerate(items):
                self.resolve(kind, *item)
                made = self.instruments[kind]
                if len(made) != index + 1 or made[index].name != item.name:
                    raise ValueError(f"{kind} {item.name!r} can't be number {index}")

    @property
    def overflow(self) -> dict[Kind, int]:
        """Distinct instruments beyond the cap, by kind; counted up to a bound."""
        return {kind: len(hashes) for kind, hashes in self._beyond.items()}

    def keys(self) -> list[SeriesKey]:
        """Counters and gauges; the series' own keys know their ticks."""
        return [
            SeriesKey(index=item.index, name=item.name, kind=item.kind, unit=item.unit, labels=item.labels)
            for kind in KINDS
            if kind != "series"
            for item in self.instruments[kind]
        ]

    def _shortage(self, kind: Kind, name: str, labels: dict[str, str]) -> str:
        """Why there is no room for one more; empty if there is."""
        if len(self.instruments[kind]) - (kind in self._overflow_routes) >= self._cap:
            return f"more than {self._cap:,} instruments of kind {kind}"
        return (
            ""
            if _chars(name, labels) <= self._chars_left
            else "the names and labels of all instruments are too long"
        )

    def _create(self, kind: Kind, name: str, labels: dict[str, str], unit: str, bounds: Bounds) -> int:
        made = self._add(kind, name, labels, unit, bounds)
        self._chars_left -= _chars(name, labels)
        self._routes[_key(name, labels)] = made
        if bounds != _DEFAULT:
            self._bounds[made] = bounds
        index = self.instruments[kind][-1].index
        self.names.setdefault(name, Name(kind, unit, [])).indices.append(index)
        return made

    def _add(self, kind: Kind, name: str, labels: dict[str, str], unit: str, bounds: Bounds) -> int:
        index = self._add_to[kind](name, labels, unit, bounds)
        self.instruments[kind].append(Instrument(kind, index, name, labels, unit))
        return route(kind, index)

    def _overflow(self, kind: Kind) -> int:
        if kind not in self._overflow_routes:
            self._overflow_routes[kind] = self._add(kind, OVERFLOW, {}, "", _DEFAULT)
        return self._overflow_routes[kind]

    def _put_beyond(self, kind: Kind, key: _Key, why: str) -> int:
        hashes = self._beyond.setdefault(kind, {})
        if len(hashes) < _DISTINCT_COUNTED:
            hashes[_stable_hash(key)] = None
        self._warn(f"{why}: the rest is counted in {OVERFLOW!r}")
        return self._overflow(kind)

    def _compare_bounds(self, found: int, name: str, bounds: Bounds) -> None:
        """Events without bounds of their own, self-describing ones, agree with any."""
        if bounds not in (_DEFAULT, self._bounds.get(found, _DEFAULT)):
            self._warn(f"series {name!r} was defined before with other digits or bounds, which stay")


def _stable_hash(key: _Key) -> int:
    """64 bits, the same in every process."""
    return int.from_bytes(blake2b(msgspec.msgpack.encode(key), digest_size=8).digest(), "little")


def _chars(name: str, labels: dict[str, str]) -> int:
    return len(name) + sum(len(label) + len(value) for label, value in labels.items())


def _key(name: str, labels: dict[str, str]) -> _Key:
    return name, tuple(sorted(labels.items())) if labels else ()

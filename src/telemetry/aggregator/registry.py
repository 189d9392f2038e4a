"""Registry of instruments: (name, labels) → route. All instruments of a name share one kind and one unit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, ClassVar, Final, NamedTuple

import msgspec

from telemetry import limits
from telemetry.aggregator.rows import CONFLICT, INDEX_BITS, INVALID, UNKNOWN, route
from telemetry.errors import InstrumentError
from telemetry.wire.control import SeriesKey
from telemetry.wire.events import KINDS, Kind

OVERFLOW: Final = "overflow"
"""Name of the instrument of each kind that stands for all beyond the cap. A definition may also use it."""
_MOST: Final = (1 << INDEX_BITS) - 1  # one less than the indices of a route: the last is for overflow
_DISTINCT_COUNTED: Final = 50_000  # distinct names beyond the cap that are counted: 6 MB of hashes


class InstrumentBounds(NamedTuple):
    """Precision and range of a series. Ignored for counters and gauges."""

    digits: int = limits.DIGITS
    low: float | None = None
    high: float | None = None


Add = Callable[[str, dict[str, str], str, InstrumentBounds], int]
"""Function (name, labels, unit, bounds) → index of a new instrument among its kind, dense from 0.

Raises InstrumentError for invalid bounds.
"""


@dataclass(frozen=True, slots=True)
class RegisteredInstrument:
    kind: Kind
    index: int
    name: str
    labels: dict[str, str]
    unit: str
    is_beside: bool = False
    """True if it takes no part of the cap."""


class Name(NamedTuple):
    """Properties shared by all instruments of a name."""

    kind: Kind
    unit: str
    indices: list[int]


class DefinedInstrument(NamedTuple):
    """An instrument as it was first defined."""

    name: str
    labels: dict[str, str]
    unit: str
    bounds: InstrumentBounds
    is_beside: bool = False


_Key = tuple[str, tuple[tuple[str, str], ...]]
_DEFAULT: Final = InstrumentBounds()


class Registry:
    """Bounded registry of instruments.

    It holds `cap` instruments of each kind, INSTRUMENT_CHARS in total, plus the overflow instruments.
    """

    STATE: ClassVar[Mapping[str, Any]] = {
        "listed": dict[Kind, list[DefinedInstrument]],
        "_beyond": dict[Kind, dict[int, None]],
    }
    DERIVED: ClassVar[tuple[str, ...]] = (
        *("_add_to", "_cap", "_chars_left", "_warn", "_routes", "_bounds", "_overflow_routes", "_beside"),
        *("names", "instruments"),
    )

    def __init__(self, add: Mapping[Kind, Add], cap: int, warn: Callable[[str], None]) -> None:
        self._add_to = add
        self._cap = min(cap, _MOST)
        self._chars_left = limits.INSTRUMENT_CHARS
        self._warn = warn
        self._routes: dict[_Key, int] = {}
        self._bounds: dict[int, InstrumentBounds] = {}
        self._overflow_routes: dict[Kind, int] = {}
        self._beside = 0
        """Number of gauges that take no part of the cap."""
        self._beyond: dict[Kind, dict[int, None]] = {}
        """Hashes of the instruments beyond the cap."""
        self.names: dict[str, Name] = {}
        self.instruments: dict[Kind, list[RegisteredInstrument]] = {kind: [] for kind in KINDS}

    def resolve(
        self, kind: Kind, name: str, labels: dict[str, str], unit: str, bounds: InstrumentBounds = _DEFAULT
    ) -> int:
        """Return the route (number) of an instrument; create the instrument if it is new.

        Return CONFLICT or INVALID if that is not possible.
        """
        if name == OVERFLOW:
            return self._overflow(kind)
        if self.conflicts(kind, name, unit):
            return CONFLICT
        key = _key(name, labels)
        number = self._routes.get(key)
        if number is not None:
            self._compare_bounds(number, name, bounds)
            return number
        shortage = self._shortage(kind, name, labels)
        if shortage:
            return self._put_beyond(kind, key, shortage)
        try:
            return self._create(kind, name, labels, unit, bounds)
        except InstrumentError as error:
            self._warn(f"{error}; its events are dropped")
            return INVALID

    def conflicts(self, kind: Kind, name: str, unit: str) -> bool:
        """Return whether instruments of this name have another kind or unit. Warn if so."""
        existing = self.names.get(name)
        if existing is None or (existing.kind == kind and existing.unit == unit):
            return False
        self._warn(
            f"{kind} {name!r} in {unit or 'no unit'} conflicts with the existing {existing.kind} "
            f"of that name in {existing.unit or 'no unit'}: its events are dropped"
        )
        return True

    def beside(self, name: str, labels: dict[str, str], unit: str) -> int:
        """Return the index of a gauge that takes no part of the cap; create it if it is new.

        The caller bounds the number of such gauges.
        """
        number = self._routes.get(_key(name, labels))
        if number is None:
            number = self._create("gauge", name, labels, unit, _DEFAULT, is_beside=True)
        return number - route("gauge", 0)

    def find(self, kind: Kind, name: str, labels: dict[str, str], unit: str) -> int:
        """Return the route that `resolve` gave for the same arguments, without making an instrument."""
        existing = self.names.get(name)
        if existing is not None and (existing.kind != kind or existing.unit != unit):
            return CONFLICT
        number = self._routes.get(_key(name, labels))
        return self._overflow_routes.get(kind, UNKNOWN) if number is None else number

    def series(self, name: str, labels: dict[str, str]) -> int | None:
        """Return the index of a series, or None if it does not exist or counts in `overflow`."""
        number = self._routes.get(_key(name, labels))
        return number if number is not None and number < route("counter", 0) else None

    @property
    def listed(self) -> dict[Kind, list[DefinedInstrument]]:
        """The instruments by index. A new registry can be assigned these once, and adds them in the same way."""
        return {
            kind: [
                DefinedInstrument(
                    item.name,
                    item.labels,
                    item.unit,
                    self._bounds.get(route(kind, item.index), _DEFAULT),
                    item.is_beside,
                )
                for item in instruments
            ]
            for kind, instruments in self.instruments.items()
        }

    @listed.setter
    def listed(self, listed: dict[Kind, list[DefinedInstrument]]) -> None:
        for kind, items in listed.items():
            for index, item in enumerate(items):
                if item.is_beside and kind == "gauge":
                    self.beside(item.name, item.labels, item.unit)
                else:
                    self.resolve(kind, item.name, item.labels, item.unit, item.bounds)
                instruments = self.instruments[kind]
                if len(instruments) != index + 1 or instruments[index].name != item.name:
                    raise ValueError(f"{kind} {item.name!r} can't be number {index}")

    @property
    def overflow(self) -> dict[Kind, int]:
        """Number of distinct instruments beyond the cap, by kind. Counted up to a limit."""
        return {kind: len(hashes) for kind, hashes in self._beyond.items()}

    def keys(self) -> list[SeriesKey]:
        """Return the keys of counters and gauges. Series have their own keys, which include ticks."""
        return [
            SeriesKey(index=item.index, name=item.name, kind=item.kind, unit=item.unit, labels=item.labels)
            for kind in KINDS
            if kind != "series"
            for item in self.instruments[kind]
        ]

    def _shortage(self, kind: Kind, name: str, labels: dict[str, str]) -> str:
        """Return why there is no room for another instrument; empty if there is."""
        beside = self._beside if kind == "gauge" else 0
        if len(self.instruments[kind]) - (kind in self._overflow_routes) - beside >= self._cap:
            return f"more than {self._cap:,} instruments of kind {kind}"
        return (
            ""
            if _chars(name, labels) <= self._chars_left
            else "the names and labels of all instruments are too long"
        )

    def _create(
        self,
        kind: Kind,
        name: str,
        labels: dict[str, str],
        unit: str,
        bounds: InstrumentBounds,
        *,
        is_beside: bool = False,
    ) -> int:
        number = self._add(kind, name, labels, unit, bounds, is_beside=is_beside)
        if is_beside:
            self._beside += 1
        else:
            self._chars_left -= _chars(name, labels)
        self._routes[_key(name, labels)] = number
        if bounds != _DEFAULT:
            self._bounds[number] = bounds
        index = self.instruments[kind][-1].index
        self.names.setdefault(name, Name(kind, unit, [])).indices.append(index)
        return number

    def _add(
        self,
        kind: Kind,
        name: str,
        labels: dict[str, str],
        unit: str,
        bounds: InstrumentBounds,
        *,
        is_beside: bool = False,
    ) -> int:
        index = self._add_to[kind](name, labels, unit, bounds)
        self.instruments[kind].append(RegisteredInstrument(kind, index, name, labels, unit, is_beside))
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

    def _compare_bounds(self, number: int, name: str, bounds: InstrumentBounds) -> None:
        """Warn if a series is defined again with other bounds. Events without bounds match any."""
        if bounds not in (_DEFAULT, self._bounds.get(number, _DEFAULT)):
            self._warn(
                f"series {name!r} was defined before with other digits or bounds; the first definition is used"
            )


def _stable_hash(key: _Key) -> int:
    """Return a hash of 64 bits that is the same in every process."""
    return int.from_bytes(blake2b(msgspec.msgpack.encode(key), digest_size=8).digest(), "little")


def _chars(name: str, labels: dict[str, str]) -> int:
    return len(name) + sum(len(label) + len(value) for label, value in labels.items())


def _key(name: str, labels: dict[str, str]) -> _Key:
    return name, tuple(sorted(labels.items())) if labels else ()

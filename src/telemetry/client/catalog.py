"""Instruments of this process. Each is checked and defined once."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Final, SupportsFloat, cast

import msgspec

from telemetry import limits
from telemetry.client import user_warnings
from telemetry.client.instruments import Counter, Gauge, Instrument, Series
from telemetry.client.recorders import Recorders
from telemetry.client.signal_safe import HitCounter
from telemetry.errors import InstrumentError
from telemetry.wire.events import KINDS, Define, Kind

NO_ID: Final = -1.0
"""Row id of instruments beyond the limit."""
_ENCODE: Final = msgspec.msgpack.Encoder().encode

Key = tuple[str, str, tuple[tuple[str, str], ...]]


class Catalog:
    """Registry of instruments. Thread-safe. `definitions` only grows; a position in it is a row id."""

    def __init__(self, recorders: Recorders, unencodable: HitCounter) -> None:
        self.lock = threading.Lock()
        self.definitions: list[bytes] = []
        """Encoded `define` records."""
        self._unencodable = unencodable
        self._recorders = recorders
        self._instruments: dict[Key, Instrument] = {}
        self._meanings: dict[str, tuple[str, str]] = {}
        self._warned = False

    def instrument(
        self,
        kind: str,
        name: str,
        unit: str = "",
        labels: Mapping[str, object] | None = None,
        *,
        digits: int = limits.DIGITS,
        low: float | None = None,
        high: float | None = None,
    ) -> Instrument:
        """Return the instrument of this kind, name and labels.

        Raises InstrumentError if it is invalid or conflicts.
        """
        checked = _checked(kind, name, unit, labels or {}, digits=digits, low=low, high=high)
        key: Key = (checked.kind, checked.name, tuple(sorted(checked.labels.items())))
        with self.lock:
            existing = self._instruments.get(key)
            if existing is not None:
                _check_same(existing.definition, checked)
                return existing
            meaning = (checked.kind, checked.unit)
            _check_meaning(checked.name, self._meanings.get(checked.name, meaning), meaning)
            instrument = self._make(msgspec.structs.replace(checked, id=len(self.definitions)))
            if _has_id(instrument):
                self._meanings[checked.name] = meaning
                self._instruments[key] = instrument
            return instrument

    def reserve(self, meanings: Mapping[str, tuple[Kind, str]]) -> None:
        """Reserve names for these kinds and units.

        Reserves all of them, or raises InstrumentError and reserves no name.
        """
        with self.lock:
            for name, (kind, unit) in meanings.items():
                check_text("a name", name, limits.NAME_CHARS)
                _check_meaning(name, self._meanings.get(name, (kind, unit)), (kind, unit))
            self._meanings.update(meanings)

    def row_id(self, kind: Kind, name: str, unit: str, labels: Mapping[str, str], *, within: str) -> float:
        """Return the row id of an instrument, and make the instrument if needed. Return NO_ID beyond the limit.

        The arguments have been checked.
        """
        key: Key = (kind, name, tuple(sorted(labels.items())))
        with self.lock:
            instrument = self._instruments.get(key)
            if instrument is None:
                definition = Define(len(self.definitions), name, kind, unit, dict(labels), within=within)
                instrument = self._make(definition)
                if not _has_id(instrument):
                    return NO_ID
                self._instruments[key] = instrument
        return float(instrument.definition.id)

    def _make(self, definition: Define) -> Instrument:
        """Make an instrument. Its definition is queued before any event can use its id."""
        if definition.id >= limits.PRODUCER_IDS:
            return self._make_without_id(definition)
        encoded = _ENCODE(definition)
        self._recorders.memory.define(encoded)
        self.definitions.append(encoded)
        row_id = float(definition.id)
        if definition.kind == "counter":
            return Counter(definition, self._recorders.add(row_id))
        record = self._recorders.record(row_id)
        return Gauge(definition, record) if definition.kind == "gauge" else Series(definition, record)

    def _make_without_id(self, definition: Define) -> Instrument:
        """Make an instrument whose events are dropped and counted.

        Unbounded labels must not stop a program hours into its run.
        """
        if not self._warned:
            self._warned = True
            user_warnings.warn(
                f"more than {limits.PRODUCER_IDS:,} instruments in one process; events of "
                f"{definition.name!r} and later ones are dropped. Labels should have a limited "
                "number of values"
            )
        hit = self._unencodable.hit

        def record(value: SupportsFloat, at_ns: int | None = None) -> None:
            hit()

        def add(n: SupportsFloat = 1, at_ns: int | None = None) -> None:
            hit()

        if definition.kind == "counter":
            return Counter(definition, add)
        return Gauge(definition, record) if definition.kind == "gauge" else Series(definition, record)


def _has_id(instrument: Instrument) -> bool:
    """Check that an instrument has an id. Only such instruments are stored; the number of others is unbounded."""
    return instrument.definition.id < limits.PRODUCER_IDS


def _checked(
    kind: str,
    name: str,
    unit: str,
    labels: Mapping[str, object],
    *,
    digits: int,
    low: float | None,
    high: float | None,
) -> Define:
    """Return a definition without an id. Raise InstrumentError."""
    if kind not in KINDS:
        raise InstrumentError(f"{kind!r} is not a kind of instrument", hint=f"use one of {', '.join(KINDS)}")
    check_text("a name", name, limits.NAME_CHARS)
    check_text("a unit", unit, limits.UNIT_CHARS, may_be_empty=True)
    if not isinstance(digits, int) or not 1 <= digits <= 5:
        raise InstrumentError(f"{name!r}: digits is {digits!r}, must be from 1 to 5")
    return Define(
        id=0,
        name=name,
        kind=kind,
        unit=unit,
        labels=checked_labels(name, labels),
        digits=int(digits),
        low=_checked_bound(name, "low", low),
        high=_checked_high(name, low, high),
    )


def check_text(what: str, text: object, max_chars: int, *, may_be_empty: bool = False) -> None:
    """Raise InstrumentError unless `text` is a string that is valid on the wire."""
    if not isinstance(text, str):
        raise InstrumentError(f"{what} must be a string, not {type(text).__name__}")
    if not text and not may_be_empty:
        raise InstrumentError(f"{what} must not be empty")
    if len(text) > max_chars:
        raise InstrumentError(f"{what} is longer than {max_chars} characters: {text[:20]!r}… has {len(text)}")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InstrumentError(f"{what} must be valid Unicode, got {text!r}") from None


def _check_meaning(name: str, existing: tuple[str, str], new: tuple[str, str]) -> None:
    if existing[0] != new[0]:
        raise InstrumentError(f"{name!r} is already a {existing[0]}, so it can't be a {new[0]}")
    if existing[1] != new[1]:
        raise InstrumentError(f"{name!r} already has the unit {existing[1]!r}, not {new[1]!r}")


def checked_labels(name: str, labels: Mapping[str, object]) -> dict[str, str]:
    if len(labels) > limits.LABEL_COUNT:
        raise InstrumentError(f"{name!r} has {len(labels)} labels; the limit is {limits.LABEL_COUNT}")
    checked: dict[str, str] = {}
    for key, value in sorted(labels.items()):
        text = str(value) if isinstance(value, (bool, int, float)) else value
        check_text(f"a label key of {name!r}", key, limits.LABEL_KEY_CHARS)
        check_text(f"label {key!r} of {name!r}", text, limits.LABEL_VALUE_CHARS)
        checked[key] = cast(str, text)
    return checked


def _checked_bound(name: str, what: str, bound: float | None) -> float | None:
    if bound is None:
        return None
    if not isinstance(bound, (int, float)) or not limits.LOWEST_BOUND <= bound <= limits.HIGHEST_BOUND:
        raise InstrumentError(
            f"{name!r}: {what} is {bound!r}, must be a positive number",
            hint=f"give a number from {limits.LOWEST_BOUND:g} to {limits.HIGHEST_BOUND:g}",
        )
    return float(bound)


def _checked_high(name: str, low: float | None, high: float | None) -> float | None:
    checked = _checked_bound(name, "high", high)
    if checked is not None and low is not None and low >= checked:
        raise InstrumentError(f"{name!r}: low is {low!r}, must be less than high, {high!r}")
    return checked


def _check_same(existing: Define, again: Define) -> None:
    for part in ("unit", "digits", "low", "high"):
        before, now = getattr(existing, part), getattr(again, part)
        if before != now:
            raise InstrumentError(f"{existing.name!r} is already defined with {part} {before!r}, not {now!r}")

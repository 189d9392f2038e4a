"""Tests of the registry of instruments: names, labels, kinds, units, and the cap."""

from __future__ import annotations

import pytest

from telemetry import limits
from telemetry.aggregator.registry import OVERFLOW, DefinedInstrument, InstrumentBounds, Registry
from telemetry.aggregator.rows import CONFLICT, INVALID, UNKNOWN, route
from telemetry.errors import InstrumentError
from telemetry.wire.events import Kind


class _Columns:
    """Counts the instruments of a kind; refuses series with `low` above `high`."""

    def __init__(self) -> None:
        self.added: list[str] = []

    def add(self, name: str, labels: dict[str, str], unit: str, bounds: InstrumentBounds) -> int:
        if bounds.low is not None and bounds.high is not None and bounds.low >= bounds.high:
            raise InstrumentError(f"series {name!r}: high is not above low")
        self.added.append(name)
        return len(self.added) - 1


def _registry(cap: int = 10) -> tuple[Registry, list[str]]:
    warnings: list[str] = []
    columns = {kind: _Columns().add for kind in ("counter", "gauge", "series")}
    return Registry(columns, cap, warnings.append), warnings


def test_the_same_name_and_labels_are_one_instrument() -> None:
    """Label order doesn't matter; other labels make another instrument."""
    registry, warnings = _registry()
    first = registry.resolve("series", "latency", {"a": "1", "b": "2"}, "ms")
    assert registry.resolve("series", "latency", {"b": "2", "a": "1"}, "ms") == first == route("series", 0)
    assert registry.resolve("series", "latency", {"a": "2"}, "ms") == route("series", 1)
    assert registry.names["latency"].indices == [0, 1]
    assert warnings == []


def test_a_name_has_one_kind_and_one_unit() -> None:
    """The later definition conflicts, whatever its labels, and the warning names both."""
    registry, warnings = _registry()
    registry.resolve("series", "x", {}, "ms")
    assert registry.resolve("counter", "x", {"k": "v"}, "ms") == CONFLICT
    assert registry.resolve("series", "x", {}, "s") == CONFLICT
    assert registry.find("gauge", "x", {}, "ms") == CONFLICT
    assert "conflicts with the existing series of that name in ms" in warnings[0]
    assert len(registry.instruments["counter"]) == 0


def test_beyond_the_cap_all_share_the_overflow_instrument() -> None:
    """Distinct ones are counted, and known instruments go on as before."""
    registry, warnings = _registry(cap=2)
    known = [registry.resolve("counter", f"c{n}", {}, "") for n in range(2)]
    beyond = [registry.resolve("counter", f"c{n}", {}, "") for n in (2, 3, 3)]
    assert set(beyond) == {route("counter", 2)}
    assert registry.overflow == {"counter": 2}
    assert registry.instruments["counter"][-1].name == OVERFLOW
    assert [registry.resolve("counter", f"c{n}", {}, "") for n in range(2)] == known
    assert registry.resolve("series", "s", {}, "") == route("series", 0)
    assert registry.find("counter", "c9", {}, "") == route("counter", 2)
    assert "more than 2 instruments" in warnings[0]


def test_the_overflow_name_means_the_overflow_instrument() -> None:
    """A producer that calls its own instrument so shares it, and loses no place under the cap."""
    registry, _ = _registry(cap=1)
    own = registry.resolve("counter", OVERFLOW, {}, "ms")
    assert registry.resolve("counter", "first", {}, "") != own
    assert registry.resolve("counter", "second", {}, "") == own


def test_impossible_bounds_are_invalid_and_other_bounds_only_warn() -> None:
    """The first usable bounds stay; events without any agree with them."""
    registry, warnings = _registry()
    assert registry.resolve("series", "x", {}, "", InstrumentBounds(3, 5.0, 1.0)) == INVALID
    assert "high is not above low" in warnings[0]
    made = registry.resolve("series", "x", {}, "", InstrumentBounds(2))
    assert registry.resolve("series", "x", {}, "") == made
    assert len(warnings) == 1
    assert registry.resolve("series", "x", {}, "", InstrumentBounds(4)) == made
    assert "the first definition is used" in warnings[1]


def test_finding_makes_nothing() -> None:
    """A name nobody defined stays unknown."""
    registry, _ = _registry()
    assert registry.find("series", "x", {}, "") == UNKNOWN
    assert registry.names == {}


def test_keys_name_counters_and_gauges_by_kind() -> None:
    """Indices are those within the kind."""
    registry, _ = _registry()
    registry.resolve("gauge", "g", {"a": "b"}, "ms")
    registry.resolve("counter", "c", {}, "")
    registry.resolve("series", "s", {}, "")
    keys = registry.keys()
    assert {(key.kind, key.index): (key.name, key.unit, key.labels) for key in keys} == {
        ("counter", 0): ("c", "", {}),
        ("gauge", 0): ("g", "ms", {"a": "b"}),
    }


def test_names_and_labels_together_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every snapshot repeats them: when their room is used up, what is new overflows, whatever its kind."""
    monkeypatch.setattr(limits, "INSTRUMENT_CHARS", 20)
    registry, warnings = _registry()
    long = registry.resolve("series", "latency", {"k": "0123456789"}, "")
    assert long == route("series", 0)
    assert registry.resolve("series", "latency", {"k": "another"}, "") == route("series", 1)
    assert registry.resolve("counter", "requests", {}, "") == route("counter", 0)
    assert registry.overflow == {"series": 1, "counter": 1}
    assert registry.resolve("series", "latency", {"k": "0123456789"}, "") == long
    assert registry.resolve("gauge", "x", {}, "") == route("gauge", 0)
    assert set(warnings) == {
        "the names and labels of all instruments are too long: the rest is counted in 'overflow'"
    }


def test_a_registry_that_is_given_the_instruments_of_another_is_the_same() -> None:
    """Same routes, same room, same bounds, and the overflow instrument where it was."""
    registry, _ = _registry(cap=3)
    asked: list[tuple[Kind, str, dict[str, str], str, InstrumentBounds]] = [
        ("series", "a", {"k": "1"}, "ms", InstrumentBounds(2, 1.0, None)),
        ("counter", "c", {}, "", InstrumentBounds()),
        ("series", OVERFLOW, {}, "", InstrumentBounds()),
        ("series", "a", {"k": "2"}, "ms", InstrumentBounds()),
        ("series", "b", {}, "s", InstrumentBounds()),
        ("series", "beyond", {}, "s", InstrumentBounds()),
    ]
    routes = [registry.resolve(*one) for one in asked]
    other, warnings = _registry(cap=3)
    other.listed = registry.listed
    assert other.listed == registry.listed
    assert warnings == []
    assert [other.resolve(*one) for one in asked] == routes
    assert other.names == registry.names
    assert other.keys() == registry.keys()
    assert len(warnings) == 1  # about the one beyond the cap


@pytest.mark.parametrize(
    "items",
    [
        [DefinedInstrument("a", {}, "", InstrumentBounds()), DefinedInstrument("a", {}, "", InstrumentBounds())],
        [
            DefinedInstrument("a", {}, "", InstrumentBounds()),
            DefinedInstrument("a", {"k": "1"}, "s", InstrumentBounds()),
        ],
        [DefinedInstrument("a", {}, "", InstrumentBounds(3, 5.0, 1.0))],
        [DefinedInstrument(name, {}, "", InstrumentBounds()) for name in "abcd"],
        [DefinedInstrument("a" * limits.INSTRUMENT_CHARS + "a", {}, "", InstrumentBounds())],
        [
            DefinedInstrument(OVERFLOW, {}, "", InstrumentBounds()),
            DefinedInstrument(OVERFLOW, {}, "", InstrumentBounds()),
        ],
    ],
)
def test_instruments_no_registry_made_are_refused(items: list[DefinedInstrument]) -> None:
    """Twice the same, contradictions, impossible bounds, too many, too long."""
    with pytest.raises(ValueError, match="can't be number"):
        _registry(cap=3)[0].listed = {"series": items}


def test_instruments_beyond_the_cap_have_the_same_number_in_every_process() -> None:
    """A registry remembers instruments beyond the cap by a hash that is fixed."""
    registry, _ = _registry(cap=1)
    for number in range(5):
        registry.resolve("counter", f"c{number}", {"k": "v"}, "")
    assert next(iter(registry._beyond["counter"])) == 4016370662718376892

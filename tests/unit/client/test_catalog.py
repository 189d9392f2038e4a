"""Definitions: checked once, the same object again."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from telemetry import limits
from telemetry.client.catalog import NO_ID, Catalog
from telemetry.client.instruments import Counter, Gauge, Series
from telemetry.client.native_recorders import build_recorders
from telemetry.client.signal_safe import Tally
from telemetry.errors import InstrumentError
from telemetry.wire.codec import decode_record
from telemetry.wire.events import Define


@pytest.fixture
def catalog() -> Catalog:
    return Catalog(build_recorders(), Tally())


def test_each_kind_gets_an_id_and_a_definition(catalog: Catalog) -> None:
    """The place in the list of definitions is the id."""
    made = [
        catalog.instrument("counter", "c"),
        catalog.instrument("gauge", "g", "B", {"host": "a"}),
        catalog.instrument("series", "s", "ms", digits=2, low=0.5, high=10),
    ]
    assert [type(each) for each in made] == [Counter, Gauge, Series]
    assert [decode_record(definition) for definition in catalog.definitions] == [
        Define(id=0, name="c", kind="counter"),
        Define(id=1, name="g", kind="gauge", unit="B", labels={"host": "a"}),
        Define(id=2, name="s", kind="series", unit="ms", digits=2, low=0.5, high=10.0),
    ]


def test_same_name_and_labels_is_the_same_object(catalog: Catalog) -> None:
    """The same name and labels give the same object, in any order of labels and from every thread."""
    first = catalog.instrument("series", "s", "ms", {"a": "1", "b": 2})
    found: list[object] = []
    threads = [
        threading.Thread(target=lambda: found.append(catalog.instrument("series", "s", "ms", {"b": "2", "a": 1})))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(each is first for each in found)
    assert catalog.instrument("series", "s", "ms", {"a": "1", "b": "3"}) is not first
    assert len(catalog.definitions) == 2


@pytest.mark.parametrize(
    ("again", "message"),
    [
        ({"kind": "gauge"}, "is already a series"),
        ({"kind": "gauge", "labels": {"x": "y"}}, "is already a series"),
        ({"unit": "s"}, "unit 'ms'"),
        ({"unit": "s", "labels": {"x": "y"}}, "already has the unit 'ms'"),
        ({"digits": 4}, "digits 3, not 4"),
        ({"low": 0.1}, "low None, not 0.1"),
        ({"high": 5.0}, "high None, not 5.0"),
    ],
)
def test_a_clash_is_an_error_where_it_is_made(catalog: Catalog, again: dict[str, Any], message: str) -> None:
    """One name has one kind and one unit; one instrument has one set of bounds."""
    catalog.instrument("series", "s", "ms")
    with pytest.raises(InstrumentError, match=message):
        catalog.instrument(**{"kind": "series", "name": "s", "unit": "ms", **again})
    assert len(catalog.definitions) == 1


BAD: list[dict[str, Any]] = [
    {"kind": "timer"},
    {"name": ""},
    {"name": 5},
    {"name": "x" * (limits.NAME_CHARS + 1)},
    {"name": "\ud800"},
    {"unit": "x" * (limits.UNIT_CHARS + 1)},
    {"unit": None},
    {"labels": {"": "v"}},
    {"labels": {"k" * (limits.LABEL_KEY_CHARS + 1): "v"}},
    {"labels": {"k": ""}},
    {"labels": {"k": None}},
    {"labels": {"k": "v" * (limits.LABEL_VALUE_CHARS + 1)}},
    {"labels": {f"k{number}": "v" for number in range(limits.LABEL_COUNT + 1)}},
    {"digits": 0},
    {"digits": 6},
    {"digits": 2.5},
    {"low": 0},
    {"low": -1.0},
    {"low": float("nan")},
    {"low": "1"},
    {"high": float("inf")},
    {"low": 2.0, "high": 2.0},
    {"low": 3.0, "high": 2.0},
]


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: str(bad)[:40])
def test_what_cannot_be_defined_is_an_error_at_the_definition(catalog: Catalog, bad: dict[str, Any]) -> None:
    """Long before anything is recorded."""
    with pytest.raises(InstrumentError):
        catalog.instrument(**{"kind": "series", "name": "s", **bad})
    assert catalog.definitions == []


def test_the_longest_names_are_fine(catalog: Catalog) -> None:
    """Bounds are inclusive."""
    catalog.instrument(
        "series",
        "n" * limits.NAME_CHARS,
        "u" * limits.UNIT_CHARS,
        {f"{number:02}".ljust(limits.LABEL_KEY_CHARS, "k"): "v" * limits.LABEL_VALUE_CHARS for number in range(16)},
        digits=5,
        low=limits.LOWEST_BOUND,
        high=limits.HIGHEST_BOUND,
    )
    decode_record(catalog.definitions[0])


def test_labels_without_end_are_dropped_and_counted(
    monkeypatch: pytest.MonkeyPatch, said: Callable[[], list[str]]
) -> None:
    """Past the last id a program goes on; the events of what came too late are counted, and one line says so."""
    monkeypatch.setattr(limits, "PRODUCER_IDS", 2)
    unencodable = Tally()
    catalog = Catalog(build_recorders(), unencodable)
    for number in range(2):
        catalog.instrument("counter", "c", "", {"user": number})
    counter = catalog.instrument("counter", "c", "", {"user": 2})
    gauge, series = catalog.instrument("gauge", "g"), catalog.instrument("series", "s")
    assert isinstance(counter, Counter)
    assert isinstance(gauge, Gauge)
    assert isinstance(series, Series)
    counter.add()
    gauge.set(1)
    series.record(1, at_ns=5)
    assert unencodable.total == 3
    assert len(catalog.definitions) == 2
    assert len(said()) == 1


def test_nothing_is_kept_of_what_has_no_id(monkeypatch: pytest.MonkeyPatch) -> None:
    """Labels and names without end cost their events, and no memory."""
    monkeypatch.setattr(limits, "PRODUCER_IDS", 1)
    catalog = Catalog(build_recorders(), Tally())
    first = catalog.instrument("counter", "c")
    for number in range(50):
        catalog.instrument("counter", "c", "", {"user": number})
        catalog.instrument("gauge", f"g{number}")
        assert catalog.row_id("series", "s", "ns", {"user": str(number)}, within="") == NO_ID
    assert (len(catalog._instruments), len(catalog._meanings)) == (1, 1)
    assert catalog.instrument("counter", "c") is first


def test_names_can_be_reserved_before_there_are_instruments(catalog: Catalog) -> None:
    """All of them or none."""
    catalog.instrument("series", "b", "ms")
    with pytest.raises(InstrumentError, match="'b' already has the unit 'ms'"):
        catalog.reserve({"a": ("counter", ""), "b": ("series", "ns")})
    catalog.instrument("gauge", "a")
    catalog.reserve({"b": ("series", "ms"), "c": ("counter", "")})
    with pytest.raises(InstrumentError, match="'c' is already a counter"):
        catalog.instrument("series", "c")
    assert len(catalog.definitions) == 2


def test_a_row_id_is_that_of_the_instrument(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Made with what it is defined within, once; the one somebody has made is taken as it is."""
    series = catalog.instrument("series", "s", "ns", {"a": "1"}, digits=5)
    assert catalog.row_id("series", "s", "ns", {"a": "1"}, within="s") == float(series.definition.id)
    assert [catalog.row_id("series", "s", "ns", {"a": "2"}, within="s") for _ in range(2)] == [1.0, 1.0]
    assert decode_record(catalog.definitions[1]) == Define(
        id=1, name="s", kind="series", unit="ns", labels={"a": "2"}, within="s"
    )
    assert catalog.instrument("series", "s", "ns", {"a": "2"}).definition.id == 1
    monkeypatch.setattr(limits, "PRODUCER_IDS", 2)
    assert catalog.row_id("series", "s", "ns", {"a": "3"}, within="") == NO_ID

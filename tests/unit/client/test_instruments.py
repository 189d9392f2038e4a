"""Tests of the instruments that a program holds."""

from __future__ import annotations

import pytest

from telemetry.client.catalog import Catalog
from telemetry.client.instruments import Counter, Gauge, Series
from telemetry.client.recorders import Recorders, python_recorders
from telemetry.client.signal_safe import Tally
from telemetry.errors import InstrumentError


@pytest.fixture
def recorders() -> Recorders:
    made = python_recorders(now=lambda: 1)
    made.install(made.buffer.extend)
    return made


def test_each_kind_has_its_verb(recorders: Recorders) -> None:
    """`add`, `set` and `record` put rows with the instrument's id into the buffer."""
    catalog = Catalog(recorders, Tally())
    counter, gauge, series = (catalog.instrument(kind, kind) for kind in ("counter", "gauge", "series"))
    assert isinstance(counter, Counter)
    assert isinstance(gauge, Gauge)
    assert isinstance(series, Series)
    counter.add(2)
    gauge.set(3)
    series.record(4)
    assert recorders.buffer == [0.0, 1, 2.0, 1.0, 1, 3.0, 2.0, 1, 4.0]


def test_what_an_instrument_is_can_be_read(recorders: Recorders) -> None:
    """An instrument shows its name, unit and labels as attributes and in its repr."""
    made = Catalog(recorders, Tally()).instrument("gauge", "memory", "B", {"gpu": 1})
    assert (made.name, made.unit, dict(made.labels)) == ("memory", "B", {"gpu": "1"})
    assert repr(made) == "<Gauge 'memory', unit='B', gpu='1'>"


@pytest.mark.parametrize("unit", ["", "B", "requests"])
def test_only_a_time_can_be_timed(recorders: Recorders, unit: str) -> None:
    """The error is raised at the call, not when the block ends."""
    made = Catalog(recorders, Tally()).instrument("series", "s", unit)
    assert isinstance(made, Series)
    with pytest.raises(InstrumentError, match="is not a unit of time"):
        made.time()

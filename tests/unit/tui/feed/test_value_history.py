"""Counters and gauges over time."""

from __future__ import annotations

import numpy as np
import pytest

from telemetry.tui.feed import history_thread as module
from telemetry.tui.feed.history_thread import ValueHistory, columns, keys_of
from telemetry.wire.control import SeriesKey
from telemetry.wire.history import Interval, ValueColumns

FAST = SeriesKey(index=3, name="failed", kind="counter", labels={"kind": "a", "reason": "timeout"})
SLOW = SeriesKey(index=4, name="failed", kind="counter", labels={"kind": "a", "reason": "http"})
OTHER = SeriesKey(index=5, name="failed", kind="counter", labels={"kind": "b", "reason": "http"})
GAUGE = SeriesKey(index=3, name="cpu", kind="gauge", unit="%")
SERIES = SeriesKey(index=0, name="cpu", kind="series")


def values(found: dict[int, float]) -> ValueColumns:
    return ValueColumns(np.array(list(found), "<u4").tobytes(), np.array(list(found.values()), "<f8").tobytes())


def interval(at: int, counters: dict[int, float], gauges: dict[int, float] | None = None) -> Interval:
    return Interval(at, at + 1, counters=values(counters), gauges=values(gauges or {}))


def test_the_keys_of_a_row() -> None:
    """A row has the key of its labels, or else the keys of all counters that have more labels."""
    keys = [SERIES, FAST, SLOW, OTHER, GAUGE]
    assert keys_of(keys, ("cpu", ())) == [GAUGE]
    assert keys_of(keys, ("failed", (("kind", "a"), ("reason", "http")))) == [SLOW]
    assert keys_of(keys, ("failed", (("kind", "a"),))) == [FAST, SLOW]
    assert keys_of(keys, ("failed", (("kind", "c"),))) == []
    assert keys_of([SeriesKey(index=1, name="g", kind="gauge", labels={"a": "b"})], ("g", ())) == []


def test_counters_are_added_up_and_what_is_missing_did_not_grow() -> None:
    """Gauges of the same index are something else."""
    history = ValueHistory([FAST, SLOW])
    history.add(interval(0, {3: 1.0, 4: 2.0, 5: 9.0}, {3: 77.0}))
    history.add(interval(1, {}))
    assert history.values().points == ((0, 1, 3.0), (1, 2, 0.0))
    assert (history.values().kind, history.end_ns) == ("counter", 2)


def test_a_gauge_that_was_not_set_has_no_value() -> None:
    """A gauge has no value until it is set."""
    history = ValueHistory([GAUGE])
    assert history.end_ns == 0
    history.add(interval(0, {3: 1.0}))
    history.add(interval(1, {}, {3: 50.0}))
    assert history.values().points == ((0, 1, None), (1, 2, 50.0))
    assert (history.values().kind, history.values().unit) == ("gauge", "%")


def test_a_long_history_loses_its_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long history loses its beginning, as it is bounded."""
    monkeypatch.setattr(module, "PARTS", 8)
    history = ValueHistory([GAUGE])
    for at in range(20):
        history.add(interval(at, {}, {3: float(at)}))
    points = history.values().points
    assert len(points) <= 8
    assert points[-1] == (19, 20, 19.0)
    assert columns(values({1: 2.0})) == {1: 2.0}

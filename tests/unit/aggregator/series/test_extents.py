"""Tests of when things happened, and of how much of it came while more of it still began."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any
from unittest.mock import patch

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry import limits
from telemetry.aggregator import Aggregator, AggregatorConfig, SnapshotFacts
from telemetry.aggregator.series import extents as extents_module
from telemetry.testing import batch
from telemetry.testing.builders import MONO_NS as T
from telemetry.testing.builders import WALL_NS as W
from telemetry.testing.builders import Row
from telemetry.wire.codec import Malformed
from telemetry.wire.events import Count, Define, EventRecord, Sample
from telemetry.wire.snapshot import Extent

LATER = W + 10**15
"""When everything arrives: no row is later."""
LATENCY, TOKENS, DONE = 0, 1, 2
OF_REQUESTS = (
    Define(LATENCY, "latency", "series", "ns", within="latency"),
    Define(TOKENS, "tokens", "series", "tokens", within="latency"),
    Define(DONE, "done", "counter", within="latency"),
)


class Bench:
    """An aggregator, and producers that number their batches."""

    def __init__(self, *records: EventRecord, config: AggregatorConfig | None = None) -> None:
        self.aggregator = Aggregator(config or AggregatorConfig())
        self.sent: dict[str, tuple[int, int]] = {}
        if records:
            self.send(records=records)

    def send(
        self,
        rows: Sequence[Row] = (),
        records: Sequence[EventRecord] = (),
        producer: str = "p",
        anchor: tuple[int, int] = (T, W),
    ) -> None:
        seq, first = self.sent.get(producer, (0, 0))
        made = batch(producer, seq, first, rows=rows, records=records, anchor=anchor)
        events = len(rows) + sum(not isinstance(record, Define) for record in records)
        self.sent[producer] = seq + 1, first + events
        assert self.aggregator.admit(made, 0)
        self.aggregator.apply([made], 0, LATER)

    def restart(self) -> None:
        self.aggregator = Aggregator.restore(self.aggregator.checkpoint())

    @property
    def warnings(self) -> list[str]:
        return [one for one in self._snapshot().warnings if "without a hello" not in one]

    @property
    def extents(self) -> dict[str, Extent | None]:
        """Return the extents of counters and series, by name and label values."""
        snapshot = self._snapshot()
        return {
            ".".join([stat.name, *stat.labels.values()]): stat.extent
            for stat in (*snapshot.counters, *snapshot.series)
        }

    def _snapshot(self) -> Any:
        return self.aggregator.snapshot(SnapshotFacts(run_id="r", name="n"), 0, LATER)


def inside(extent: Extent | None) -> tuple[int, int | float]:
    assert extent is not None
    return extent.inside, extent.inside_total


def test_a_leader_says_when_its_values_began_and_ended() -> None:
    """The times of a leader's values may come in any order.

    The end of the value that began last need not be the last end.
    """
    bench = Bench(*OF_REQUESTS)
    assert bench.extents == {"done": None, "latency": None, "tokens": None}
    bench.send([(LATENCY, T + 500, 100), (LATENCY, T + 1_000, 900), (LATENCY, T + 450, 30)])
    assert bench.extents["latency"] == Extent(
        first_ns=W + 100, last_ns=W + 420, last_done_ns=W + 450, end_ns=W + 1_000, inside=0, inside_total=0
    )


def test_what_came_until_the_newest_beginning_is_inside() -> None:
    """Values up to the newest beginning are inside, of every follower alike.

    Stragglers are outside, and a value at that moment is not inside.
    """
    bench = Bench(*OF_REQUESTS)
    for began, ended, tokens in ((0, 50, 5), (10, 60, 7), (60, 65, 9), (5, 900, 100)):
        bench.send([(LATENCY, T + ended, ended - began), (TOKENS, T + ended, tokens), (DONE, T + ended, 1)])
    found = bench.extents
    assert inside(found["latency"]) == (2, 100)
    assert inside(found["tokens"]) == (2, 12)
    assert inside(found["done"]) == (2, 2)
    assert isinstance(inside(found["tokens"])[1], int)


def test_values_are_converted_from_their_unit_of_time() -> None:
    """Fractions are rounded to a nanosecond; before 1970 nothing began."""
    bench = Bench(Define(0, "wait", "series", "ms", within="wait"))
    bench.send([(0, T + 5_000_000, 1.2345678), (0, T + 9_000_000, 0.25)])
    found = bench.extents["wait"]
    assert found is not None
    assert (found.first_ns, found.last_ns) == (W + 5_000_000 - 1_234_568, W + 8_750_000)
    bench.send([(0, T, 1e300), (0, T, 2.0**62)])
    found = bench.extents["wait"]
    assert found is not None
    assert (found.first_ns, found.last_ns) == (0, W + 8_750_000)


def test_labels_tell_extents_apart() -> None:
    """A window's requests are measured by themselves."""
    bench = Bench(
        Define(0, "latency", "series", "ns", {"window": "a"}, within="latency"),
        Define(1, "latency", "series", "ns", {"window": "b"}, within="latency"),
        Define(2, "tokens", "series", "tokens", {"window": "b"}, within="latency"),
    )
    bench.send([(0, T + 100, 5), (1, T + 900, 5), (1, T + 300, 5), (2, T + 300, 3)])
    found = bench.extents
    assert found["latency.a"] == Extent(
        first_ns=W + 95, last_ns=W + 95, last_done_ns=W + 100, end_ns=W + 100, inside=0, inside_total=0
    )
    assert inside(found["latency.b"]) == (1, 5)
    assert inside(found["tokens.b"]) == (1, 3)


def test_a_leader_may_come_later() -> None:
    """Values that followers recorded before their leader wait.

    The followers have no extent until the leader has a value.
    """
    bench = Bench(TOKENS_ONLY := Define(TOKENS, "tokens", "series", "tokens", within="latency"))
    bench.send([(TOKENS, T + 10, 4), (TOKENS, T + 90, 6)])
    bench.send(records=[Define(LATENCY, "latency", "series", "ns"), TOKENS_ONLY])
    assert bench.extents == {"latency": None, "tokens": None}
    bench.send([(LATENCY, T + 80, 30)])
    found = bench.extents
    assert found["latency"] is None  # nobody asked for its own
    assert inside(found["tokens"]) == (1, 4)


def test_self_describing_events_count_too() -> None:
    """Self-describing events count too.

    So do those of instruments from before the request for extents, from then on.
    """
    bench = Bench()
    bench.send(records=[Sample("latency", 10, T + 20, "ns"), Count("done", 1, T + 20)])
    bench.send(records=[OF_REQUESTS[0], Define(DONE, "done", "counter", within="latency")])
    bench.send(records=[Sample("latency", 10, T + 50, "ns"), Count("done", 1, T + 30), Count("done", 1, T + 60)])
    found = bench.extents
    assert found["latency"] == Extent(
        first_ns=W + 40, last_ns=W + 40, last_done_ns=W + 50, end_ns=W + 50, inside=0, inside_total=0
    )
    assert inside(found["done"]) == (1, 1)


def test_rows_that_waited_for_their_definition_count() -> None:
    """Rows that waited for their definition count at the time they happened."""
    bench = Bench()
    bench.send([(LATENCY, T + 80, 30), (TOKENS, T + 10, 4)])
    bench.send(records=OF_REQUESTS)
    assert inside(bench.extents["tokens"]) == (1, 4)


def test_without_a_unit_of_time_there_is_no_extent() -> None:
    """A series without a unit of time has no extent, and one warning says so."""
    bench = Bench(Define(0, "size", "series", "B", within="size"), Define(1, "done", "counter", within="size"))
    bench.send([(0, T + 5, 3), (1, T + 5, 1)])
    assert bench.extents == {"done": None, "size": None}
    assert bench.warnings == ["series 'size' has no unit of time, so the start of its values is unknown"]


def test_what_was_said_of_it_is_not_said_again_by_a_restored_one() -> None:
    """A restored aggregator does not repeat its warning on a series without a unit of time.

    This holds also for warnings that are only counted.
    """
    aggregator = Aggregator(AggregatorConfig())
    clashes = [Define(number, f"c{number}", "gauge") for number in range(limits.WARNINGS_KEPT)]
    clashes += [Define(number, f"c{number}", "counter") for number in range(limits.WARNINGS_KEPT)]
    unitless = [Define(100, "size", "series", "B"), Define(101, "n", "counter", within="size")]
    sent = batch(records=[*clashes, *unitless])
    aggregator.admit(sent, 0)
    aggregator.apply([sent], 0, 0)
    saved = aggregator.checkpoint()
    assert Aggregator.restore(saved).checkpoint() == saved


def test_the_first_definition_stands() -> None:
    """Another one is said, the same one is not; neither counters nor gauges lead."""
    bench = Bench(*OF_REQUESTS, *OF_REQUESTS, Define(5, "depth", "gauge", within="latency"))
    assert bench.warnings == []
    bench.send(records=[Define(7, "tokens", "series", "tokens", within="done")])
    assert bench.warnings == [
        "series 'tokens' was defined before within another series; the first definition is used"
    ]
    bench.restart()
    bench.send([(LATENCY, T + 80, 30), (TOKENS, T + 10, 4), (5, T + 5, 1.0)])
    assert inside(bench.extents["tokens"]) == (1, 4)


def test_instruments_beyond_the_cap_have_none() -> None:
    """Instruments beyond the cap have no extent, as leaders or as followers.

    The content of the overflow instruments is unknown.
    """
    bench = Bench(config=AggregatorConfig(series_cap=1))
    bench.send(
        records=[
            Define(0, "first", "series", "ns", within="overflow"),
            Define(1, "second", "series", "ns", within="second"),
            Define(2, "overflow", "series", within="overflow"),
            Define(3, "done", "counter", within="second"),
        ]
    )
    bench.send([(0, T + 9, 3), (1, T + 9, 3), (2, T + 9, 3), (3, T + 9, 1)])
    assert set(bench.extents.values()) == {None}


def test_what_is_dropped_is_in_no_extent() -> None:
    """Negative values, and no numbers."""
    bench = Bench(*OF_REQUESTS)
    bench.send([(LATENCY, T + 80, -30), (LATENCY, T + 90, math.nan), (LATENCY, T + 50, 20), (TOKENS, T + 1, -4)])
    found = bench.extents
    assert found["latency"] is not None
    assert (found["latency"].first_ns, found["latency"].end_ns) == (W + 30, W + 50)
    assert inside(found["tokens"]) == (0, 0)


def test_anchors_that_were_read_slowly_stretch_nothing() -> None:
    """Times of one producer are told apart by its monotonic clock, also if its wall clock was set."""
    bench = Bench(*OF_REQUESTS)
    for at, late in ((100, 0), (200, 4_000_000), (300, -4_000_000)):
        bench.send([(LATENCY, T + at, 10), (TOKENS, T + at, 1)], anchor=(T, W + late))
    found = bench.extents["tokens"]
    assert found is not None
    assert (found.first_ns, found.end_ns, found.inside) == (W + 90, W + 300, 2)
    bench.send([(LATENCY, T + 400, 10)], anchor=(T, W + 10**10))
    found = bench.extents["tokens"]
    assert found is not None
    assert found.end_ns == W + 400


def test_totals_of_any_size_can_be_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Integers stay exact beyond 2**53 once they have left the tail, and nothing overflows."""
    monkeypatch.setattr(extents_module, "_FEWEST", 1)
    bench = Bench(*OF_REQUESTS)
    bench.send([(LATENCY, T + 9, 0), (TOKENS, T + 5, 2.0**53), (TOKENS, T + 6, 1)])
    assert inside(bench.extents["tokens"]) == (2, 2**53 + 1)
    bench.send([(TOKENS, T + 5, 1.7e308)] * 3 + [(TOKENS, T + 5, 0.5)])
    assert inside(bench.extents["tokens"]) == (6, 1.7976931348623157e308)
    bench.send([(TOKENS, T + 500, 1.7e308)] * 3)
    bench.send([(LATENCY, T + 600, 0)])
    msgspec.msgpack.encode(bench.extents["tokens"])


def test_beyond_the_bound_the_oldest_count_as_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest events beyond the bound count as inside, and one warning says so.

    The rest are still told apart.
    """
    monkeypatch.setattr(extents_module, "_FEWEST", 4)
    monkeypatch.setattr(limits, "EXTENT_ROWS", 6)
    bench = Bench(*OF_REQUESTS)
    for at in range(100, 130):
        bench.send([(TOKENS, T + at, 1)])
    bench.send([(LATENCY, T + 50, 10)])
    found = bench.extents["tokens"]
    assert found is not None
    assert 30 - 2 * 6 <= found.inside < 30 - 6 + 1
    assert len(bench.warnings) == 1
    assert "more than 6 events came after the newest beginning" in bench.warnings[0]


@pytest.mark.parametrize(
    "lie",
    [
        {"leaders": [["latency", {}], ["latency", {}]]},
        {"leaders": []},
        {"leaders": [["latency", {}], ["nobody's", {}]]},
        {"followers": [["gauge", 0, 0]]},
        {"followers": [["series", 0, 1]]},
        {"followers": [["series", 9, 0]]},
        {"followers": [["series", 0, 0], ["series", 0, 0]]},
        {"_first": ["<i8", b"\xff" * 8]},
        {"_last": ["<i8", b"\xff" * 7 + b"\x7f"]},
        {
            "_tail": {
                "rows": [["<i4", bytes(4)], ["<i8", bytes(8)], ["<f8", bytes(7) + b"\xff"]],
                "_left": 1,
                "_came": 0,
            }
        },
        {"_tail": {"rows": [["<i4", b"\x09\0\0\0"], ["<i8", bytes(8)], ["<f8", bytes(8)]], "_left": 1, "_came": 0}},
        {"_tail": {"rows": [["<i4", b"\xff" * 4], ["<i8", bytes(8)], ["<f8", bytes(8)]], "_left": 1, "_came": 0}},
        {"_tail": {"rows": [["<i4", bytes(4)], ["<i8", bytes(16)], ["<f8", bytes(8)]], "_left": 1, "_came": 0}},
        {"_tail": {"rows": [["<i4", b""], ["<i8", b""], ["<f8", b""]], "_left": 1 << 60, "_came": 0}},
        {"_tail": {"rows": [["<i4", b""], ["<i8", b""], ["<f8", b""]], "_left": 0, "_came": 1 << 60}},
        {"_tail": {"rows": [["<i4", b""], ["<i8", b""], ["<f8", b""]], "_left": 0, "_came": -1}},
        {"_tail": {"rows": [["<i4", bytes(4)], ["<i8", bytes(8)], ["<f8", bytes(8)]], "_left": 0, "_came": 0}},
    ],
)
def test_what_nobody_saved_is_refused(lie: Mapping[str, object]) -> None:
    """Followers of nobody, times that can't be, and rows of nobody."""
    bench = Bench(OF_REQUESTS[0])
    bench.send([(LATENCY, T + 9, 3)])
    tree = msgspec.msgpack.decode(bench.aggregator.checkpoint())
    tree["state"]["_extents"] |= lie
    with pytest.raises(Malformed):
        Aggregator.restore(msgspec.msgpack.encode(tree))


# --- against plain Python ------------------------------------------------------------------------


@dataclass
class Model:
    """The definition of an extent, word for word."""

    leader: list[tuple[int, int]] = field(default_factory=list)
    """Beginning and end of each."""
    follower: list[tuple[int, float]] = field(default_factory=list)
    """Time and value of each."""

    def extent(self) -> Extent | None:
        if not self.leader:
            return None
        last, last_done = max(self.leader)
        until = [value for at, value in self.follower if at <= last]
        return Extent(
            first_ns=min(begin for begin, _ in self.leader),
            last_ns=last,
            last_done_ns=last_done,
            end_ns=max(end for _, end in self.leader),
            inside=len(until),
            inside_total=sum(until),
        )


ROWS = st.lists(
    st.tuples(st.sampled_from([LATENCY, LATENCY, TOKENS, DONE]), st.integers(0, 60), st.integers(0, 40)),
    max_size=12,
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["p", "q"]), ROWS),
        st.tuples(st.sampled_from(["p", "q"]), ROWS),
        st.tuples(st.just("restart"), st.just([])),
        st.tuples(st.just("ask"), st.just([])),
    ),
    max_size=20,
)


@given(STEPS)
def test_extents_are_what_they_are_defined_as(steps: list[tuple[str, list[tuple[int, int, int]]]]) -> None:
    """Extents are as defined, whoever sends what in which order.

    Restarts, questions and searches of the tail do not matter.
    """
    with patch.object(extents_module, "_FEWEST", 3):
        bench = Bench(*OF_REQUESTS)
        bench.send(records=OF_REQUESTS, producer="q")
        models = {LATENCY: Model(), TOKENS: Model(), DONE: Model()}
        for who, rows in steps:
            if who == "restart":
                bench.restart()
            elif who == "ask":
                bench.extents  # noqa: B018 - asking changes nothing
            else:
                bench.send([(number, T + at, value) for number, at, value in rows], producer=who)
            for number, at, value in rows:
                models[number].follower.append((W + at, value))
                if number == LATENCY:
                    for model in models.values():
                        model.leader.append((W + at - value, W + at))
        found = bench.extents
        for name, number in (("latency", LATENCY), ("tokens", TOKENS), ("done", DONE)):
            assert found[name] == models[number].extent()


@given(STEPS)
def test_inside_never_shrinks(steps: list[tuple[str, list[tuple[int, int, int]]]]) -> None:
    """The newest beginning only becomes later. So a rate is never taken back by more than its window grew."""
    bench = Bench(*OF_REQUESTS)
    bench.send(records=OF_REQUESTS, producer="q")
    seen = []
    for who, rows in steps:
        if who in ("p", "q"):
            bench.send([(number, T + at, value) for number, at, value in rows], producer=who)
        found = bench.extents["tokens"]
        seen.append(inside(found) if found is not None else (0, 0))
    assert all(one <= other for one, other in pairwise(seen))

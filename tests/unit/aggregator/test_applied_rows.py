"""Applied rows as an observer sees them: all that is applied, and nothing else."""

from __future__ import annotations

import pytest

from telemetry.aggregator import Aggregator, AggregatorConfig
from telemetry.aggregator.batch_rows import AppliedRows
from telemetry.testing import batch
from telemetry.testing.builders import MONO_NS, WALL_NS
from telemetry.wire.control import Hello
from telemetry.wire.events import Define, EventBatch, Gauge

DEFINITIONS = (Define(0, "s", "series"), Define(1, "c", "counter"), Define(2, "g", "gauge"))


class Eye:
    """An observer that remembers (kind, producer, index, value, time since the first batch in ns)."""

    def __init__(self) -> None:
        self.aggregator = Aggregator(AggregatorConfig())
        self.aggregator.observe(self.see)
        self.seen: list[tuple[str, str, int, float, int]] = []

    def see(self, rows: AppliedRows) -> None:
        producers = rows.producers()
        columns = (rows.owners(), rows.indices, rows.values, rows.wall_times() - WALL_NS)
        for owner, index, value, time_ns in zip(*(column.tolist() for column in columns), strict=True):
            self.seen.append((rows.kind, producers[owner].key, index, value, time_ns))

    def turn(self, *batches: EventBatch, wall_ns: int = WALL_NS) -> None:
        for one in batches:
            assert self.aggregator.admit(one, MONO_NS)
        self.aggregator.apply(batches, MONO_NS, wall_ns)


def test_every_kind_of_every_producer_is_seen() -> None:
    """Rows of several producers, invalid rows between them, and records that describe themselves."""
    eye = Eye()
    rows = [(0, MONO_NS - 5, 1.0), (0, MONO_NS - 4, -1.0), (1, MONO_NS - 3, 2.0), (2, MONO_NS - 2, -3.0)]
    other = [(7, MONO_NS - 1, 4.0)]
    gauge = Gauge("g", 9.0, MONO_NS)
    eye.turn(
        batch("p", rows=rows, records=DEFINITIONS),
        batch("q", rows=other, records=[Define(7, "s", "series"), gauge]),
    )
    assert sorted(eye.seen) == [
        ("counter", "p", 0, 2.0, -3),
        ("gauge", "p", 0, -3.0, -2),
        ("gauge", "q", 0, 9.0, 0),
        ("series", "p", 0, 1.0, -5),
        ("series", "q", 0, 4.0, -1),
    ]


def test_rows_that_waited_are_seen_once_they_are_applied() -> None:
    """Rows that waited reach the observer once they are applied, with the time of their recording."""
    eye = Eye()
    eye.turn(batch("p", rows=[(0, MONO_NS - 5, 1.0)]))
    assert eye.seen == []
    eye.turn(batch("p", 1, 1, records=DEFINITIONS))
    assert eye.seen == [("series", "p", 0, 1.0, -5)]


@pytest.mark.parametrize("step_ns", [3_600 * 10**9, -3_600 * 10**9])
def test_times_follow_the_wall_clock(step_ns: int) -> None:
    """Times of rows follow the wall clock, as those of marks do."""
    eye = Eye()
    eye.turn(batch("p", records=DEFINITIONS))
    eye.turn(batch("p", 1, rows=[(0, MONO_NS, 1.0)]), wall_ns=WALL_NS + step_ns)
    assert eye.seen == [("series", "p", 0, 1.0, step_ns)]


def test_an_observer_knows_the_producer_by_its_hello() -> None:
    """Name, host, process and rank. A second observer takes nothing from the first."""
    eye = Eye()
    found = []
    eye.aggregator.observe(lambda rows: found.extend(rows.producers()))
    eye.aggregator.hello(Hello(producer="p", name="train", host="here", pid=7, rank=3), MONO_NS, WALL_NS)
    eye.turn(batch("p", rows=[(0, MONO_NS, 1.0)], records=DEFINITIONS))
    assert [tuple(one) for one in found] == [("p", "train", "here", 7, 3)]
    assert len(eye.seen) == 1

"""Producers beside each other."""

from __future__ import annotations

from typing import Any

from tests.unit.tui.model.scenes import NOON, SECOND, column, drawn, producer, scene, snapshot, text, tones

from telemetry.tui.model.producers import notes, producers, sort_keys, total
from telemetry.tui.model.scene import Scene, View
from telemetry.wire.snapshot import Accounting, ProducerStat


def ranks(*changes: dict[str, Any]) -> list[ProducerStat]:
    """Equal ranks but for the changes, the last one first."""
    stats = [
        producer(f"id{rank}", name="train", rank=rank, pid=100 + rank, **change)
        for rank, change in enumerate(changes)
    ]
    return stats[::-1]


def known() -> Scene:
    return scene(
        producers=ranks(
            {},
            {"events_per_s": 62.0},
            {"lag_s": 1.2, "repaired": 2},
            {"status": "late", "last_seen_ns": NOON + 36 * SECOND, "events_per_s": 99.0},
            {"dropped_by_producer": {"buffer_full": 12}},
        ),
        accounting=Accounting(received=5_000, dropped_by_producer={"buffer_full": 12}, repaired=2),
    )


def test_at_80_columns() -> None:
    """The table at 80 columns is in the order of ranks, with words for what stands out."""
    assert drawn(producers(known(), View()), 78) == [
        "producer  rank  host:pid   status   rate  lost      lag  seen",
        "train        0  node1:100  live    100/s     0  50.0 ms   now",
        "train        1  node1:101  live     62/s     0  50.0 ms   now  slowest: 62 %",
        "train        2  node1:102  live    100/s     0   1.20 s   now  lags",
        "train        3  node1:103  late     99/s     0  50.0 ms   4 s",
        "train        4  node1:104  live    100/s    12  50.0 ms   now  loses most",
    ]


def test_at_160_columns() -> None:
    """There is room for what they sent and what of it had to be repaired."""
    assert drawn(producers(known(), View()), 158) == [
        "producer  rank  host:pid   status   rate  received  lost  repaired      lag  seen",
        "train        0  node1:100  live    100/s     1,000     0         0  50.0 ms   now",
        "train        1  node1:101  live     62/s     1,000     0         0  50.0 ms   now  slowest: 62 %",
        "train        2  node1:102  live    100/s     1,000     0         2   1.20 s   now  lags",
        "train        3  node1:103  late     99/s     1,000     0         0  50.0 ms   4 s",
        "train        4  node1:104  live    100/s     1,000    12         0  50.0 ms   now  loses most",
    ]


def test_a_killed_one_is_noted() -> None:
    """A killed producer has a note with the number of events that were read from its memory."""
    shown = scene(producers=ranks({"status": "ended", "completeness": "complete", "salvaged": 1_234}))
    assert drawn(producers(shown, View()), 118)[1].endswith("killed (1,234 events salvaged)")


def test_all_of_them_in_one_line() -> None:
    """The line under the table sums up all producers."""
    assert text(total(known(), View(), 100)) == (
        "4/5 producers reporting, 1 late · 461/s · 5,000 received · 12 lost · 2 batches repaired"
    )
    assert text(total(known(), View(), 50)) == "4/5 producers reporting, 1 late · 12 lost"
    assert total(Scene(), View(), 50) == ()


def test_the_slowest_is_marked_if_it_is_slow() -> None:
    """Below 90 % of the median; of equal ones there is no slowest, nor of two."""
    assert notes(snapshot(producers=ranks({}, {}, {"events_per_s": 89.0}))).slowest == "id2"
    assert notes(snapshot(producers=ranks({}, {}, {"events_per_s": 91.0}))).slowest == ""
    assert notes(snapshot(producers=ranks({}, {"events_per_s": 1.0}))).slowest == ""
    ended = {"events_per_s": 0.0, "status": "ended"}
    assert notes(snapshot(producers=ranks({}, {}, {}, ended))).slowest == ""
    assert notes(snapshot(producers=ranks(*[{"events_per_s": 0.0}] * 3))).slowest == ""


def test_one_that_lags_more_than_the_others_is_odd() -> None:
    """Three times the median and a quarter of a second: less is the rhythm of sending."""
    assert notes(snapshot(producers=ranks({}, {}, {"lag_s": 0.3}))).lagging == {"id2"}
    assert notes(snapshot(producers=ranks({}, {}, {"lag_s": 0.2}))).lagging == set()
    slow = {"lag_s": 2.0}
    assert notes(snapshot(producers=ranks(slow, slow, slow, {"lag_s": 5.0}))).lagging == set()
    assert notes(snapshot(producers=ranks(*[{"lag_s": None}] * 3))).lagging == set()


def test_one_that_loses_more_than_the_others_is_odd() -> None:
    """A producer that loses more than the others is odd. If all lose as much, none is."""
    losing = {"dropped": {"negative": 50}}
    assert notes(snapshot(producers=ranks({}, {}, losing))).losing == {"id2"}
    assert notes(snapshot(producers=ranks(losing, losing, losing))).losing == set()
    assert notes(snapshot(producers=ranks({}, {"missing": 5}))).losing == set()


def test_lost_and_missing_have_different_colours() -> None:
    """Lost and missing events have different colours, as missing ones may still come."""
    stats = ranks({"missing": 3}, {"missing": 3, "dropped": {"negative": 2}}, {})
    grid = producers(scene(producers=stats), View())
    assert column(grid, "lost") == ["3", "5", "0"]
    assert tones(grid, "lost") == ["warn", "bad", "dim"]


def test_signs_of_life() -> None:
    """Whole seconds while it goes on; the time of day once it has ended."""
    stats = ranks({}, {"last_seen_ns": NOON + 35 * SECOND}, {"last_seen_ns": 0}, {"status": "ended"})
    assert column(producers(scene(producers=stats), View()), "seen") == ["now", "5 s", "never", "12:00:40"]


def test_what_is_the_matter() -> None:
    """The worst first."""
    stats = [
        producer("a", unrepairable=2),
        producer("b", missing_batches=[(3, 4)]),
        producer("c", completeness="unknown", name="", host="", pid=0),
    ]
    assert column(producers(scene(producers=stats), View()), "note") == [
        "2 batches permanently lost",
        "gaps, requested again",
        "said no hello",
    ]
    over = scene(producers=[producer("a")], state="COMPLETE")
    assert column(producers(over, View()), "note") == ["never ended"]
    assert column(producers(over, View()), "status") == ["not ended"]


def test_order_and_filter() -> None:
    """The order is by rank or any column that has an order, and a filter applies.

    Producers without a rank stay in place at the end.
    """
    stats = [producer("x"), *ranks({}, {"lag_s": 0.1})]
    shown = scene(producers=stats)
    assert column(producers(shown, View()), "rank") == ["0", "1", "–"]
    grid = producers(shown, View(sort="lag"))
    assert (column(grid, "rank"), grid.sorted_by) == (["1", "–", "0"], "lag")
    assert producers(shown, View(sort="p99")).sorted_by == ""
    assert column(producers(shown, View(filter="TRAIN 101")), "rank") == ["1"]
    assert producers(shown, View(filter="nobody")).empty == "no producer matches 'nobody'"
    assert producers(Scene(), View()).empty == "no producers yet"
    assert producers(scene(producers=[], state="COMPLETE"), View()).empty == "the run has no producers"
    assert sort_keys(shown)[:4] == ("", "name", "rank", "host")
    assert "rank" not in sort_keys(scene())
    assert sort_keys(Scene()) == ("",)


def test_names_are_printable() -> None:
    """Names of producers are made printable, as they come from outside."""
    stat = producer("\x1b", name="", host="\x1b[2J")
    cells = producers(scene(producers=[stat]), View()).rows[0].cells
    assert "".join(cell.text for cell in cells).isprintable()

"""The screen of producers."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.unit.tui import feeds
from tests.unit.tui.cockpits import cockpit, lines, live, press, shows, text

from telemetry.testing.clock import FakeClock
from telemetry.tui.feed.news import MembersOf, NewSnapshot
from telemetry.wire.control import MemberFacts
from telemetry.wire.snapshot import Accounting, NodeStat

pytestmark = pytest.mark.slow


async def test_each_producer_has_a_row_and_all_have_one_line() -> None:
    """Each producer has a row with what is the matter with it, and all have one line."""
    snapshot = feeds.play().last
    slow = replace(snapshot.producers[1], events_per_s=100.0, missing=7)
    producers = [snapshot.producers[0], slow, snapshot.producers[2]]
    app = cockpit(live(replace(snapshot, producers=producers)))
    async with app.run_test(size=(160, 24)) as pilot:
        await press(pilot, "2")
        await shows(pilot, "node-1:4100", "node-1:4101", "node-1:4102", "slowest", "loses most")
        assert "3/3 producers reporting" in lines(app)[-2]


async def test_producers_are_filtered() -> None:
    """Producers are filtered by name, host and status."""
    async with cockpit(live()).run_test() as pilot:
        await press(pilot, "2")
        await shows(pilot, "node-1:4102")
        await press(pilot, "slash", *"nobody", "enter")
        await shows(pilot, "no producer matches 'nobody'")


async def test_on_a_small_screen_notes_are_cut_and_numbers_are_not() -> None:
    """The whole note of the row under the cursor stands below the table."""
    snapshot = feeds.play().last
    slow = replace(snapshot.producers[1], events_per_s=100.0, missing=7, missing_batches=[(3, 3)])
    app = cockpit(live(replace(snapshot, producers=[snapshot.producers[0], slow, snapshot.producers[2]])))
    async with app.run_test() as pilot:
        await press(pilot, "2")
        await shows(pilot, "…", "lost", "lag", "status")
        assert "slowest" not in text(app)
        await press(pilot, "down")
        await shows(pilot, "gaps, requested again, loses most, slowest")


async def test_a_node_opens_and_shows_its_producers() -> None:
    """Enter asks for them once. A second enter closes the node; a producer can't be opened."""
    account = Accounting(emitted=9, received=9, applied=9)
    stats = [
        NodeStat(node=name, leaf=f"leaf-{name}", host=name, pid=31, producers=1, account=account)
        for name in ("n1", "n2")
    ]
    feed = live(replace(feeds.play().last, producers=[], nodes=stats))
    app = cockpit(feed)
    async with app.run_test(size=(120, 24)) as pilot:
        await press(pilot, "2")
        await shows(pilot, "▸ n1", "▸ n2", "2/2 nodes reporting, 2 producers")
        await press(pilot, "down", "enter")
        await shows(pilot, "▾ n2", "asking for its producers")
        assert feed.listed == ["leaf-n2"]
        feed.tell(MembersOf("leaf-n2", (MemberFacts(producer="p", name="train", host="n2", pid=4, rank=3),)))
        await shows(pilot, "train", "n2:4")
        await press(pilot, "down", "enter")
        await shows(pilot, "▾ n2", "n2:4")
        assert not app.is_live("open")
        more = replace(feeds.play().last, producers=[], nodes=[stats[0], replace(stats[1], producers=2)])
        feed.tell(NewSnapshot(more, FakeClock().monotonic_ns()))
        await shows(pilot, "1 more, not listed")
        assert feed.listed == ["leaf-n2", "leaf-n2"]
        await press(pilot, "up", "enter")
        await shows(pilot, "▸ n2")
        assert app.failures == []

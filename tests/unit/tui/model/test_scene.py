"""Tests of the scene and the view: what is known, and what is chosen."""

from __future__ import annotations

from telemetry.tui.model.scene import View, series_id


def test_the_order_of_labels_makes_no_other_series() -> None:
    """Snapshots and histories may write them in any order."""
    assert series_id("a", {"x": "1", "y": "2"}) == series_id("a", {"y": "2", "x": "1"})


def test_a_viewer_begins_with_the_present() -> None:
    """Unsorted, unfiltered, over the window."""
    assert View() == View(figures="window", sort="", filter="", group="", pinned=frozenset(), zoom=0, pan=0)

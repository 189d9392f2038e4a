"""Tests of what keys make of a view."""

from __future__ import annotations

from tests.unit.tui import feeds

from telemetry.tui import view_changes
from telemetry.tui.model.scene import Scene, View
from telemetry.tui.view_changes import PastRange

KEYS = ("", "name", "rate", "p99")
S = feeds.SECOND_NS


def test_sorting_goes_through_the_columns() -> None:
    """Numbers begin with the greatest, names with the first, and after the last column comes none."""
    view, seen = View(), []
    for _ in range(4):
        view = view_changes.next_sort(view, KEYS)
        seen.append((view.sort, view.descending))
    assert seen == [("name", False), ("rate", True), ("p99", True), ("", True)]
    assert view_changes.next_sort(View(sort="gone"), KEYS).sort == ""
    assert view_changes.next_sort(View(), ()) == View()


def test_a_column_is_sorted_by_and_then_turned_round() -> None:
    """Clicking a title twice does that."""
    once = view_changes.sort_by(View(), "p99")
    assert (once.sort, once.descending) == ("p99", True)
    assert not view_changes.sort_by(once, "p99").descending
    assert not view_changes.sort_by(once, "name").descending
    assert not view_changes.reverse(once).descending


def test_switches_have_two_positions() -> None:
    """Figures and units."""
    assert view_changes.other_figures(View()).figures == "run"
    assert view_changes.other_figures(view_changes.other_figures(View())) == View()
    assert view_changes.other_units(View()).units == "raw"
    assert view_changes.other_units(view_changes.other_units(View())) == View()


def test_grouping_goes_through_the_labels_and_ends() -> None:
    """Grouping goes through the labels, and after the last label nothing is grouped."""
    view, seen = View(), []
    for _ in range(3):
        view = view_changes.next_group(view, ("model", "route"))
        seen.append(view.group)
    assert seen == ["model", "route", ""]
    assert view_changes.next_group(View(group="gone"), ()).group == ""


def test_a_pin_is_taken_out_again() -> None:
    """The same key does both."""
    pinned = view_changes.pin(View(), ("a", ()))
    assert pinned.pinned == {("a", ())}
    assert view_changes.pin(pinned, ("a", ())) == View()


def test_zoom_keeps_what_is_at_the_right_edge() -> None:
    """Zoom keeps what is at the right edge, and has two ends."""
    view = view_changes.zoom(view_changes.zoom(View(), 1), 1)
    assert view.zoom == 2
    moved = view_changes.pan(view, 1)
    assert moved.pan == view_changes.PAN_STEP
    assert view_changes.zoom(moved, 1).pan == 2 * view_changes.PAN_STEP
    assert view_changes.zoom(moved, -1).pan == view_changes.PAN_STEP // 2
    for _ in range(100):
        view = view_changes.zoom(view, 1)
    assert view.zoom == view_changes.ZOOM_MOST
    assert view_changes.zoom(View(), -1) == View()


def test_panning_never_leaves_the_history() -> None:
    """All there is can't be moved, and a half only by its own length."""
    assert view_changes.pan(View(), 1) == View()
    view = view_changes.zoom(View(), 1)
    for _ in range(20):
        view = view_changes.pan(view, 1)
    assert view.pan == 10
    for _ in range(20):
        view = view_changes.pan(view, -1)
    assert view.pan == 0


def test_scrubbing_goes_window_by_window_and_back_to_now() -> None:
    """Scrubbing never goes before the run's first second, and not beyond its last."""
    snapshot = feeds.play().last
    scene = Scene(snapshot=snapshot)
    first = view_changes.scrub(scene, None, -1)
    assert first == PastRange(snapshot.time_ns - 10 * S, 10.0)
    assert view_changes.scrub(scene, first, 1) is None
    second = view_changes.scrub(scene, first, -1)
    assert second == PastRange(snapshot.time_ns - 20 * S, 10.0)
    assert view_changes.scrub(scene, second, 1) == first
    for _ in range(100):
        second = view_changes.scrub(scene, second, -1)
    assert second == PastRange(snapshot.started_ns + S, 10.0)


def test_there_is_no_past_without_a_run() -> None:
    """Nor is there a future."""
    assert view_changes.scrub(Scene(), None, -1) is None
    assert view_changes.scrub(Scene(snapshot=feeds.play().last), None, 1) is None


def test_a_time_range_of_the_past_grows_and_shrinks() -> None:
    """A time range of the past grows and shrinks between ten seconds and an hour."""
    past = PastRange(0, 10.0)
    longer = view_changes.time_range(past, -1)
    assert longer == PastRange(0, 30.0)
    assert view_changes.time_range(longer, 1) == past
    assert view_changes.time_range(past, 1) == past
    for _ in range(10):
        longer = view_changes.time_range(longer, -1)
    assert longer == PastRange(0, 3_600.0)
    assert view_changes.time_range(PastRange(0, 20.0), -1).seconds == 30.0


def test_a_node_is_opened_and_closed() -> None:
    """Each on its own."""
    view = view_changes.open_node(view_changes.open_node(View(), "a"), "b")
    assert view.opened_nodes == {"a", "b"}
    assert view_changes.open_node(view, "a").opened_nodes == {"b"}

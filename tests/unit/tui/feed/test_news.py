"""Tests of what a feed can be asked, which is the same for all feeds."""

from __future__ import annotations

import inspect

import pytest

from telemetry.tui.feed.disk import DiskFeed
from telemetry.tui.feed.live import LiveFeed
from telemetry.tui.feed.news import NewsFeed, Trends


@pytest.mark.parametrize("kind", [LiveFeed, DiskFeed])
def test_every_feed_can_be_asked_everything(kind: type[NewsFeed]) -> None:
    """Every feed takes the same calls and arguments, so that a viewer need not know which it has."""
    asked = {name: method for name, method in inspect.getmembers(NewsFeed, inspect.isfunction) if name[0] != "_"}
    assert set(asked) == {"start", "follow", "look_at", "list_members", "stop_run", "close"}
    for name, method in asked.items():
        assert list(inspect.signature(getattr(kind, name)).parameters) == list(inspect.signature(method).parameters)


def test_trends_without_points_are_none() -> None:
    """A second in which nothing had values is no point of any series."""
    assert Trends() == Trends({})

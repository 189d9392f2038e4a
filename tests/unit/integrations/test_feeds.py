"""Tests of which feeds there are, and of what names one."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from telemetry.errors import UsageError
from telemetry.integrations.feeds import FeedSpec, load_feed, parse_feed, with_percentiles


class Mine:
    """A feed, as far as it is looked at here."""

    topics = (b"",)
    addresses = ()


def entry_points(*points: EntryPoint) -> object:
    return lambda group: [point for point in points if group == point.group]


def test_a_run_computes_the_percentiles_of_its_feeds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Besides its own, in ascending order, each once. A feed need not have any."""
    monkeypatch.setattr(
        "importlib.metadata.entry_points",
        entry_points(EntryPoint("mine", f"{__name__}:Mine", "telemetry.feeds")),
    )
    assert with_percentiles(["mine"], ["99", "50.0"]) == ["50.0", "99"]
    found = with_percentiles(["endpoints:tcp://host:5", "mine"], ["50.0", "99.99"])
    assert found == ["1", "5", "10", "25", "50.0", "75", "80", "90", "95", "97", "99", "99.9", "99.99"]
    with pytest.raises(UsageError, match="no feed is named 'nobody'"):
        with_percentiles(["nobody"], ["50"])


def test_a_name_and_an_address() -> None:
    """The address may contain colons, and may be missing."""
    assert parse_feed("endpoints:ipc:///dev/shm/zmq_1/ev_pub_2") == FeedSpec(
        "endpoints", "ipc:///dev/shm/zmq_1/ev_pub_2"
    )
    assert parse_feed("endpoints:tcp://host:5") == FeedSpec("endpoints", "tcp://host:5")
    assert parse_feed("endpoints") == FeedSpec("endpoints")
    assert str(parse_feed("endpoints:tcp://host:5")) == "endpoints:tcp://host:5"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("endpoint:ipc:///x", "did you mean endpoints?"),
        ("nothing", "one of endpoints"),
        ("endpoints:/dev/shm/x", "write endpoints:ipc://PATH"),
        ("\x1b[2J", r"\\x1b"),
        ("endpoints:", "'' is not a valid feed address"),
        ("endpoints:tcp://127.0.0.1", "'tcp://127.0.0.1' is not a valid feed address"),
        ("endpoints:tcp://127.0.0.1:99999", "a PORT from 1 to 65535"),
        ("endpoints:ipc://", "is not a valid feed address"),
    ],
)
def test_what_is_wrong_is_said(text: str, said: str) -> None:
    """The error for a wrong feed says what is wrong and what would be right."""
    with pytest.raises(UsageError, match=said) as error:
        parse_feed(text)
    assert str(error.value).isprintable()


def test_ours_has_what_a_feed_needs() -> None:
    """Topics to subscribe to, and places to look in."""
    kind = load_feed("endpoints")
    assert list(kind.topics) == [b""]
    assert all(address.startswith("ipc://") and "*" in address for address in kind.addresses)


def test_others_are_found_by_their_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    """Feeds of others are loaded by their entry points, but none replaces a built-in feed."""
    ours = load_feed("endpoints")
    points = (
        EntryPoint("mine", "tests.unit.integrations.test_feeds:Mine", "telemetry.feeds"),
        EntryPoint("endpoints", "collections:OrderedDict", "telemetry.feeds"),
        EntryPoint("odd", "collections:OrderedDict", "telemetry.feeds"),
        EntryPoint("broken", "no_such_module:thing", "telemetry.feeds"),
    )
    monkeypatch.setattr("importlib.metadata.entry_points", entry_points(*points))
    assert parse_feed("mine:ipc://x").name == "mine"
    assert load_feed("endpoints") is ours
    assert load_feed("mine") is Mine
    with pytest.raises(UsageError, match=r"can't load the feed odd: .* it lacks topics, addresses"):
        load_feed("odd")
    with pytest.raises(UsageError, match="can't load the feed"):
        load_feed("broken")

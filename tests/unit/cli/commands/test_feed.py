"""`telemetry feed` without its sockets: which run is meant, when it is over, and who may say stop."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import telemetry.transport
import telemetry.transport.endpoints
from telemetry import limits
from telemetry.cli.commands import feed
from telemetry.cli.main import build_parser, main
from telemetry.errors import EndpointError, RunNotFoundError
from telemetry.integrations.feeds import FeedLoop, FeedSpec
from telemetry.wire.snapshot import MetricsSnapshot


@pytest.fixture
def signals() -> Iterator[None]:
    """Restore the signal handlers after the test."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


class Snapshots:
    """A fake subscription that returns a snapshot for each state in `next`."""

    def __init__(self) -> None:
        self.next: list[str] = []
        self.closed = False

    def recv(self, timeout_s: float) -> MetricsSnapshot | None:
        assert timeout_s == 0.0
        return MetricsSnapshot(run_id="r", name="n", state=self.next.pop(0)) if self.next else None  # type: ignore[arg-type]

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def snapshots(monkeypatch: pytest.MonkeyPatch) -> Snapshots:
    made = Snapshots()
    monkeypatch.setattr(telemetry.transport, "subscribe", lambda endpoint: made)
    return made


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """`now(s)` sets the clock."""
    times = [0.0]
    monkeypatch.setattr(feed.time, "monotonic", lambda: times[0])
    return lambda now_s: times.__setitem__(0, now_s)


def refuse(monkeypatch: pytest.MonkeyPatch, refuses: bool) -> None:
    monkeypatch.setattr(telemetry.transport.endpoints, "refuses", lambda endpoint: refuses)


@pytest.mark.parametrize(
    ("state", "over"), [("INITIALIZE", False), ("LIVE", False), ("DRAINING", True), ("COMPLETE", True)]
)
def test_a_run_that_takes_nothing_more_is_over(snapshots: Snapshots, state: str, over: bool) -> None:
    """A run that takes nothing more is over and stays over."""
    with feed._EndWatch("ipc:///r") as watch:
        assert not watch.over()
        snapshots.next = [state]
        assert watch.over() == over
        assert watch.over() == over
    assert snapshots.closed


def test_a_run_whose_aggregator_died_may_go_on(
    snapshots: Snapshots, now: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run whose aggregator has died is over after RETURN_S. Until then another aggregator may be started.

    An aggregator that is silent but accepts connections is not dead.
    """
    refuse(monkeypatch, False)
    with feed._EndWatch("ipc:///r") as watch:
        now(100.0)
        assert not watch.over()
        refuse(monkeypatch, True)
        now(100.0 + limits.RETURN_S - 1.0)
        assert not watch.over()
        snapshots.next = ["LIVE"]
        assert not watch.over()
        now(100.0 + 2 * limits.RETURN_S - 2.0)
        assert not watch.over()
        now(100.0 + 3 * limits.RETURN_S)
        assert watch.over()


def test_signals_say_stop(signals: None) -> None:
    """A signal to stop is heard, also if whoever started the feed had blocked it."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    for number in (signal.SIGTERM, signal.SIGINT):
        stop = feed._FeedStop()
        assert not stop
        os.kill(os.getpid(), number)
        assert stop


def test_the_run_is_the_one_around_unless_one_is_named(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A feed under `telemetry run` is for that run, unless another is named."""
    monkeypatch.setattr(feed.find_run, "check_listened", lambda endpoint: None)
    parser = build_parser("feed")

    def endpoint(*words: str) -> Any:
        return feed._endpoint(parser.parse_args(["feed", "endpoints", *words]))

    with pytest.raises(RunNotFoundError):
        endpoint()
    monkeypatch.setenv("TELEMETRY_ENDPOINT", "ipc:///around")
    assert endpoint() == "ipc:///around"
    assert endpoint("ipc:///named") == "ipc:///named"


class Messages:
    """A fake subscription that returns these messages."""

    connected = ever_connected = True

    def __init__(self, address: str, messages: list[bytes]) -> None:
        self.address = address
        self._messages = messages

    def __enter__(self) -> Messages:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def recv(self, timeout_s: float) -> bytes | None:
        return self._messages.pop(0) if self._messages else None


class Kind:
    """A fake feed that takes any message. The message `break` raises RuntimeError."""

    topics = (b"",)
    addresses = ()
    over = False

    def __init__(self, run: Any, options: Any) -> None:
        pass

    def take(self, message: bytes) -> None:
        if message == b"break":
            raise RuntimeError("broken")

    def close(self) -> None:
        pass


class Marked:
    """A fake run that keeps the text of each call of `mark` in a list."""

    def __init__(self) -> None:
        self.marks: list[str] = []

    def mark(self, text: str) -> None:
        self.marks.append(text)


def fed(monkeypatch: pytest.MonkeyPatch, one: Marked, *messages: bytes, address: str = "ipc:///x") -> int:
    """Return the exit code of `_feed` when it is told to stop at once."""
    monkeypatch.setattr(
        "telemetry.transport.subscription.ForeignSubscription",
        lambda where, topics: Messages(where, list(messages)),
    )
    watch: Any = SimpleNamespace(over=lambda: False)
    stop: Any = True
    run: Any = one
    return feed._feed(feed._Fed(FeedSpec("endpoints", address), Kind, run, texts=True), watch, stop)


def test_a_feed_that_took_something_leaves_no_mark(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A feed that took something leaves no mark and ends with code 0."""
    one = Marked()
    assert fed(monkeypatch, one, b"a", b"b") == 0
    assert one.marks == []
    assert "endpoints: stopped; received 2 messages" in capsys.readouterr().err


@pytest.mark.parametrize("address", ["ipc:///x", "ipc:///no*where"])
def test_a_feed_to_which_nothing_came_is_in_the_result(
    address: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A feed without messages is in the result, whether or not a sender was there.

    The exit code is one of its own.
    """
    one = Marked()
    assert fed(monkeypatch, one, address=address) == 6
    assert one.marks == [f"feed endpoints:{address}: no messages received"]
    assert "endpoints: stopped; no messages received" in capsys.readouterr().err


def test_waiting_for_long_is_in_the_result(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A long wait for messages is in the result while the run can still take it."""
    monkeypatch.setattr("telemetry.integrations.feeds._QUIET_S", -1.0)
    one = Marked()
    fed(monkeypatch, one)
    waiting = "no messages from ipc:///x for -1 s; still waiting"
    assert one.marks[0] == f"feed endpoints:ipc:///x: {waiting}"
    assert f"endpoints: {waiting}" in capsys.readouterr().err


def test_a_feed_that_fails_is_in_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """A feed that fails is in the result, with the cause if that is known."""
    one = Marked()
    with pytest.raises(EndpointError):
        fed(monkeypatch, one, address="")
    with pytest.raises(RuntimeError):
        fed(monkeypatch, one, b"break")
    assert one.marks == [
        "feed endpoints: endpoints has no default address (write endpoints:ADDRESS)",
        "feed endpoints:ipc:///x: the feed failed",
    ]


def test_a_sender_that_has_gone_is_in_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sender that has gone is in the result, and its messages are there all the same."""

    def gone(feed_loop: FeedLoop) -> str:
        feed_loop.taken = 3
        return "gone"

    one = Marked()
    monkeypatch.setattr(FeedLoop, "run", gone)
    assert fed(monkeypatch, one) == 1
    assert one.marks == ["feed endpoints:ipc:///x: the sender disconnected without an end message"]


def test_a_wrong_feed_is_said(root: Path, signals: None, capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong name of a feed is an error before anything is asked."""
    assert main(["feed", "endpoint"]) == 2
    assert "did you mean endpoints?" in capsys.readouterr().err


def test_a_feed_is_at_work_from_the_beginning_of_a_session_to_its_end() -> None:
    """A feed is at work from the beginning of a session to its end.

    A run that ends in between lacks what the sender may still send.
    """

    class Kind:
        def __init__(self, *_: object) -> None:
            self.over = False

    kind: Any = Kind
    run: Any = Marked()
    fed = feed._Fed(FeedSpec("mine"), kind, run, texts=True)
    assert not fed.is_at_work()
    sessions: list[Any] = [fed.begin("1"), fed.begin("2")]
    assert fed.is_at_work()
    sessions[0].over = True
    assert fed.is_at_work()
    sessions[1].over = True
    assert not fed.is_at_work()

"""`telemetry feed` without its sockets: which run is meant, when it is over, and who may say stop."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import telemetry.transport
import telemetry.transport.endpoints
from telemetry import limits
from telemetry.cli import feed
from telemetry.cli.main import build_parser, main
from telemetry.errors import RunNotFoundError
from telemetry.wire.snapshot import MetricsSnapshot


@pytest.fixture
def signals() -> Iterator[None]:
    """Handlers are as they were afterwards."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


class Snapshots:
    """A subscription that says what it is told to."""

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
    """And stays so."""
    with feed._Watch("ipc:///r") as watch:
        assert not watch.over()
        snapshots.next = [state]
        assert watch.over() == over
        assert watch.over() == over
    assert snapshots.closed


def test_a_run_whose_aggregator_died_may_go_on(
    snapshots: Snapshots, now: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """For as long as others may start another; one that is only silent is there."""
    refuse(monkeypatch, False)
    with feed._Watch("ipc:///r") as watch:
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
    """Also those that were blocked by whoever started it."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    for number in (signal.SIGTERM, signal.SIGINT):
        stop = feed._Stop()
        assert not stop
        os.kill(os.getpid(), number)
        assert stop


def test_the_run_is_the_one_around_unless_one_is_named(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under `telemetry run` that is the run."""
    monkeypatch.setattr(feed.runs, "check_listened", lambda endpoint: None)
    parser = build_parser("feed")

    def endpoint(*words: str) -> Any:
        return feed._endpoint(parser.parse_args(["feed", "endpoints", *words]))

    with pytest.raises(RunNotFoundError):
        endpoint()
    monkeypatch.setenv("TELEMETRY_ENDPOINT", "ipc:///around")
    assert endpoint() == "ipc:///around"
    assert endpoint("ipc:///named") == "ipc:///named"


def test_a_wrong_feed_is_said(root: Path, signals: None, capsys: pytest.CaptureFixture[str]) -> None:
    """Before anybody is asked."""
    assert main(["feed", "endpoint"]) == 2
    assert "did you mean endpoints?" in capsys.readouterr().err

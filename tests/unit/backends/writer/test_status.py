"""The thread that tells how a writer is doing."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from telemetry import limits
from telemetry.backends.sources.source import Position
from telemetry.backends.writer.process import StatusReporter
from telemetry.backends.writer.tally import WriterTally
from telemetry.errors import EndpointError
from telemetry.store.backends import WriterFolder
from telemetry.wire.control import TellBackend
from telemetry.wire.snapshot import BackendStat

Until = Callable[..., object]


class ListClient:
    def __init__(self, fail: bool = False) -> None:
        self.told: list[BackendStat] = []
        self.fail = fail
        self.closed = 0

    def request(self, message: TellBackend, timeout_s: float) -> None:
        if self.fail:
            raise EndpointError("nobody")
        self.told.append(message.stat)

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def attending(tmp_path: Path) -> Iterator[Callable[..., StatusReporter]]:
    made: list[StatusReporter] = []

    def make(connect: Callable[[], Any] | None = None, **options: Any) -> StatusReporter:
        folder = WriterFolder(options.pop("folder", tmp_path))
        options.setdefault("on_orphaned", lambda: None)
        one = StatusReporter(options.pop("tally", WriterTally("w", "w")), folder, connect, every_s=0.005, **options)
        one.start()
        made.append(one)
        return one

    yield make
    for one in made:
        one.stop()


def test_it_tells_the_disk_and_the_aggregator(
    attending: Callable[..., StatusReporter], tmp_path: Path, wait_until: Until
) -> None:
    """Again and again, and the last state at the end."""
    client, tally = ListClient(), WriterTally("w", "w")
    one = attending(lambda: client, tally=tally)
    wait_until(lambda: len(client.told) > 2)
    tally.state = "done"
    assert one.stop().state == "done"
    stat = WriterFolder(tmp_path).read_status()
    assert stat is not None
    assert (stat.state, client.told[-1].state, client.closed) == ("done", "done", 1)


def test_an_aggregator_that_is_away_is_asked_later(
    attending: Callable[..., StatusReporter], wait_until: Until
) -> None:
    """An aggregator that is away is asked by a new connection some rounds later.

    The disk gets the reports meanwhile.
    """
    clients = [ListClient(fail=True), ListClient()]
    left = iter(clients)
    attending(lambda: next(left))
    wait_until(lambda: clients[1].told)
    assert clients[0].closed == 1


def test_a_disk_that_is_full_hides_nothing_from_the_aggregator(
    attending: Callable[..., StatusReporter], tmp_path: Path, wait_until: Until
) -> None:
    """Nor does it end the thread."""
    client = ListClient()
    attending(lambda: client, folder=tmp_path / "gone")
    wait_until(lambda: len(client.told) > 2)


def test_it_notices_that_nobody_looks_after_it(
    attending: Callable[..., StatusReporter], monkeypatch: pytest.MonkeyPatch, wait_until: Until
) -> None:
    """A writer notices that its starter has died, because another process is its parent."""
    asked: list[int] = []
    attending(on_orphaned=lambda: asked.append(1))
    assert asked == []
    parent = os.getppid()
    monkeypatch.setattr(os, "getppid", lambda: parent + 1)
    wait_until(lambda: asked)


def test_a_log_has_a_bound(
    attending: Callable[..., StatusReporter], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wait_until: Until
) -> None:
    """A library that says the same thing for weeks fills no disk."""
    monkeypatch.setattr(limits, "BACKEND_LOG_BYTES", 1_000)
    log = tmp_path / "log"
    log.write_bytes(b"x" * 1_001)
    fd = os.open(log, os.O_WRONLY | os.O_APPEND)
    one = attending(log_fd=fd)
    wait_until(lambda: log.stat().st_size == 0)
    one.stop()
    os.close(fd)


def test_a_connection_is_one_threads_also_at_the_end(
    attending: Callable[..., StatusReporter], tmp_path: Path, wait_until: Until
) -> None:
    """An aggregator that does not answer in time has the thread's question still; the disk has the last word."""
    answered, asking = threading.Event(), threading.Event()
    asked: set[str] = set()

    class SlowClient(ListClient):
        def request(self, message: TellBackend, timeout_s: float) -> None:
            asked.add(threading.current_thread().name)
            asking.set()
            answered.wait()

    tally = WriterTally("w", "w")
    one = attending(SlowClient, tally=tally)
    assert asking.wait(10.0)
    tally.state = "done"
    one.stop()
    answered.set()
    stat = WriterFolder(tmp_path).read_status()
    assert stat is not None
    assert (stat.state, asked) == ("done", {"telemetry-status"})


def test_progress_is_told_at_once_and_at_most_twenty_times_a_second(tmp_path: Path, wait_until: Until) -> None:
    """A writer that makes none says so seldom."""
    client, tally = ListClient(), WriterTally("w", "w")
    one = StatusReporter(tally, WriterFolder(tmp_path), lambda: client, on_orphaned=lambda: None, every_s=3600.0)
    one.start()
    wait_until(lambda: client.told)
    began_s = time.monotonic()
    for number in range(1, 400):
        tally.position = Position(next_record=number)
        time.sleep(0.001)
    tally.state = "idle"
    wait_until(lambda: client.told[-1].state == "idle")
    seconds = time.monotonic() - began_s
    assert client.told[-1].next_record == 399
    assert 3 <= len(client.told) <= 3 + seconds / limits.BACKEND_STATUS_LEAST_S
    one.stop()

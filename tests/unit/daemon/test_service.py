"""The loop: turns, ticks, drains, on real sockets."""

from __future__ import annotations

import os
import socket
import threading
import time
from typing import Any

import pytest

from telemetry.transport.subscription import Subscription
from telemetry.wire import control as msg
from telemetry.wire.events import Count
from telemetry.wire.snapshot import MetricsSnapshot


def test_the_first_producer_makes_it_live(make_service: Any, connect: Any) -> None:
    """INITIALIZE until somebody says hello or sends."""
    service = make_service()
    observer = connect(service, "watcher", greet=False)
    observer.ask(msg.Hello(id=1))
    assert service.run_status.lifecycle.state == "INITIALIZE"
    peer = connect(service)
    peer.until(lambda: service.run_status.lifecycle.state == "LIVE")


def test_every_tick_publishes_a_whole_snapshot(make_service: Any, connect: Any) -> None:
    """Numbers grow by one, and each snapshot holds all that was applied before it."""
    service = make_service({"run.refresh_hz": 50.0})
    peer = connect(service)
    heard: list[MetricsSnapshot] = []
    with Subscription(service.parts.hub.endpoints.snapshots, conflate=False) as snapshots:

        def listen() -> bool:
            snapshot = snapshots.recv(0.0)
            if snapshot is not None:
                heard.append(snapshot)
            return len(heard) >= 5

        peer.send(Count("n", 3.0))
        peer.applied(1)
        peer.until(listen)
    assert [one.seq for one in heard] == list(range(heard[0].seq, heard[0].seq + 5))
    assert heard[-1].counters[0].value == 3
    assert (heard[-1].state, heard[-1].run_id, heard[-1].refresh_hz) == ("LIVE", "r1", 50.0)
    assert heard[-1].cost.ticks >= 4


def test_after_the_books_are_closed_events_stay_in_the_socket(make_service: Any, connect: Any) -> None:
    """Ticks and control go on."""
    service = make_service()
    peer = connect(service)
    peer.send(Count("n"))
    peer.applied(1)
    service.close_books()
    peer.send(Count("n"))
    assert service.parts.hub.wait(10.0).events
    ticks = service.cost.ticks
    peer.say(msg.GetStatus(id=5))
    service.turns_until(lambda: service.cost.ticks >= ticks + 5 and peer.all(msg.Status))
    assert service.parts.aggregator.book.counted_events == 1
    assert service.parts.hub.wait(0.0).events


def test_a_late_tick_is_counted_and_not_caught_up(make_service: Any) -> None:
    """A stop of many periods is followed by one tick, not by many in a row."""
    service = make_service()
    service.turns_until(lambda: service.cost.ticks >= 1)
    service._next_tick_ns -= 10**9
    ticks, late = service.cost.ticks, service.cost.ticks_late
    service.turn()
    assert (service.cost.ticks, service.cost.ticks_late) == (ticks + 1, late + 1)
    assert service._next_tick_ns > service.parts.clock.monotonic_ns()


def test_a_slow_refresh_slows_nothing_else(make_service: Any, connect: Any, wait_until: Any) -> None:
    """Acknowledgements, seconds and deadlines are punctual with a snapshot every ten seconds."""
    service = make_service({"run.refresh_hz": 0.1, "run.drain_timeout_s": 0.2})
    began = time.monotonic()
    peer = connect(service, pid=os.getpid(), host=service.parts.host)
    peer.send(Count("n"))
    peer.until(lambda: peer.all(msg.Ack))
    service.run_status.end("enough")
    service.drain()
    assert time.monotonic() - began < 5.0
    assert service.run_status.seq == 0, "no snapshot was due yet"


@pytest.mark.parametrize(("hz", "ticks"), [(0.1, 100), (3.0, 4), (10.0, 1), (100.0, 1)])
def test_a_snapshot_is_due_after_so_many_ticks(make_service: Any, hz: float, ticks: int) -> None:
    """The refresh is what was asked for, in ticks of a tenth of a second or less."""
    service = make_service({"run.refresh_hz": hz})
    assert service._ticks_a_snapshot == ticks
    assert service._period_ns * ticks == pytest.approx(1e9 / hz, abs=100)


@pytest.mark.parametrize(
    ("part", "words"), [("journal", "journal"), ("history", "history"), ("records", "record log")]
)
def test_a_file_that_cannot_be_written_is_said(make_service: Any, part: str, words: str) -> None:
    """The run goes on without it, and every snapshot says so."""
    service = make_service()
    getattr(service.parts, part).failed = "No space left on device"
    assert service.snapshot().warnings == [f"can't write the {words}: No space left on device"]


def test_what_a_cap_has_cost_is_said(make_service: Any, make_again: Any, die: Any) -> None:
    """Every snapshot, and that of the next aggregator, reports the loss by a cap."""
    service = make_service()
    service.parts.history._notice(1 << 20, "older parts are kept in coarser steps")
    (said,) = service.snapshot().warnings
    assert said == (
        "the history reached its size limit (history.cap_bytes, 1.00 MiB): older parts are kept in coarser steps"
    )
    die(service)
    assert said in make_again(service.parts.directory).snapshot().warnings


def test_a_stuck_service_manager_stops_no_turn(
    make_service: Any, short_dir: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keep-alives are sent or lost, never waited for."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(short_dir / "notify"))
        monkeypatch.setenv("NOTIFY_SOCKET", str(short_dir / "notify"))
        service = make_service()

        def seconds() -> None:
            for _ in range(200):
                service._each_second(service.parts.clock.monotonic_ns())

        thread = threading.Thread(target=seconds, daemon=True)
        thread.start()
        thread.join(10)
        assert not thread.is_alive()


def test_an_interruption_skips_the_drain(make_service: Any, connect: Any) -> None:
    """An interruption before the drain skips it, and one during the drain ends it."""
    service = make_service({"run.drain_timeout_s": 60.0})
    connect(service, pid=os.getpid(), host=service.parts.host)
    service.run_status.end("stopped", interrupted=True)
    service.drain()
    assert service.run_status.lifecycle.state != "DRAINING"

    again = make_service({"run.drain_timeout_s": 60.0}, run_id="r2")
    connect(again, pid=os.getpid(), host=again.parts.host)
    again.run_status.end("enough")
    ticks = again.cost.ticks
    over = again._drained
    again._drained = lambda: (
        over() or (again.cost.ticks > ticks + 3 and again.run_status.end("now", interrupted=True))
    )
    again.drain()
    assert again.run_status.reason == "now"
    assert again.parts.clock.monotonic_ns() < again.run_status.drain_deadline_ns

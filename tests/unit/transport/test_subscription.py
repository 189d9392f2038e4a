"""Snapshots as a loop, as `async for`, conflated or every one."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from telemetry.errors import EndpointError, UsageError
from telemetry.transport import Hub, Subscription, plan, subscribe
from telemetry.wire import codec
from telemetry.wire.codec import encode_snapshot
from telemetry.wire.control import Request, Response, Welcome
from telemetry.wire.snapshot import MetricsSnapshot

Served = Callable[[Callable[[Hub, Request], list[Response]]], str]
MakeWelcome = Callable[[Hub, Request], Welcome]
LAST = 40


def frame(seq: int) -> bytes:
    state = "COMPLETE" if seq >= LAST else "LIVE"
    return encode_snapshot(MetricsSnapshot(run_id="r", name="job", seq=seq, state=state))


@pytest.fixture
def publishing(hub: Hub) -> Iterator[Hub]:
    """A hub that publishes snapshots 0 … LAST every 5 ms once, then repeats the last."""
    stopping = threading.Event()

    def publish() -> None:
        seq = 0
        while not stopping.wait(0.005):
            hub.publish_snapshot(frame(seq))
            seq = min(seq + 1, LAST)

    thread = threading.Thread(target=publish)
    thread.start()
    yield hub
    stopping.set()
    thread.join()


def test_a_loop_ends_after_the_terminal_snapshot(publishing: Hub) -> None:
    """A loop gets the snapshots in order and ends after the terminal one."""
    with Subscription(publishing.endpoints.snapshots) as snapshots:
        seen = [snapshot.seq for snapshot in snapshots]
    assert seen == sorted(set(seen))
    assert seen[-1] == LAST


def test_async_iteration(publishing: Hub) -> None:
    """The event loop is free between snapshots."""

    async def collect() -> tuple[list[int], int]:
        turns = 0

        async def others() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1

        busy = asyncio.create_task(others())
        with Subscription(publishing.endpoints.snapshots, conflate=False) as snapshots:
            seen = [snapshot.seq async for snapshot in snapshots]
        busy.cancel()
        return seen, turns

    seen, turns = asyncio.run(collect())
    assert seen[-1] == LAST
    assert seen == list(range(seen[0], LAST + 1))
    assert turns > 0  # an implementation that blocks leaves none


@pytest.mark.parametrize("conflate", [True, False])
def test_the_newest_snapshot_can_be_polled(
    publishing: Hub, wait_until: Callable[..., object], conflate: bool
) -> None:
    """A program that only looks from time to time sees it, and a loop afterwards misses none."""
    with Subscription(publishing.endpoints.snapshots, conflate=conflate) as snapshots:
        wait_until(lambda: snapshots.newest is not None)
        first = snapshots.newest
        assert first is not None
        wait_until(lambda: snapshots.newest.seq > first.seq)
        seen = [snapshot.seq for snapshot in snapshots]
        assert snapshots.newest.seq == LAST
    assert seen[-1] == LAST
    if not conflate:
        assert seen == list(range(seen[0], LAST + 1))
        assert seen[0] <= first.seq
    assert snapshots.newest.seq == LAST, "after the end it stays"


def test_conflation_skips_to_the_newest(hub: Hub, wait_until: Callable[..., object]) -> None:
    """A slow reader is never behind."""
    with (
        Subscription(hub.endpoints.snapshots) as newest,
        Subscription(hub.endpoints.snapshots, conflate=False) as every,
    ):
        wait_until(lambda: hub.publish_snapshot(frame(0)) or (newest.recv(0.01) and every.recv(0.01)))
        seen = [0]
        for seq in range(1, 9):
            hub.wait(0.005)  # ZeroMQ looks for room in its pipes once a millisecond; snapshots are rarer
            hub.publish_snapshot(frame(seq))
            while seen[-1] != seq:
                found = every.recv(5.0)
                assert found is not None
                seen.append(found.seq)
        assert seen[-8:] == list(range(1, 9))
        wait_until(lambda: (found := newest.recv(0.01)) is not None and found.seq == 8)
        assert newest.newest is not None
        assert newest.newest.seq == 8


def test_subscribe_takes_an_address_or_a_run(served: Served, welcome: MakeWelcome, hub: Hub) -> None:
    """Anything with an endpoint will do."""

    class Run:
        endpoint = ""

    run = Run()
    run.endpoint = served(lambda hub, request: [welcome(hub, request)])
    for source in (run, run.endpoint):
        with subscribe(source, timeout_s=5.0) as snapshots:
            assert snapshots.address == hub.endpoints.snapshots


def test_what_is_no_address_is_the_callers_error() -> None:
    """A name has to be resolved first."""
    with pytest.raises(UsageError, match="is not an address"):
        subscribe("my-run")


def test_nobody_there(short_dir: Path) -> None:
    """The handshake is bounded."""
    with pytest.raises(EndpointError, match="no aggregator answered at"):
        subscribe(f"ipc://{short_dir}/none", timeout_s=0.1)


def test_silence_ends_an_iteration_with_an_error(hub: Hub) -> None:
    """An aggregator that was killed does not hang its readers."""
    with Subscription(hub.endpoints.snapshots, timeout_s=0.05) as snapshots:
        assert snapshots.recv(0.01) is None
        with pytest.raises(EndpointError, match="no snapshot"):
            next(iter(snapshots))

        async def wait() -> None:
            await anext(aiter(snapshots))

        with pytest.raises(EndpointError, match="no snapshot"):
            asyncio.run(wait())


def test_noise_is_counted_and_skipped(hub: Hub, wait_until: Callable[..., object]) -> None:
    """A reader does not die of what somebody publishes."""
    with Subscription(hub.endpoints.snapshots, conflate=False) as snapshots:
        wait_until(lambda: hub.publish_snapshot(frame(0)) or snapshots.recv(0.01))
        hub.publish_snapshot(codec.SNAPSHOTS + b"\xc1")
        hub.publish_snapshot(frame(7))
        while (found := snapshots.recv(math.inf)) is not None and found.seq != 7:
            pass
        assert snapshots.unreadable == 1


def test_a_closed_subscription_is_over(hub: Hub) -> None:
    """Closing ends the iteration."""
    snapshots = Subscription(hub.endpoints.snapshots)
    snapshots.close()
    snapshots.close()
    assert list(snapshots) == []


def test_an_address_that_is_none() -> None:
    """An invalid address is an error and leaves nothing open."""
    with pytest.raises(EndpointError):
        Subscription("nowhere")


@pytest.mark.parametrize("conflate", [True, False])
def test_snapshots_go_on_when_the_aggregator_is_another_one(
    short_dir: Path, wait_until: Callable[..., object], conflate: bool
) -> None:
    """Snapshots go on when another aggregator takes the address and begins its numbers anew.

    The newest snapshot is the one that came last.
    """

    def published(hub: Hub, epoch: str, seq: int) -> bool:
        hub.publish_snapshot(encode_snapshot(MetricsSnapshot(run_id="r", name="job", epoch=epoch, seq=seq)))
        snapshot = snapshots.recv(0.01)
        return snapshot is not None and (snapshot.epoch, snapshot.seq) == (epoch, seq)

    first = Hub(plan(f"ipc://{short_dir}/c", "r"))
    with Subscription(first.endpoints.snapshots, conflate=conflate) as snapshots:
        wait_until(lambda: published(first, "e1", 500), what="the first aggregator's")
        first.close()
        second = Hub(plan(f"ipc://{short_dir}/c", "r"))
        try:
            wait_until(lambda: published(second, "e2", 1), what="the second aggregator's")
            assert snapshots.newest is not None
            assert (snapshots.newest.epoch, snapshots.newest.seq) == ("e2", 1)
        finally:
            second.close()

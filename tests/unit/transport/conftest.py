"""A hub on private addresses, and the replies that tests of its peers need."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from telemetry.transport import Hub, plan
from telemetry.wire.codec import decode_request, encode_control
from telemetry.wire.control import Hello, Request, Response, Welcome

Answer = Callable[[Hub, Request], list[Response]]


@pytest.fixture
def hub(short_dir: Path) -> Iterator[Hub]:
    """A bound hub; the test's own thread has to serve it."""
    made = Hub(plan(f"ipc://{short_dir}/c", "r"))
    yield made
    made.close()


@pytest.fixture
def served(hub: Hub) -> Iterator[Callable[[Answer], str]]:
    """`served(answer)` serves control on a thread until the test ends, and returns the control address."""
    stopping = threading.Event()
    threads: list[threading.Thread] = []

    def serve(answer: Answer) -> None:
        while not stopping.is_set():
            hub.wait(0.01)
            for peer, data in hub.receive_control(10):
                for response in answer(hub, decode_request(data)):
                    hub.send_control(peer, encode_control(response))

    def start(answer: Answer) -> str:
        threads.append(threading.Thread(target=serve, args=(answer,)))
        threads[0].start()
        return hub.endpoints.control

    yield start
    stopping.set()
    for thread in threads:
        thread.join()


@pytest.fixture
def welcome() -> Callable[[Hub, Request], Welcome]:
    """The answer to a hello."""

    def make(hub: Hub, request: Request) -> Welcome:
        assert isinstance(request, Hello)
        where = hub.endpoints
        return Welcome(
            id=request.id,
            run_id="r",
            name="job",
            epoch="e",
            state="LIVE",
            events=where.events,
            snapshots=where.snapshots,
            records=where.records,
        )

    return make

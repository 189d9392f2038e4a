"""Requests and their answers."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import zmq
from msgspec.structs import replace

from telemetry.errors import EndpointError, ProtocolError
from telemetry.transport import ControlClient, Endpoints, Hub, hello, plan, sockets
from telemetry.wire.codec import decode_request, encode_control
from telemetry.wire.control import Ack, Error, GetStatus, Ping, Pong, Request, Resend, Response, Welcome

Served = Callable[[Callable[[Hub, Request], list[Response]]], str]
MakeWelcome = Callable[[Hub, Request], Welcome]


def pong(request: Request) -> Pong:
    return Pong(id=request.id, epoch="e", state="LIVE")


def test_hello_is_answered_with_welcome(served: Served, welcome: MakeWelcome) -> None:
    """An observer learns where everything is."""
    endpoint = served(lambda hub, request: [welcome(hub, request)])
    assert hello(endpoint, 5.0).run_id == "r"


def test_an_answer_belongs_to_the_request_with_its_id(served: Served) -> None:
    """A late answer to an earlier request is skipped."""
    endpoint = served(lambda hub, request: [replace(pong(request), id=request.id + 7), pong(request)])
    with ControlClient(endpoint) as client:
        assert client.request(Ping(), 5.0).id == 1
        assert client.request(Ping(), 5.0).id == 2


def test_pushed_messages_are_kept_for_whoever_asks(served: Served) -> None:
    """Pushed messages that come before the answer are kept until they are asked for."""
    pushed: list[Response] = [Ack(epoch="e", batches=3), Resend(first=0, last=1)]
    endpoint = served(lambda hub, request: [*pushed, pong(request)])
    with ControlClient(endpoint) as client:
        client.request(Ping(), 5.0)
        assert client.poll_pushed() == pushed
        assert client.poll_pushed() == []


def test_an_error_is_raised_with_its_code(served: Served) -> None:
    """The aggregator's words reach the person."""
    endpoint = served(lambda hub, request: [Error(id=request.id, code="refused", message="not today")])
    with ControlClient(endpoint) as client, pytest.raises(ProtocolError, match="not today"):
        client.request(GetStatus(), 5.0)


def test_a_machine_without_room_for_a_socket_says_so(short_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lack of descriptors is an error of this endpoint, which may pass. No socket stays open."""
    closed: list[bool] = []

    def fail(*_: object) -> None:
        raise zmq.ZMQError(errno.EMFILE)

    monkeypatch.setattr(sockets, "make_socket", fail)
    close = ControlClient.close
    monkeypatch.setattr(ControlClient, "close", lambda self: closed.append(close(self) is None))
    with pytest.raises(EndpointError, match="can't open a socket for ipc:///x: Too many open files"):
        ControlClient("ipc:///x")
    assert closed


def test_silence_names_the_endpoint_and_what_to_do(short_dir: Path) -> None:
    """The wait is bounded."""
    with pytest.raises(EndpointError, match=f"ipc://{short_dir}/none within 0.1 s .*telemetry ls"):
        hello(f"ipc://{short_dir}/none", 0.1)


def test_another_major_version_is_called_that(served: Served, welcome: MakeWelcome) -> None:
    """Talking on would end in noise."""
    endpoint = served(lambda hub, request: [replace(welcome(hub, request), version=(2, 0))])
    with pytest.raises(ProtocolError, match="same major version"):
        hello(endpoint, 5.0)


def test_a_wrong_answer_to_hello(served: Served) -> None:
    """A wrong answer to `hello` shows that the address is no aggregator's control address."""
    endpoint = served(lambda hub, request: [pong(request)])
    with pytest.raises(ProtocolError, match="answered hello with Pong"):
        hello(endpoint, 5.0)


def test_what_cannot_be_read_is_skipped_unless_it_is_the_answer(hub: Hub) -> None:
    """A newer aggregator may push types this client doesn't know."""
    with ControlClient(hub.endpoints.control, b"me") as client:
        with pytest.raises(EndpointError):
            client.request(Ping(), 0.05)
        assert hub.wait(5.0).control
        assert hub.send_control(b"me", b"\x81\xa4type\xa3new")
        assert client.poll_pushed(5.0) == []
        assert hub.send_control(b"me", b"\x82\xa4type\xa3new\xa2id\x02")
        with pytest.raises(ProtocolError, match="answered with an unknown message:"):
            client.request(Ping(), 5.0)


def test_an_address_that_is_none() -> None:
    """An invalid address is an error, and no socket stays open."""
    with pytest.raises(EndpointError, match="can't connect to"):
        ControlClient("nowhere")


def test_a_client_goes_on_with_the_next_aggregator(short_dir: Path) -> None:
    """A client goes on with the next aggregator at the same address.

    Late answers to earlier requests are not taken for its own.
    """
    endpoints = plan(f"ipc://{short_dir}/c", "r")
    client = ControlClient(endpoints.control)
    epochs = []
    for epoch in ("e1", "e2"):
        with pytest.raises(EndpointError):
            client.request(Ping(), 0.05)
        stopping = threading.Event()
        thread = threading.Thread(target=serve, args=(endpoints, epoch, stopping))
        thread.start()
        try:
            answer = client.request(Ping(), 10.0)
            assert isinstance(answer, Pong)
            epochs.append((answer.epoch, answer.id))
        finally:
            stopping.set()
            thread.join()
    client.close()
    assert epochs == [("e1", 2), ("e2", 4)]


def serve(endpoints: Endpoints, epoch: str, stopping: threading.Event) -> None:
    """An aggregator that answers everything with a pong."""
    hub = Hub(endpoints)
    while not stopping.is_set():
        hub.wait(0.01)
        for peer, data in hub.receive_control(10):
            answer = Pong(id=decode_request(data).id, epoch=epoch, state="LIVE")
            hub.send_control(peer, encode_control(answer))
    hub.close()

"""Why two sockets don't come to talk, told from the side that connects."""

from __future__ import annotations

import errno
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zmq
from tests.ports import free_port

from telemetry.errors import KeysError
from telemetry.transport import Hub, plan, sockets
from telemetry.transport.handshake import Handshakes, explain_silence, mechanism
from telemetry.transport.keys import KeyFolder

Become = Callable[[str], KeyFolder]
OTHER_KEY = "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7"
PATIENCE_S = 10.0


class Locked:
    """A hub that demands keys, and the thread it belongs to."""

    def __init__(self, keys: KeyFolder) -> None:
        self._hub = Hub(plan("tcp://127.0.0.1:*", "r"), keys=keys)
        self.address, self.bare_address = self._hub.address, self._hub.endpoints.control
        self.heard: list[bytes] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        while not self._stopping.is_set():
            self._hub.wait(0.01)
            self.heard += [data for _, data in self._hub.receive_control(10)]

    def close(self) -> None:
        self._stopping.set()
        self._thread.join()
        self._hub.close()


@pytest.fixture
def locked(become: Become) -> Iterator[Locked]:
    """The process is its owner's."""
    made = Locked(become("owner"))
    yield made
    made.close()


@pytest.fixture
def unlocked() -> Iterator[Hub]:
    hub = Hub(plan("tcp://127.0.0.1:*", "r"))
    yield hub
    hub.close()


class Peer:
    """A socket that connects, and what is known of its handshakes."""

    def __init__(self, endpoint: str) -> None:
        self.context: sockets.ZmqContext = zmq.Context()
        self.socket = sockets.make_socket(self.context, sockets.CONTROL_OUT, 0)
        self.handshakes = Handshakes(self.context, self.socket, endpoint)
        sockets.connect(self.socket, endpoint)

    def refusal(self) -> str:
        """Message and hint, once it is known."""
        with pytest.raises(KeysError) as caught:
            self.handshakes.readable(PATIENCE_S)
        return str(caught.value)


@pytest.fixture
def connect() -> Iterator[Callable[[str], Peer]]:
    made: list[Peer] = []

    def make(endpoint: str) -> Peer:
        made.append(Peer(endpoint))
        return made[-1]

    yield make
    for peer in made:
        peer.context.destroy(0)


def test_an_unknown_key_is_told_with_what_would_let_it_in(
    locked: Locked, become: Become, connect: Callable[[str], Peer]
) -> None:
    """The hint is the command for the other side, key and all."""
    stranger = become("stranger").own()
    said = connect(locked.address).refusal()
    assert f"{locked.bare_address} does not trust your key" in said
    assert f"telemetry keys trust NAME '{stranger.public.decode()}'" in said


def test_a_missing_key_is_told_apart(locked: Locked, connect: Callable[[str], Peer]) -> None:
    """The address lacks its second half."""
    assert "requires a key" in connect(locked.bare_address).refusal()


def test_the_wrong_key_of_the_aggregator_is_told_apart(locked: Locked, connect: Callable[[str], Peer]) -> None:
    """Somebody else answers there, or the address is old."""
    said = connect(f"{locked.bare_address}#{OTHER_KEY}").refusal()
    assert "does not have the key in the address" in said


def test_an_aggregator_without_keys_is_told_apart(
    unlocked: Locked, become: Become, connect: Callable[[str], Peer]
) -> None:
    """A peer with a key in its address sends no data in the clear to an aggregator without keys."""
    become("ann")
    assert "has no key" in connect(f"{unlocked.endpoints.control}#{OTHER_KEY}").refusal()


def test_who_is_known_hears_nothing_of_it(
    locked: Locked, connect: Callable[[str], Peer], wait_until: Callable[..., object]
) -> None:
    """A known peer sees no refusal, and its requests arrive."""
    peer = connect(locked.address)
    peer.socket.send(b"hello")
    wait_until(lambda: locked.heard or peer.handshakes.refusal(), PATIENCE_S, "the request")
    assert locked.heard == [b"hello"]
    assert peer.handshakes.readable(0.0) is False


def test_nobody_there_is_no_refusal(connect: Callable[[str], Peer]) -> None:
    """An aggregator that is about to start, or starts again, is waited for."""
    assert connect(f"tcp://127.0.0.1:{free_port()}").handshakes.readable(0.3) is False


def test_an_aggregator_that_goes_away_in_mid_handshake_is_no_refusal(
    become: Become, connect: Callable[[str], Peer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong key is one that fails again and again, at an aggregator that is there."""
    own = become("owner").own()
    monkeypatch.setattr("telemetry.transport.handshake.mechanism", lambda _address: "CURVE")
    with socket.create_server(("127.0.0.1", 0)) as server:
        peer = connect(f"tcp://127.0.0.1:{server.getsockname()[1]}#{own.public.decode()}")
        for _ in range(2):
            server.accept()[0].close()
        third, _ = server.accept()  # so the others have failed
        assert peer.handshakes.readable(0.0) is False
        third.close()
        assert "does not have the key in the address" in peer.refusal()


def test_files_and_pipes_between_processes_are_not_watched(
    short_dir: object, connect: Callable[[str], Peer]
) -> None:
    """An ipc address has no keys."""
    peer = connect(f"ipc://{short_dir}/nobody")
    assert peer.handshakes.readable(0.0) is False
    assert peer.handshakes.refusal() is None


def test_what_a_socket_wants_can_be_asked(locked: Locked, unlocked: Locked) -> None:
    """The greeting of a socket tells whether it needs a key, before any key is used."""
    assert mechanism(locked.address) == "CURVE"
    assert mechanism(unlocked.endpoints.control) == "NULL"


def test_what_speaks_otherwise_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another server, a silent one, one that hangs up, none: bounded."""
    monkeypatch.setattr("telemetry.transport.handshake._PROBE_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        assert mechanism(address) == ""

        def hang_up() -> None:
            for _ in range(2):
                server.accept()[0].close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        assert mechanism(address) == ""
        thread.join()
    assert mechanism(address) == ""
    assert mechanism("tcp://nowhere") == ""


def test_a_silence_is_explained(unlocked: Hub, short_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason tells a name, a free port, a stranger, a silent aggregator and an unreachable host apart."""
    free = f"tcp://127.0.0.1:{free_port()}"
    assert explain_silence(free).startswith("no process listens there; check")
    assert explain_silence(f"{free}#cluster").startswith("no process listens there; check")
    assert explain_silence(f"ipc://{short_dir}/none").startswith("no process listens there; check")
    assert explain_silence("tcp://nowhere.invalid:5757").startswith("the name of its host can't be resolved; check")
    assert explain_silence(unlocked.address).startswith("a process listens there, but does not answer; check")
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        monkeypatch.setattr("telemetry.transport.handshake._PROBE_S", 0.2)
        address = f"tcp://127.0.0.1:{stranger.getsockname()[1]}"
        assert explain_silence(address).startswith("a process listens there that is no aggregator, or hangs; check")

    def fail(*_: object) -> socket.socket:
        raise OSError(errno.EHOSTUNREACH, "No route to host")

    monkeypatch.setattr("telemetry.transport.handshake.dial", fail)
    assert explain_silence(free).startswith("its host can't be reached; check")

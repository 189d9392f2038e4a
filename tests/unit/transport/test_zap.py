"""Tests of who gets in: the decisions, and how they follow the folder of trusted keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zmq
from msgspec import convert
from zmq.utils import z85

from telemetry import limits
from telemetry.config import Config
from telemetry.errors import KeysError
from telemetry.transport import plan, sockets, zap
from telemetry.transport.keys import KeyFolder
from telemetry.transport.zap import Authenticator, keys_for

ANN, BOB = (zmq.curve_keypair()[0] for _ in range(2))
LOOPBACK, ANYWHERE, FILE = "tcp://127.0.0.1:*", "tcp://0.0.0.0:*", "ipc:///run/x"


class Gate:
    """An authenticator, and the side of ZeroMQ that asks it."""

    def __init__(self, context: sockets.ZmqContext, folder: KeyFolder) -> None:
        self.folder = folder
        self.authenticator = Authenticator(context, folder)
        self.asker = context.socket(zmq.REQ)
        self.asker.connect("inproc://zeromq.zap.01")

    def ask(self, key: bytes, *, mechanism: bytes = b"CURVE", address: bytes = b"192.0.2.7") -> list[bytes]:
        """[status, user] for somebody who comes with this key."""
        raw = [] if mechanism != b"CURVE" else [z85.decode(key)]
        self.asker.send_multipart([b"1.0", b"7", b"telemetry", address, b"", mechanism, *raw])
        assert self.authenticator.socket.poll(5_000)
        self.authenticator.answer()
        version, number, status, _text, user, _metadata = self.asker.recv_multipart()
        assert (version, number) == (b"1.0", b"7")
        return [status, user]


@pytest.fixture
def context() -> Iterator[sockets.ZmqContext]:
    made: sockets.ZmqContext = zmq.Context()
    yield made
    made.destroy(0)


@pytest.fixture
def gate(context: sockets.ZmqContext, short_dir: Path) -> Gate:
    folder = KeyFolder(short_dir / "keys")
    folder.make_pair()
    folder.trust("ann", ANN.decode())
    return Gate(context, folder)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder is looked at each time, not once a second."""
    monkeypatch.setattr(zap, "_LOOK_EVERY_S", 0.0)


def test_who_is_trusted_gets_in_and_so_does_this_user(gate: Gate) -> None:
    """A trusted key gets in under its name, and a child process with the key of its parent."""
    assert gate.ask(ANN) == [b"200", b"ann"]
    assert gate.ask(gate.folder.own().public) == [b"200", b"own"]
    assert gate.authenticator.trusted == 1
    assert gate.authenticator.refused == 0


def test_nobody_else_gets_in(gate: Gate, caplog: pytest.LogCaptureFixture) -> None:
    """The log says who knocked, from where, and how to let it in; once each."""
    for _ in range(3):
        assert gate.ask(BOB) == [b"400", b""]
    assert gate.ask(b"", mechanism=b"NULL") == [b"400", b""]
    assert gate.authenticator.refused == 4
    [first, _] = caplog.messages
    assert f"refused 192.0.2.7: unknown key '{BOB.decode()}'" in first
    assert "telemetry keys trust" in first


def test_a_crowd_of_strangers_does_not_fill_the_disk(
    gate: Gate, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Strangers are counted, and only the first ones are named in the log."""
    monkeypatch.setattr(zap, "_STRANGERS_NAMED", 3)
    for number in range(10):
        gate.ask(BOB, address=f"192.0.2.{number}".encode())
    assert gate.authenticator.refused == 10
    assert len(caplog.messages) == 4


def test_trust_counts_at_the_next_handshake(gate: Gate) -> None:
    """Trust counts at the next handshake, without a restart or a second to wait."""
    assert gate.ask(BOB)[0] == b"400"
    gate.folder.trust("bob", BOB.decode())
    assert gate.ask(BOB) == [b"200", b"bob"]
    gate.folder.revoke("bob")
    assert gate.ask(BOB)[0] == b"400"


def test_connections_are_cut_when_one_that_is_in_is_revoked(gate: Gate, at_once: None) -> None:
    """Connections are cut once after a revocation, and not for a key that nobody has come with."""
    gate.ask(ANN)
    gate.folder.trust("bob", BOB.decode())
    gate.folder.revoke("bob")
    assert not gate.authenticator.must_cut()
    gate.folder.revoke("ann")
    assert gate.authenticator.must_cut()
    assert not gate.authenticator.must_cut()


def test_the_folder_is_looked_at_once_a_second(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder is looked at once a second. Between handshakes a turn of the loop costs no system call."""
    now = [1_000.0]
    looks: list[Path] = []
    monkeypatch.setattr(zap.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(KeyFolder, "state", lambda self: looks.append(self.path))
    for _ in range(100):
        gate.authenticator.must_cut()
    assert len(looks) == 1
    now[0] += 1.0
    gate.authenticator.must_cut()
    assert len(looks) == 2


def test_a_pair_that_is_replaced_meanwhile_costs_this_user_nothing(gate: Gate, at_once: None) -> None:
    """Processes that run already have the old key, those that start the new one."""
    old = gate.folder.own().public
    assert gate.ask(old)[0] == b"200"
    new = gate.folder.make_pair(replace=True).public
    assert gate.ask(new) == [b"200", b"own"]
    assert gate.ask(old) == [b"200", b"own"]
    assert not gate.authenticator.must_cut()


@pytest.mark.parametrize("trouble", ["others may write", "the disk does not answer"])
def test_a_folder_in_trouble_leaves_things_as_they_are(
    gate: Gate, at_once: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, trouble: str
) -> None:
    """Trouble with the folder lets no new key in, throws no trusted key out, and is logged once."""
    gate.ask(ANN)
    gate.folder.trust("bob", BOB.decode())
    if trouble == "others may write":
        gate.folder.trusted_path.chmod(0o777)
    else:

        def fail(_self: KeyFolder) -> None:
            raise OSError(5, "Input/output error")

        monkeypatch.setattr(KeyFolder, "trusted", fail)
    assert gate.ask(ANN)[0] == b"200"
    assert gate.ask(BOB)[0] == b"400"
    assert not gate.authenticator.must_cut()
    assert sum("the trusted keys stay unchanged:" in said for said in caplog.messages) == 1
    gate.folder.trusted_path.chmod(0o700)
    monkeypatch.undo()
    assert gate.ask(BOB)[0] == b"200"


def test_a_folder_that_vanishes_trusts_nobody(gate: Gate, at_once: None) -> None:
    """Removing it is the bluntest way to revoke."""
    gate.ask(ANN)
    (gate.folder.trusted_path / "ann").unlink()
    gate.folder.trusted_path.rmdir()
    assert gate.ask(ANN)[0] == b"400"
    assert gate.authenticator.must_cut()


def test_files_that_are_not_believed_are_said(gate: Gate, caplog: pytest.LogCaptureFixture) -> None:
    """The log names a file that is not believed, so that a refused user can be explained."""
    (gate.folder.trusted_path / "bob").write_text("nonsense")
    gate.ask(BOB)
    assert any("bob contains no public key" in said for said in caplog.messages)


def test_a_turn_decides_on_a_bounded_number(
    gate: Gate, context: sockets.ZmqContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crowd at the door delays no tick."""
    monkeypatch.setattr(limits, "HANDSHAKES_A_TURN", 2)
    askers = [context.socket(zmq.REQ) for _ in range(5)]
    for asker in askers:
        asker.connect("inproc://zeromq.zap.01")
        asker.send_multipart([b"1.0", b"1", b"telemetry", b"192.0.2.7", b"", b"CURVE", z85.decode(ANN)])
    for answered in (2, 4, 5):
        gate.authenticator.answer()
        assert sum(bool(asker.poll(0)) for asker in askers) == answered
    for asker in askers:
        asker.close(0)


def test_nobody_gets_in_where_nobody_answers(context: sockets.ZmqContext, gate: Gate) -> None:
    """ZeroMQ's own default is to let in everybody who knows the aggregator's public key."""
    door = sockets.make_socket(context, sockets.CONTROL_IN, 0)
    gate.authenticator.protect(door)
    port = door.bind_to_random_port("tcp://127.0.0.1")
    gate.authenticator.socket.close(0)
    own = gate.folder.own()
    peer = sockets.make_socket(context, sockets.CONTROL_OUT, 0)
    peer.curve_serverkey, peer.curve_publickey, peer.curve_secretkey = own.public, own.public, own.secret
    peer.connect(f"tcp://127.0.0.1:{port}")
    peer.send(b"let me in")
    assert not door.poll(500)
    for made in (door, peer):
        made.close(0)


# --- when keys are needed ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bind", "settings", "needed"),
    [
        (LOOPBACK, {}, False),
        (FILE, {}, False),
        (ANYWHERE, {}, True),
        ("tcp://[::]:*", {}, True),
        (ANYWHERE, {"transport": {"insecure": True}}, False),
        (LOOPBACK, {"security": {"curve": "always"}}, True),
        (FILE, {"security": {"curve": "always"}}, False),
    ],
)
def test_keys_are_needed_where_others_reach(
    become: Callable[[str], KeyFolder], bind: str, settings: dict[str, object], needed: bool
) -> None:
    """Files are protected by their folder's mode."""
    folder = become("owner")
    config = convert(
        {**settings, "security": {"keys_dir": str(folder.path), **settings.get("security", {})}}, Config
    )  # type: ignore[dict-item]
    assert keys_for(plan(bind, "r"), config) == (folder if needed else None)


def test_without_keys_an_address_that_others_reach_is_refused(short_dir: Path) -> None:
    """The error says how they are made, and what else would do."""
    config = convert({"security": {"keys_dir": str(short_dir / "none")}}, Config)
    with pytest.raises(KeysError, match=r"reachable from other machines.*keys new.*127\.0\.0\.1.*--insecure"):
        keys_for(plan(ANYWHERE, "r"), config)


def test_keys_that_others_can_read_are_refused(context: sockets.ZmqContext, gate: Gate) -> None:
    """Keys that others can read are refused before anything is bound."""
    gate.folder.secret.chmod(0o644)
    with pytest.raises(KeysError, match="chmod 600"):
        Authenticator(context, gate.folder)


def test_a_folder_that_cannot_be_read_is_an_error_at_the_start(
    context: sockets.ZmqContext, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no earlier list to go on with."""

    def fail(_self: KeyFolder) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(KeyFolder, "trusted", fail)
    with pytest.raises(KeysError, match=r"can't read .*: Input/output error"):
        Authenticator(context, gate.folder)

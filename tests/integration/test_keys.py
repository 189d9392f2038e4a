"""Keys on real sockets: who gets in, who does not, and what somebody on the wire sees."""

from __future__ import annotations

import os
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest
import zmq

from telemetry.errors import KeysError
from telemetry.transport import ControlClient, Hub, ProducerLink, plan, subscribe
from telemetry.transport.endpoints import seen_from, split_key
from telemetry.transport.keys import KeyFolder, KeyPair
from telemetry.transport.record_stream import RecordStream
from telemetry.wire import codec
from telemetry.wire import control as msg
from telemetry.wire.codec import decode_request, encode_control, encode_snapshot, encode_stream_record
from telemetry.wire.events import Mark, StreamRecord
from telemetry.wire.snapshot import CounterStat, MetricsSnapshot
from telemetry.wire.version import PROTOCOL

Become = Callable[[str], KeyFolder]
WaitUntil = Callable[..., Any]
Context = zmq.Context[zmq.Socket[bytes]]
DISTINCTIVE = "a-metric-that-nobody-else-may-read"
PATIENCE_S = 20.0


class Aggregator:
    """A hub in a thread: answers control, publishes a snapshot and a record each turn, keeps what it is sent."""

    def __init__(self, bind: str, keys: KeyFolder | None, *, insecure: bool = False) -> None:
        self.hub = Hub(plan(bind, "r"), keys=keys, insecure=insecure)
        self.events: list[bytes] = []
        self._records: list[StreamRecord] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def close(self) -> None:
        self._stopping.set()
        self._thread.join()
        self.hub.close()

    def _serve(self) -> None:
        for seq in count():
            if self._stopping.is_set():
                return
            self.hub.wait(0.01)
            self.events += self.hub.receive_events(100, 1 << 20)
            for peer, data in self.hub.receive_control(100):
                self.hub.send_control(peer, encode_control(self._answer(decode_request(data))))
            self.hub.publish_snapshot(snapshot(seq))
            record = StreamRecord(PROTOCOL, "r", seq, "p", 1, Mark("m", 1))
            self._records.append(record)
            self.hub.publish_record(encode_stream_record(record))

    def _answer(self, request: msg.Request) -> msg.Response:
        where = self.hub.endpoints
        if isinstance(request, msg.Hello):
            return msg.Welcome(
                id=request.id,
                run_id="r",
                name="job",
                epoch="e",
                state="LIVE",
                events=where.events,
                snapshots=where.snapshots,
                records=where.records,
            )
        if isinstance(request, msg.Catchup):
            found = self._records[request.from_seq : request.from_seq + 100]
            return msg.CaughtUp(id=request.id, records=found, last_seq=len(self._records) - 1)
        return msg.Pong(id=request.id, epoch="e", state="LIVE")


def snapshot(seq: int) -> bytes:
    return encode_snapshot(
        MetricsSnapshot(run_id="r", name="job", seq=seq, state="LIVE", counters=[CounterStat(name=DISTINCTIVE)])
    )


@pytest.fixture
def start() -> Iterator[Callable[..., Aggregator]]:
    made: list[Aggregator] = []

    def make(keys: KeyFolder | None, bind: str = "tcp://127.0.0.1:*", **options: Any) -> Aggregator:
        made.append(Aggregator(bind, keys, **options))
        return made[-1]

    yield make
    for aggregator in made:
        aggregator.close()


@pytest.fixture
def context() -> Iterator[Context]:
    made: Context = zmq.Context()
    yield made
    made.destroy(0)


def ping(address: str) -> msg.Response:
    with ControlClient(address) as client:
        return client.request(msg.Ping(), PATIENCE_S)


def use_everything(aggregator: Aggregator, address: str, wait_until: WaitUntil) -> None:
    """Control, snapshots, records and events, all encrypted or all not."""
    assert isinstance(ping(address), msg.Pong)
    with subscribe(address, timeout_s=PATIENCE_S) as snapshots:
        assert next(snapshots).counters[0].name == DISTINCTIVE
    with RecordStream(address, timeout_s=PATIENCE_S) as records:
        received = [records.recv(PATIENCE_S) for _ in range(50)]
        assert [record.seq for record in received if record] == list(range(50))
    link = ProducerLink(address, "p")
    frame = codec.EVENTS + os.urandom(20)
    link.connect_events(seen_from(aggregator.hub.endpoints.events, address))
    wait_until(lambda: link.send_events(frame), what="the subscription")
    wait_until(lambda: frame in aggregator.events, what="the frame")
    link.close(0.0)


def own_address() -> str:
    """An address of this machine that others reach, else all of them."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return "0.0.0.0"
        return str(probe.getsockname()[0])


# --- who gets in ---------------------------------------------------------------------------------


def test_a_trusted_key_opens_everything(
    become: Become, start: Callable[..., Aggregator], wait_until: WaitUntil
) -> None:
    """A trusted key opens every channel, on loopback and on an address that others reach.

    This holds for a trusted user and for the owner's own processes.
    """
    owner, ann = become("owner"), become("ann")
    owner.trust("ann", ann.own().public.decode())
    for bind in ("tcp://127.0.0.1:*", f"tcp://{own_address()}:*"):
        aggregator = start(owner, bind)
        for user in ("ann", "owner"):
            become(user)
            use_everything(aggregator, aggregator.hub.address, wait_until)
    become("ann").trust("job-host", owner.own().public.decode())
    use_everything(aggregator, f"{aggregator.hub.endpoints.control}#job-host", wait_until)
    assert aggregator.hub.refused == 0


def test_strangers_are_told_and_counted(become: Become, start: Callable[..., Aggregator]) -> None:
    """An unknown key, none, and the wrong key of the aggregator: each in its own words, long before the timeout."""
    aggregator = start(become("owner"))
    become("stranger")
    plain = aggregator.hub.endpoints.control
    begun = time.monotonic()
    for address, words in (
        (aggregator.hub.address, "does not trust your key"),
        (plain, "requires a key"),
        (f"{plain}#{become('stranger').own().public.decode()}", "does not have the key in the address"),
    ):
        for use in (ping, subscribe, RecordStream):
            with pytest.raises(KeysError, match=words):
                use(address)
    assert time.monotonic() - begun < 4 * PATIENCE_S
    assert aggregator.hub.refused == 3


def test_a_stranger_who_records_is_told(
    become: Become, start: Callable[..., Aggregator], wait_until: WaitUntil
) -> None:
    """A producer's link says why nothing will ever go through it, instead of waiting."""
    aggregator = start(become("owner"))
    become("stranger")
    link = ProducerLink(aggregator.hub.address, "p")

    def told() -> str:
        try:
            link.receive_control(0.01)
        except KeysError as error:
            return error.message
        return ""

    link.send_control(msg.Hello(producer="p"))
    assert "does not trust your key" in wait_until(told, PATIENCE_S, "the refusal")
    assert link.send_events(codec.EVENTS) is False
    link.close(0.0)


def test_who_is_trusted_meanwhile_gets_in(
    become: Become, start: Callable[..., Aggregator], wait_until: WaitUntil
) -> None:
    """A key that becomes trusted meanwhile is accepted without a restart of the aggregator."""
    owner, ann = become("owner"), become("ann")
    aggregator = start(owner)
    with pytest.raises(KeysError):
        ping(aggregator.hub.address)
    owner.trust("ann", ann.own().public.decode())
    use_everything(aggregator, aggregator.hub.address, wait_until)


def test_who_is_revoked_is_out(become: Become, start: Callable[..., Aggregator], wait_until: WaitUntil) -> None:
    """Connections that are open end too, in both directions; those of others come back by themselves."""
    owner, ann = become("owner"), become("ann")
    owner.trust("ann", ann.own().public.decode())
    aggregator = start(owner)
    address = aggregator.hub.address
    with ControlClient(address) as control, subscribe(address, conflate=False) as snapshots:
        link = ProducerLink(address, "p")
        link.connect_events(seen_from(aggregator.hub.endpoints.events, address))
        wait_until(lambda: link.send_events(codec.EVENTS + b"1"), what="the subscription")
        control.request(msg.Ping(), PATIENCE_S)
        assert snapshots.recv(PATIENCE_S)
        become("owner")
        with ControlClient(address) as kept_control, subscribe(address, conflate=False) as kept:
            owner.revoke("ann")
            wait_until(lambda: aggregator.hub.refused >= 3, PATIENCE_S, "refusals of control, events and snapshots")
            while snapshots.recv(0.0):
                pass
            last = wait_until(lambda: kept.recv(0.1), PATIENCE_S, "a snapshot for who is trusted").seq
            wait_until(lambda: (seen := kept.recv(0.1)) and seen.seq > last + 20, PATIENCE_S, "more snapshots")
            assert isinstance(kept_control.request(msg.Ping(), PATIENCE_S), msg.Pong)
        assert snapshots.recv(0.0) is None
        become("ann")
        with pytest.raises(KeysError, match="does not trust your key"):
            control.request(msg.Ping(), PATIENCE_S)
        with pytest.raises(KeysError, match="does not trust your key"):
            ping(address)
        before = len(aggregator.events)
        for _ in range(10):
            link.send_events(codec.EVENTS + b"2")
        become("owner")
        use_everything(aggregator, address, wait_until)
        assert len(aggregator.events) == before + 1
        link.close(0.0)


def test_a_crowd_of_strangers_keeps_nobody_out(
    become: Become, start: Callable[..., Aggregator], context: Context, wait_until: WaitUntil
) -> None:
    """The aggregator refuses strangers one by one and answers a known peer meanwhile."""
    owner, stranger = become("owner"), become("stranger").own()
    aggregator = start(owner)
    become("owner")
    crowd = [eavesdropper(context, "control", aggregator, stranger) for _ in range(200)]
    assert isinstance(ping(aggregator.hub.address), msg.Pong)
    wait_until(lambda: aggregator.hub.refused == len(crowd), PATIENCE_S, "all refusals")
    for made in crowd:
        made.close(0)


def test_keys_are_no_matter_where_there_are_none(
    become: Become, start: Callable[..., Aggregator], wait_until: WaitUntil, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loopback, and `--insecure` on an address that others reach: plain as ever, for users without keys."""
    monkeypatch.setenv("TELEMETRY_SECURITY__KEYS_DIR", "/nowhere")
    for bind, insecure in (("tcp://127.0.0.1:*", False), (f"tcp://{own_address()}:*", True)):
        aggregator = start(None, bind, insecure=insecure)
        assert aggregator.hub.address == aggregator.hub.endpoints.control
        assert aggregator.hub.trusted is None
        use_everything(aggregator, aggregator.hub.address, wait_until)


# --- what others see -----------------------------------------------------------------------------


CHANNELS = {"control": zmq.DEALER, "events": zmq.XPUB, "snapshots": zmq.SUB, "records": zmq.SUB}


def eavesdropper(
    context: Context, channel: str, aggregator: Aggregator, pair: KeyPair | None = None
) -> zmq.Socket[bytes]:
    """A stranger's socket. It knows the aggregator's public key, and uses it if it has a pair of its own."""
    made = context.socket(CHANNELS[channel])
    if pair is not None:
        made.curve_serverkey = split_key(aggregator.hub.address)[1].encode()
        made.curve_publickey, made.curve_secretkey = pair.public, pair.secret
    if made.type == zmq.SUB:
        made.subscribe(b"")
    made.connect(getattr(aggregator.hub.endpoints, channel))
    if made.type == zmq.DEALER:
        made.send(encode_control(msg.Hello(id=1)))
    return made


def test_an_eavesdropper_gets_nothing(become: Become, start: Callable[..., Aggregator], context: Context) -> None:
    """An eavesdropper without a key or with an unknown one gets no byte on any channel.

    A trusted peer gets everything.
    """
    owner, stranger = become("owner"), become("stranger").own()
    aggregator = start(owner)
    become("owner")
    strangers = [
        eavesdropper(context, channel, aggregator, pair) for channel in CHANNELS for pair in (None, stranger)
    ]
    trusted = [eavesdropper(context, channel, aggregator, owner.own()) for channel in CHANNELS]
    with subscribe(aggregator.hub.address, conflate=False, timeout_s=PATIENCE_S) as snapshots:
        assert len([next(snapshots) for _ in range(100)]) == 100
    assert [bool(made.poll(5_000)) for made in trusted] == [True] * 4
    assert [bool(made.poll(0)) for made in strangers] == [False] * 8
    for made in strangers + trusted:
        made.close(0)


class Wire:
    """A relay in front of a tcp address, which keeps all bytes that pass."""

    def __init__(self, address: str) -> None:
        host, _, port = address.removeprefix("tcp://").rpartition(":")
        self._target = (host, int(port))
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = f"tcp://127.0.0.1:{self._server.getsockname()[1]}"
        self.passed = bytearray()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._relay)
        self._thread.start()

    def close(self) -> None:
        self._stopping.set()
        self._thread.join()
        self._server.close()

    def _relay(self) -> None:
        other: dict[socket.socket, socket.socket] = {}
        while not self._stopping.is_set():
            ready, _, _ = select.select([self._server, *other], [], [], 0.05)
            for readable in ready:
                if readable is self._server:
                    near, far = self._server.accept()[0], socket.create_connection(self._target)
                    other |= {near: far, far: near}
                    continue
                data = readable.recv(65_536)
                if not data:
                    self._hang_up(other, readable)
                    break
                self.passed += data
                other[readable].sendall(data)
        for end in other:
            end.close()

    @staticmethod
    def _hang_up(other: dict[socket.socket, socket.socket], end: socket.socket) -> None:
        for gone in (end, other[end]):
            gone.close()
            del other[gone]


def test_nothing_readable_passes_the_wire(
    become: Become, start: Callable[..., Aggregator], context: Context, wait_until: WaitUntil
) -> None:
    """Names, topics and control messages can't be read on the wire with keys.

    Without keys all of them can be read there.
    """
    owner = become("owner")
    key = owner.own().public.decode()
    telltales = (DISTINCTIVE.encode(), codec.SNAPSHOTS, codec.EVENTS, b"hello", b"my-producer")
    for keys, address_key in ((None, ""), (owner, f"#{key}")):
        aggregator = start(keys)
        wires = {name: Wire(getattr(aggregator.hub.endpoints, name)) for name in ("control", "events", "snapshots")}
        link = ProducerLink(wires["control"].address + address_key, "my-producer")
        link.connect_events(wires["events"].address + address_key)
        link.send_control(msg.Hello(producer="my-producer"))
        wait_until(lambda link=link: link.send_events(codec.EVENTS + DISTINCTIVE.encode()), what="the subscription")
        wait_until(lambda aggregator=aggregator: aggregator.events, what="the frame")
        wait_until(lambda link=link: link.receive_control(0.01), what="the welcome")
        listener = context.socket(zmq.SUB)
        if keys:
            listener.curve_serverkey = key.encode()
            listener.curve_publickey, listener.curve_secretkey = owner.own().public, owner.own().secret
        listener.subscribe(codec.SNAPSHOTS)
        listener.connect(wires["snapshots"].address)
        assert DISTINCTIVE.encode() in listener.recv()
        listener.close(0)
        link.close(0.0)
        for wire in wires.values():
            wire.close()
        seen = b"".join(bytes(wire.passed) for wire in wires.values())
        assert [tale in seen for tale in telltales] == [keys is None] * len(telltales)

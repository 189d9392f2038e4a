"""The simulated network: the sockets of aggregators and producers, and connections that are slow, full or break.

It keeps what ZeroMQ promises, and takes what it does not:

* Messages of one connection arrive in order, after a delay.
* A message waits in the pipe of its sender while nobody listens at the address, up to the bound of the pipe.
* A connection that breaks loses messages that have left the pipe. A process that dies loses what it has not read.
* Frames are lost without an error until the subscription of the aggregator arrives.
"""

from __future__ import annotations

import select
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from msgspec.structs import replace
from tests.simulator.threads import Waiters
from tests.simulator.world import Process, World

from telemetry import limits
from telemetry.errors import EndpointError, ProtocolError
from telemetry.transport.endpoints import Endpoints, ipc_path
from telemetry.transport.hub import Wakeup
from telemetry.wire.codec import decode_response, encode_control
from telemetry.wire.control import Error, Request, Response

_MS: Final = 1_000_000
_RECONNECT_MS: Final = 100
_LOST: Final = 0.05
"""Share of published records that a subscriber does not get."""


class Network:
    """All addresses, and the connections to them."""

    def __init__(self, world: World, *, pipe_frames: int, queue_frames: int) -> None:
        """Begin without any address. The bounds are those of a producer's pipe and of an aggregator's queue."""
        self.world = world
        self.pipe_frames = pipe_frames
        self.queue_frames = queue_frames
        self.hubs: dict[str, SimulatedHub] = {}
        """Control address → the sockets bound there."""
        self.links: list[SimulatedLink] = []
        self.traps = 0
        """Number of connections that break while a frame is on its way."""
        self.on_snapshot: dict[str, Callable[[bytes], object]] = {}
        """Control address → function that gets each snapshot that is published there."""
        self.subscribers: dict[str, list[SimulatedSubscriber]] = {}
        """Address of records → sockets that subscribe there."""

    def refuses(self, endpoint: str) -> bool:
        return endpoint not in self.hubs

    def latency(self) -> int:
        """Return the time of one message on its way, in ns."""
        random = self.world.random
        return int(random.expovariate(1 / (random.choice((0.2, 0.2, 5.0)) * _MS)))

    def connect(self, endpoint: str, identity: str) -> SimulatedLink:
        """Return a connection of the process that runs."""
        return SimulatedLink(self, self.world.current.process, endpoint, identity)

    def bind(self, endpoints: Endpoints, **_options: object) -> SimulatedHub:
        """Bind the sockets of the aggregator that runs. Raises EndpointError if another one listens there."""
        process = self.world.current.process
        if endpoints.control in self.hubs:
            raise EndpointError(f"{endpoints.control} is in use by another aggregator")
        made = self.hubs[endpoints.control] = SimulatedHub(self, process, endpoints)
        for link in self.links:
            if link.endpoint == endpoints.control:
                link.connect_soon()
        return made

    def unbind(self, hub: SimulatedHub) -> None:
        """Break all connections to these sockets."""
        if self.hubs.get(hub.endpoints.control) is hub:
            del self.hubs[hub.endpoints.control]
            for link in self.links:
                if link.hub is hub:
                    link.disconnect()


class SimulatedHub:
    """The sockets of an aggregator, as `telemetry.transport.hub.Hub`."""

    trusted = None
    refused = 0
    crowded = ""

    def __init__(self, network: Network, process: Process, endpoints: Endpoints) -> None:
        self.endpoints = endpoints
        self.address = endpoints.control
        self.process = process
        self.events: deque[bytes] = deque()
        self.control: deque[tuple[bytes, bytes]] = deque()
        self.peers: dict[bytes, SimulatedLink] = {}
        self.waiters = Waiters(network.world)
        self._network = network
        self._watched: set[int] = set()
        self._poll = select.poll()
        self._path = ipc_path(endpoints.control) or Path()
        self._path.touch()
        process.at_death.append(self._vanish)

    def watch(self, fd: int) -> None:
        self._watched.add(fd)
        self._poll.register(fd, select.POLLIN)

    def unwatch(self, fd: int) -> None:
        self._watched.discard(fd)
        self._poll.unregister(fd)

    def wait(self, timeout_s: float, *, events: bool = True) -> Wakeup:
        ready = self._ready(events)
        if not any(ready) and timeout_s > 0:
            world = self._network.world
            end_ns = world.now_ns + round(timeout_s * 1e9)
            while not any(ready) and world.now_ns < end_ns:
                self.waiters.wait((end_ns - world.now_ns) / 1e9)
                ready = self._ready(events)
        return ready

    def _ready(self, events: bool) -> Wakeup:
        return Wakeup(
            events=events and bool(self.events),
            control=bool(self.control),
            fds=[fd for fd, _ in self._poll.poll(0)] if self._watched else [],
        )

    def receive_events(self, max_frames: int, max_bytes: int) -> list[bytes]:
        frames: list[bytes] = []
        while self.events and len(frames) < max_frames and sum(map(len, frames)) < max_bytes:
            frames.append(self.events.popleft())
        return frames

    def receive_control(self, max_messages: int) -> list[tuple[bytes, bytes]]:
        return [self.control.popleft() for _ in range(min(max_messages, len(self.control)))]

    def send_control(self, peer: bytes, data: bytes) -> bool:
        self.process.check()
        link = self.peers.get(peer)
        if link is None or link.hub is not self:
            return False
        link.answer(data)
        return True

    def publish_snapshot(self, frame: bytes) -> None:
        self.process.check()
        self._network.on_snapshot[self.address](frame)

    def publish_record(self, frame: bytes) -> None:
        self.process.check()
        for subscriber in self._network.subscribers.get(self.endpoints.records, ()):
            subscriber.carry(frame)

    def close(self) -> None:
        self.process.check()
        self._path.unlink(missing_ok=True)
        self._vanish()

    def _vanish(self) -> None:
        """Close the sockets as the system does at the end of a process."""
        self.events.clear()
        self.control.clear()
        self._network.unbind(self)


class SimulatedLink:
    """The two sockets of a producer, as `telemetry.transport.producer.ProducerLink`."""

    def __init__(self, network: Network, process: Process, endpoint: str, identity: str) -> None:
        self.endpoint = endpoint
        self.hub: SimulatedHub | None = None
        """Sockets at the other end of the connection; None while there is none."""
        self.unreadable = 0
        self._network = network
        self._world = network.world
        self._process = process
        self._identity = identity.encode()
        self._pipe: deque[bytes] = deque()
        self._requests: deque[bytes] = deque()
        self._responses: deque[Response] = deque()
        self._waiters = Waiters(network.world)
        self._wants_events = self._is_subscribed = False
        self._connection = 0
        """Number of the connection: messages of earlier ones are gone."""
        self._is_closed = False
        network.links.append(self)
        process.at_death.append(self._vanish)
        self.connect_soon()

    # --- as a producer uses it -----------------------------------------------------------------------

    def connect_events(self, address: str) -> None:
        if not self._wants_events:
            self._wants_events = True
            self._subscribe_soon()

    def disconnect_events(self) -> None:
        self._pipe.clear()
        self._wants_events = self._is_subscribed = False

    def send_events(self, frame: bytes | bytearray) -> bool:
        self._process.check()
        if not self._is_subscribed or len(self._pipe) >= self._network.pipe_frames:
            return False
        self._pipe.append(bytes(frame))
        self._later(self._carry_frame)
        self._spring_trap()
        return True

    def send_control(self, message: Request) -> bool:
        self._process.check()
        self._requests.append(encode_control(message))
        self._later(self._carry_request)
        self._spring_trap()
        return True

    def _spring_trap(self) -> None:
        if self._network.traps and self._world.random.random() < 0.2:
            self._network.traps -= 1
            self._world.after(self._network.latency(), self._break)

    def receive_control(self, timeout_s: float = 0.0) -> list[Response]:
        if timeout_s > 0 and not self._responses:
            self._waiters.wait(timeout_s)
        received = list(self._responses)
        self._responses.clear()
        return received

    def close(self, linger_s: float) -> None:
        """Close the connection. With time to linger, messages in the pipes still arrive if somebody listens."""
        self._process.check()
        end_ns = self._world.now_ns + round(linger_s * 1e9)
        while self.hub is not None and (self._requests or self._pipe) and self._world.now_ns < end_ns:
            self._world.sleep(0.01)
        self._vanish()

    # --- as the network uses it ----------------------------------------------------------------------

    def connect_soon(self) -> None:
        self._world.after(self._world.random.randrange(_RECONNECT_MS) * _MS, self._connect)

    def _connect(self) -> None:
        hub = self._network.hubs.get(self.endpoint)
        if hub is None or self.hub is not None or self._is_closed:
            return
        self.hub = hub
        self._connection += 1
        hub.peers[self._identity] = self
        for _ in self._requests:
            self._later(self._carry_request)
        for _ in self._pipe:
            self._later(self._carry_frame)
        self._subscribe_soon()

    def _break(self) -> None:
        self._world.tell("network", f"a connection of {self._identity.decode()} breaks")
        self.disconnect(lost=self._world.random.choice((0, 1, 5, 100)))

    def disconnect(self, lost: int = 0) -> None:
        """Break the connection. So many frames and requests have left their pipes and are gone."""
        if self.hub is None:
            return
        self.hub = None
        self._connection += 1
        for _ in range(min(lost, len(self._pipe))):
            self._pipe.popleft()
        for _ in range(min(lost, len(self._requests))):
            self._requests.popleft()
        if not self._is_closed:
            self.connect_soon()

    def answer(self, data: bytes) -> None:
        def arrive() -> None:
            self._responses.append(response)
            self._waiters.wake()

        response = decode_response(data)
        self._later(arrive)

    def _subscribe_soon(self) -> None:
        def subscribe() -> None:
            self._is_subscribed = self._wants_events

        if self._wants_events and self.hub is not None:
            self._later(subscribe)

    def _carry_frame(self) -> None:
        if not self._pipe or self.hub is None:
            return
        if len(self.hub.events) >= self._network.queue_frames:
            self._later(self._carry_frame)
            return
        self.hub.events.append(self._pipe.popleft())
        self.hub.waiters.wake()

    def _carry_request(self) -> None:
        if self._requests and self.hub is not None:
            self.hub.control.append((self._identity, self._requests.popleft()))
            self.hub.waiters.wake()

    def _later(self, function: Callable[[], object]) -> None:
        """Call the function after some time, unless the connection breaks before."""
        connection = self._connection

        def go_on() -> None:
            if connection == self._connection and self.hub is not None:
                function()

        if self.hub is not None:
            self._world.after(self._network.latency(), go_on)

    def _vanish(self) -> None:
        self._is_closed = True
        self.disconnect()


class SimulatedControl:
    """A connection for one request at a time, as `telemetry.transport.ControlClient`."""

    def __init__(self, network: Network, endpoint: str) -> None:
        self.endpoint = endpoint
        self._world = network.world
        self._link = network.connect(endpoint, f"client {len(network.links)}")
        self._last_id = 0

    def request(self, message: Request, timeout_s: float = limits.CONTROL_TIMEOUT_S) -> Response:
        self._last_id += 1
        self._link.send_control(replace(message, id=self._last_id))
        end_ns = self._world.now_ns + round(timeout_s * 1e9)
        while (left_ns := end_ns - self._world.now_ns) > 0:
            for answer in self._link.receive_control(left_ns / 1e9):
                if isinstance(answer, Error) and answer.id == self._last_id:
                    raise ProtocolError(answer.message)
                if answer.id == self._last_id:
                    return answer
        raise EndpointError(f"no aggregator answered at {self.endpoint}")

    def close(self) -> None:
        self._link.close(0.0)

    def __enter__(self) -> SimulatedControl:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class SimulatedSubscriber:
    """The socket of a record stream. Some records are lost on their way."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._world = network.world
        self._frames: deque[bytes] = deque()
        self._waiters = Waiters(network.world)

    def subscribe(self, _topic: bytes) -> None: ...

    def carry(self, frame: bytes) -> None:
        if self._world.random.random() > _LOST:
            self._world.after(self._network.latency(), lambda: self._arrive(frame))

    def poll(self, milliseconds: int) -> bool:
        if not self._frames and milliseconds > 0:
            self._waiters.wait(milliseconds / 1_000)
        return bool(self._frames)

    def recv(self, _flags: int) -> bytes:
        return self._frames.popleft()

    def _arrive(self, frame: bytes) -> None:
        self._frames.append(frame)
        self._waiters.wake()


@contextmanager
def simulated_network(network: Network) -> Iterator[None]:
    """Let aggregators, leaves on their way to a root, and writers have the simulated sockets inside the block."""
    from telemetry.backends.sources import live
    from telemetry.daemon import build
    from telemetry.daemon.upstream import uplink
    from telemetry.transport import record_stream

    def subscribe(socket: SimulatedSubscriber, address: str) -> None:
        network.subscribers.setdefault(address, []).append(socket)

    no_snapshots = SimpleNamespace(recv=lambda _timeout_s: None, close=lambda: None)
    replaced: list[tuple[Any, str, object]] = [
        (build, "Hub", network.bind),
        (uplink, "ProducerLink", network.connect),
        (uplink, "explain_silence", lambda _address: "no process listens there"),
        (live, "Subscription", lambda _address: no_snapshots),
        (
            record_stream,
            "sockets",
            SimpleNamespace(make_socket=lambda *_: SimulatedSubscriber(network), connect=subscribe),
        ),
    ]
    for module in (live, record_stream):
        replaced.append((module, "ControlClient", lambda endpoint: SimulatedControl(network, endpoint)))
        replaced.append((module, "refuses", network.refuses))
    originals = [(module, name, getattr(module, name)) for module, name, _ in replaced]
    for module, name, value in replaced:
        setattr(module, name, value)
    try:
        yield
    finally:
        for module, name, value in originals:
            setattr(module, name, value)

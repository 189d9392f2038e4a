"""An aggregator's service with real sockets and files, driven by the test's own thread."""

from __future__ import annotations

import logging
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from telemetry.config import load
from telemetry.daemon.build import build, build_again
from telemetry.daemon.options import DaemonOptions
from telemetry.daemon.recovery.resume import claim
from telemetry.daemon.service import Service
from telemetry.store.run_directory import RunDirectory
from telemetry.testing.builders import Row, frame
from telemetry.transport.producer import ProducerLink
from telemetry.wire.control import End, Hello, Request, Response, Welcome
from telemetry.wire.events import EventRecord

DEADLINE_S = 20.0
QUICK = {"run.refresh_hz": 100.0, "run.terminal_grace_s": 0.0, "run.drain_timeout_s": 0.3}

MakeOptions = Callable[..., DaemonOptions]
MakeService = Callable[..., Service]


@pytest.fixture(scope="session")
def dead_pid() -> int:
    """The number of a process that is gone."""
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        gone.wait()
    return gone.pid


@pytest.fixture
def make_options(short_dir: Path, monkeypatch: pytest.MonkeyPatch) -> MakeOptions:
    """`make_options({"run.refresh_hz": 10}, owner_pid=…)`: a quick run in a private directory."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(short_dir))

    def make(flags: dict[str, object] | None = None, **facts: object) -> DaemonOptions:
        config = load(QUICK | (flags or {}), cwd=short_dir, environ={"XDG_CONFIG_HOME": str(short_dir)}).config
        given = {"name": "job", "run_id": "r1", "epoch": "e1", "root": short_dir / "runs", "config": config}
        return DaemonOptions(**given | facts)  # type: ignore[arg-type]

    return make


@pytest.fixture
def make_service(make_options: MakeOptions) -> Iterator[MakeService]:
    """`make_service(flags, **facts)` binds and opens everything; closed at the end of the test."""
    made: list[Service] = []

    def make(flags: dict[str, object] | None = None, **facts: object) -> Service:
        made.append(build(make_options(flags, **facts), None))
        return made[-1]

    yield make
    for service in made:
        service.parts.worker.close(DEADLINE_S)
        service.parts.hub.close()
        service.parts.let_go()


@pytest.fixture
def die() -> Callable[[Service], None]:
    """`die(service)`: its files and sockets stay as SIGKILL leaves them, but for the sockets' own."""

    def stop_at_once(service: Service) -> None:
        service.parts.worker.close(DEADLINE_S)
        service.parts.hub.close()
        service.parts.let_go()

    return stop_at_once


@pytest.fixture
def make_again(make_options: MakeOptions) -> Iterator[MakeService]:
    """`make_again(directory, flags)` resumes a run; closed at the end of the test."""
    made: list[Service] = []

    def make(directory: RunDirectory, flags: dict[str, object] | None = None, **facts: object) -> Service:
        options = make_options(flags, **{"epoch": "e2", "resume": directory.path} | facts)
        made.append(build_again(options, None, claim(directory.path)))
        return made[-1]

    yield make
    for service in made:
        service.parts.worker.close(DEADLINE_S)
        service.parts.hub.close()
        service.parts.let_go()


@pytest.fixture(autouse=True)
def logger() -> Iterator[None]:
    """Takes back what `build` adds to the package's logger."""
    known = logging.getLogger("telemetry")
    level, handlers = known.level, list(known.handlers)
    yield
    for handler in set(known.handlers) - set(handlers):
        known.removeHandler(handler)
        handler.close()
    known.setLevel(level)


class Peer:
    """A producer, or with `greet=False` anybody, whose messages come when the service takes a turn."""

    def __init__(
        self,
        service: Service,
        name: str = "p",
        *,
        greet: bool = True,
        pid: int = 0,
        host: str = "",
        ring: str = "",
    ) -> None:
        self.service = service
        self.name = name
        self.link = ProducerLink(service.parts.hub.endpoints.control, name)
        self.heard: list[Response] = []
        self.batches = self.emitted = 0
        self.link.connect_events(service.parts.hub.endpoints.events)
        if greet:
            assert isinstance(self.ask(Hello(id=1, producer=name, pid=pid, host=host, ring=ring)), Welcome)

    def say(self, request: Request) -> None:
        assert self.link.send_control(request)

    def ask(self, request: Request) -> Response:
        """The answer to a request whose id nobody used before."""
        self.say(request)
        self.until(lambda: any(item.id == request.id for item in self.heard))
        return next(item for item in self.heard if item.id == request.id)

    def listen(self) -> list[Response]:
        """All that was ever said to this peer."""
        self.heard += self.link.receive_control()
        return self.heard

    def all(self, kind: type[Response]) -> list[Response]:
        return [item for item in self.listen() if isinstance(item, kind)]

    def until(self, condition: Callable[[], object], what: str = "it") -> None:
        """Lets the service take turns until the condition holds."""
        deadline = time.monotonic() + DEADLINE_S
        while not condition():
            assert time.monotonic() < deadline, f"{what} did not come true; heard {self.heard}"
            self.service.turn()
            self.listen()

    def frame(self, records: Sequence[EventRecord] = (), rows: Sequence[Row] = ()) -> bytearray:
        """The next batch, not sent."""
        anchor = (time.monotonic_ns(), time.time_ns())
        made = frame(self.name, self.batches, self.emitted, records=records, rows=rows, anchor=anchor)
        self.batches += 1
        self.emitted += len(rows) + sum(type(record).__name__ != "Define" for record in records)
        return made

    def send(self, *records: EventRecord, rows: Sequence[Row] = ()) -> None:
        self.send_frame(self.frame(records, rows))

    def hold(self, *records: EventRecord, rows: Sequence[Row] = ()) -> None:
        """A batch that the service has read as a turn of its loop does, before the next tick."""
        self.until(self.link._hear_subscription, "a subscription")
        self.send(*records, rows=rows)
        assert self.service.parts.hub.wait(DEADLINE_S).events
        self.service.feed.ingest.turn()  # type: ignore[attr-defined]

    def send_frame(self, data: bytes | bytearray) -> None:
        self.until(lambda: self.link.send_events(data), "a subscription")

    def end(self, request_id: int = 9) -> None:
        self.say(End(id=request_id, producer=self.name, batches=self.batches, emitted=self.emitted))

    def applied(self, events: int) -> None:
        """Turns until so many events are in the numbers."""
        self.until(lambda: self.service.parts.aggregator.book.counted_events >= events, f"{events} applied events")


@pytest.fixture
def connect() -> Iterator[Callable[..., Peer]]:
    """`connect(service, name="p", greet=True)` makes a peer."""
    made: list[Peer] = []

    def make(service: Service, name: str = "p", **options: object) -> Peer:
        made.append(Peer(service, name, **options))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for peer in made:
        peer.link.close(0.0)

"""The simulated processes: an aggregator, a producer, and a person or program that ends the run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import msgspec
from tests.simulator.network import Network, SimulatedControl
from tests.simulator.world import SECOND_NS, Machine, Thread, World

from telemetry.client import records
from telemetry.client.catalog import Catalog
from telemetry.client.producer_parts import make_outbox, record_into
from telemetry.client.recorders import python_recorders
from telemetry.client.sending.flusher import Flusher, FlusherParts, ProducerEnding
from telemetry.config.schema import Config, EmitConfig
from telemetry.daemon import build as build_module
from telemetry.daemon.finalize import finalize
from telemetry.daemon.lifetime import let_go, run
from telemetry.daemon.options import DaemonOptions
from telemetry.daemon.recovery.recover import recover
from telemetry.daemon.recovery.resume import claim
from telemetry.daemon.service import Service
from telemetry.errors import TelemetryError
from telemetry.gateway.run_link import Barriers
from telemetry.store.run_directory import RunDirectory
from telemetry.wire.control import Hello, Stop, Stopping
from telemetry.wire.events import Scalars, StepEnd
from telemetry.wire.request_log import EndedRequests, RequestEntry

_FINISH_S: Final = 30.0
_ANSWER_NS: Final = 5 * SECOND_NS
_ENCODE: Final = msgspec.msgpack.Encoder().encode
AXIS: Final = "step"


class SimulatedAggregator:
    """An aggregator process, of a new run or of one that goes on."""

    def __init__(self, world: World, machine: Machine, options: DaemonOptions) -> None:
        self.process = world.process(f"{options.run_id} {options.epoch}", machine)
        self.options = options
        self.service: Service | None = None
        self.failure: BaseException | None = None
        """Error that kept it from starting."""
        self.wrote: bool | None = None
        """True if it wrote a final file; None if it did not come to its end."""
        self.has_nothing_to_do = False
        """True if the run had its result already."""
        self.began_ns: int | None = None
        """Time at which it began to listen."""
        self.main: Thread = self.process.start(self._main)

    def _main(self) -> None:
        world = self.process.world
        try:
            service = self._built()
        except TelemetryError as error:
            self.failure = error
            world.tell(self.process.name, f"can't start: {error}")
            service = None
        if service is None:
            self.process.end()
            return
        self.service = service
        self.began_ns = world.now_ns
        world.tell(self.process.name, "listens")
        run(service)
        world.tell(self.process.name, f"finalizes: {service.run_status.reason}")
        self.wrote = finalize(service)
        let_go(service)
        world.tell(self.process.name, "ends")
        self.process.end()

    def _built(self) -> Service | None:
        resumed = self.options.resume
        if resumed is None:
            return build_module.build(self.options, None)
        claimed = claim(resumed)
        if claimed.result is not None:
            claimed.let_go()
            self.has_nothing_to_do = True
            return None
        manifest = claimed.manifest
        options = replace(self.options, name=manifest.name, run_id=manifest.run_id)
        return build_module.build_again(options, None, claimed)


class SimulatedProducer:
    """A program that records, and ends after some time, by itself or because the run is over."""

    def __init__(self, world: World, network: Network, name: str, endpoint: str, config: EmitConfig) -> None:
        self.process = world.process(name)
        self.name = name
        self.values: list[float] = []
        """Values that were recorded in the series, in order. No value comes twice in a story."""
        self.added = self.additions = 0
        """Value of the counter, and number of times that it was raised."""
        self.level, self.levels = 0.0, 0
        """Newest value of its gauge, and number of times that it was set."""
        self.marks: list[str] = []
        self.spans = 0
        self.requests = 0
        self.steps: dict[int, float] = {}
        """Step → value."""
        self.records = 0
        """Number of records, such as marks and steps."""
        self.confirmed: list[tuple[int, int]] = []
        """Number of events at each barrier, and how many the aggregator had dropped."""
        self.ending: ProducerEnding | None = None
        self.ended_ns = 0
        self.is_over = self.is_killed = False
        self._world = world
        self._network = network
        self._endpoint = endpoint
        self._config = config
        self._recorders = python_recorders(now=world.monotonic_ns)
        self.catalog = Catalog(self._recorders, self._recorders.unencodable)
        self.flusher: Flusher | None = None

    def start(self, plan: Callable[[SimulatedProducer], None]) -> None:
        self.process.start(lambda: self._main(plan))

    def _main(self, plan: Callable[[SimulatedProducer], None]) -> None:
        outbox = make_outbox(self.name, self._config, self._recorders, self.catalog)
        hello = Hello(producer=self.name, name=self.name, host="elsewhere", pid=self.process.pid)
        self.flusher = Flusher(
            FlusherParts(
                endpoint=self._endpoint,
                hello=hello,
                outbox=outbox,
                connect=lambda: self._network.connect(self._endpoint, self.name),
                refuses=self._network.refuses,
                kept=lambda _run_id: True,
                period_s=self._config.flush_ms / 1_000,
                connect_timeout_s=None,
                on_given_up=lambda error: self._world.tell(self.name, f"gives up: {error}"),
                on_run_over=lambda: self._world.tell(self.name, "learns that the run is over"),
            )
        )
        self.flusher.start()
        record_into(self._recorders, self.flusher, self._config)
        plan(self)
        self._world.tell(self.name, "finishes")
        self.ending = self.flusher.finish(_FINISH_S)
        self.ended_ns = self._world.now_ns
        self._world.tell(self.name, f"has finished: {self.ending.account or self.ending.reason}")
        self.is_over = True
        self.process.end()

    @property
    def was_cut(self) -> bool:
        """True if the run ended before its program finished."""
        return self.flusher is not None and self.flusher._is_ended_by_run

    @property
    def acknowledged(self) -> int:
        """Number of events that an aggregator has acknowledged."""
        session = self.flusher._conversation if self.flusher is not None else None
        return session.ring.taken if session is not None else 0

    @property
    def events(self) -> int:
        """Number of events that it recorded."""
        return len(self.values) + self.additions + self.levels + self.records

    @property
    def dropped(self) -> int:
        """Number of events that it dropped itself."""
        return sum(self.flusher.outbox.dropped.values()) if self.flusher is not None else 0

    # --- what a program records ----------------------------------------------------------------------

    def record(self, values: list[float]) -> None:
        """Record values in a series, and count them."""
        series: Any = self.catalog.instrument("series", "latency", "ms")
        counter: Any = self.catalog.instrument("counter", "count")
        flusher = self.flusher
        assert flusher is not None
        if flusher.over:
            return
        for value in values:
            series.record(value)
            self.values.append(value)
            if flusher.over:  # it waited for room meanwhile
                return
        counter.add(len(values))
        self.added += len(values)
        self.additions += 1

    def set_level(self, value: float) -> None:
        """Set a gauge of its own. Call it after `record`, which defines the series with the first id."""
        gauge: Any = self.catalog.instrument("gauge", f"level of {self.name}")
        if self.flusher is not None and not self.flusher.over:
            gauge.set(value)
            self.level = value
            self.levels += 1

    def mark(self) -> None:
        """Record a mark."""
        text = f"mark {len(self.marks)} of {self.name}"
        if self._emit(records.mark(text, {}, self._world.wall_ns())):
            self.marks.append(text)

    def span(self) -> None:
        """Record a span."""
        now_ns = self._world.monotonic_ns()
        if self._emit(records.span(f"span of {self.name}", now_ns - 1_000, now_ns, "", {})):
            self.spans += 1

    def step(self, value: float, *, first: float | None, is_open: bool) -> None:
        """Record a value of the next step, perhaps another one before it, and perhaps end the step."""
        number = len(self.steps)
        for each in (first, value):
            if each is None or not self._emit(
                _ENCODE(Scalars(AXIS, number, {"loss": each}, self._world.monotonic_ns()))
            ):
                continue
            self.steps[number] = each
        if not is_open and number in self.steps:
            self._emit(_ENCODE(StepEnd(AXIS, number, self._world.monotonic_ns())))

    def request(self) -> None:
        """Record a request that has ended."""
        now_ns = self._world.monotonic_ns()
        entry = RequestEntry(self.requests, now_ns - 1_000_000, now_ns)
        if self._emit(_ENCODE(EndedRequests("chat", {}, [entry], 0, now_ns))):
            self.requests += 1

    def _emit(self, record: bytes) -> bool:
        if self.flusher is None or self.flusher.over:
            return False
        self.flusher.outbox.records.append(record)
        self.records += 1
        return True

    def confirm(self) -> None:
        """Wait for a barrier, as a gateway does before it answers a request."""
        flusher = self.flusher
        if flusher is None or flusher.over:
            return
        events, end_ns = self.events, self._world.now_ns + _ANSWER_NS
        barriers = Barriers(flusher, lambda: SimulatedControl(self._network, self._endpoint))
        commit = barriers.commit(lambda: flusher.over or self._world.now_ns > end_ns)
        barriers.close()
        if commit.confirmed and not commit.given_up:
            self.confirmed.append((events, sum(commit.dropped.values())))


class Recovery:
    """A person who makes the result of a run that nobody goes on with."""

    def __init__(self, world: World, machine: Machine, directory: Path) -> None:
        self.process = world.process("recover", machine)
        self.failure: TelemetryError | None = None
        self._directory = directory
        self.process.start(self._main)

    def _main(self) -> None:
        try:
            recovered = recover(RunDirectory.open(self._directory), Config())
            self.process.world.tell("recover", f"makes the result: {recovered.snapshot.completeness}")
        except TelemetryError as error:
            self.failure = error
            self.process.world.tell("recover", f"can't make a result: {error}")
        self.process.end()


STOPPED: Final = "stopped by the person"


def stop(
    world: World, network: Network, endpoint: str, *, interrupted: bool, on_answer: Callable[[], object]
) -> None:
    """Ask the aggregator to end the run, from a process of its own, until there is an answer."""
    person = world.process("person")

    def ask() -> None:
        link = network.connect(endpoint, "person")
        world.tell("person", "interrupts the run" if interrupted else "stops the run")
        for _ in range(60):
            link.send_control(Stop(id=1, reason=STOPPED, interrupted=interrupted))
            if any(isinstance(answer, Stopping) for answer in link.receive_control(1.0)):
                on_answer()
                return
        link.close(0.0)

    person.start(ask)

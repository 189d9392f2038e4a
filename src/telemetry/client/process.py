"""The single producer of this process: how it attaches, survives a fork, and finishes.

idle ──attach──▶ live ──finish──▶ finished ──attach──▶ live
                  │ fork (in the child)
                  ▼
                inherited ──first event──▶ live, as a new producer
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from msgspec.structs import replace

from telemetry.client import records, user_warnings
from telemetry.client.catalog import Catalog
from telemetry.client.exit_hooks import ExitHooks
from telemetry.client.identity import make_hello, program_name, shown_name
from telemetry.client.instruments import Instrument
from telemetry.client.late_events import LateEvents
from telemetry.client.native_recorders import build_recorders
from telemetry.client.pickling import register_pickling
from telemetry.client.producer_parts import DescriptorReserve, connect, make_outbox, record_into, row_bound
from telemetry.client.recorders import Rows, discard
from telemetry.client.redaction import REDACTION
from telemetry.client.requests.kind import Requests
from telemetry.client.requests.kinds import Kinds, Tracking
from telemetry.client.sending.flusher import Flusher, FlusherParts, ProducerEnding
from telemetry.client.sending.outbox import Outbox
from telemetry.client.stragglers import Declaration, StepWaits, declare_all
from telemetry.errors import EndpointError, NoRoomError, TelemetryError
from telemetry.transport.endpoints import refuses
from telemetry.transport.keeper_lock import keeper_of
from telemetry.wire.control import Hello

if TYPE_CHECKING:
    from telemetry.config.schema import EmitConfig, RedactConfig

ENDPOINT_VARIABLE: Final = "TELEMETRY_ENDPOINT"
_QUIET_S: Final = 0.2  # without events after the end of the run: the process is idle

State = Literal["idle", "live", "inherited", "finished"]


@dataclass(frozen=True)
class _Offline:
    """The part of a flusher that recording needs."""

    outbox: Outbox


class Process:
    """State of the producer in this process. Thread-safe. Recording uses `recorders` and takes no lock."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.recorders = build_recorders()
        self.unencodable = self.recorders.unencodable
        self.catalog = Catalog(self.recorders, self.unencodable)
        self.kinds = Kinds(self)
        self.state: State = "idle"
        self.endpoint = ""
        self.attached = 0
        """Number of times that the process has attached to a run. A forked child continues that of its parent."""
        self.finish_hook: Callable[[], object] | None = None
        """Function that the process calls at its exit instead of `finish`. It ends the run."""
        self.failed = False
        """True if an exception ends the program or its run."""
        self.awaits_aggregator = False
        """True if the aggregator of the environment may start later than this process. Until then, events wait."""
        self.ends_with_run = False
        """True if this process outlives the work that it records, as a worker does that waits for its next task.

        If the run ends first, its account is complete, unless it records on.
        """
        self.id_prefix = ""
        """Beginning of the ids of this process as a producer."""
        self.is_at_work: Callable[[], bool] = lambda: False
        """Predicate for such a process: it is in the middle of something, and may still record."""
        self.is_told: Callable[[BaseException], bool] = lambda error: False
        """Predicate for an exception that the run has in better words, such as a launcher's about its workers."""
        self.own_name: Callable[[], str] = program_name
        """Function that returns the name of this process, if `start` gave none."""
        self.before_finish: list[Callable[[], object]] = []
        """Functions that record what they hold back, before this producer ends. They never raise."""
        self.stragglers: dict[str, Declaration] = {}
        """Declarations of work and wait, by axis."""
        self.step_waits: tuple[StepWaits, ...] = ()
        """Those of them that measure the waits of this process."""
        self._late = LateEvents()
        self._reserve = DescriptorReserve()
        self._flusher: Flusher | None = None
        self._name = ""
        self._config: EmitConfig | None = None
        self._tried_endpoint = ""
        self._attaching_to = ""
        """Endpoint to which this thread is attaching. Other threads wait for the lock, so that no event is lost."""
        self._exit_hooks = ExitHooks(self._end_of_process, self.note_exception)
        self._inherited: list[object] = []

    # --- instruments -----------------------------------------------------------------------------

    def instrument(
        self, kind: str, name: str, unit: str, labels: Mapping[str, object], **bounds: Any
    ) -> Instrument:
        """Return an instrument.

        Attach the process if the environment names an aggregator. Raises InstrumentError.
        """
        instrument = self.catalog.instrument(kind, name, unit, labels, **bounds)
        if self.state == "idle":
            self.attach_by_itself()
        return instrument

    def put_records(self, make: Callable[[], Iterable[bytes]]) -> None:
        """Queue encoded records. Attach the process as `instrument` does.

        Never raises: records that can't be encoded are dropped and counted.
        """
        try:
            if self.state == "idle":
                self.attach_by_itself()
            elif self.state == "inherited":
                self._come_alive()
            flusher = self._flusher
            if self.state == "finished":
                self._late.hit()
            elif flusher is not None:
                flusher.outbox.records.extend(make())
        except Exception:  # noqa: BLE001 – `str` of a user's object may raise anything; counted with the run
            self.unencodable.hit()

    def put_record(self, make: Callable[[], bytes]) -> None:
        """Queue one encoded record, as `put_records`."""
        self.put_records(lambda: (make(),))

    def note_exception(self, error: BaseException) -> None:
        """Record an exception that ends the program or its run, as a mark. Never raises."""
        self.failed = True
        if self.state in ("live", "inherited") and not self.is_told(error):
            self.put_record(lambda: records.exception(error, time.monotonic_ns()))

    def requests(
        self,
        name: str,
        labels: Mapping[str, object],
        expire_s: float | None = None,
        stop_when: str = "",
        slo: str | Sequence[str] = "",
    ) -> Requests:
        """Return a kind of request. Attach the process as `instrument` does. Raise UsageError."""
        kind = self.kinds.requests(name, labels, expire_s, stop_when, slo)
        if self.state == "idle":
            self.attach_by_itself()
        return kind

    def tracking(self, window: str) -> Tracking:
        """Return a `with` block whose requests belong to the named tracking window. Raise InstrumentError."""
        return Tracking(self.kinds, self, window)

    # --- lifecycle -------------------------------------------------------------------------------

    def join(
        self,
        endpoint: str,
        name: str,
        config: EmitConfig,
        *,
        names_run: bool = False,
        ends_with_run: bool = False,
        redact: RedactConfig | None = None,
    ) -> Flusher:
        """Return the flusher for an aggregator. The caller waits for the welcome. For the flags see `attach`.

        If the process attached by itself, that producer is kept and gets the new policy, bounds and rules for
        masking. Otherwise a new one is started. Blocks only if it must first finish the producer of another run.
        Raises EndpointError.
        """
        if self.endpoint != endpoint:
            self.finish(config.finish_timeout_s)
        with self.lock:
            flusher = self._flusher
            if flusher is None or flusher.over:
                return self.attach(
                    endpoint,
                    name,
                    config,
                    awaited=True,
                    names_run=names_run,
                    ends_with_run=ends_with_run,
                    redact=redact,
                )
            if redact is not None:
                REDACTION.configure(redact)
                self.recorders.memory.renew_rules()
            if names_run:
                self._name = name
                flusher.rename(shown_name(name))
            self._config = config
            flusher.outbox.row_bound = row_bound(config)
            self.kinds.log.begin(flusher.outbox, wanted=config.request_log)
            record_into(self.recorders, flusher, config)
            return flusher

    def attach(
        self,
        endpoint: str,
        name: str,
        config: EmitConfig,
        *,
        give_up: bool = False,
        awaited: bool = False,
        names_run: bool = False,
        ends_with_run: bool = False,
        redact: RedactConfig | None = None,
    ) -> Flusher:
        """Start a producer for an aggregator and return at once.

        With `give_up`, the producer ends if the aggregator never answers. A producer that ends by itself prints the
        reason, unless it was never welcomed and `awaited` is True. A run that was started without a name takes this
        one if `names_run` is True. `ends_with_run` is True for a service without events of its own: if the run ends
        first, the account of this producer is complete all the same. Without `redact`, the rules for masking stay
        as they are, or come from the settings. Raises EndpointError if no thread can be started.
        """
        with self.lock:
            REDACTION.configure(redact)
            self.endpoint, self._name, self._config = endpoint, name, config
            introduction = make_hello(f"{self.id_prefix}{os.urandom(8).hex()}", name, names_run=names_run)
            hello = self._open_memory(introduction, config)
            outbox = make_outbox(hello.producer, config, self.recorders, self.catalog)
            if self.state != "inherited":  # inherited: an event of a request attaches the child, so keep requests
                self.attached += 1
                self.kinds.forget()
            flusher = self._make_flusher(
                hello, outbox, config, give_up=give_up, awaited=awaited, ends_with_run=ends_with_run
            )
            try:
                flusher.start()
            except RuntimeError as error:
                self.recorders.memory.remove()
                raise EndpointError(f"can't serve {endpoint}: {error}") from error
            self._go_live(flusher, config)
            return flusher

    def _open_memory(self, hello: Hello, config: EmitConfig) -> Hello:
        """Begin with empty memory for a producer. Return its hello with the path of the memory."""
        with self.catalog.lock:
            ring = self.recorders.memory.open(
                hello.producer, config.buffer_events, self.catalog.definitions, hello, self.endpoint
            )
        return replace(hello, ring=ring)

    def _make_flusher(
        self, hello: Hello, outbox: Outbox, config: EmitConfig, *, give_up: bool, awaited: bool, ends_with_run: bool
    ) -> Flusher:
        """Return the flusher of a new producer. See `attach`."""
        endpoint = self.endpoint
        flusher = Flusher(
            FlusherParts(
                endpoint=endpoint,
                hello=hello,
                outbox=outbox,
                connect=lambda: connect(endpoint, hello.producer, self._reserve),
                refuses=refuses,
                kept=lambda run_id: keeper_of(run_id) > 0,
                period_s=config.flush_ms / 1_000,
                connect_timeout_s=config.start_timeout_s if give_up else None,
                on_given_up=lambda error: self._given_up(flusher, error, say=flusher.welcomed or not awaited),
                on_run_over=self._count_late,
                ends_with_run=ends_with_run or self.ends_with_run,
                records_on=self._records_on,
                on_turn=self.kinds.tend,
            )
        )
        return flusher

    def _go_live(self, flusher: Flusher, config: EmitConfig) -> None:
        """Make this flusher the one of the process, and record into its buffer. Callers hold the lock."""
        outbox = flusher.outbox
        self._flusher = flusher
        self._late.reopen()
        self._exit_hooks.register()
        self.kinds.log.begin(outbox, wanted=config.request_log)
        record_into(self.recorders, flusher, config)
        self.state = "live"
        declare_all(self, outbox, config)
        outbox.records.extend(self.kinds.declarations())

    def record_offline(self, outbox: Outbox, config: EmitConfig) -> None:
        """Record into an outbox that the caller empties. There are no sockets, threads or exit hooks."""
        with self.lock:
            self._flusher = cast(Flusher, _Offline(outbox))
            self._config = config
            self.kinds.log.begin(outbox, wanted=True)
            self.recorders.buffer.hold(config.buffer_events)
            self.recorders.install(self.recorders.buffer.extend)
            self.state = "live"

    @property
    def flusher(self) -> Flusher | None:
        return self._flusher

    def detach(self) -> None:
        """Undo an attach whose aggregator never answered. Instruments discard events again."""
        with self.lock:
            flusher, self._flusher = self._flusher, None
            self._discard()
            self._tried_endpoint = self.endpoint
            if flusher is not None:
                flusher.stop()

    def finish(self, timeout_s: float) -> ProducerEnding:
        """Finish this producer within a bounded time.

        Earlier events are sent and acknowledged; later events are counted as late.
        """
        if self.state == "live":
            for record in self.before_finish:
                record()
        with self.lock:
            flusher, self._flusher = self._flusher, None
            self._count_late()
        if flusher is None:
            return ProducerEnding(None)
        ending = flusher.finish(timeout_s)
        if ending.is_over:
            with self.lock:
                if self._flusher is None:
                    if ending.account is not None:
                        self._count_waiting()
                    else:
                        self.recorders.buffer.clear()  # the ending has counted them
                    self.recorders.memory.remove()
        return ending

    def _count_waiting(self) -> None:
        """Count events as late that arrived while the flusher ended."""
        with self.lock:
            buffer = self.recorders.buffer
            waiting = buffer.waiting
            buffer.drop(waiting)
            self._late.hit_many(waiting)

    def _count_late(self) -> None:
        """Count events from now on as late. They are in no result; their number is printed at exit."""
        with self.lock:
            if self.state in ("live", "inherited"):
                self.kinds.close()
                self._late.note_end()
                self.recorders.install(self._late.hit_rows)
                self.state = "finished"

    def _records_on(self) -> bool:
        """Check whether events come, or may come, after the end of the run.

        Blocks for a moment. Runs on the flusher's thread.
        """
        if not self.ends_with_run:
            return False
        time.sleep(_QUIET_S)
        return self._late.came_since_end() or self.is_at_work()

    def reopen(self) -> None:
        """Allow a new start to attach again after a finish."""
        with self.lock:
            if self.state == "finished":
                self._discard()
            self._tried_endpoint = ""
            self.failed = False

    def ready(self) -> Flusher | None:
        """Return the flusher, after attaching the process as a record does. None if records go nowhere."""
        if self.state == "idle":
            self.attach_by_itself()
        elif self.state == "inherited":
            self._come_alive()
        return self._flusher if self.state == "live" else None

    @property
    def emit_config(self) -> EmitConfig | None:
        """The settings of this producer. None before it has attached."""
        return self._config

    @property
    def finish_timeout_s(self) -> float:
        return self._config.finish_timeout_s if self._config is not None else 0.0

    def _discard(self) -> None:
        self.recorders.install(discard)
        self.recorders.memory.remove()
        self.kinds.forget()
        self.state = "idle"

    # --- automatic attach ------------------------------------------------------------------------

    def attach_by_itself(self) -> None:
        """Attach to the aggregator that the environment names.

        Never raises and never waits. On trouble it prints one line, and instruments keep discarding events.
        """
        endpoint = os.environ.get(ENDPOINT_VARIABLE, "")
        if not endpoint or endpoint == self._tried_endpoint:
            return
        from telemetry.config import load

        with self.lock:
            if self.state != "idle" or endpoint in (self._tried_endpoint, self._attaching_to):
                return
            self._attaching_to = endpoint
            try:
                if not self.awaits_aggregator and refuses(endpoint):
                    raise EndpointError(f"no aggregator listens at {endpoint}", hint=f"unset {ENDPOINT_VARIABLE}")
                config = load().config
                self.attach(
                    endpoint,
                    self.own_name(),
                    config.emit,
                    give_up=not self.awaits_aggregator,
                    redact=config.redact,
                )
            except TelemetryError as error:
                self._say_why_not(error)
            finally:
                self._tried_endpoint, self._attaching_to = endpoint, ""

    def _given_up(self, flusher: Flusher, error: TelemetryError, *, say: bool) -> None:
        """Handle a flusher that gave up. Runs on the flusher's thread."""
        with self.lock:
            current = self._flusher in (flusher, None)  # None: the process is finishing
            if isinstance(error, NoRoomError) and current:
                self._late.reason = str(error)
                self._late.hit_many(flusher.outbox.emitted)
                self._count_late()
                self._count_waiting()
                self.recorders.memory.remove()  # all of it is said to be lost, so no aggregator may find it
                say = say and self._flusher is flusher  # otherwise the line at exit reports it
            if self._flusher is flusher:
                self._flusher = None
                self._tried_endpoint = self.endpoint
                if self.state == "live":
                    self._discard()
        if say:
            self._say_why_not(error)

    def _say_why_not(self, error: TelemetryError) -> None:
        user_warnings.warn(f"nothing is recorded: {error}")

    # --- fork ------------------------------------------------------------------------------------

    def after_fork_in_child(self) -> None:
        """Make the child a producer of its own.

        Objects of the parent are kept and never touched: closing an inherited socket would close the parent's
        socket.
        """
        self.lock = threading.RLock()
        self.catalog.lock = threading.Lock()
        self._inherited.append(self._flusher)
        self._flusher = None
        self.finish_hook = None  # only the parent ends the run
        self._attaching_to = ""
        self._late.take()
        self.recorders.memory.forget()
        self.kinds.after_fork_in_child()
        REDACTION.after_fork_in_child()
        if self.state in ("live", "inherited"):
            self.state = "inherited"
            self.recorders.install(self._first_rows)

    def _first_rows(self, rows: Rows) -> None:
        self._come_alive()
        if self.state == "live":
            self.recorders.buffer.extend(rows)

    def _come_alive(self) -> None:
        """Attach a forked child at its first event. A child that only calls exec never becomes a producer."""
        with self.lock:
            if self.state == "inherited" and self._config is not None:
                try:
                    self.attach(self.endpoint, self._name, self._config)
                except TelemetryError as error:
                    self._discard()
                    self._say_why_not(error)

    # --- exit ------------------------------------------------------------------------------------

    def _end_of_process(self) -> None:
        """Finish this producer, or end the run, and print what was lost. Later calls print only what is new."""
        hook = self.finish_hook
        if hook is not None:
            hook()
        elif self._flusher is not None:
            message = self.finish(self.finish_timeout_s).in_words()
            if message and not self._late.reason:
                user_warnings.warn(message)
        self._count_waiting()
        self._late.warn()
        self._late.expect_exit()


PROCESS: Final = Process()

register_pickling()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=PROCESS.after_fork_in_child)

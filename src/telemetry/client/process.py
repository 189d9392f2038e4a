"""The single producer of this process: how it attaches, survives a fork, and finishes.

idle ──attach──▶ live ──finish──▶ finished ──attach──▶ live
                  │ fork (in the child)
                  ▼
                inherited ──first event──▶ live, as a new producer
"""

from __future__ import annotations

import atexit
import copyreg
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

from telemetry.client import notice
from telemetry.client.catalog import Catalog
from telemetry.client.instruments import Counter, Gauge, Instrument, Series
from telemetry.client.native_recorders import build_recorders
from telemetry.client.recorders import Rows, blocking_extend, discard
from telemetry.client.redaction import REDACTION
from telemetry.client.requests.kind import Requests
from telemetry.client.requests.kinds import Kinds, Tracking
from telemetry.client.reserve import DescriptorReserve
from telemetry.client.ring_directory import is_on_this_host
from telemetry.client.sending.door import Door, labels_of
from telemetry.client.sending.flusher import Ending, Flusher, FlusherParts
from telemetry.client.sending.outbox import Outbox
from telemetry.client.stragglers import Declaration, StepWaits
from telemetry.client.tally import Tally
from telemetry.drop_reasons import Reason
from telemetry.errors import EndpointError, NoRoomError, TelemetryError
from telemetry.formatting import number_of
from telemetry.redaction import COUNTER, COUNTER_UNIT
from telemetry.transport.endpoints import refuses
from telemetry.transport.keeper_lock import keeper_of
from telemetry.transport.producer import ProducerLink
from telemetry.wire.control import Hello
from telemetry.wire.events import DEFAULT_AXIS, Define

if TYPE_CHECKING:
    from telemetry.config.schema import EmitConfig, RedactConfig

ENDPOINT_VARIABLE: Final = "TELEMETRY_ENDPOINT"
_AFTER_FINISH: Final = "after finish()"
_QUIET_S: Final = 0.2  # without events after the end of the run: the process is idle
_RANK_VARIABLES: Final = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")

State = Literal["idle", "live", "inherited", "finished"]


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
        self.own_name: Callable[[], str] = program_name
        """Function that returns the name of this process, if `start` gave none."""
        self.before_finish: list[Callable[[], object]] = []
        """Functions that record what they hold back, before this producer ends. They never raise."""
        self.stragglers: dict[str, Declaration] = {}
        """Declarations of work and wait, by axis."""
        self.step_waits: tuple[StepWaits, ...] = ()
        """Those of them that measure the waits of this process."""
        self._late = Tally()
        self._late_before = 0
        """Number of late events when this producer ended."""
        self._late_because = _AFTER_FINISH
        self._reserve = DescriptorReserve()
        self._flusher: Flusher | None = None
        self._name = ""
        self._config: EmitConfig | None = None
        self._tried_endpoint = ""
        self._hooked = self._hooked_multiprocessing = False
        self._inherited: list[object] = []

    # --- instruments -----------------------------------------------------------------------------

    def instrument(
        self, kind: str, name: str, unit: str, labels: Mapping[str, object], **bounds: Any
    ) -> Instrument:
        """Return an instrument.

        Attach the process if the environment names an aggregator. Raises InstrumentError.
        """
        made = self.catalog.instrument(kind, name, unit, labels, **bounds)
        if self.state == "idle":
            self.attach_by_itself()
        return made

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

    def requests(
        self,
        name: str,
        labels: Mapping[str, object],
        expire_s: float | None = None,
        stop_when: str = "",
        slo: str | Sequence[str] = "",
    ) -> Requests:
        """Return a kind of request. Attach the process as `instrument` does. Raise UsageError."""
        made = self.kinds.requests(name, labels, expire_s, stop_when, slo)
        if self.state == "idle":
            self.attach_by_itself()
        return made

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
        ends_with_run: bool = False,
        redact: RedactConfig | None = None,
    ) -> Flusher:
        """Return the flusher for an aggregator. The caller waits for the welcome. For `ends_with_run` see `attach`.

        If the process attached by itself, that producer is kept and gets the new policy, bounds and rules for
        masking. Otherwise a new one is started. Blocks only if it must first finish the producer of another run.
        Raises EndpointError.
        """
        if self.endpoint != endpoint:
            self.finish(config.finish_timeout_s)
        with self.lock:
            flusher = self._flusher
            if flusher is None or flusher.over:
                return self.attach(endpoint, name, config, awaited=True, ends_with_run=ends_with_run, redact=redact)
            if redact is not None:
                REDACTION.configure(redact)
                self.recorders.memory.renew_rules()
            self._config = config
            blocking = config.policy == "block"
            flusher.outbox.row_bound = None if blocking else config.buffer_events
            self.kinds.log.begin(flusher.outbox, wanted=config.request_log)
            self._record_to(flusher, blocking)
            return flusher

    def attach(
        self,
        endpoint: str,
        name: str,
        config: EmitConfig,
        *,
        give_up: bool = False,
        awaited: bool = False,
        ends_with_run: bool = False,
        redact: RedactConfig | None = None,
    ) -> Flusher:
        """Start a producer for an aggregator and return at once.

        With `give_up`, the producer ends if the aggregator never answers. A producer that ends by itself prints the
        reason, unless it was never welcomed and `awaited` is True. `ends_with_run` is True for a service without
        events of its own: if the run ends first, the account of this producer is complete all the same. Without
        `redact`, the rules for masking stay as they are, or come from the settings. Raises EndpointError if no
        thread can be started.
        """
        with self.lock:
            REDACTION.configure(redact)
            self.endpoint, self._name, self._config = endpoint, name, config
            producer = f"{self.id_prefix}{os.urandom(8).hex()}"
            blocking = config.policy == "block"
            with self.catalog.lock:
                ring = self.recorders.memory.open(
                    producer, config.buffer_events, self.catalog.definitions, is_near=is_on_this_host(endpoint)
                )
            outbox = Outbox(
                producer,
                self.recorders.buffer,
                self.catalog.definitions,
                door=Door(REDACTION, self._masked_row_id),
                tallies={
                    Reason.BUFFER_FULL: self.recorders.buffer_full,
                    Reason.NOT_A_NUMBER: self.recorders.refused,
                    Reason.BLOCK_TIMEOUT: self.recorders.timed_out,
                    Reason.UNENCODABLE: self.unencodable,
                },
                row_bound=None if blocking else config.buffer_events,
            )
            if self.state != "inherited":  # inherited: an event of a request attaches the child, so keep requests
                self.attached += 1
                self.kinds.forget()
            flusher = Flusher(
                FlusherParts(
                    endpoint=endpoint,
                    hello=_hello(producer, name, ring),
                    outbox=outbox,
                    connect=lambda: self._connected(endpoint, producer),
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
            try:
                flusher.start()
            except RuntimeError as error:
                self.recorders.memory.remove()
                raise EndpointError(f"can't serve {endpoint}: {error}") from error
            self._flusher = flusher
            self._late_because = _AFTER_FINISH
            self._hook_exits()
            self.kinds.log.begin(outbox, wanted=config.request_log)
            self._record_to(flusher, blocking)
            self.state = "live"
            self._declare_stragglers(flusher, config)
            outbox.records.extend(self.kinds.declarations())
            return flusher

    def _declare_stragglers(self, flusher: Flusher, config: EmitConfig) -> None:
        if config.stragglers and DEFAULT_AXIS not in self.stragglers:
            waits = StepWaits(DEFAULT_AXIS, config.stragglers)
            self.stragglers[DEFAULT_AXIS] = waits
            self.step_waits = (*self.step_waits, waits)
        for declaration in self.stragglers.values():
            flusher.outbox.records.extend(declaration.records())

    def _connected(self, endpoint: str, producer: str) -> ProducerLink:
        """Return the sockets of a producer. Raise NoRoomError if the process can't open enough file descriptors."""
        if not self._reserve.has_room():
            raise NoRoomError(
                f"can't reach {endpoint}: this process has too many open files",
                hint="raise the limit with `ulimit -n`",
            )
        link = ProducerLink(endpoint, producer)
        self._reserve.hold()
        return link

    def _masked_row_id(self, rule: str) -> float:
        """Return the row id of the counter of values that a rule has masked."""
        return self.catalog.row_id("counter", COUNTER, COUNTER_UNIT, labels_of(rule), within="")

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

    def finish(self, timeout_s: float) -> Ending:
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
            return Ending(None)
        ending = flusher.finish(timeout_s)
        if ending.is_over:
            with self.lock:
                if self._flusher is None:
                    self._count_waiting()
                    self.recorders.memory.remove()
        return ending

    def _count_waiting(self) -> None:
        """Count events as late that arrived while the flusher ended."""
        buffer = self.recorders.buffer
        self._late.hit_many(buffer.waiting)
        buffer.clear()

    def _count_late(self) -> None:
        """Count events from now on as late. They are in no result; their number is printed at exit."""
        with self.lock:
            if self.state in ("live", "inherited"):
                self.kinds.close()
                self._late_before = self._late.total
                late = self._late.hit_many
                self.recorders.install(lambda rows: late(len(rows) // 3))
                self.state = "finished"

    def _records_on(self) -> bool:
        """Check whether events come, or may come, after the end of the run.

        Blocks for a moment. Runs on the flusher's thread.
        """
        if not self.ends_with_run:
            return False
        time.sleep(_QUIET_S)
        return self._late.total > self._late_before or self.is_at_work()

    def reopen(self) -> None:
        """Allow a new start to attach again after a finish."""
        with self.lock:
            if self.state == "finished":
                self._discard()
            self._tried_endpoint = ""

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

    def _record_to(self, flusher: Flusher, blocking: bool) -> None:
        buffer, config = self.recorders.buffer, self._config
        if config is not None:
            buffer.hold(config.buffer_events)
        if not blocking or config is None:
            self.recorders.install(buffer.extend)
            return
        outbox = flusher.outbox
        self.recorders.install_waiting(
            blocking_extend(
                buffer,
                config.buffer_events,
                config.block_timeout_s,
                wake=flusher.wake,
                progress=lambda: outbox.next_seq,
                timed_out=self.recorders.timed_out.hit_many,
            )
        )

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
            if self.state != "idle" or endpoint == self._tried_endpoint:
                return
            self._tried_endpoint = endpoint
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

    def _given_up(self, flusher: Flusher, error: TelemetryError, *, say: bool) -> None:
        """Handle a flusher that gave up. Runs on the flusher's thread."""
        with self.lock:
            current = self._flusher in (flusher, None)  # None: the process is finishing
            if isinstance(error, NoRoomError) and current:
                self._late_because = str(error)
                self._late.hit_many(flusher.outbox.emitted)
                self._count_late()
                say = say and self._flusher is flusher  # otherwise the line at exit reports it
            if self._flusher is flusher:
                self._flusher = None
                self._tried_endpoint = self.endpoint
                if self.state == "live":
                    self._discard()
        if say:
            self._say_why_not(error)

    def _say_why_not(self, error: TelemetryError) -> None:
        notice.warn(f"nothing is recorded: {error}")

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

    def _hook_exits(self) -> None:
        """Register exit hooks. multiprocessing's children skip `atexit` but run their finalizers."""
        if not self._hooked:
            self._hooked = True
            atexit.register(self._at_exit)
        util = sys.modules.get("multiprocessing.util")
        if util is not None and not self._hooked_multiprocessing:
            self._hooked_multiprocessing = True
            util.register_after_fork(self, Process._finalize_with_multiprocessing)
            self._finalize_with_multiprocessing()

    def _finalize_with_multiprocessing(self) -> None:
        """Register the finalizer.

        Called again in each child, because a child clears its finalizers before it runs.
        """
        util = sys.modules["multiprocessing.util"]
        util.Finalize(None, self._end_of_process, exitpriority=-100)

    def _at_exit(self) -> None:
        """End this producer at exit.

        If multiprocessing's own exit function is still due, run after it: it joins children.
        """
        util = sys.modules.get("multiprocessing.util")
        if util is not None and not util.is_exiting():
            self._finalize_with_multiprocessing()
        else:
            self._end_of_process()

    def _end_of_process(self) -> None:
        hook = self.finish_hook
        if hook is not None:
            hook()
        elif self._flusher is not None:
            said = self.finish(self.finish_timeout_s).in_words()
            if said and self._late_because == _AFTER_FINISH:
                notice.warn(said)
        self._count_waiting()
        if late := self._late.take():
            events = number_of(late, "event was", "events were")
            if self._late_because == _AFTER_FINISH:
                not_in = "is not in the result" if late == 1 else "are not in the result"
                notice.warn(f"{events} recorded {_AFTER_FINISH} and {not_in}")
            else:
                notice.warn(f"{events} lost: {self._late_because}")


def _hello(producer: str, name: str, ring: str) -> Hello:
    return Hello(
        producer=producer,
        name=REDACTION.redactor.name(name)[:200],
        host=REDACTION.redactor.name(os.uname().nodename)[:200],
        pid=os.getpid(),
        rank=_rank(),
        mono_ns=time.monotonic_ns(),
        ring=ring,
    )


def _rank() -> int | None:
    """Return the rank that a launcher gave this process."""
    for variable in _RANK_VARIABLES:
        text = os.environ.get(variable, "")
        if text.isdecimal():
            return int(text)
    return None


def program_name() -> str:
    """Return the name of this process when `start` gave none."""
    return os.path.basename(sys.argv[0] if sys.argv else "") or "python"


PROCESS: Final = Process()


def _pickled(instrument: Instrument) -> tuple[Callable[[Define], Instrument], tuple[Define]]:
    """Reduce an instrument for pickle.

    The receiving process makes its own instrument of the same name and attaches.
    """
    return _same_here, (instrument.definition,)


def _same_here(made: Define) -> Instrument:
    return PROCESS.instrument(
        made.kind, made.name, made.unit, made.labels, digits=made.digits, low=made.low, high=made.high
    )


def _pickled_requests(made: Requests) -> tuple[Callable[..., Requests], tuple[object, ...]]:
    return _same_requests_here, (made.name, made.labels, made.expire_s, made.stop_when, made.slo)


def _same_requests_here(
    name: str, labels: Mapping[str, str], expire_s: float | None, stop_when: str, slo: str = ""
) -> Requests:
    return PROCESS.requests(name, labels, expire_s, stop_when, slo)


for _kind in (Counter, Gauge, Series):
    copyreg.pickle(_kind, _pickled)
copyreg.pickle(Requests, _pickled_requests)

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=PROCESS.after_fork_in_child)

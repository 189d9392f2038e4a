"""The one producer of this process: how it comes to life, survives a fork, and ends.

idle ──attach──▶ live ──finish──▶ finished ──attach──▶ live
                  │ fork (in the child)
                  ▼
                inherited ──first event──▶ live, as a producer of its own
"""

from __future__ import annotations

import atexit
import copyreg
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal

from telemetry.client import notice
from telemetry.client.catalog import Catalog
from telemetry.client.instruments import Counter, Gauge, Instrument, Series
from telemetry.client.recorders import Rows, blocking_extend, build_recorders, discard
from telemetry.client.requests.kind import Requests
from telemetry.client.requests.kinds import Kinds, Tracking
from telemetry.client.reserve import DescriptorReserve
from telemetry.client.sending.flusher import Ending, Flusher, FlusherParts
from telemetry.client.sending.outbox import Outbox
from telemetry.client.tally import Tally
from telemetry.drop_reasons import Reason
from telemetry.errors import EndpointError, NoRoomError, TelemetryError
from telemetry.formatting import number_of
from telemetry.transport.endpoints import refuses
from telemetry.transport.keeper_lock import keeper_of
from telemetry.transport.producer import ProducerLink
from telemetry.wire.control import Hello
from telemetry.wire.events import Define

if TYPE_CHECKING:
    from telemetry.config.schema import EmitConfig

ENDPOINT_VARIABLE: Final = "TELEMETRY_ENDPOINT"
_AFTER_FINISH: Final = "after finish()"
_RANK_VARIABLES: Final = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")

State = Literal["idle", "live", "inherited", "finished"]


class Process:
    """All methods may be called from any thread. Recording itself goes through `recorders` and takes no lock."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.recorders = build_recorders()
        self.unencodable = Tally()
        self.catalog = Catalog(self.recorders, self.unencodable)
        self.kinds = Kinds(self)
        self.state: State = "idle"
        self.endpoint = ""
        self.finish_hook: Callable[[], object] | None = None
        """What the exit of the process calls instead of `finish`: the run's own end."""
        self._late = Tally()
        self._late_because = _AFTER_FINISH
        self._reserve = DescriptorReserve()
        self._timed_out = Tally()
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
        """The instrument. Attaches the process if the environment names an aggregator. Raises InstrumentError."""
        made = self.catalog.instrument(kind, name, unit, labels, **bounds)
        if self.state == "idle":
            self.attach_by_itself()
        return made

    def put_records(self, make: Callable[[], Iterable[bytes]]) -> None:
        """Queues encoded records. Never raises; what can't be encoded is dropped and counted."""
        try:
            if self.state == "inherited":
                self._come_alive()
            flusher = self._flusher
            if self.state == "finished":
                self._late.hit()
            elif flusher is not None:
                flusher.outbox.records.extend(make())
        except Exception:  # noqa: BLE001 – `str` of a user's object may raise anything; counted with the run
            self.unencodable.hit()

    def put_record(self, make: Callable[[], bytes]) -> None:
        """One of them."""
        self.put_records(lambda: (make(),))

    def requests(
        self, name: str, labels: Mapping[str, object], expire_s: float | None = None, stop_when: str = ""
    ) -> Requests:
        """The kind of request, as `instrument` the instrument. Raises InstrumentError."""
        made = self.kinds.requests(name, labels, expire_s, stop_when)
        if self.state == "idle":
            self.attach_by_itself()
        return made

    def tracking(self, window: str) -> Tracking:
        """A block whose requests belong to a window of this name. Raises InstrumentError."""
        return Tracking(self.kinds, self, window)

    # --- life ------------------------------------------------------------------------------------

    def join(self, endpoint: str, name: str, config: EmitConfig) -> Flusher:
        """The producer for an aggregator whose welcome the caller awaits: the one that attached by itself, with new
        policy and bounds, or a new one. Raises EndpointError; blocks only to finish one that is another run's."""
        if self.endpoint != endpoint:
            self.finish(config.finish_timeout_s)
        with self.lock:
            flusher = self._flusher
            if flusher is None or flusher.over:
                return self.attach(endpoint, name, config, awaited=True)
            self._config = config
            blocking = config.policy == "block"
            flusher.outbox.row_bound = None if blocking else config.buffer_events
            self._record_to(flusher, blocking)
            return flusher

    def attach(
        self, endpoint: str, name: str, config: EmitConfig, *, give_up: bool = False, awaited: bool = False
    ) -> Flusher:
        """Starts a producer for an aggregator. Returns at once; `give_up` ends it if there is never an answer.

        Why it ends by itself is said, unless it was never welcomed and somebody awaits that. Raises EndpointError
        if no thread can be started.
        """
        with self.lock:
            self.endpoint, self._name, self._config = endpoint, name, config
            producer = os.urandom(8).hex()
            blocking = config.policy == "block"
            outbox = Outbox(
                producer,
                self.recorders.buffer,
                self.catalog.definitions,
                tallies={
                    Reason.NOT_A_NUMBER: self.recorders.refused,
                    Reason.BLOCK_TIMEOUT: self._timed_out,
                    Reason.UNENCODABLE: self.unencodable,
                },
                row_bound=None if blocking else config.buffer_events,
            )
            self.recorders.buffer.clear()
            if self.state != "inherited":  # then it is an event of a request that brings this child to life
                self.kinds.forget()
            flusher = Flusher(
                FlusherParts(
                    endpoint=endpoint,
                    hello=_hello(producer, name),
                    outbox=outbox,
                    connect=lambda: self._connected(endpoint, producer),
                    refuses=refuses,
                    kept=lambda run_id: keeper_of(run_id) > 0,
                    period_s=config.flush_ms / 1_000,
                    connect_timeout_s=config.start_timeout_s if give_up else None,
                    on_given_up=lambda error: self._given_up(flusher, error, say=flusher.welcomed or not awaited),
                    on_run_over=self._count_late,
                    on_turn=self.kinds.tend,
                )
            )
            try:
                flusher.start()
            except RuntimeError as error:
                raise EndpointError(f"{endpoint} can't be served: {error}") from error
            self._flusher = flusher
            self._late_because = _AFTER_FINISH
            self._hook_exits()
            self._record_to(flusher, blocking)
            self.state = "live"
            return flusher

    def _connected(self, endpoint: str, producer: str) -> ProducerLink:
        """Return the sockets of a producer. Raise NoRoomError if the process can't open as many descriptors."""
        if not self._reserve.has_room():
            raise NoRoomError(
                f"this process can open no more files, so it can't reach {endpoint}", hint="raise `ulimit -n`"
            )
        link = ProducerLink(endpoint, producer)
        self._reserve.hold()
        return link

    @property
    def flusher(self) -> Flusher | None:
        return self._flusher

    def detach(self) -> None:
        """Takes an attach back whose aggregator never answered: instruments discard again."""
        with self.lock:
            flusher, self._flusher = self._flusher, None
            self._discard()
            self._tried_endpoint = self.endpoint
            if flusher is not None:
                flusher.stop()

    def finish(self, timeout_s: float) -> Ending:
        """Ends this producer: later events are counted, earlier ones sent and acknowledged. Bounded."""
        with self.lock:
            flusher, self._flusher = self._flusher, None
            self._count_late()
        return flusher.finish(timeout_s) if flusher is not None else Ending(None)

    def _count_late(self) -> None:
        """What is recorded from now on is in no result; it is counted and said at exit."""
        with self.lock:
            if self.state in ("live", "inherited"):
                self.kinds.close()
                late = self._late.hit_many
                self.recorders.install(lambda rows: late(len(rows) // 3))
                self.state = "finished"

    def reopen(self) -> None:
        """After a finish, a new start may attach again."""
        with self.lock:
            if self.state == "finished":
                self._discard()
            self._tried_endpoint = ""

    @property
    def finish_timeout_s(self) -> float:
        return self._config.finish_timeout_s if self._config is not None else 0.0

    def _discard(self) -> None:
        self.recorders.install(discard)
        self.recorders.buffer.clear()
        self.kinds.forget()
        self.state = "idle"

    def _record_to(self, flusher: Flusher, blocking: bool) -> None:
        buffer, config = self.recorders.buffer, self._config
        if not blocking or config is None:
            self.recorders.install(buffer.extend)
            return
        outbox = flusher.outbox
        self.recorders.install(
            blocking_extend(
                buffer,
                config.buffer_events,
                config.block_timeout_s,
                wake=flusher.wake,
                progress=lambda: outbox.next_seq,
                timed_out=self._timed_out.hit_many,
            )
        )

    # --- attaching by itself ---------------------------------------------------------------------

    def attach_by_itself(self) -> None:
        """Never raises and never waits: trouble is one line, and instruments stay null objects."""
        endpoint = os.environ.get(ENDPOINT_VARIABLE, "")
        if not endpoint or endpoint == self._tried_endpoint:
            return
        from telemetry.config import load

        with self.lock:
            if self.state != "idle" or endpoint == self._tried_endpoint:
                return
            self._tried_endpoint = endpoint
            try:
                if refuses(endpoint):
                    raise EndpointError(f"nobody listens at {endpoint}", hint=f"unset {ENDPOINT_VARIABLE}")
                self.attach(endpoint, program_name(), load().config.emit, give_up=True)
            except TelemetryError as error:
                self._say_why_not(error)

    def _given_up(self, flusher: Flusher, error: TelemetryError, *, say: bool) -> None:
        """On the flusher's thread."""
        with self.lock:
            current = self._flusher in (flusher, None)  # None: the process is finishing
            if isinstance(error, NoRoomError) and current:
                self._late_because = str(error)
                self._late.hit_many(flusher.outbox.emitted)
                self._count_late()
                say = say and self._flusher is flusher  # else the line at exit says it
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
        """The child is a producer of its own. What belongs to the parent is kept as it is and never touched:
        closing an inherited socket would close the parent's."""
        self.lock = threading.RLock()
        self.catalog.lock = threading.Lock()
        self._inherited.append(self._flusher)
        self._flusher = None
        self.finish_hook = None  # the run is the parent's to end
        self._late.take()
        self.recorders.buffer.clear()
        self.kinds.after_fork_in_child()
        if self.state in ("live", "inherited"):
            self.state = "inherited"
            self.recorders.install(self._first_rows)

    def _first_rows(self, rows: Rows) -> None:
        self._come_alive()
        if self.state == "live":
            self.recorders.buffer.extend(rows)

    def _come_alive(self) -> None:
        """A forked child attaches with its first event: one that only execs is never a producer."""
        with self.lock:
            if self.state == "inherited" and self._config is not None:
                try:
                    self.attach(self.endpoint, self._name, self._config)
                except TelemetryError as error:
                    self._discard()
                    self._say_why_not(error)

    # --- exit ------------------------------------------------------------------------------------

    def _hook_exits(self) -> None:
        """`atexit` does not run in multiprocessing's children, their finalizers do."""
        if not self._hooked:
            self._hooked = True
            atexit.register(self._at_exit)
        util = sys.modules.get("multiprocessing.util")
        if util is not None and not self._hooked_multiprocessing:
            self._hooked_multiprocessing = True
            util.register_after_fork(self, Process._finalize_with_multiprocessing)
            self._finalize_with_multiprocessing()

    def _finalize_with_multiprocessing(self) -> None:
        """Called again in each child, which clears its finalizers before it runs."""
        util = sys.modules["multiprocessing.util"]
        util.Finalize(None, self._end_of_process, exitpriority=-100)

    def _at_exit(self) -> None:
        """Children are joined by multiprocessing's own exit function first, if that is still to come."""
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
        buffer = self.recorders.buffer  # may hold what was on its way in when the flusher ended
        late = self._late.take() + len(buffer) // 3
        buffer.clear()
        if late:
            events = number_of(late, "event was", "events were")
            if self._late_because == _AFTER_FINISH:
                not_in = "is not in the result" if late == 1 else "are not in the result"
                notice.warn(f"{events} recorded {_AFTER_FINISH} and {not_in}")
            else:
                notice.warn(f"{events} lost: {self._late_because}")


def _hello(producer: str, name: str) -> Hello:
    return Hello(
        producer=producer,
        name=name[:200],
        host=os.uname().nodename[:200],
        pid=os.getpid(),
        rank=_rank(),
        mono_ns=time.monotonic_ns(),
    )


def _rank() -> int | None:
    """The number that a launcher gave this process."""
    for variable in _RANK_VARIABLES:
        text = os.environ.get(variable, "")
        if text.isdecimal():
            return int(text)
    return None


def program_name() -> str:
    """What this process calls itself without a `start`."""
    return os.path.basename(sys.argv[0] if sys.argv else "") or "python"


PROCESS: Final = Process()


def _pickled(instrument: Instrument) -> tuple[Callable[[Define], Instrument], tuple[Define]]:
    """Another process gets its own instrument of the same name, which attaches there by itself."""
    return _same_here, (instrument.definition,)


def _same_here(made: Define) -> Instrument:
    return PROCESS.instrument(
        made.kind, made.name, made.unit, made.labels, digits=made.digits, low=made.low, high=made.high
    )


def _pickled_requests(made: Requests) -> tuple[Callable[..., Requests], tuple[object, ...]]:
    return _same_requests_here, (made.name, made.labels, made.expire_s, made.stop_when)


def _same_requests_here(name: str, labels: Mapping[str, str], expire_s: float | None, stop_when: str) -> Requests:
    return PROCESS.requests(name, labels, expire_s, stop_when)


for _kind in (Counter, Gauge, Series):
    copyreg.pickle(_kind, _pickled)
copyreg.pickle(Requests, _pickled_requests)

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=PROCESS.after_fork_in_child)

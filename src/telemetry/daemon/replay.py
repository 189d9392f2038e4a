"""Composition root of a replay: a separate service, fed with the journal of an ended run."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from telemetry import limits
from telemetry.common.clock import SYSTEM_CLOCK, Clock
from telemetry.daemon.build import assemble, bind
from telemetry.daemon.cost import CostMeter
from telemetry.daemon.exact_percentiles import CUT, damage
from telemetry.daemon.lifetime import OnReady, or_tell, prepare_process, serve
from telemetry.daemon.options import DaemonOptions
from telemetry.daemon.record_stream import RecordPublisher
from telemetry.daemon.recovery.backfill import RESTARTED, journal_losses
from telemetry.daemon.recovery.rebuild import EntryEffects, Fold
from telemetry.daemon.recovery.resume import result_of
from telemetry.daemon.run_opening import OpenedRun, new_directory, open_history
from telemetry.daemon.run_status import RunStatus
from telemetry.daemon.service import Service
from telemetry.daemon.signal_pipe import SignalPipe
from telemetry.errors import RunDirectoryError
from telemetry.store.final_snapshot import find_final
from telemetry.store.history import HistoryWriter
from telemetry.store.journal import BATCH, JournalReader
from telemetry.store.records import RecordLog
from telemetry.store.request_log import RequestLogWriter
from telemetry.store.run_directory import RunDirectory
from telemetry.transport.endpoints import plan
from telemetry.wire.codec import carriable
from telemetry.wire.control import CannotResend, End, ExpectNodes, Hello, Watch
from telemetry.wire.journal import Ending
from telemetry.wire.snapshot import BackendStat, MetricsSnapshot

_SECOND_NS: Final = 1_000_000_000
_LONGEST_SILENCE_NS: Final = 5 * _SECOND_NS  # live intervals end each second: no aggregator ran during a longer one
_PATIENCE_S: Final = 10.0
"""Longest wait for an aggregator that has written its result and is about to end."""


def run_replay(
    options: DaemonOptions, original: RunDirectory, speed: float, on_ready: OnReady | None = None
) -> tuple[bool, MetricsSnapshot]:
    """Replay a run on the calling (main) thread, as `run_daemon` runs one.

    `speed` is above 0 and may be infinite.
    """
    prepare_process()
    return serve(or_tell(options.ready_fd, lambda: build_replay(options, original, speed, SignalPipe())), on_ready)


def build_replay(
    options: DaemonOptions, original: RunDirectory, speed: float, signals: SignalPipe | None
) -> Service:
    """Build the service of a replay.

    Raises RunDirectoryError if the run is alive or has no readable journal, TelemetryError as `build`.
    """
    patience_s = _PATIENCE_S if find_final(original) is not None else 0.0
    if not original.await_release(patience_s):
        raise RunDirectoryError(f"the run in {original.path} is still going", hint="wait until it has ended")
    _refuse_replays(original)
    fold = Fold(JournalReader(original.journal))
    run = fold.numbers.run
    with ExitStack() as undo:
        hub = bind(plan(options.config.transport.bind or None, options.run_id), options)
        undo.callback(hub.close)
        directory, lock = new_directory(options, hub, SYSTEM_CLOCK.wall_ns(), latest=False)
        undo.callback(lock.release)
        directory.write_manifest(replace(directory.read_manifest(), replay_of=carriable(str(original.path))))
        opening = OpenedRun(
            directory=directory,
            let_go=lock.release,
            clock=SYSTEM_CLOCK,
            numbers=fold.numbers,
            journal=None,
            history=open_history(options.config, directory),
            records=RecordLog(directory.records),
            requests=RequestLogWriter(directory.requests),
        )
        parts = assemble(options, hub, opening, signals)
        own = replace(run, run_id=options.run_id, name=options.name, takes_name=False, snapshot_seq=0, ending=None)
        run_status = RunStatus.of(own, options.epoch, carriable(str(directory.path)), options.config.run.refresh_hz)
        cost = CostMeter(SYSTEM_CLOCK.monotonic_ns())
        feed = Playback(
            fold=fold,
            journal=original.journal,
            ending=_known_ending(original, options.config.run.fallback_dirs),
            speed=speed,
            clock=SYSTEM_CLOCK,
            run_status=run_status,
            stream=RecordPublisher(options.run_id, opening.records, hub),
            history=opening.history,
            requests=opening.requests,
            cost=cost,
        )
        service = Service(
            parts,
            run_status,
            cost,
            feed,
            ClosedIngress(f"this is a replay of run {run.run_id}: it accepts no events"),
        )
        undo.pop_all()
    return service


def _refuse_replays(directory: RunDirectory) -> None:
    original = ""
    with suppress(RunDirectoryError):  # a journal is readable without a manifest
        original = directory.read_manifest().replay_of
    if original:
        raise RunDirectoryError(
            f"{directory.path} is a replay, which keeps no journal",
            hint=f"replay the original: `telemetry replay {shlex.quote(original)}`",
        )


def _known_ending(original: RunDirectory, fallback_dirs: Sequence[str]) -> Ending | None:
    result = result_of(original, fallback_dirs)
    if result is None:
        return None
    return Ending(reason=result.reason, interrupted=result.state == "INTERRUPTED", command=result.command)


class Playback:
    """A `telemetry.daemon.input.DaemonInput` of a journal. Its time is the journal's time, scaled by the speed."""

    listens = False

    def __init__(
        self,
        *,
        fold: Fold,
        journal: Path,
        ending: Ending | None,
        speed: float,
        clock: Clock,
        run_status: RunStatus,
        stream: RecordPublisher,
        history: HistoryWriter | None,
        requests: RequestLogWriter,
        cost: CostMeter,
    ) -> None:
        """Prepare the playback. `ending` is the known end of the run; None: read it from the journal.

        `speed` may be infinite.
        """
        self.journal = journal
        self._fold = fold
        self._ending = ending
        self._speed = speed
        self._clock = clock
        self._run_status = run_status
        self._stream = stream
        self._history = history
        self._requests = requests
        self._cost = cost
        self._entries = fold.entries()
        self._next = next(self._entries, None)
        self._played = False
        """True once the whole journal was played."""
        self._ended_by_journal = False
        self._begin_ns, self._begun_ns = fold.now_ns, clock.monotonic_ns()
        self._end_as(fold.numbers.run.ending)

    @property
    def torn_bytes(self) -> int:
        return self._fold.reader.tail_bytes

    def now_ns(self) -> int:
        """Return the time of the replay, never later than the next entry."""
        if self._next is None or math.isinf(self._speed):
            return self._fold.now_ns
        return max(self._fold.now_ns, min(int(self._due_ns()), self._next.time_ns))

    def due_s(self) -> float:
        if self._next is None:
            return math.inf if self._played else 0.0
        if math.isinf(self._speed):
            return 0.0
        return max(0.0, (self._next.time_ns - self._due_ns()) / self._speed / _SECOND_NS)

    def turn(self, *, readable: bool) -> None:
        taken, due_ns = 0, self._due_ns()
        for _ in range(limits.TURN_FRAMES):
            entry = self._next
            if entry is None:
                self._finish()
                return
            if entry.time_ns > due_ns or taken >= limits.TURN_BYTES:
                return
            if entry.kind == BATCH:
                self._cost.took(len(entry.data), entry.size)
            taken += entry.size
            self._take(self._fold.apply(entry))
            self._next = next(self._entries, None)
            self._skip_silence()

    def catch_up(self) -> None:
        """Do nothing, because no event is held."""

    def tick(self, now_ns: int) -> None:
        """Do nothing, because no process is watched."""

    def each_second(self) -> None:
        """Do nothing, because intervals end where the journal ends them."""

    def begin_drain(self) -> None:
        """Do nothing, because the drain lasts as long as in the journal."""

    def drained(self) -> bool:
        """Return True once all is played. A stop before that makes the replay an interrupted run."""
        if not self._played and not self._ended_by_journal:
            self._run_status.end(self._run_status.reason, interrupted=True)
        return self._played

    def close(self) -> None:
        """Close the last interval."""
        self._take(self._fold.close())

    def obstacle(self) -> str:
        if not self._played:
            return "the replay was stopped before the end of the journal"
        reader = self._fold.reader
        if reader.tail_damaged:
            return damage(reader.tail_bytes)
        return CUT if self._fold.numbers.run.unaccounted else ""

    delivered = True
    needed = False
    reaches_nodes = False

    def conclude(self) -> None:
        """Do nothing, because a replay has no root."""

    def leave(self) -> None:
        """Do nothing, because the replay owns the journal."""

    # --- entries ---------------------------------------------------------------------------------

    def _due_ns(self) -> float:
        """Return the stamp up to which entries are due."""
        if math.isinf(self._speed):
            return math.inf
        return self._begin_ns + (self._clock.monotonic_ns() - self._begun_ns) * self._speed

    def _skip_silence(self) -> None:
        if self._next is not None:
            self._begin_ns += max(0, self._next.time_ns - self._fold.now_ns - _LONGEST_SILENCE_NS)

    def _take(self, step: EntryEffects) -> None:
        if step.slices and self._history is not None:
            self._history.append_slices(step.slices)
        if step.interval is not None and self._history is not None:
            self._history.append(step.interval, self._fold.numbers.aggregator.keys(), step.roll)
        self._stream.publish(step.streamed)
        self._requests.append(step.logged, step.first_logged)
        if isinstance(step.note, Ending):
            self._end_as(step.note)

    def _end_as(self, ending: Ending | None) -> None:
        """End the replay as the journal ended the run.

        An interruption is applied only after the whole journal, because the loop stops reading then.
        """
        if ending is not None and not ending.interrupted and not self._run_status.ending:
            self._ended_by_journal = True
            self._run_status.follow(ending)

    def _finish(self) -> None:
        if self._played:
            return
        self._played = True
        self._take(self._fold.end_interval())
        self._run_status.warn(journal_losses(self._fold))
        self._run_status.warn([RESTARTED] if self._fold.numbers.run.lost_power else [])
        self._run_status.unaccounted = self._fold.numbers.run.unaccounted
        self._run_status.lost_power = self._fold.numbers.run.lost_power
        self._run_status.follow(self._ending or self._fold.how_it_ended())


class ClosedIngress:
    """A `telemetry.daemon.input.Ingress` that refuses producers, because all events of the run are known."""

    def __init__(self, why: str) -> None:
        self._why = why

    def hello(self, hello: Hello) -> str:
        return self._why

    def ping(self, producer: str) -> None:
        """Ignore the ping."""

    def end(self, end: End) -> str:
        return self._why

    def cannot_resend(self, message: CannotResend) -> None:
        """Ignore the message, because no resend was requested."""

    def watch(self, watch: Watch) -> None:
        """Ignore the request, because no process owns a replay."""

    def expect_nodes(self, note: ExpectNodes) -> str:
        return self._why

    def tell_backend(self, stat: BackendStat) -> None:
        """Ignore the report: a replay writes no journal."""

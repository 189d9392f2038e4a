"""Composition root of a replay: a separate service, fed with the journal of an ended run."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from typing import Final

from msgspec.structs import replace

from telemetry.clock import SYSTEM_CLOCK
from telemetry.daemon.build import assemble, bind
from telemetry.daemon.cost import CostMeter
from telemetry.daemon.lifetime import OnReady, or_tell, prepare_process, serve
from telemetry.daemon.options import DaemonOptions
from telemetry.daemon.record_stream import RecordStream
from telemetry.daemon.recovery.rebuild import Fold
from telemetry.daemon.recovery.resume import result_of
from telemetry.daemon.replay_input import ClosedIngress, Playback
from telemetry.daemon.run_opening import OpenedRun, new_directory, open_history
from telemetry.daemon.run_status import RunStatus
from telemetry.daemon.service import Service
from telemetry.daemon.signal_pipe import SignalPipe
from telemetry.errors import RunDirectoryError
from telemetry.store.final_snapshot import find_final
from telemetry.store.journal import JournalReader
from telemetry.store.records import RecordLog
from telemetry.store.request_log import RequestLogWriter
from telemetry.store.run_directory import RunDirectory
from telemetry.transport.endpoints import plan
from telemetry.wire.codec import carriable
from telemetry.wire.journal import Ending
from telemetry.wire.snapshot import MetricsSnapshot

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
            stream=RecordStream(options.run_id, opening.records, hub),
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

"""Composition root: from options to a service of a live run, new or resumed."""

from __future__ import annotations

import socket
from contextlib import ExitStack, suppress
from dataclasses import replace

from telemetry.config.schema import Config
from telemetry.daemon.components import Parts
from telemetry.daemon.cost import CostMeter
from telemetry.daemon.lifetime import OnReady, or_tell, prepare_process, serve
from telemetry.daemon.live_input import LiveFeed
from telemetry.daemon.notify import tell_failure
from telemetry.daemon.options import DaemonOptions
from telemetry.daemon.process_watch import ProcessWatch
from telemetry.daemon.recovery.resume import Claim, claim, open_again
from telemetry.daemon.run_opening import OpenedRun, open_new
from telemetry.daemon.run_status import RunStatus
from telemetry.daemon.service import Service
from telemetry.daemon.signal_pipe import SignalPipe
from telemetry.daemon.tokens.pool import TokenCounter
from telemetry.daemon.worker_thread import Worker
from telemetry.daemon.write_ahead import WriteAheadLog
from telemetry.errors import KeysError, RunDirectoryError, TelemetryError
from telemetry.store.live_runs import forget
from telemetry.transport.endpoints import Endpoints, ipc_path, plan, runtime_directory
from telemetry.transport.hub import Hub
from telemetry.transport.zap import keys_for
from telemetry.wire.codec import carriable
from telemetry.wire.control import Watch
from telemetry.wire.snapshot import MetricsSnapshot


def run_daemon(options: DaemonOptions, on_ready: OnReady | None = None) -> tuple[bool, MetricsSnapshot]:
    """Runs one aggregator to its end on the calling (main) thread.

    `on_ready` is told where the aggregator listens once it does; not if the run to resume has ended already.
    Returns whether there is a final file, and the terminal snapshot. Raises TelemetryError if it could not begin;
    whoever reads `ready_fd` has been told then.
    """
    prepare_process()
    directory = options.resume
    if directory is None:
        return serve(or_tell(options.ready_fd, lambda: build(options, SignalPipe())), on_ready)
    claimed = or_tell(options.ready_fd, lambda: claim(directory, options.config.run.fallback_dirs))
    options = replace(options, name=claimed.manifest.name, run_id=claimed.manifest.run_id)
    if claimed.result is not None:
        return True, _nothing_left(options, claimed, claimed.result)
    return serve(or_tell(options.ready_fd, lambda: build_again(options, SignalPipe(), claimed)), on_ready)


def build(options: DaemonOptions, signals: SignalPipe | None) -> Service:
    """A new run: binds, opens and connects everything.

    Raises TelemetryError before anything has been promised, and has let go of everything then.
    """
    with ExitStack() as undo:
        counter = _counter(options, undo)
        hub = bind(plan(options.config.transport.bind or None, options.run_id), options)
        undo.callback(hub.close)
        opening = open_new(options, hub)
        undo.callback(opening.let_go)
        service = _live(options, hub, opening, signals, counter)
        undo.pop_all()
    return service


def build_again(options: DaemonOptions, signals: SignalPipe | None, claimed: Claim) -> Service:
    """A run that goes on; otherwise as `build`."""
    with ExitStack() as undo:
        undo.callback(claimed.let_go)
        counter = _counter(options, undo, needed=False)  # a run is worth more than its tokens
        endpoints = claimed.endpoints
        _make_folders(endpoints)
        hub = bind(endpoints, options)
        undo.callback(hub.close)
        if hub.address != claimed.manifest.endpoint:
            raise KeysError(
                f"the peers of this run know it as {claimed.manifest.endpoint} and refuse other keys, or none",
                hint="use the same keys, and --insecure if the run did",
            )
        service = _live(options, hub, open_again(claimed, options.config), signals, counter)
        undo.pop_all()
    return service


def bind(endpoints: Endpoints, options: DaemonOptions) -> Hub:
    """Raises EndpointError or KeysError, and leaves no folder behind then."""
    config: Config = options.config
    try:
        return Hub(endpoints, insecure=config.transport.insecure, keys=keys_for(endpoints, config))
    except TelemetryError:
        with suppress(OSError):  # made by `plan`; it is empty unless another aggregator is in it
            (runtime_directory() / options.run_id).rmdir()
        raise


def _make_folders(endpoints: Endpoints) -> None:
    """The private folder of ipc sockets goes with its directory when the machine restarts."""
    for endpoint in vars(endpoints).values():
        path = ipc_path(endpoint)
        if path is not None:
            with suppress(OSError):  # binding says what is wrong
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)


def _counter(options: DaemonOptions, undo: ExitStack, *, needed: bool = True) -> TokenCounter | None:
    """As `TokenCounter.open`."""
    counter = TokenCounter.open(options.config.tokens, needed=needed)
    if counter is not None:
        undo.callback(counter.close)
    return counter


def _live(
    options: DaemonOptions,
    hub: Hub,
    opening: OpenedRun,
    signals: SignalPipe | None,
    counter: TokenCounter | None,
) -> Service:
    parts = assemble(options, hub, opening, signals, counter)
    log = WriteAheadLog(opening.numbers, opening.journal, opening.clock, opening.last_ns)
    if options.owner_pid is not None:
        log.watch(Watch(pid=options.owner_pid))
    for pid in opening.numbers.run.watched:
        parts.process_watch.watch(pid)
    run_status = RunStatus.of(
        opening.numbers.run, options.epoch, carriable(str(opening.directory.path)), options.config.run.refresh_hz
    )
    run_status.on_ending = log.ending
    cost = CostMeter(opening.clock.monotonic_ns(), opening.before)
    feed = LiveFeed(parts, log, run_status, cost)
    if opening.died_ns is not None:
        feed.pass_over(opening.died_ns)
    return Service(parts, run_status, cost, feed, log)


def assemble(
    options: DaemonOptions,
    hub: Hub,
    opening: OpenedRun,
    signals: SignalPipe | None,
    counter: TokenCounter | None = None,
) -> Parts:
    """The parts, and what wakes the loop."""
    worker = Worker("telemetry-worker")
    for fd in (worker.fd, *([signals.fd] if signals else [])):
        hub.watch(fd)
    return Parts(
        options=options,
        clock=opening.clock,
        hub=hub,
        numbers=opening.numbers,
        directory=opening.directory,
        let_go=opening.let_go,
        journal=opening.journal,
        history=opening.history,
        records=opening.records,
        worker=worker,
        process_watch=ProcessWatch(),
        signals=signals,
        host=socket.gethostname(),
        counter=counter,
    )


def _nothing_left(options: DaemonOptions, claimed: Claim, result: MetricsSnapshot) -> MetricsSnapshot:
    """The run has ended; its announcement may have outlived its aggregator."""
    with suppress(TelemetryError):
        forget(runtime_directory(), options.run_id)
    claimed.let_go()
    tell_failure(options.ready_fd, RunDirectoryError(f"nothing to resume: the run has ended, {result.state}"))
    return result

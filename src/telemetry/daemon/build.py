"""Composition root of a live run, new or resumed: from options to a service."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from msgspec import structs

from telemetry.config.schema import Config
from telemetry.daemon.components import DaemonParts
from telemetry.daemon.cost import CostMeter
from telemetry.daemon.lifetime import OnReady, or_tell, prepare_process, serve
from telemetry.daemon.live_input import LiveInput
from telemetry.daemon.options import DaemonOptions
from telemetry.daemon.process_watch import ProcessWatch
from telemetry.daemon.readiness import tell_failure
from telemetry.daemon.recovery.resume import Claim, claim, open_again
from telemetry.daemon.run_opening import OpenedRun, open_new
from telemetry.daemon.run_status import RunStatus
from telemetry.daemon.service import Service
from telemetry.daemon.signal_pipe import SignalPipe
from telemetry.daemon.tokens.pool import TokenCounter
from telemetry.daemon.upstream.root_address import check_node, check_root, expected_nodes, with_root_of
from telemetry.daemon.worker_thread import Worker
from telemetry.daemon.write_ahead import WriteAheadLog
from telemetry.errors import EndpointError, KeysError, RunDirectoryError, TelemetryError, UsageError
from telemetry.store.live_runs import forget, list_live
from telemetry.transport.endpoints import IPC, Endpoints, ipc_path, plan, runtime_directory, split_key
from telemetry.transport.hub import Hub
from telemetry.transport.zap import keys_for
from telemetry.wire.codec import carriable
from telemetry.wire.control import Watch
from telemetry.wire.snapshot import MetricsSnapshot, RootStat

if TYPE_CHECKING:
    from telemetry.daemon.upstream.leaf import Leaf


def run_daemon(
    options: DaemonOptions,
    on_ready: OnReady | None = None,
    on_root: Callable[[RootStat], object] = lambda root: None,
) -> tuple[bool, MetricsSnapshot]:
    """Run one aggregator to its end on the calling (main) thread.

    `on_ready` gets the addresses once the aggregator listens. It is not called if the run to resume has already
    ended. `on_root` gets what is known of the root, ten times a second if the run is a leaf. Returns whether a
    final file exists, and the terminal snapshot. Raises TelemetryError if the aggregator could not start; the error
    is also sent to `ready_fd`.
    """
    prepare_process()
    directory = options.resume
    if directory is None:
        service = or_tell(options.ready_fd, lambda: build(options, SignalPipe()))
        service.run_status.on_root = on_root
        return serve(service, on_ready)
    claimed = or_tell(options.ready_fd, lambda: claim(directory, options.config.run.fallback_dirs))
    config = or_tell(options.ready_fd, lambda: with_root_of(claimed.manifest, options.config, options.new_upstream))
    options = replace(options, name=claimed.manifest.name, run_id=claimed.manifest.run_id, config=config)
    if claimed.result is not None:
        return True, _nothing_left(options, claimed, claimed.result)
    service = or_tell(options.ready_fd, lambda: build_again(options, SignalPipe(), claimed))
    service.run_status.on_root = on_root
    return serve(service, on_ready)


def build(options: DaemonOptions, signals: SignalPipe | None) -> Service:
    """Build the service of a new run: bind, open and connect everything.

    Raises TelemetryError before anything is announced, and releases all resources then.
    """
    expected_nodes(options.config.run.nodes)  # a wrong value leaves no run directory behind
    check_node(options.config.upstream.node)
    with ExitStack() as undo:
        counter = _counter(options, undo)
        hub = bind(plan(options.config.transport.bind or None, options.run_id), options)
        undo.callback(hub.close)
        check_root(options.config.upstream.address, hub.address)
        opening = open_new(options, hub)
        undo.callback(opening.let_go)
        service = _live(options, hub, opening, signals, counter)
        undo.pop_all()
    return service


def build_again(options: DaemonOptions, signals: SignalPipe | None, claimed: Claim) -> Service:
    """Build the service of a resumed run, otherwise as `build`."""
    with ExitStack() as undo:
        undo.callback(claimed.let_go)
        counter = _counter(options, undo, needed=False)  # a run without token counts is better than no run
        endpoints = plan(options.new_bind, options.run_id) if options.new_bind else claimed.endpoints
        was_open = not options.new_bind and _was_open(claimed)
        if options.config.security.curve != "always" and was_open:
            config = options.config
            opened = structs.replace(config, transport=structs.replace(config.transport, insecure=True))
            options = replace(options, config=opened)
        bind_to = options.config.transport.bind
        is_chosen = was_open or (bind_to.startswith(IPC) and endpoints == plan(bind_to, options.run_id))
        _make_folders(endpoints, None if is_chosen or options.new_bind else claimed.manifest.run_id)
        hub = bind(endpoints, options)
        undo.callback(hub.close)
        former = claimed.manifest.endpoint
        is_same = split_key(hub.address)[1] == split_key(former)[1] if options.new_bind else hub.address == former
        if not is_same:
            raise KeysError(
                f"clients of this run expect {claimed.manifest.endpoint} and reject other keys, or a missing one",
                hint="use the same keys, and pass --insecure if the run did",
            )
        if options.new_bind or options.new_upstream:
            _move(claimed, options, hub)
        service = _live(options, hub, open_again(claimed, options.config), signals, counter)
        undo.pop_all()
    return service


def _move(claimed: Claim, options: DaemonOptions, hub: Hub) -> None:
    """Write new addresses into the manifest, so that a later resume uses them. Raises TelemetryError."""
    check_root(options.config.upstream.address, hub.address)
    manifest = claimed.directory.read_manifest()
    claimed.directory.write_manifest(
        structs.replace(
            manifest,
            endpoint=hub.address,
            endpoints=list(vars(hub.endpoints).values()),
            config=manifest.config | {"upstream": structs.asdict(options.config.upstream)},
        )
    )


def _was_open(claimed: Claim) -> bool:
    """Return whether this user started this run here at an address without a key.

    The announcement in the user's private directory shows that. Another person may have written the manifest.
    """
    manifest = claimed.manifest
    if split_key(manifest.endpoint)[1]:
        return False
    own = (manifest.run_id, manifest.endpoint, os.path.realpath(claimed.directory.path))
    announced = list_live(runtime_directory())
    return any((run.run_id, run.endpoint, os.path.realpath(run.dir)) == own for run in announced)


def bind(endpoints: Endpoints, options: DaemonOptions) -> Hub:
    """Bind the sockets. Raise EndpointError or KeysError, and remove the created folder then."""
    config: Config = options.config
    try:
        return Hub(endpoints, insecure=config.transport.insecure, keys=keys_for(endpoints, config))
    except TelemetryError:
        with suppress(OSError):  # made by `plan`; empty unless another aggregator uses it
            (runtime_directory() / options.run_id).rmdir()
        raise


def _make_folders(endpoints: Endpoints, run_id: str | None) -> None:
    """Create the private folders of ipc sockets. They disappear with their parent when the machine restarts.

    With `run_id`, raises EndpointError for a socket outside of the folder of this run: anybody may have written the
    addresses in the run directory, and binding replaces a socket.
    """
    for endpoint in vars(endpoints).values():
        path = ipc_path(endpoint)
        if path is None:
            continue
        if run_id is not None and path.parent != (own := runtime_directory() / run_id):
            raise EndpointError(
                f"the run listened at {endpoint}, which is outside of {own}",
                hint=f"if this address is yours, add --bind {endpoints.control}",
            )
        with suppress(OSError):  # binding reports the error
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)


def _counter(options: DaemonOptions, undo: ExitStack, *, needed: bool = True) -> TokenCounter | None:
    """Open the token counter as `TokenCounter.open` does."""
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
    if options.resume is None and (expected := expected_nodes(options.config.run.nodes)) is not None:
        refusal = log.expect_nodes(expected)
        if refusal:
            raise UsageError(f"run.nodes: {refusal}")
    if options.owner_pid is not None:
        log.watch(Watch(pid=options.owner_pid))
    for stat in options.backends:
        log.tell_backend(stat)
    for pid in opening.numbers.run.watched:
        parts.process_watch.watch(pid)
    run_status = RunStatus.of(
        opening.numbers.run, options.epoch, carriable(str(opening.directory.path)), options.config.run.refresh_hz
    )
    run_status.on_ending = log.ending
    clock = opening.clock
    run_status.expect(opening.numbers.run.backends, clock.monotonic_ns(), clock.wall_ns())
    cost = CostMeter(opening.clock.monotonic_ns(), opening.before)
    leaf = _leaf(parts, run_status, opening)
    feed = LiveInput(parts, log, run_status, cost, leaf)
    if leaf is not None:
        leaf.obstacle = feed.obstacle
    if opening.died_ns is not None:
        feed.pass_over(opening.died_ns)
    service = Service(parts, run_status, cost, feed, log)
    if leaf is not None:
        leaf.channel = service.control.leaves.searches
        leaf.uplink.is_below = service.control.leaves.has
        leaf.start()
    return service


def _leaf(parts: DaemonParts, run_status: RunStatus, opening: OpenedRun) -> Leaf | None:
    """Return the leaf's side of a run that has a root."""
    refill = opening.refill
    if refill is None:
        return None
    from telemetry.daemon.upstream.leaf import Leaf

    return Leaf(parts, run_status, refill.collector, refill.writer)


def assemble(
    options: DaemonOptions,
    hub: Hub,
    opening: OpenedRun,
    signals: SignalPipe | None,
    counter: TokenCounter | None = None,
) -> DaemonParts:
    """Assemble the parts of a service and register the descriptors that wake its loop."""
    worker = Worker("telemetry-worker")
    for fd in (worker.fd, *([signals.fd] if signals else [])):
        hub.watch(fd)
    return DaemonParts(
        options=options,
        clock=opening.clock,
        hub=hub,
        numbers=opening.numbers,
        directory=opening.directory,
        let_go=opening.let_go,
        journal=opening.journal,
        history=opening.history,
        records=opening.records,
        requests=opening.requests,
        worker=worker,
        process_watch=ProcessWatch(),
        signals=signals,
        host=socket.gethostname(),
        counter=counter,
    )


def _nothing_left(options: DaemonOptions, claimed: Claim, result: MetricsSnapshot) -> MetricsSnapshot:
    """Clean up after a run that has already ended. Its announcement may have outlived its aggregator."""
    with suppress(TelemetryError):
        forget(runtime_directory(), options.run_id)
    claimed.let_go()
    tell_failure(
        options.ready_fd, RunDirectoryError(f"nothing to resume: the run has already ended, {result.state}")
    )
    return result

"""Composition root: from options to a running service, and the order in which it is taken down."""

from __future__ import annotations

import gc
import logging
import os
import resource
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from telemetry.aggregator import Aggregator, AggregatorConfig
from telemetry.clock import SYSTEM_CLOCK
from telemetry.daemon.finalize import finalize
from telemetry.daemon.guardian import Guardian
from telemetry.daemon.heap import keep_small
from telemetry.daemon.notify import sd_notify, tell_failure, tell_ready
from telemetry.daemon.options import DaemonOptions
from telemetry.daemon.parts import Parts
from telemetry.daemon.service import Service
from telemetry.daemon.signals import SignalPipe
from telemetry.daemon.worker import Worker
from telemetry.errors import EndpointError, RunDirectoryError, TelemetryError
from telemetry.store.history import HistoryWriter
from telemetry.store.journal import JournalWriter
from telemetry.store.liveruns import LiveRun, announce, withdraw
from telemetry.store.records import RecordLog
from telemetry.store.rundir import RunDirectory, manifest_for
from telemetry.transport.endpoints import plan, runtime_directory
from telemetry.transport.hub import Hub
from telemetry.wire.codec import carriable
from telemetry.wire.snapshot import MetricsSnapshot

_LOG = logging.getLogger("telemetry.daemon")

OnReady = Callable[[dict[str, object]], None]


def run_daemon(options: DaemonOptions, on_ready: OnReady | None = None) -> tuple[bool, MetricsSnapshot]:
    """Runs one aggregator to its end on the calling (main) thread.

    `on_ready` is told where the aggregator listens once it does. Returns whether a final file was written, and the
    terminal snapshot. Raises TelemetryError if it could not begin; whoever reads `ready_fd` has been told then.
    """
    keep_small()
    _allow_connections()
    service, withdraw_it = _begin(options)
    # a full collection over the imported modules takes longer than a tick's slack, and would find nothing
    gc.collect()
    gc.freeze()
    try:
        facts = _ready_facts(service)
        tell_ready(options.ready_fd, facts)
        if on_ready is not None:
            on_ready(facts)
        _run(service)
        sd_notify("STOPPING=1")
        written = finalize(service)
    finally:
        withdraw_it()
        service.parts.hub.close()
    return written, service.snapshot()


def _run(service: Service) -> None:
    """Until the run is to be finalized. A defect of ours ends it, and costs no result."""
    try:
        service.live()
        service.drain()
    except Exception as error:  # noqa: BLE001 – root of the loop: what was counted until now is still true
        _LOG.exception("the aggregator failed")
        service.course.end(carriable(f"the aggregator failed: {error!r}"), interrupted=True)


def _allow_connections() -> None:
    """Each peer takes a descriptor or two, and ZeroMQ aborts the process when there are none left."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):  # macOS calls its limit infinite and takes no such number
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _begin(options: DaemonOptions) -> tuple[Service, Callable[[], None]]:
    """The service, findable, and what takes its announcement back."""
    try:
        service = build(options, SignalPipe())
        try:
            return service, _announce(service)
        except TelemetryError:
            service.parts.hub.close()
            raise
    except TelemetryError as error:
        tell_failure(options.ready_fd, error)
        raise


def build(options: DaemonOptions, signals: SignalPipe | None) -> Service:
    """Binds, opens and connects everything; raises TelemetryError before anything has been promised, and has let go
    of the sockets then."""
    hub = _bind(options)
    try:
        return Service(_parts(options, hub, signals))
    except BaseException:
        hub.close()
        raise


def _bind(options: DaemonOptions) -> Hub:
    transport = options.config.transport
    endpoints = plan(transport.bind or None, options.run_id)
    try:
        return Hub(endpoints, insecure=transport.insecure)
    except EndpointError:
        with suppress(OSError):  # made by `plan`; it is empty unless another aggregator is in it
            (runtime_directory() / options.run_id).rmdir()
        raise


def _parts(options: DaemonOptions, hub: Hub, signals: SignalPipe | None) -> Parts:
    directory = RunDirectory.create(options.root, options.name, options.run_id, time.time_ns())
    directory.write_manifest(
        manifest_for(directory, options.name, options.run_id, options.command_line, hub.endpoints.control)
    )
    _log_to(directory.log)
    journal, history = _journal(options, directory.journal), _history(options, directory.history)
    records = RecordLog(directory.records)
    worker = Worker("telemetry-worker")
    guardian = Guardian()
    if options.owner_pid is not None:
        guardian.watch(options.owner_pid)
    for fd in (worker.fd, *([signals.fd] if signals else [])):
        hub.watch(fd)
    return Parts(
        options=options,
        clock=SYSTEM_CLOCK,
        hub=hub,
        aggregator=Aggregator(_aggregator_config(options)),
        directory=directory,
        journal=journal,
        history=history,
        records=records,
        worker=worker,
        guardian=guardian,
        signals=signals,
        host=socket.gethostname(),
    )


def _aggregator_config(options: DaemonOptions) -> AggregatorConfig:
    run = options.config.run
    return AggregatorConfig(
        percentiles=tuple(sorted(run.percentiles, key=float)),
        window_s=run.window_s,
        series_cap=options.config.limits.series,
    )


def _journal(options: DaemonOptions, folder: Path) -> JournalWriter | None:
    journal = options.config.journal
    return JournalWriter(folder, journal.segment_bytes, journal.cap_bytes) if journal.enabled else None


def _history(options: DaemonOptions, folder: Path) -> HistoryWriter | None:
    history = options.config.history
    if not history.enabled:
        return None
    return HistoryWriter(folder, {1: history.retention_1s_s, 10: history.retention_10s_s, 60: None})


def _announce(service: Service) -> Callable[[], None]:
    """Makes the run findable; returns what ends that."""
    parts, runtime = service.parts, runtime_directory()
    live = LiveRun(
        run_id=parts.options.run_id,
        name=parts.options.name,
        pid=os.getpid(),
        endpoint=parts.hub.endpoints.control,
        dir=service.course.directory,
        state="LIVE",
        started_ns=service.course.started_ns,
    )
    announce(runtime, live)
    return lambda: withdraw(runtime, live)


def _ready_facts(service: Service) -> dict[str, object]:
    parts = service.parts
    return {
        "endpoint": parts.hub.endpoints.control,
        "run_id": parts.options.run_id,
        "name": parts.options.name,
        "dir": service.course.directory,
        "pid": os.getpid(),
        "epoch": parts.options.epoch,
    }


def _log_to(path: Path) -> None:
    try:
        handler = logging.FileHandler(path, encoding="utf-8")
    except OSError as error:
        raise RunDirectoryError(f"{path} can't be written: {error.strerror}") from error
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    root = logging.getLogger("telemetry")
    root.addHandler(handler)
    root.setLevel(logging.INFO)

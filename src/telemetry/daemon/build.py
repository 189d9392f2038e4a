"""Composition root: from options to a running service, and the order in which it is taken down."""

from __future__ import annotations

import gc
import logging
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path

from telemetry.aggregator import Aggregator, AggregatorConfig
from telemetry.clock import SYSTEM_CLOCK
from telemetry.daemon.finalize import finalize
from telemetry.daemon.guardian import Guardian
from telemetry.daemon.notify import sd_notify, tell_failure, tell_ready
from telemetry.daemon.options import DaemonOptions
from telemetry.daemon.parts import Parts
from telemetry.daemon.service import Service
from telemetry.daemon.signals import SignalPipe
from telemetry.daemon.worker import Worker
from telemetry.errors import TelemetryError
from telemetry.store.history import HistoryWriter
from telemetry.store.journal import JournalWriter
from telemetry.store.liveruns import LiveRun, announce, withdraw
from telemetry.store.records import RecordLog
from telemetry.store.rundir import RunDirectory, manifest_for
from telemetry.transport.endpoints import plan, runtime_directory
from telemetry.transport.hub import Hub
from telemetry.wire.snapshot import MetricsSnapshot

OnReady = Callable[[dict[str, object]], None]


def run_daemon(options: DaemonOptions, on_ready: OnReady | None = None) -> tuple[bool, MetricsSnapshot]:
    """Runs one aggregator to its end on the calling (main) thread.

    `on_ready` is told where the aggregator listens once it does. Returns whether a final file was written, and the
    terminal snapshot. Raises TelemetryError if it could not begin; whoever reads `ready_fd` has been told then.
    """
    signals = SignalPipe()
    try:
        service = build(options, signals)
    except TelemetryError as error:
        tell_failure(options.ready_fd, error)
        raise
    live = _announce(service)
    # a full collection over the imported modules takes longer than a tick's slack, and would find nothing
    gc.collect()
    gc.freeze()
    facts = _ready_facts(service)
    tell_ready(options.ready_fd, facts)
    if on_ready is not None:
        on_ready(facts)
    try:
        service.live()
        service.drain()
        sd_notify("STOPPING=1")
        written = finalize(service)
    finally:
        withdraw(runtime_directory(), live)
        service.parts.hub.close()
    return written, service.snapshot()


def build(options: DaemonOptions, signals: SignalPipe | None) -> Service:
    """Binds, opens and connects everything; raises TelemetryError before anything has been promised."""
    config = options.config
    hub = Hub(plan(config.transport.bind or None, options.run_id), insecure=config.transport.insecure)
    try:
        directory = RunDirectory.create(options.root, options.name, options.run_id, time.time_ns())
        directory.write_manifest(
            manifest_for(directory, options.name, options.run_id, options.command_line, hub.endpoints.control)
        )
    except TelemetryError:
        hub.close()
        raise
    _log_to(directory.log)
    worker = Worker("telemetry-worker")
    guardian = Guardian()
    if options.owner_pid is not None:
        guardian.watch(options.owner_pid)
    for fd in (worker.fd, *([signals.fd] if signals else [])):
        hub.watch(fd)
    parts = Parts(
        options=options,
        clock=SYSTEM_CLOCK,
        hub=hub,
        aggregator=Aggregator(_aggregator_config(options)),
        directory=directory,
        journal=_journal(options, directory.journal),
        history=_history(options, directory.history),
        records=RecordLog(directory.records),
        worker=worker,
        guardian=guardian,
        signals=signals,
        host=socket.gethostname(),
    )
    return Service(parts)


def _aggregator_config(options: DaemonOptions) -> AggregatorConfig:
    run = options.config.run
    return AggregatorConfig(
        percentiles=tuple(run.percentiles), window_s=run.window_s, series_cap=options.config.limits.series
    )


def _journal(options: DaemonOptions, folder: Path) -> JournalWriter | None:
    journal = options.config.journal
    return JournalWriter(folder, journal.segment_bytes, journal.cap_bytes) if journal.enabled else None


def _history(options: DaemonOptions, folder: Path) -> HistoryWriter | None:
    history = options.config.history
    if not history.enabled:
        return None
    return HistoryWriter(folder, {1: history.retention_1s_s, 10: history.retention_10s_s, 60: None})


def _announce(service: Service) -> LiveRun:
    parts = service.parts
    live = LiveRun(
        run_id=parts.options.run_id,
        name=parts.options.name,
        pid=os.getpid(),
        endpoint=parts.hub.endpoints.control,
        dir=str(parts.directory.path),
        state="LIVE",
        started_ns=service.course.started_ns,
    )
    announce(runtime_directory(), live)
    return live


def _ready_facts(service: Service) -> dict[str, object]:
    parts = service.parts
    return {
        "endpoint": parts.hub.endpoints.control,
        "run_id": parts.options.run_id,
        "name": parts.options.name,
        "dir": str(parts.directory.path),
        "pid": os.getpid(),
        "epoch": parts.options.epoch,
    }


def _log_to(path: Path) -> None:
    handler = logging.FileHandler(path, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    root = logging.getLogger("telemetry")
    root.addHandler(handler)
    root.setLevel(logging.INFO)

"""A service from its announcement to its end, and the order in which it is taken down."""

from __future__ import annotations

import gc
import logging
import os
import resource
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import TypeVar

from telemetry.daemon.finalize import finalize
from telemetry.daemon.memory import keep_small
from telemetry.daemon.notify import sd_notify, tell_failure, tell_ready
from telemetry.daemon.service import Service
from telemetry.errors import TelemetryError
from telemetry.store.dead_run import forget_finished
from telemetry.store.live_runs import LiveRun, announce, withdraw
from telemetry.transport.endpoints import runtime_directory
from telemetry.transport.keeper_lock import clear
from telemetry.wire.codec import carriable
from telemetry.wire.snapshot import MetricsSnapshot

_LOG = logging.getLogger("telemetry.daemon")
_T = TypeVar("_T")

_OWNER_ONLY = 0o077  # what a run leaves may hold names, paths and texts that are nobody else's business

OnReady = Callable[[dict[str, object]], None]


def prepare_process() -> None:
    """Once, before there are sockets, files and large arrays."""
    keep_small()
    os.umask(_OWNER_ONLY)
    _allow_connections()


def or_tell(ready_fd: int | None, begin: Callable[[], _T]) -> _T:
    """What `begin` returns. A TelemetryError of it also goes to whoever waits at `ready_fd`."""
    try:
        return begin()
    except TelemetryError as error:
        tell_failure(ready_fd, error)
        raise


def serve(service: Service, on_ready: OnReady | None = None) -> tuple[bool, MetricsSnapshot]:
    """Announces the service, runs it to its end and lets go of everything. Main thread.

    `on_ready` is told where it listens. Returns whether a final file was written, and the terminal snapshot.
    Raises TelemetryError if it can't be announced.
    """
    ready_fd = service.parts.options.ready_fd
    with ExitStack() as last:
        last.callback(let_go, service)
        last.callback(or_tell(ready_fd, lambda: _announce(service)))
        # a full collection over the imported modules takes longer than a tick's slack, and would find nothing
        gc.collect()
        gc.freeze()
        facts = _ready_facts(service)
        tell_ready(ready_fd, facts)
        if on_ready is not None:
            on_ready(facts)
        run(service)
        sd_notify("STOPPING=1")
        written = finalize(service)
    return written, service.snapshot()


def run(service: Service) -> None:
    """Until the run is to be finalized. A defect of ours ends it, and costs no result."""
    try:
        service.live()
        service.drain()
    except Exception as error:  # noqa: BLE001 – root of the loop: what was counted until now is still true
        _LOG.exception("the aggregator failed")
        service.run_status.end(carriable(f"the aggregator failed: {error!r}"), interrupted=True)


def let_go(service: Service) -> None:
    """Of the workers, the sockets, then of the run directory."""
    if service.parts.counter is not None:
        service.parts.counter.close()
    service.parts.hub.close()
    service.parts.let_go()


def _allow_connections() -> None:
    """Each peer takes a descriptor or two, and ZeroMQ aborts the process when there are none left."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):  # macOS calls its limit infinite and takes no such number
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _announce(service: Service) -> Callable[[], None]:
    """Makes the run findable; returns what ends that."""
    parts, runtime = service.parts, runtime_directory()
    live = LiveRun(
        run_id=parts.options.run_id,
        name=parts.options.name,
        pid=os.getpid(),
        endpoint=parts.hub.address,
        dir=service.run_status.directory,
        state="LIVE",
        started_ns=service.run_status.started_ns,
    )
    announce(runtime, live)
    forget_finished(runtime, parts.options.config.run.fallback_dirs)

    def take_back() -> None:
        clear(parts.options.run_id)
        withdraw(runtime, live)

    return take_back


def _ready_facts(service: Service) -> dict[str, object]:
    parts = service.parts
    return {
        "resumed_with": parts.aggregator.applied if parts.options.resume is not None else None,
        "endpoint": parts.hub.address,
        "trusted": parts.hub.trusted,
        "run_id": parts.options.run_id,
        "name": parts.options.name,
        "dir": service.run_status.directory,
        "pid": os.getpid(),
        "epoch": parts.options.epoch,
    }

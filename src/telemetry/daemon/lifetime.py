"""Lifetime of a service, from its announcement to its shutdown, and the order of the shutdown."""

from __future__ import annotations

import gc
import logging
import os
from collections.abc import Callable
from contextlib import ExitStack
from typing import TypeVar

from telemetry.common.memory import keep_small
from telemetry.daemon.finalize import finalize
from telemetry.daemon.readiness import sd_notify, tell_failure, tell_ready
from telemetry.daemon.service import Service
from telemetry.errors import TelemetryError
from telemetry.store.dead_run import forget_finished
from telemetry.store.live_runs import LiveRun, announce, withdraw
from telemetry.transport.admission import raise_limit_of_descriptors
from telemetry.transport.endpoints import runtime_directory
from telemetry.transport.keeper_lock import clear
from telemetry.wire.codec import carriable
from telemetry.wire.snapshot import MetricsSnapshot

_LOG = logging.getLogger("telemetry.daemon")
_T = TypeVar("_T")

_OWNER_ONLY = 0o077  # files of a run may hold private names, paths and texts

OnReady = Callable[[dict[str, object]], None]


def prepare_process() -> None:
    """Prepare the process, once and before it has sockets, files and large arrays."""
    keep_small()
    os.umask(_OWNER_ONLY)
    raise_limit_of_descriptors()


def or_tell(ready_fd: int | None, begin: Callable[[], _T]) -> _T:
    """Return the result of `begin`. Also report a TelemetryError of it to `ready_fd`."""
    try:
        return begin()
    except TelemetryError as error:
        tell_failure(ready_fd, error)
        raise


def serve(service: Service, on_ready: OnReady | None = None) -> tuple[bool, MetricsSnapshot]:
    """Announce the service, run it to its end and release everything. Main thread only.

    `on_ready` gets the addresses. Returns whether a final file was written, and the terminal snapshot. Raises
    TelemetryError if the service can't be announced.
    """
    ready_fd = service.parts.options.ready_fd
    with ExitStack() as last:
        last.callback(let_go, service)
        last.callback(or_tell(ready_fd, lambda: _announce(service)))
        # a full collection over the imported modules takes longer than a tick's slack and finds no garbage
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
    """Run until the run is ready to finalize. An internal error ends the run but keeps its result."""
    try:
        service.live()
        service.drain()
    except Exception as error:  # noqa: BLE001 – root of the loop: the counts until now are still true
        _LOG.exception("the aggregator failed")
        service.run_status.end(carriable(f"the aggregator failed: {error!r}"), interrupted=True)


def let_go(service: Service) -> None:
    """Release the workers, then the sockets, then the run directory."""
    if service.parts.counter is not None:
        service.parts.counter.close()
    service.feed.leave()
    service.parts.hub.close()
    service.parts.let_go()


def _announce(service: Service) -> Callable[[], None]:
    """Announce the run, so that others can find it. Return a function that withdraws the announcement."""
    parts, runtime = service.parts, runtime_directory()
    live = LiveRun(
        run_id=parts.options.run_id,
        name=service.run_status.name,
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
        "resumed_with": parts.aggregator.book.counted_events if parts.options.resume is not None else None,
        "endpoint": parts.hub.address,
        "trusted": parts.hub.trusted,
        "run_id": parts.options.run_id,
        "name": service.run_status.name,
        "dir": service.run_status.directory,
        "pid": os.getpid(),
        "epoch": parts.options.epoch,
        "upstream": parts.options.config.upstream.address,
        "node": parts.options.config.upstream.node or parts.host,
    }

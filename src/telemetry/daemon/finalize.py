"""End of a run.

An interrupted run first writes its bucket precision, then the exact result is written and published.

The file and the published snapshot are independent: a failure of one does not stop the other.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from telemetry import limits
from telemetry.common.memory import give_back
from telemetry.daemon.exact_percentiles import Refinement, Refiner
from telemetry.daemon.service import Service
from telemetry.store.final_snapshot import final_candidates, write_final
from telemetry.wire.codec import carriable
from telemetry.wire.snapshot import MetricsSnapshot, State

_LOG = logging.getLogger("telemetry.daemon")
_WORKER_CLOSE_S: Final = 10.0


def finalize(service: Service) -> bool:
    """Block until the terminal snapshot is on disk and was published for the grace time.

    Returns True if a file was written.
    """
    try:
        _conclude(service)
    except Exception as error:  # noqa: BLE001 – whatever is wrong, the numbers of the last tick are a result
        _LOG.exception("the run could not be concluded")
        _fall_back(service, repr(error))
    path = _write(service, service.snapshot())
    if path != service.parts.directory.final:  # subscribers and readers of the file must see the warning
        service.run_status.newest = replace(service.snapshot(), warnings=list(service.run_status.warnings))
        _write(service, service.snapshot())
    try:
        _tell(service)
    except Exception:  # noqa: BLE001 – the file is written
        _LOG.exception("the result could not be published")
    return path is not None


def _conclude(service: Service) -> None:
    """Bring the run to its terminal state and its last numbers."""
    run_status = service.run_status
    service.catch_up()
    run_status.heed_feeds(service.parts.aggregator.counters.stats())
    run_status.decided = True
    run_status.drain_deadline_ns = None
    terminal: State = "INTERRUPTED" if run_status.interrupted else "COMPLETE"
    if terminal == "INTERRUPTED":
        run_status.exact_reason = "interrupted before the exact pass ended"
        run_status.lifecycle.to("DRAINING")
        service.catch_up()
        # subscribers take the first terminal snapshot as the last, so this one is only written to disk
        _write(service, replace(service.snapshot(), state="INTERRUPTED", completeness="interrupted"))
    _close_books(service)
    _apply(service, _refine(service))
    _deliver(service)
    run_status.lifecycle.to(terminal)
    run_status.seq += 1
    service.snapshot()


def _fall_back(service: Service, failure: str) -> None:
    """Make the newest snapshot the result of an interrupted run."""
    run_status = service.run_status
    service.books_closed = True
    run_status.interrupted = True
    run_status.reason = carriable(f"the aggregator failed: {failure}")
    run_status.warn([run_status.reason])
    if not run_status.lifecycle.terminal:
        run_status.lifecycle.to("INTERRUPTED")
    run_status.newest = replace(
        run_status.newest
        or MetricsSnapshot(run_id=run_status.run_id, name=run_status.name, directory=run_status.directory),
        seq=run_status.seq + 1,
        state="INTERRUPTED",
        completeness="interrupted",
        reason=run_status.reason,
        exact=False,
        exact_reason="the aggregator failed",
        warnings=list(run_status.warnings),
    )


def _close_books(service: Service) -> None:
    parts = service.parts
    service.close_books()
    if parts.journal is not None:
        parts.journal.sync()  # nothing is taken in any more, and the result is synced, too
        parts.journal.close()
    give_back()  # the exact pass needs memory of its own


def _refine(service: Service) -> Refinement:
    """Run the exact pass while ticks and control continue. An interruption ends the pass but not the run."""
    parts, feed = service.parts, service.feed
    reason = feed.obstacle()
    if reason and not parts.aggregator.root.leaves():
        return Refinement(exact=False, reason=reason)
    refiner = Refiner(
        parts.aggregator,
        feed.journal,
        limits.EXACT_BUDGET_S,
        parts.worker.wake,
        feed.torn_bytes,
        valueless=parts.numbers.run.valueless_segments,
        hindrance=reason,
        channel=service.control.leaves.searches if feed.reaches_nodes else None,
        now_ns=feed.now_ns(),
    )
    interruptions = service.run_status.interruptions

    def over() -> bool:
        if service.run_status.interruptions != interruptions:
            refiner.stop("interrupted during the exact pass")
        return refiner.outcome is not None

    service.turns_until(over)
    assert refiner.outcome is not None
    return refiner.outcome


def _apply(service: Service, refinement: Refinement) -> None:
    service.parts.aggregator.series.apply_exact(refinement.values)
    service.run_status.exact = refinement.exact
    service.run_status.exact_reason = refinement.reason
    service.run_status.warn(refinement.warnings)


def _deliver(service: Service) -> None:
    """Wait until the root of this run has everything. An interruption ends the wait.

    Leaves below this one leave when its run is over, so it also waits until the root needs no values of theirs.
    """
    run_status, feed = service.run_status, service.feed
    interruptions, has_leaves = run_status.interruptions, bool(service.parts.aggregator.root.leaves())

    def over() -> bool:
        delivered = feed.delivered and not (has_leaves and feed.needed)
        return delivered or run_status.interruptions != interruptions

    service.turns_until(over)
    feed.conclude()


def _write(service: Service, snapshot: MetricsSnapshot) -> Path | None:
    """Write the final file to the run directory or the next best one. Return its path, or None on failure."""
    directory, config = service.parts.directory, service.parts.options.config
    try:
        path = write_final(snapshot, final_candidates(directory, config.run.fallback_dirs))
    except Exception as error:  # noqa: BLE001 – it can still be published
        _LOG.exception("the final file could not be written")
        service.run_status.warn([f"can't write the final file: {error}"])
        return None
    if path != directory.final:
        service.run_status.warn([f"can't write to the run directory; the final file is {path}"])
    return path


def _tell(service: Service) -> None:
    """Publish the terminal snapshot repeatedly for the grace time, and answer requests.

    Repetition helps slow subscribers. An interruption ends it. Meanwhile the history writes its last roll-ups, for
    which no result waits. A leaf stays until its root has asked for the values that it wants.
    """
    history = service.parts.history
    if history is not None:
        service.parts.worker.submit(history.close)
    clock, run_status = service.parts.clock, service.run_status
    interruptions = run_status.interruptions
    service.publish()
    grace_s = service.parts.options.config.run.terminal_grace_s
    end_ns = clock.monotonic_ns() + int(grace_s * 1e9)

    def over() -> bool:
        is_done = clock.monotonic_ns() >= end_ns and not service.feed.needed
        return is_done or run_status.interruptions != interruptions

    service.turns_until(over)
    service.parts.worker.close(_WORKER_CLOSE_S)
    service.parts.worker.deliver()

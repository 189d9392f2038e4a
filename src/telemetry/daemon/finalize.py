"""The one way a run ends: bucket precision on disk first if it was interrupted, then exact, then everybody is told.

The file and the published snapshot are independent: neither failure stops the other.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from telemetry import limits
from telemetry.daemon.exact_percentiles import Refinement, Refiner
from telemetry.daemon.memory import give_back
from telemetry.daemon.service import Service
from telemetry.store.final_snapshot import final_candidates, write_final
from telemetry.wire.codec import carriable
from telemetry.wire.snapshot import MetricsSnapshot, State

_LOG = logging.getLogger("telemetry.daemon")
_WORKER_CLOSE_S: Final = 10.0


def finalize(service: Service) -> bool:
    """Blocks until the terminal snapshot is on disk and was published for the grace. Whether a file was written."""
    try:
        _conclude(service)
    except Exception as error:  # noqa: BLE001 – whatever is wrong with the numbers, those of the last tick are a result
        _LOG.exception("the run could not be concluded")
        _fall_back(service, repr(error))
    path = _write(service, service.snapshot())
    if path != service.parts.directory.final:  # subscribers have to hear of it, and so has who finds it
        service.course.newest = replace(service.snapshot(), warnings=list(service.course.warnings))
        _write(service, service.snapshot())
    try:
        _tell(service)
    except Exception:  # noqa: BLE001 – the file is written
        _LOG.exception("the result could not be published")
    return path is not None


def _conclude(service: Service) -> None:
    """To the terminal state, and the last numbers."""
    course = service.course
    service.catch_up()
    course.heed_feeds(service.parts.aggregator.counters())
    course.decided = True
    course.drain_deadline_ns = None
    terminal: State = "INTERRUPTED" if course.interrupted else "COMPLETE"
    if terminal == "INTERRUPTED":
        course.exact_reason = "interrupted, and the exact pass did not end"
        course.lifecycle.to("DRAINING")
        service.catch_up()
        # subscribers take the first terminal snapshot for the last, so this one goes to the disk alone
        _write(service, replace(service.snapshot(), state="INTERRUPTED", completeness="interrupted"))
    _close_books(service)
    _apply(service, _refine(service))
    course.lifecycle.to(terminal)
    course.seq += 1
    service.snapshot()


def _fall_back(service: Service, failure: str) -> None:
    """Makes the newest snapshot there is the result, as one of an interrupted run."""
    course = service.course
    service.books_closed = True
    course.interrupted = True
    course.reason = carriable(f"the aggregator failed: {failure}")
    course.warn([course.reason])
    if not course.lifecycle.terminal:
        course.lifecycle.to("INTERRUPTED")
    course.newest = replace(
        course.newest or MetricsSnapshot(run_id=course.run_id, name=course.name, directory=course.directory),
        seq=course.seq + 1,
        state="INTERRUPTED",
        completeness="interrupted",
        reason=course.reason,
        exact=False,
        exact_reason="the aggregator failed",
        warnings=list(course.warnings),
    )


def _close_books(service: Service) -> None:
    parts = service.parts
    service.close_books()
    if parts.journal is not None:
        parts.journal.close()
    give_back()  # the exact pass takes memory of its own


def _refine(service: Service) -> Refinement:
    """The exact pass, while ticks and control go on. An interruption on the way ends it, not the run."""
    parts, feed = service.parts, service.feed
    hindrance = feed.obstacle()
    if hindrance:
        return Refinement(exact=False, reason=hindrance)
    wake = parts.worker.wake
    refiner = Refiner(parts.aggregator, feed.journal, limits.EXACT_BUDGET_S, wake, feed.torn_bytes)
    interruptions = service.course.interruptions

    def over() -> bool:
        if service.course.interruptions != interruptions:
            refiner.stop("interrupted during the exact pass")
        return refiner.outcome is not None

    service.turns_until(over)
    assert refiner.outcome is not None
    return refiner.outcome


def _apply(service: Service, refinement: Refinement) -> None:
    service.parts.aggregator.series.apply_exact(refinement.values)
    service.course.exact = refinement.exact
    service.course.exact_reason = refinement.reason
    service.course.warn(refinement.warnings)


def _write(service: Service, snapshot: MetricsSnapshot) -> Path | None:
    """The final file, in the run directory or the next best place; None if there is none."""
    directory, config = service.parts.directory, service.parts.options.config
    try:
        path = write_final(snapshot, final_candidates(directory, config.run.fallback_dirs))
    except Exception as error:  # noqa: BLE001 – it can still be published
        _LOG.exception("the final file could not be written")
        service.course.warn([f"the final file could not be written: {error}"])
        return None
    if path != directory.final:
        service.course.warn([f"the run directory could not be written; the final file is {path}"])
    return path


def _tell(service: Service) -> None:
    """Repeats the terminal snapshot for the grace, so that a slow subscriber gets it, and answers questions. An
    interruption ends it.

    The history gets its last roll-ups meanwhile: nobody's result waits for them.
    """
    history = service.parts.history
    if history is not None:
        service.parts.worker.submit(history.close)
    clock, course = service.parts.clock, service.course
    interruptions = course.interruptions
    service.publish()
    grace_s = service.parts.options.config.run.terminal_grace_s
    end_ns = clock.monotonic_ns() + int(grace_s * 1e9)
    service.turns_until(lambda: clock.monotonic_ns() >= end_ns or course.interruptions != interruptions)
    service.parts.worker.close(_WORKER_CLOSE_S)
    service.parts.worker.deliver()

"""Exact percentiles from the journal: it is streamed past the histogram's targets to refine bucket precision."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from telemetry.aggregator import Aggregator
from telemetry.aggregator.exact.percentiles import ExactPass
from telemetry.formatting import number_of
from telemetry.store.journal import BATCH, CHECKPOINT, JournalReader, JournalWriter
from telemetry.wire.codec import decode_batch

HOLE: Final = "can't read a time range of the journal; the numbers include it, from the next checkpoint"
"""Warning for damaged or missing segments that a later checkpoint makes up for."""
CUT: Final = "the journal is incomplete: it could not be written or read from some time on"
"""Reason why a run resumed from such a journal has no exact percentiles.

Its numbers lack values permanently.
"""
_IN_VAIN: Final = ("the journal", "some series", "2**53")
"""Phrases in reasons that another pass would give again."""


@dataclass
class Refinement:
    """Outcome of the exact pass. `values` holds the values found, even if some series failed."""

    exact: bool
    reason: str = ""
    values: dict[int, dict[str, float]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


def obstacle(journal: JournalWriter | None) -> str:
    """Return why the journal can't give exact percentiles; empty if it can."""
    if journal is None:
        return "the journal is off"
    if journal.failed:
        return f"can't write the journal: {journal.failed}"
    dropped = journal.dropped_segments
    return f"the journal exceeded its size limit and lost {_oldest(dropped)}" if dropped else ""


def damage(damaged_bytes: int) -> str:
    """Return why a run has no exact percentiles if part of its journal is damaged."""
    return f"{number_of(damaged_bytes, 'byte of the journal is', 'bytes of the journal are')} damaged"


def another_may_succeed(reason: str) -> bool:
    """Check whether another exact pass may succeed: the failed one lacked time, not values."""
    return not any(words in reason for words in _IN_VAIN)


def _oldest(segments: int) -> str:
    return "its oldest segment" if segments == 1 else f"its {segments:,} oldest segments"


def journal_gap(reader: JournalReader, torn_bytes: int) -> str:
    """Return why recorded values are missing from a journal that was read to its end; empty if none are.

    `torn_bytes` is the size of the torn end, which was never applied.
    """
    damaged_bytes = reader.torn_bytes - (0 if reader.tail_damaged else torn_bytes)
    if damaged_bytes:
        return damage(damaged_bytes)
    if reader.damaged:
        return "a segment in the middle of the journal is missing or unreadable"
    if reader.dropped_segments:
        return (
            f"the journal lost {_oldest(reader.dropped_segments)}: it exceeded its size limit, or "
            "the files were deleted"
        )
    return ""


class Refiner:
    """A thread that runs the exact pass beside the ticks. `stop` makes it give up at the next batch.

    It reads the aggregator's routes, which stay unchanged once the books are closed.
    """

    def __init__(
        self,
        aggregator: Aggregator,
        journal: Path,
        budget_s: float,
        wake: Callable[[], object],
        torn_bytes: int = 0,
    ) -> None:
        """Start the thread.

        It calls `wake` once there is an outcome. `torn_bytes` is the size of the torn end of the journal, which was
        never applied.
        """
        self._aggregator = aggregator
        self._targets = aggregator.series.targets()  # on the calling thread, which owns them
        self._journal = journal
        self._deadline = time.monotonic() + budget_s
        self._budget_s = budget_s
        self._torn_bytes = torn_bytes
        self._wake = wake
        self._stopped_because = ""
        self.outcome: Refinement | None = None
        """Outcome of the pass. None while it runs."""
        self._thread = threading.Thread(target=self._run, name="telemetry-exact", daemon=True)
        self._thread.start()

    def stop(self, reason: str) -> None:
        self._stopped_because = self._stopped_because or reason

    def _run(self) -> None:
        try:
            self.outcome = self._refine()
        except Exception as error:  # noqa: BLE001 – thread root: the result is still true without it
            self.outcome = Refinement(exact=False, reason=f"the exact pass failed: {error}")
        self._wake()

    def _refine(self) -> Refinement:
        if JournalReader(self._journal).failed:
            return Refinement(exact=False, reason="writing the journal failed during the run")
        search = ExactPass(self._targets)
        while not search.done:
            reader = JournalReader(self._journal)
            for frame in reader.frames(unread={CHECKPOINT}):
                if self._give_up():
                    return Refinement(exact=False, reason=self._stopped_because)
                if frame.kind == BATCH:
                    batch = decode_batch(bytes(frame.data))  # decoding `bytes` avoids a copy of the rows
                    search.feed(*self._aggregator.series_values(batch))
            if reason := journal_gap(reader, self._torn_bytes):
                return Refinement(exact=False, reason=reason, warnings=[HOLE] if reader.damaged else [])
            search.end_pass()
        warnings = [f"{self._name(index)}: {why}" for index, why in sorted(search.problems.items())]
        reason = "some series disagree with the journal" if warnings else ""
        return Refinement(exact=not warnings, reason=reason, values=search.values(), warnings=warnings)

    def _give_up(self) -> bool:
        if time.monotonic() > self._deadline:
            self.stop(f"the exact pass took more than {self._budget_s:g} s")
        return bool(self._stopped_because)

    def _name(self, index: int) -> str:
        return self._aggregator.series.key(index).name

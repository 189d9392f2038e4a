"""Exact percentiles from the journal: it is streamed past the histogram's targets to refine bucket precision."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from telemetry.aggregator import Aggregator
from telemetry.aggregator.compiled import find_rows
from telemetry.aggregator.exact.one_pass import OnePass
from telemetry.aggregator.exact.percentiles import ExactPass, SeriesValues
from telemetry.common.formatting import number_of
from telemetry.daemon.node_search import NodeValues, SearchChannel, first_reasons
from telemetry.store.journal import BATCH, CHECKPOINT, JournalReader, JournalWriter
from telemetry.wire.codec import decode_batch

HOLE: Final = "can't read a time range of the journal; the numbers include it, from the next checkpoint"
"""Warning for damaged or missing segments that a later checkpoint makes up for."""
CUT: Final = "the journal is incomplete: it could not be written or read from some time on"
"""Reason why a run resumed from such a journal has no exact percentiles.

Its numbers lack values permanently.
"""
_DISAGREE: Final = "some series disagree with the journal"
_WAIT_S: Final = 0.1
_IN_VAIN: Final = ("the journal", "some series", "2**53", "node ")
"""Phrases in reasons that another pass would give again."""


@dataclass
class Refinement:
    """Outcome of the exact pass. `values` holds the values found, even if some series failed."""

    exact: bool
    reason: str = ""
    values: dict[int, dict[str, float]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


def obstacle(journal: JournalWriter | None, valueless: int = 0) -> str:
    """Return why the journal can't give exact percentiles; empty if it can.

    Its first `valueless` segments have no values of series, so that it may lack them.
    """
    if journal is None:
        return "the journal is off"
    if journal.failed:
        return f"can't write the journal: {journal.failed}"
    dropped = journal.dropped_segments
    return f"the journal exceeded its size limit and lost {_oldest(dropped)}" if dropped > valueless else ""


def damage(damaged_bytes: int) -> str:
    """Return why a run has no exact percentiles if part of its journal is damaged."""
    return f"{number_of(damaged_bytes, 'byte of the journal is', 'bytes of the journal are')} damaged"


def another_may_succeed(reason: str) -> bool:
    """Check whether another exact pass may succeed: the failed one lacked time, not values."""
    return not any(phrase in reason for phrase in _IN_VAIN)


def _oldest(segments: int) -> str:
    return "its oldest segment" if segments == 1 else f"its {segments:,} oldest segments"


def journal_gap(reader: JournalReader, torn_bytes: int, valueless: int = 0) -> str:
    """Return why recorded values are missing from a journal that was read to its end; empty if none are.

    `torn_bytes` is the size of the torn end, which was never applied. `valueless` as in `obstacle`.
    """
    if reader.dropped_segments > valueless:
        return (
            f"the journal lost {_oldest(reader.dropped_segments)}: it exceeded its size limit, or "
            "the files were deleted"
        )
    damaged_bytes = reader.torn_bytes - (0 if reader.tail_damaged else torn_bytes)
    if damaged_bytes:
        return damage(damaged_bytes)
    return "a segment in the middle of the journal is missing or unreadable" if reader.damaged else ""


class JournalValues:
    """Values of all series in the journal of a run, for any number of passes. For one thread."""

    def __init__(self, aggregator: Aggregator, journal: Path, torn_bytes: int = 0, valueless: int = 0) -> None:
        """Prepare the reading. `torn_bytes` is the size of the torn end of the journal, which was never applied.

        `valueless` as in `obstacle`.
        """
        self._aggregator = aggregator
        self._journal = journal
        self._torn_bytes = torn_bytes
        self._valueless = valueless
        self.damaged = False
        """True if a time range of the journal could not be read."""
        self.gap = ""
        """Why the last reading did not give all values; empty if it did."""

    def obstacle(self) -> str:
        """Return why the journal lacks values, as far as its file names tell; empty if they don't."""
        return "writing the journal failed during the run" if JournalReader(self._journal).failed else ""

    def read(self, stops: Callable[[], bool] = lambda: False) -> Iterator[SeriesValues]:
        """Yield all values with their series, batch by batch.

        `stops` is called before each frame. Once it returns True, nothing more is read.
        """
        reader = JournalReader(self._journal)
        self.gap = ""
        for frame in reader.frames(unread={CHECKPOINT}):
            if stops():
                return
            if frame.kind == BATCH:
                batch = decode_batch(bytes(frame.data), find_rows)  # decoding `bytes` avoids a copy of the rows
                yield self._aggregator.series_values(batch)
        self.damaged = reader.damaged
        self.gap = journal_gap(reader, self._torn_bytes, self._valueless)

    def feed(self, one_pass: OnePass, stops: Callable[[], bool]) -> str:
        """Feed all values to a pass. Return why some are missing; empty if none are. `stops` as in `read`."""
        for index, value in self.read(stops):
            one_pass.feed(index, value)
        return self.gap


class Refiner:
    """A thread that runs the exact pass beside the ticks. `stop` makes it give up at the next batch.

    It reads the aggregator's routes, which stay unchanged once the books are closed. The leaves of a root search
    their journals at the same time.
    """

    def __init__(
        self,
        aggregator: Aggregator,
        journal: Path,
        budget_s: float,
        wake: Callable[[], object],
        torn_bytes: int = 0,
        *,
        valueless: int = 0,
        hindrance: str = "",
        channel: SearchChannel | None = None,
        now_ns: int | None = None,
    ) -> None:
        """Start the thread.

        It calls `wake` once there is an outcome. `torn_bytes` is the size of the torn end of the journal, which was
        never applied, `valueless` as in `obstacle`. `hindrance` is the reason why the journal can't be used, if it
        can't. `channel` leads to the leaves; without it, their values are missing. `now_ns` as of `NodeValues`.
        """
        self._aggregator = aggregator
        self._targets = aggregator.series.targets()  # on the calling thread, which owns them
        self._values = JournalValues(aggregator, journal, torn_bytes, valueless)
        self._deadline = time.monotonic() + budget_s
        self._budget_s = budget_s
        self._hindrance = hindrance
        self._nodes = NodeValues(aggregator, channel, now_ns=now_ns)
        self._wake = wake
        self._stopped_because = ""
        self._is_late = False
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
        if self._nodes:
            with self._nodes.searching():
                return self._refine_with_nodes()
        reason = self._hindrance or self._values.obstacle()
        if reason:
            return Refinement(exact=False, reason=reason)
        search = ExactPass(self._targets)
        while not search.done:
            reason = self._values.feed(search.current, self._give_up)
            if self._stopped_because:
                return Refinement(exact=False, reason=self._stopped_because)
            if reason:
                return Refinement(exact=False, reason=reason, warnings=[HOLE] if self._values.damaged else [])
            search.end_pass()
        warnings = [f"{self._name(index)}: {why}" for index, why in sorted(search.problems.items())]
        reason = _DISAGREE if warnings else ""
        return Refinement(exact=not warnings, reason=reason, values=search.values(), warnings=warnings)

    def _refine_with_nodes(self) -> Refinement:
        """Run the pass over the own journal and those of all leaves.

        Only the counts tell which series lack values. So a series is exact without a journal that it has no values
        in.
        """
        nodes = self._nodes
        search = ExactPass(self._targets, left_out=nodes.unfit)
        reads_own = self._aggregator.records_values
        own = (self._hindrance or self._values.obstacle()) if reads_own else ""
        while not search.done and not self._is_late:
            nodes.begin(search.current)
            if reads_own and not own:
                own = self._values.feed(search.current, self._serve) or self._stopped_because
            while nodes.waiting and not self._give_up():
                nodes.turn(_WAIT_S)
            if self._stopped_because and not self._is_late:
                return Refinement(exact=False, reason=self._stopped_because)
            nodes.give_up(f" did not answer within {self._budget_s:g} s")
            search.leave_out(nodes.unfit)
            search.end_pass()
        search.leave_out(dict.fromkeys(search.open_series(), self._stopped_because))
        return self._outcome_with_nodes(search, own)

    def _outcome_with_nodes(self, search: ExactPass, own: str) -> Refinement:
        """Return the values, and the reason for each series without them. `own` is that of the own journal."""
        nodes = self._nodes
        above = self._aggregator.series.outside()[1]
        for index in search.values():
            reason = nodes.reason(index)
            if above[index] and reason:  # its last slot may depend on the node's range
                search.leave_out({index: reason})
            if nodes.may_exceed(index) and (reason or own):
                search.leave_out({index: reason or own})
        warnings, reasons = [], []
        for index, problem in sorted(search.problems.items()):
            cause = nodes.reason(index) or own or (problem if problem == self._stopped_because else "")
            warnings.append(f"{self._name(index)}: {cause or problem}")
            reasons.append(cause or _DISAGREE)
        if own and self._values.damaged:
            warnings.append(HOLE)
        return Refinement(not reasons, first_reasons(reasons), search.values(), warnings)

    def _serve(self) -> bool:
        self._nodes.turn()
        return self._give_up()

    def _give_up(self) -> bool:
        if not self._stopped_because and time.monotonic() > self._deadline:
            self._is_late = True
            self.stop(f"the exact pass took more than {self._budget_s:g} s")
        return bool(self._stopped_because)

    def _name(self, index: int) -> str:
        return self._aggregator.series.key(index).name

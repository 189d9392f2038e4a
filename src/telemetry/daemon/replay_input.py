"""The feed of a replay: a journal, entry by entry, at the pace of its stamps."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Final

from telemetry import limits
from telemetry.clock import Clock
from telemetry.daemon.cost import CostMeter
from telemetry.daemon.exact_percentiles import CUT, damage
from telemetry.daemon.record_stream import RecordStream
from telemetry.daemon.recovery.losses import journal_losses
from telemetry.daemon.recovery.rebuild import Fold, Step
from telemetry.daemon.run_status import RunStatus
from telemetry.store.history import HistoryWriter
from telemetry.store.journal import BATCH
from telemetry.wire.control import CannotResend, End, Hello, Watch
from telemetry.wire.journal import Ending

_SECOND_NS: Final = 1_000_000_000
_LONGEST_SILENCE_NS: Final = (
    5 * _SECOND_NS
)  # live intervals end each second: in a longer one there was no aggregator


class Playback:
    """A `telemetry.daemon.input.Feed`. Its time is that of the journal, times the speed."""

    listens = False

    def __init__(
        self,
        *,
        fold: Fold,
        journal: Path,
        ending: Ending | None,
        speed: float,
        clock: Clock,
        run_status: RunStatus,
        stream: RecordStream,
        history: HistoryWriter | None,
        cost: CostMeter,
    ) -> None:
        """`ending`: how the run is known to have ended, else the journal says it. `speed` may be infinite."""
        self.journal = journal
        self._fold = fold
        self._ending = ending
        self._speed = speed
        self._clock = clock
        self._run_status = run_status
        self._stream = stream
        self._history = history
        self._cost = cost
        self._entries = fold.entries()
        self._next = next(self._entries, None)
        self._played = False
        """All of it."""
        self._ended_by_journal = False
        self._begin_ns, self._begun_ns = fold.now_ns, clock.monotonic_ns()
        self._end_as(fold.numbers.run.ending)

    @property
    def torn_bytes(self) -> int:
        return self._fold.reader.tail_bytes

    def now_ns(self) -> int:
        """Never beyond what is still to come."""
        if self._next is None or math.isinf(self._speed):
            return self._fold.now_ns
        return max(self._fold.now_ns, min(int(self._due_ns()), self._next.time_ns))

    def due_s(self) -> float:
        if self._next is None:
            return math.inf if self._played else 0.0
        if math.isinf(self._speed):
            return 0.0
        return max(0.0, (self._next.time_ns - self._due_ns()) / self._speed / _SECOND_NS)

    def turn(self, *, readable: bool) -> None:
        taken, due_ns = 0, self._due_ns()
        for _ in range(limits.TURN_FRAMES):
            entry = self._next
            if entry is None:
                self._finish()
                return
            if entry.time_ns > due_ns or taken >= limits.TURN_BYTES:
                return
            if entry.kind == BATCH:
                self._cost.took(len(entry.data), entry.size)
            taken += entry.size
            self._take(self._fold.apply(entry))
            self._next = next(self._entries, None)
            self._skip_silence()

    def catch_up(self) -> None:
        """Nothing is held."""

    def tick(self, now_ns: int) -> None:
        """No process is watched, nobody to ask."""

    def each_second(self) -> None:
        """Intervals end where the journal says."""

    def begin_drain(self) -> None:
        """It lasts as long as it did."""

    def drained(self) -> bool:
        """Who stops a replay cuts it short: what it came to until then is no result of the run."""
        if not self._played and not self._ended_by_journal:
            self._run_status.end(self._run_status.reason, interrupted=True)
        return self._played

    def close(self) -> None:
        """The last interval has ended."""
        self._take(self._fold.close())

    def obstacle(self) -> str:
        if not self._played:
            return "the replay was ended before the journal was"
        reader = self._fold.reader
        if reader.tail_damaged:
            return damage(reader.tail_bytes)
        return CUT if self._fold.numbers.run.unaccounted else ""

    # --- one entry after the other ---------------------------------------------------------------

    def _due_ns(self) -> float:
        """Entries up to this stamp are due."""
        if math.isinf(self._speed):
            return math.inf
        return self._begin_ns + (self._clock.monotonic_ns() - self._begun_ns) * self._speed

    def _skip_silence(self) -> None:
        if self._next is not None:
            self._begin_ns += max(0, self._next.time_ns - self._fold.now_ns - _LONGEST_SILENCE_NS)

    def _take(self, step: Step) -> None:
        if step.interval is not None and self._history is not None:
            self._history.append(step.interval, self._fold.numbers.aggregator.keys(), step.roll)
        self._stream.publish(step.streamed)
        if isinstance(step.note, Ending):
            self._end_as(step.note)

    def _end_as(self, ending: Ending | None) -> None:
        """An interruption is told when all is played: the loop reads no more then."""
        if ending is not None and not ending.interrupted and not self._run_status.ending:
            self._ended_by_journal = True
            self._run_status.follow(ending)

    def _finish(self) -> None:
        if self._played:
            return
        self._played = True
        self._take(self._fold.end_interval())
        self._run_status.warn(journal_losses(self._fold))
        self._run_status.unaccounted = self._fold.numbers.run.unaccounted
        self._run_status.follow(self._ending or self._fold.how_it_ended())


class ClosedIngress:
    """A `telemetry.daemon.input.Ingress` for a run whose events are known already."""

    def __init__(self, why: str) -> None:
        self._why = why

    def hello(self, hello: Hello) -> str:
        return self._why

    def ping(self, producer: str) -> None:
        """Nobody's sign of life counts."""

    def end(self, end: End) -> str:
        return self._why

    def cannot_resend(self, message: CannotResend) -> None:
        """Nobody was asked."""

    def watch(self, watch: Watch) -> None:
        """A replay belongs to whoever watches it."""

"""The feed of a live run: its sockets, the seconds of its history, and the processes it belongs to."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from telemetry import limits
from telemetry.aggregator import StreamedRecord
from telemetry.common import formatting
from telemetry.daemon.components import DaemonParts
from telemetry.daemon.cost import CostMeter
from telemetry.daemon.exact_percentiles import CUT, obstacle
from telemetry.daemon.ingest import Ingest
from telemetry.daemon.record_stream import RecordPublisher
from telemetry.daemon.run_status import RunStatus
from telemetry.daemon.salvage import Salvage
from telemetry.daemon.slow_ranks import SlowRanks
from telemetry.daemon.tokens.results import OWN_PRODUCER, TokenResults
from telemetry.daemon.write_ahead import WriteAheadLog
from telemetry.store.live_runs import announce_name
from telemetry.transport.endpoints import runtime_directory
from telemetry.wire.snapshot import PROGRAM_FAILED

if TYPE_CHECKING:
    from telemetry.daemon.upstream.leaf import Leaf

_LOG = logging.getLogger("telemetry.daemon")
_SECOND_NS: Final = 1_000_000_000
_PASSED_OVER: Final = 60  # intervals of one second, each written separately; longer windows keep older values
_SLICE_NS: Final = 75_000_000  # shortest slice: ticks come every 100 ms or more often, and may be a little early
_GAP_NS: Final = 2 * _SECOND_NS  # a restart takes one or two seconds
_ON_THE_WAY_S: Final = 0.02  # messages sent before the end request arrive within this time
_CLOCK_S: Final = 1.0
_QUIET_NS: Final = 500_000_000  # the last bytes of a dead producer leave the kernel within this time


class LiveInput:
    """A `telemetry.daemon.input.DaemonInput` of a live run."""

    torn_bytes = 0
    reaches_nodes = True

    def __init__(
        self,
        parts: DaemonParts,
        log: WriteAheadLog,
        run_status: RunStatus,
        cost: CostMeter,
        leaf: Leaf | None = None,
    ) -> None:
        """Prepare the feed. `leaf` connects it to the root, if the run has one."""
        self._parts = parts
        self._leaf = leaf
        self._log = log
        log.on_named = self._rename
        self._run_status = run_status
        self._alone_since_ns: int | None = None
        self._sliced_ns = 0
        """Monotonic time of the newest slice."""
        rolls = parts.numbers.run.rolls
        self._first_sliced = rolls + 1 if rolls else 0
        """First interval with slices. A restored checkpoint may lack the begin of a slice."""
        self._drain_began_ns = parts.clock.monotonic_ns()
        self._texts_until_ns: int | None = None
        """Deadline for pending texts. Set once the wait for producers has ended."""
        self._stream = RecordPublisher(run_status.run_id, parts.records, parts.hub, parts.numbers.run.records)
        self._stream.on_published = self._published
        self._slow_ranks = SlowRanks(parts.directory, parts.worker, self._stream.next_seq)
        self.ingest = Ingest(parts, log, self._stream, cost)
        self.deferred = TokenResults(parts, log, self.ingest, run_status)
        self._salvage = Salvage(parts, log, self.ingest, run_status)

    def _rename(self, name: str) -> None:
        """Take the name that a producer gave to the run, in all that is read while the run goes on.

        The directory keeps the name it was made with: other processes use its path.
        """
        self._run_status.name = name
        parts, directory = self._parts, self._run_status.directory

        def write() -> None:
            manifest = parts.directory.read_manifest()
            parts.directory.write_manifest(replace(manifest, name=name, started_as=manifest.name))
            announce_name(runtime_directory(), parts.options.run_id, name)

        _LOG.info("the run in %s is named %s", directory, name)
        parts.worker.submit(write)

    @property
    def listens(self) -> bool:
        return not self.ingest.gathers_s

    @property
    def journal(self) -> Path:
        return self._parts.directory.journal

    def now_ns(self) -> int:
        return self._parts.clock.monotonic_ns()

    def due_s(self) -> float:
        return 0.0 if self.deferred.busy else self.ingest.gathers_s or math.inf

    def turn(self, *, readable: bool) -> None:
        self._publish()
        self._log.renew(self._run_status.warnings)
        if readable:
            self.ingest.turn()
        self.deferred.turn()

    def catch_up(self) -> None:
        self.ingest.catch_up()
        self.deferred.turn()

    def tick(self, now_ns: int) -> None:
        self._log.note_bad_frames()
        if self._leaf is not None:
            self._leaf.tick()
        self._watch_processes(now_ns)
        if self._wants_slice(now_ns):
            self._log.slice()
            self._sliced_ns = now_ns
            slices, history = self._log.take_slices(), self._parts.history
            if history is not None:  # if the disk is too slow, only the second is kept
                self._parts.worker.submit(lambda: history.append_slices(slices))

    def _wants_slice(self, now_ns: int) -> bool:
        """Return whether a slice of the history ends now.

        Slices begin with the first event. A root has none: its leaves send once a second.
        """
        run, aggregator = self._parts.numbers.run, self._parts.aggregator
        return (
            self._parts.history is not None
            and run.slices < limits.SLICES
            and run.rolls >= self._first_sliced
            and aggregator.book.counted_events > 0
            and now_ns - max(run.rolled_mono_ns, self._sliced_ns) >= _SLICE_NS
            and not aggregator.root.leaves()
            and aggregator.instruments <= limits.SLICED_INSTRUMENTS
        )

    def each_second(self) -> None:
        self.deferred.ping()
        self._salvage.silent_ones(self.now_ns())
        self.roll()
        self._slow_ranks.each_second(self._run_status.newest)
        journal = self._parts.journal
        if journal is not None and not journal.failed:
            self._parts.worker.submit(journal.sync)

    def roll(self) -> None:
        """Close the current interval of the history."""
        self._roll()
        self._compare_clocks()

    def _compare_clocks(self) -> None:
        """Warn once if the system's clock was set. The run's clock ignores that."""
        clock = self._parts.clock
        step_s = (clock.wall_ns() - self._parts.numbers.wall_ns(clock.monotonic_ns())) / _SECOND_NS
        beginning = "the system clock was set "
        if abs(step_s) > _CLOCK_S and not any(
            warning.startswith(beginning) for warning in self._run_status.warnings
        ):
            by = f"{'forward' if step_s > 0 else 'back'} by {formatting.duration_s(abs(step_s))}"
            self._run_status.warn(
                [f"{beginning}{by} during the run: times of day go on from the clock at its start"]
            )

    def pass_over(self, died_ns: int) -> None:
        """Close the interval in which an aggregator died, and add intervals for the time without an aggregator.

        Otherwise the windows of its last seconds would count as the most recent seconds. Call before the first
        turn.
        """
        run, gap_ns = self._parts.numbers.run, self._parts.clock.monotonic_ns() - died_ns
        if gap_ns < _GAP_NS:
            return
        seconds = min(gap_ns // _SECOND_NS, self._parts.options.config.run.window_s, _PASSED_OVER)
        pieces_ns = [max(0, died_ns - run.rolled_mono_ns), gap_ns - seconds * _SECOND_NS]
        pieces_ns += [_SECOND_NS] * seconds
        for piece_ns in filter(None, pieces_ns):  # two intervals must not end at the same time
            self._roll(piece_ns)

    def _roll(self, elapsed_ns: int | None = None) -> None:
        number, history = self._parts.numbers.run.rolls, self._parts.history
        interval = self._log.roll(self._run_status.seq, elapsed_ns)
        self._publish()
        if self._leaf is not None:
            self._leaf.rolled(interval, number)
        if history is not None:
            keys, slices = self._parts.aggregator.keys(), self._log.take_slices()
            if not self._parts.worker.submit(lambda: history.append(interval, keys, number, slices)):
                self._run_status.warn(["the disk is too slow: an interval of the history is missing"])

    def close(self) -> None:
        self.ingest.close()
        self._salvage.all_dead()
        self._salvage.remove_files()
        self.deferred.close()
        self.roll()
        self._log.close()
        self._publish()
        if self._run_status.newest is not None:
            self._slow_ranks.write(self._run_status.newest)
        if self._leaf is not None:
            self._leaf.close()

    @property
    def delivered(self) -> bool:
        return self._leaf is None or self._leaf.settled

    @property
    def needed(self) -> bool:
        return self._leaf is not None and self._leaf.needed

    def conclude(self) -> None:
        if self._leaf is not None:
            self._leaf.conclude()

    def leave(self) -> None:
        if self._leaf is not None:
            self._leaf.stop()

    def _publish(self) -> None:
        """Publish the stream records that producer messages or the passing of time have produced."""
        self._stream.publish(self._log.take_streamed())
        self._parts.requests.append(*self._log.take_logged())

    def _published(self, streamed: Sequence[StreamedRecord]) -> None:
        self._slow_ranks.take(streamed, self._parts.aggregator.params)
        if self._leaf is not None:
            self._leaf.streamed(streamed)

    def obstacle(self) -> str:
        run = self._parts.numbers.run
        return obstacle(self._parts.journal, run.valueless_segments) or (CUT if run.unaccounted else "")

    # --- the drain -------------------------------------------------------------------------------

    def begin_drain(self) -> int:
        self._drain_began_ns = self._parts.clock.monotonic_ns()
        return self._producers_until_ns

    def drained(self) -> bool:
        """Return True once producers have ended or had their time, and then texts theirs."""
        self.catch_up()
        now_ns = self._parts.clock.monotonic_ns()
        if self._texts_until_ns is None:
            if now_ns < self._producers_until_ns and not self._producers_ended(now_ns):
                return False
            texts_until_ns = now_ns + int(self._parts.options.config.tokens.budget_s * _SECOND_NS)
            self._texts_until_ns = self._in_time_for_root(texts_until_ns)
        if not self.deferred.waits or now_ns >= self._texts_until_ns:
            return True
        self._run_status.drain_deadline_ns = self._texts_until_ns
        return False

    @property
    def _producers_until_ns(self) -> int:
        drain_ns = int(self._parts.options.config.run.drain_timeout_s * _SECOND_NS)
        return self._in_time_for_root(self._drain_began_ns + drain_ns)

    def _in_time_for_root(self, until_ns: int) -> int:
        """Return a deadline that leaves the root of this run time for the rest, if its run ends too."""
        return until_ns if self._leaf is None else self._leaf.drain_until_ns(until_ns)

    def _producers_ended(self, now_ns: int) -> bool:
        """Check that every producer has ended or its process is dead, and that the socket is empty.

        No frame is held at this point.
        """
        waited_for = [
            producer for producer in self._parts.aggregator.book.waiting_for() if producer != OWN_PRODUCER
        ]
        alive = [producer for producer in waited_for if not self._dead(producer, now_ns)]
        if alive:
            return False
        return not self._strangers() or not any(self._parts.hub.wait(_ON_THE_WAY_S))

    def _strangers(self) -> bool:
        """Check whether an unknown producer, which sent no hello and will send no end, may have sent events."""
        producers = self._parts.aggregator.book
        return not producers or not all(producer.greeted for producer in producers)

    def _dead(self, producer: str, now_ns: int) -> bool:
        """Check whether a producer of this host is dead and all its bytes have arrived, and salvage it then.

        Such a producer will send no end. A leaf may be restarted by somebody, and then it ends.
        """
        facts = self._parts.aggregator.book[producer]
        # a process in another pid namespace may live; then it answers the announcement of the drain
        if now_ns - max(facts.last_seen_ns, self._drain_began_ns) <= _QUIET_NS:
            return False
        if facts.node is not None or not self._salvage.is_dead(facts):
            return False
        self._salvage.salvage(facts)
        return True

    # --- owners of the run -----------------------------------------------------------------------

    def _watch_processes(self, now_ns: int) -> None:
        process_watch = self._parts.process_watch
        for pid in process_watch.departed():
            _LOG.info("process %d, which owned this run, is gone", pid)
        if process_watch.orphaned and (self._parts.options.owner_pid is not None or not self._others()):
            self._run_status.end(self._end_of_owner(process_watch.last))
        elif process_watch.orphaned or not process_watch.watching:
            self._end_when_alone(now_ns)

    def _end_of_owner(self, pid: int) -> str:
        """Return the reason of the end. An owner that records and has not ended is a program that failed."""
        book = self._parts.aggregator.book
        recording = [book[key] for key in book.waiting_for() if key != OWN_PRODUCER]
        if any((producer.host, producer.pid) == (self._parts.host, pid) for producer in recording):
            return f"{PROGRAM_FAILED}: process {pid} was killed, or ended without finish()"
        return f"process {pid}, which owned the run, is gone"

    def _others(self) -> bool:
        """Check whether producers record that do not belong to a process that has ended."""
        book = self._parts.aggregator.book
        others = (book[key] for key in book.waiting_for() if key != OWN_PRODUCER)
        return not all(self._salvage.is_dead(producer) for producer in others)

    def _end_when_alone(self, now_ns: int) -> None:
        aggregator, grace_s = self._parts.aggregator, self._parts.options.config.run.orphan_grace_s
        anyone_left = aggregator.book.anyone_left(now_ns, besides=OWN_PRODUCER)
        if not anyone_left and aggregator.root.all_ended():
            self._run_status.end("all nodes have ended")
        elif not grace_s or anyone_left or (self._leaf is not None and self._leaf.uplink.present):
            self._alone_since_ns = None
        elif self._alone_since_ns is None:
            self._alone_since_ns = now_ns
        elif now_ns - self._alone_since_ns > grace_s * _SECOND_NS:
            self._run_status.end(f"all producers have been gone for {grace_s:g} s")

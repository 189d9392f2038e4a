"""The aggregator process: one thread, one loop, the sockets' only owner.

turn = wait for sockets, signals or the next tick
     → signals → control → events (a bounded number) → tick if due; every tick or, with a slow refresh, every n-th
       publishes a snapshot
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import Final

from telemetry.daemon.control import Control
from telemetry.daemon.cost import CostMeter
from telemetry.daemon.course import Course
from telemetry.daemon.guardian import alive
from telemetry.daemon.ingest import Ingest
from telemetry.daemon.notify import sd_notify
from telemetry.daemon.parts import Parts
from telemetry.daemon.stream import RecordStream
from telemetry.wire.codec import carriable, encode_snapshot
from telemetry.wire.snapshot import TERMINAL, MetricsSnapshot

_LOG = logging.getLogger("telemetry.daemon")
_SECOND_NS: Final = 1_000_000_000
_LONGEST_TICK_S: Final = 0.1  # so long may a deadline, a death or an acknowledgement wait
_ON_THE_WAY_S: Final = 0.02  # what was sent before the end of the run was asked for is here by then
_QUIET_NS: Final = 500_000_000  # a dead producer's last bytes have left the kernel by then


class Service:
    """Main thread only."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        run = parts.options.config.run
        now_ns = parts.clock.monotonic_ns()
        self._ticks_a_snapshot = math.ceil(1 / run.refresh_hz / _LONGEST_TICK_S)
        self._ticks = 0
        self._period_ns = int(_SECOND_NS / run.refresh_hz / self._ticks_a_snapshot)
        self._drain_began_ns = now_ns
        self._next_tick_ns = now_ns + self._period_ns
        self._next_second_ns = now_ns + _SECOND_NS
        self._rolled_wall_ns, self._rolled_ns = parts.clock.wall_ns(), now_ns
        self._alone_since_ns: int | None = None
        self._books_closed = False
        self.cost = CostMeter(now_ns)
        self.course = Course(
            name=parts.options.name,
            run_id=parts.options.run_id,
            epoch=parts.options.epoch,
            directory=carriable(str(parts.directory.path)),
            started_ns=self._rolled_wall_ns,
            started_mono_ns=now_ns,
            refresh_hz=run.refresh_hz,
        )
        stream = RecordStream(parts.options.run_id, parts.records, parts.hub)
        self._ingest = Ingest(parts, stream, self.cost)
        self.control = Control(parts, self.course, self.snapshot)

    # --- phases ----------------------------------------------------------------------------------

    def live(self) -> None:
        """Until something ends the run."""
        self.turns_until(lambda: self.course.ending)

    def drain(self) -> None:
        """Until every producer's end is reconciled and the socket is empty, or the deadline, or an interruption."""
        if self.course.interrupted:
            return
        self.course.lifecycle.to("DRAINING")
        timeout_s = self.parts.options.config.run.drain_timeout_s
        self._drain_began_ns = self.parts.clock.monotonic_ns()
        self.course.drain_deadline_ns = self._drain_began_ns + int(timeout_s * _SECOND_NS)
        self.control.announce_state()
        self.turns_until(self._drained)

    def close_books(self) -> None:
        """After this the numbers no longer change, and whoever waits for them to is answered."""
        self.parts.aggregator.close()
        self.control.give_up()
        self.roll()
        self._books_closed = True

    def turns_until(self, over: Callable[[], bool], *, reading: bool = True) -> None:
        """Runs turns until `over()`; with `reading` off, events stay in the socket."""
        while not over():
            self.turn(reading=reading)

    def turn(self, *, reading: bool = True) -> None:
        """One round: blocks at most until the next tick is due."""
        parts = self.parts
        wait_s = max(0.0, (self._next_tick_ns - parts.clock.monotonic_ns()) / _SECOND_NS)
        woken = parts.hub.wait(wait_s, events=reading)
        if woken.fds:
            self._take_signals()
            parts.worker.deliver()
        if woken.control:
            self.control.turn()
        if woken.events and reading:
            self._ingest.turn()
            self._begin()
        self.control.settle()
        now_ns = parts.clock.monotonic_ns()
        if now_ns >= self._next_tick_ns:
            self._tick(now_ns)

    # --- a tick ----------------------------------------------------------------------------------

    def _tick(self, now_ns: int) -> None:
        late = now_ns - self._next_tick_ns > self._period_ns // 10
        self._next_tick_ns += self._period_ns
        if self._next_tick_ns <= now_ns:
            self._next_tick_ns = now_ns + self._period_ns
        self._begin()
        if now_ns >= self._next_second_ns:
            self._next_second_ns = max(self._next_second_ns + _SECOND_NS, now_ns)
            self._each_second(now_ns)
        self.control.acknowledge()
        self.control.ask_for_missing(now_ns)
        self._watch_processes(now_ns)
        self._ticks += 1
        if self._ticks % self._ticks_a_snapshot == 0:
            self.publish()
            self.cost.ticked(self.parts.clock.monotonic_ns() - now_ns, late)

    def _each_second(self, now_ns: int) -> None:
        self.cost.each_second(now_ns, self.parts.aggregator.applied)
        if not self._books_closed:
            self.roll()
        journal = self.parts.journal
        if journal is not None and not journal.failed:
            self.parts.worker.submit(journal.sync)
        sd_notify("WATCHDOG=1")

    def roll(self) -> None:
        """Closes the current interval of the history."""
        end_wall_ns, end_ns = self.parts.clock.wall_ns(), self.parts.clock.monotonic_ns()
        interval = self.parts.aggregator.roll(self._rolled_wall_ns, end_wall_ns, end_ns - self._rolled_ns)
        self._rolled_wall_ns, self._rolled_ns = end_wall_ns, end_ns
        history = self.parts.history
        if history is not None:
            keys = self.parts.aggregator.keys()
            if not self.parts.worker.submit(lambda: history.append(interval, keys)):
                self.course.warn(["the disk is far behind: an interval of the history is missing"])

    def snapshot(self) -> MetricsSnapshot:
        """A snapshot of this moment; once there is a terminal one, that one for ever."""
        newest = self.course.newest
        if newest is not None and newest.state in TERMINAL:
            return newest
        parts = self.parts
        files = {"journal": parts.journal, "history": parts.history, "record log": parts.records}
        self.course.warn(
            f"the {name} could not be written: {file.failed}"
            for name, file in files.items()
            if file and file.failed
        )
        now_ns = parts.clock.monotonic_ns()
        cost = self.cost.facts(
            journal_bytes=parts.journal.bytes_written if parts.journal else 0,
            history_bytes=parts.history.bytes_written if parts.history else 0,
            series=len(parts.aggregator.series),
            pages=parts.aggregator.series.pages,
        )
        self.course.newest = parts.aggregator.snapshot(
            self.course.facts(now_ns, cost), now_ns, parts.clock.wall_ns()
        )
        return self.course.newest

    def publish(self) -> None:
        """The newest snapshot, to all subscribers. Only what is published has a number of its own."""
        if not self.course.lifecycle.terminal:
            self.course.seq += 1
        self.parts.hub.publish_snapshot(encode_snapshot(self.snapshot()))

    # --- who the run belongs to ------------------------------------------------------------------

    def _begin(self) -> None:
        if self.course.lifecycle.state == "INITIALIZE" and self.parts.aggregator.producers():
            self.course.lifecycle.to("LIVE")

    def _take_signals(self) -> None:
        if self.parts.signals is None:
            return
        for number in self.parts.signals.take():
            _LOG.info("received %s", number.name)
            self.course.end(f"stopped by {number.name}", interrupted=True)

    def _watch_processes(self, now_ns: int) -> None:
        guardian = self.parts.guardian
        for pid in guardian.departed():
            _LOG.info("process %d, which this run belongs to, is gone", pid)
            if guardian.orphaned:
                self.course.end(f"process {pid}, which the run belonged to, is gone")
        if not guardian.watching:
            self._end_when_alone(now_ns)

    def _end_when_alone(self, now_ns: int) -> None:
        grace_s = self.parts.options.config.run.orphan_grace_s
        if not grace_s or self.parts.aggregator.anyone_left(now_ns):
            self._alone_since_ns = None
        elif self._alone_since_ns is None:
            self._alone_since_ns = now_ns
        elif now_ns - self._alone_since_ns > grace_s * _SECOND_NS:
            self.course.end(f"all producers have been gone for {grace_s:g} s")

    def _drained(self) -> bool:
        now_ns = self.parts.clock.monotonic_ns()
        deadline_ns = self.course.drain_deadline_ns
        if self.course.interrupted or (deadline_ns is not None and now_ns >= deadline_ns):
            return True
        if not all(self._dead(producer, now_ns) for producer in self.parts.aggregator.waiting_for()):
            return False
        return not self._strangers() or not any(self.parts.hub.wait(_ON_THE_WAY_S))

    def _strangers(self) -> bool:
        """Whether somebody may have sent who never said hello, and so won't say end."""
        known = [self.parts.aggregator.producer(producer) for producer in self.parts.aggregator.producers()]
        return not known or not all(producer.greeted for producer in known)

    def _dead(self, producer: str, now_ns: int) -> bool:
        """A producer of this host whose process is gone and whose last bytes have come will not end."""
        facts = self.parts.aggregator.producer(producer)
        if facts.host != self.parts.host or facts.pid <= 0 or alive(facts.pid):
            return False
        # in another pid namespace it may live, and then it answers the news of the drain
        return now_ns - max(facts.last_seen_ns, self._drain_began_ns) > _QUIET_NS

"""The aggregator process: one thread, one loop, the sockets' only owner.

turn = wait for sockets, signals or the next tick
     → signals → control → events (a bounded number) → tick if due; every tick or, with a slow refresh, every n-th
       publishes a snapshot

Where events come from is the feed's business; the loop is the same for a live run and a replay.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import Final

from telemetry.daemon.control import Control
from telemetry.daemon.cost import CostMeter
from telemetry.daemon.course import Course
from telemetry.daemon.feed import Door, Feed
from telemetry.daemon.notify import sd_notify
from telemetry.daemon.parts import Parts
from telemetry.wire.codec import encode_snapshot
from telemetry.wire.snapshot import TERMINAL, MetricsSnapshot

_LOG = logging.getLogger("telemetry.daemon")
_SECOND_NS: Final = 1_000_000_000
_LONGEST_TICK_S: Final = 0.1  # so long may a deadline, a death or an acknowledgement wait


class Service:
    """Main thread only."""

    def __init__(self, parts: Parts, course: Course, cost: CostMeter, feed: Feed, door: Door) -> None:
        self.parts = parts
        self.course = course
        self.cost = cost
        self.feed = feed
        now_ns = parts.clock.monotonic_ns()
        self._ticks_a_snapshot = math.ceil(1 / course.refresh_hz / _LONGEST_TICK_S)
        self._ticks = 0
        self._period_ns = int(_SECOND_NS / course.refresh_hz / self._ticks_a_snapshot)
        self._next_tick_ns = now_ns + self._period_ns
        self._next_second_ns = now_ns + _SECOND_NS
        self._books_closed = False
        self._reading = True
        self.control = Control(parts, course, self._asked, door)
        self._begin()

    # --- phases ----------------------------------------------------------------------------------

    def live(self) -> None:
        """Until something ends the run."""
        self.turns_until(lambda: self.course.ending)

    def drain(self) -> None:
        """Until nothing more is to be waited for, or it is too late, or an interruption."""
        if self.course.interrupted:
            return
        self.course.lifecycle.to("DRAINING")
        self.course.drain_deadline_ns = self.feed.begin_drain()
        self.control.announce_state()
        self.turns_until(self._drained)

    def close_books(self) -> None:
        """After this the numbers no longer change, and whoever waits for them to is answered."""
        self.feed.close()
        self.control.give_up()
        self._books_closed = True

    def turns_until(self, over: Callable[[], bool], *, reading: bool = True) -> None:
        """Runs turns until `over()`; with `reading` off, events stay in the socket."""
        while not over():
            self.turn(reading=reading)

    def turn(self, *, reading: bool = True) -> None:
        """One round: blocks at most until the next tick is due."""
        parts, self._reading = self.parts, reading
        wait_s = max(0.0, (self._next_tick_ns - parts.clock.monotonic_ns()) / _SECOND_NS)
        if reading:
            wait_s = min(wait_s, self.feed.due_s())
        woken = parts.hub.wait(wait_s, events=reading and self.feed.listens)
        if woken.fds:
            self._take_signals()
            parts.worker.deliver()
        if woken.control:
            self.control.turn()
        if reading:
            self.feed.turn(readable=woken.events)
            if self.control.owed:
                self._catch_up()
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
        self._catch_up()
        self._begin()
        if now_ns >= self._next_second_ns:
            self._next_second_ns = max(self._next_second_ns + _SECOND_NS, now_ns)
            self._each_second(now_ns)
        self.control.acknowledge()
        self.control.ask_for_missing(now_ns)
        self.feed.tick(now_ns)
        self._ticks += 1
        if self._ticks % self._ticks_a_snapshot == 0:
            self.publish()
            self.cost.ticked(self.parts.clock.monotonic_ns() - now_ns, late)

    def _each_second(self, now_ns: int) -> None:
        self.cost.each_second(now_ns, self.parts.aggregator.applied)
        if not self._books_closed:
            self.feed.each_second()
        sd_notify("WATCHDOG=1")

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
        if parts.hub.refused:
            self.course.warn(["connections with unknown keys were refused: daemon.log names them"])
        now_ns = self.feed.now_ns()
        cost = self.cost.facts(
            journal_bytes=parts.journal.bytes_written if parts.journal else 0,
            history_bytes=parts.history.bytes_written if parts.history else 0,
            series=len(parts.aggregator.series),
            pages=parts.aggregator.series.pages,
        )
        backends = self.course.backend_stats(parts.clock.monotonic_ns(), parts.numbers.run.records)
        facts = self.course.facts(now_ns, cost, backends)
        self.course.newest = parts.aggregator.snapshot(facts, now_ns, parts.numbers.wall_ns(now_ns))
        return self.course.newest

    def _asked(self) -> MetricsSnapshot:
        """For who asks between two ticks."""
        self._catch_up()
        return self.snapshot()

    def publish(self) -> None:
        """The newest snapshot, to all subscribers. Only what is published has a number of its own."""
        if not self.course.lifecycle.terminal:
            self.course.seq += 1
        self.parts.hub.publish_snapshot(encode_snapshot(self.snapshot()))

    # --- what else happens -----------------------------------------------------------------------

    def _begin(self) -> None:
        if self.course.lifecycle.state == "INITIALIZE" and self.parts.aggregator.producers():
            self.course.lifecycle.to("LIVE")

    def _catch_up(self) -> None:
        if self._reading:
            self.feed.catch_up()

    def _take_signals(self) -> None:
        if self.parts.signals is None:
            return
        for number in self.parts.signals.take():
            _LOG.info("received %s", number.name)
            self.course.end(f"stopped by {number.name}", interrupted=True)

    def _drained(self) -> bool:
        return self.course.interrupted or self.feed.drained()

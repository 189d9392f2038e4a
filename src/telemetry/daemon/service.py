"""The aggregator process: one thread with one loop, the only owner of the sockets.

turn = wait for sockets, signals or the next tick
     → signals → control → events (a bounded number; a few are held until the tick or until a request needs them)
     → tick if due; every tick or, with a slow refresh, every n-th publishes a snapshot

The feed supplies the events. The loop is the same for a live run and a replay.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import Final

from telemetry.daemon.components import DaemonParts
from telemetry.daemon.control import Control
from telemetry.daemon.cost import CostMeter
from telemetry.daemon.input import DaemonInput, Ingress
from telemetry.daemon.readiness import sd_notify
from telemetry.daemon.run_status import RunStatus
from telemetry.wire.codec import encode_snapshot
from telemetry.wire.snapshot import TERMINAL, MetricsSnapshot

_LOG = logging.getLogger("telemetry.daemon")
_SECOND_NS: Final = 1_000_000_000
_LONGEST_TICK_S: Final = 0.1  # maximum delay of a deadline, a death, an acknowledgement or an event


class Service:
    """The loop of the aggregator. Main thread only."""

    def __init__(
        self, parts: DaemonParts, run_status: RunStatus, cost: CostMeter, feed: DaemonInput, ingress: Ingress
    ) -> None:
        self.parts = parts
        self.run_status = run_status
        self.cost = cost
        self.feed = feed
        now_ns = parts.clock.monotonic_ns()
        self._ticks_a_snapshot = math.ceil(1 / run_status.refresh_hz / _LONGEST_TICK_S)
        self._ticks = 0
        self._period_ns = int(_SECOND_NS / run_status.refresh_hz / self._ticks_a_snapshot)
        self._next_tick_ns = now_ns + self._period_ns
        self._next_second_ns = now_ns + _SECOND_NS
        self.books_closed = False
        """True once the numbers are final: later events stay in the socket."""
        self.control = Control(parts, run_status, self.snapshot, ingress, catch_up=self.catch_up)
        self._begin()

    # --- phases ----------------------------------------------------------------------------------

    def live(self) -> None:
        """Run until the end of the run is requested."""
        self.turns_until(lambda: self.run_status.ending)

    def drain(self) -> None:
        """Run until nothing is left to wait for, the deadline passes, or the run is interrupted."""
        if self.run_status.interrupted:
            return
        self.run_status.lifecycle.to("DRAINING")
        self.run_status.drain_deadline_ns = self.feed.begin_drain()
        self.control.announce_state()
        self.turns_until(self._drained)

    def close_books(self) -> None:
        """Make the numbers final and answer all requests that wait for them."""
        self.books_closed = True
        self.feed.close()
        self.control.give_up()

    def turns_until(self, over: Callable[[], bool]) -> None:
        while not over():
            self.turn()

    def turn(self) -> None:
        """Run one round of the loop. Blocks at most until the next tick is due."""
        parts, reading = self.parts, not self.books_closed
        wait_s = max(0.0, (self._next_tick_ns - parts.clock.monotonic_ns()) / _SECOND_NS)
        if reading:
            wait_s = min(wait_s, self.feed.due_s())
        listens = self.feed.listens or self.control.owed > 0  # a batch that somebody waits for may come after it
        woken = parts.hub.wait(wait_s, events=reading and listens)
        if woken.fds:
            self._take_signals()
            parts.worker.deliver()
        self.control.leaves.push_searches()
        if woken.control:
            self.control.turn()
        if reading:
            self.feed.turn(readable=woken.events)
        ticks = parts.clock.monotonic_ns() >= self._next_tick_ns
        if ticks or self.control.owed:
            self.catch_up()
        self._begin()
        self.control.settle()
        if ticks:
            self._tick(parts.clock.monotonic_ns())

    def catch_up(self) -> None:
        """Apply held events, unless the books are closed."""
        if not self.books_closed:
            self.feed.catch_up()
            self._begin()

    # --- a tick ----------------------------------------------------------------------------------

    def _tick(self, now_ns: int) -> None:
        late = now_ns - self._next_tick_ns > self._period_ns // 10
        self._next_tick_ns += self._period_ns
        if self._next_tick_ns <= now_ns:
            self._next_tick_ns = now_ns + self._period_ns
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
        self.cost.each_second(now_ns, self.parts.aggregator.book.counted_events)
        if not self.books_closed:
            self.feed.each_second()
        sd_notify("WATCHDOG=1")

    def snapshot(self) -> MetricsSnapshot:
        """Return a snapshot of this moment, or the terminal snapshot once it exists."""
        newest = self.run_status.newest
        if newest is not None and newest.state in TERMINAL:
            return newest
        parts = self.parts
        files = {
            "journal": parts.journal,
            "history": parts.history,
            "record log": parts.records,
            "request log": parts.requests,
        }
        self.run_status.warn(
            f"can't write the {name}: {file.failed}" for name, file in files.items() if file and file.failed
        )
        if parts.history is not None:
            self.run_status.warn(parts.history.notices)
        if parts.hub.refused:
            self.run_status.warn(["connections with unknown keys were refused: see daemon.log"])
        if parts.hub.crowded:
            self.run_status.warn_anew("refused ", parts.hub.crowded)
        now_ns = self.feed.now_ns()
        cost = self.cost.facts(
            journal_bytes=parts.journal.bytes_written if parts.journal else 0,
            history_bytes=parts.history.bytes_written if parts.history else 0,
            series=len(parts.aggregator.series),
            pages=parts.aggregator.series.pages,
        )
        backends = self.run_status.backend_stats(parts.clock.monotonic_ns(), parts.numbers.run.records)
        facts = self.run_status.facts(now_ns, cost, backends)
        self.run_status.newest = parts.aggregator.snapshot(facts, now_ns, parts.numbers.wall_ns(now_ns))
        return self.run_status.newest

    def publish(self) -> None:
        """Publish a snapshot to all subscribers. Only published snapshots increase the sequence number."""
        if not self.run_status.lifecycle.terminal:
            self.run_status.seq += 1
        self.parts.hub.publish_snapshot(encode_snapshot(self.snapshot()))

    # --- state and signals -----------------------------------------------------------------------

    def _begin(self) -> None:
        if self.run_status.lifecycle.state == "INITIALIZE" and self.parts.aggregator.book.known:
            self.run_status.lifecycle.to("LIVE")

    def _take_signals(self) -> None:
        if self.parts.signals is None:
            return
        for number in self.parts.signals.take():
            _LOG.info("received %s", number.name)
            self.run_status.end(f"stopped by {number.name}", interrupted=True)

    def _drained(self) -> bool:
        return self.run_status.interrupted or self.feed.drained()

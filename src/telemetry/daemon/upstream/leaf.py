"""The leaf's side of a run on several nodes, for the service's thread: it passes each second on to the root."""

from __future__ import annotations

import logging
import os
import shlex
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from telemetry import limits
from telemetry.aggregator import StreamedRecord
from telemetry.aggregator.nodes.leaf_side import LeafFacts
from telemetry.common.formatting import number_of
from telemetry.daemon.components import DaemonParts
from telemetry.daemon.node_search import SearchChannel
from telemetry.daemon.numbers import Numbers
from telemetry.daemon.run_status import RunStatus
from telemetry.daemon.upstream.intervals import IntervalCollector, LeafInterval, OutboxWriter, joined
from telemetry.daemon.upstream.search import LeafSearch
from telemetry.daemon.upstream.uplink import Uplink
from telemetry.wire.control import Hello, Request
from telemetry.wire.history import Interval
from telemetry.wire.nodes import NodeAccount
from telemetry.wire.snapshot import RootStat, RootState

_LOG = logging.getLogger("telemetry.daemon")
_DISK_S: Final = 10.0  # for the disk, when the books are closed
_INTERRUPTED_S: Final = 1.0  # for the last account of an interrupted leaf
ROOT_ENDS: Final = "the root's run is ending"
_SILENT: Final = "the root at "
_ALONE: Final = "this run is not part of the root's run at "
_FULL: Final = "the root is behind: "
_DISK: Final = "can't write the outbox for the root: "


class Leaf:
    """The part of a leaf that other aggregators don't have. Its thread and its files are its own."""

    def __init__(
        self,
        parts: DaemonParts,
        run_status: RunStatus,
        collector: IntervalCollector,
        writer: OutboxWriter,
    ) -> None:
        upstream, options = parts.options.config.upstream, parts.options
        self.node = upstream.node or parts.host
        self._parts = parts
        self._run_status = run_status
        self._collector = collector
        self._writer = writer
        self.obstacle: Callable[[], str] = lambda: ""
        """Function that returns why the journal can't give exact percentiles."""
        self.channel: SearchChannel | None = None
        """Channel to the leaves below this one."""
        self.search = LeafSearch(options.run_id, self._send)
        self._finish_s = upstream.finish_timeout_s
        self._sealed = writer.outbox.closing
        """True if the outbox has the last account: the root gets nothing more."""
        self._unwritten: deque[LeafInterval] = deque()
        self._is_concluded = False
        self.uplink = Uplink(
            upstream.address,
            Hello(producer=options.run_id, name=options.name, host=parts.host, pid=os.getpid(), node=self.node),
            writer.outbox,
            clock=parts.clock,
            linger_s=upstream.linger_s,
            on_other=self.search.take,
        )

    @property
    def _numbers(self) -> Numbers:
        return self._parts.numbers

    def start(self) -> None:
        """Connect to the root. A root that can't be reached yet is no error."""
        self.uplink.start()

    def _send(self, request: Request) -> None:
        self.uplink.send(request)

    # --- each second -----------------------------------------------------------------------------

    def streamed(self, records: Sequence[StreamedRecord]) -> None:
        """Take records of the record stream."""
        if not self._sealed:
            self._collector.add(records)

    def rolled(self, interval: Interval, roll: int) -> None:
        """Send an interval that has just ended, once it is on the disk."""
        if self._sealed:
            self._collector.skip(self._numbers)
        else:
            self._submit(self._collector.end(self._numbers, interval, roll, self._account(roll)))

    def tick(self) -> None:
        """End the run with that of the root, and keep the warnings up to date."""
        status, uplink, writer = self._run_status, self.uplink, self._writer
        if self._is_concluded:
            return
        if uplink.root_ends and not status.ending:
            status.end(ROOT_ENDS)
        self._tell_root()
        if writer.outbox.full and not uplink.refused:
            added_up = number_of(writer.added_up, "interval")
            status.warn_anew(_FULL, f"{_FULL}the newest intervals of this node wait as one ({added_up})")
        else:
            status.take_back(_FULL)
        if writer.failed:
            status.warn_anew(_DISK, f"{_DISK}{writer.failed}")
        else:
            status.take_back(_DISK)

    def _tell_root(self) -> None:
        """Tell what is known of the root, and warn about one that refuses this leaf or does not answer."""
        status, uplink = self._run_status, self.uplink
        state: RootState = "connected" if uplink.welcomed else "waiting"
        reason = ""
        if uplink.refused:
            state, reason = "refused", self._alone()
        elif uplink.silence:
            state = "silent" if uplink.welcomed else "waiting"
            reason = f"{_SILENT}{uplink.address} {uplink.silence}; this node keeps its numbers for it"
        for beginning in (_SILENT, _ALONE):
            if reason.startswith(beginning):
                status.warn_anew(beginning, reason)
            else:
                status.take_back(beginning)
        self._set_root(state, reason)

    def _set_root(self, state: RootState, reason: str) -> None:
        root = RootStat(address=self.uplink.address, node=self.node, state=state, reason=reason)
        self._run_status.root = root
        self._run_status.on_root(root)

    def _submit(self, interval: LeafInterval, done: Callable[[], object] = lambda: None) -> None:
        if len(self._unwritten) >= limits.UPSTREAM_UNWRITTEN:
            interval = joined(self._unwritten.pop(), interval)
        self._unwritten.append(interval)

        def write() -> None:
            try:
                self._write()
            finally:
                done()

        if not self._parts.worker.submit(write):
            _LOG.warning("the disk is too slow: an interval waits for the outbox")

    def _write(self) -> None:
        """Write what waits, then let it be sent once the journal is on the disk. On the worker thread."""
        while self._unwritten:
            self._writer.take(self._unwritten.popleft())
        journal = self._parts.journal
        if journal is not None and not journal.failed:
            journal.sync()
        self._writer.release()

    def _account(self, roll: int, *, final: bool = False) -> NodeAccount:
        status = self._run_status
        facts = LeafFacts(
            final=final,
            interrupted=status.interrupted,
            unaccounted=status.unaccounted or status.lost_power,
            reason=status.reason,
            hindrance=self.obstacle()[: limits.TEXT_CHARS],
            clock_error_ns=self.uplink.clock_error_ns,
            endpoint=self._parts.hub.address,
            directory=status.directory,
            warnings=status.warnings,
        )
        return self._parts.aggregator.node_account(roll, facts)

    # --- the end ---------------------------------------------------------------------------------

    def drain_until_ns(self, own_ns: int) -> int:
        """Return the deadline for producers and texts: `own_ns`, or an earlier one if the root's run ends."""
        of_root = self.uplink.drain_until_ns
        return own_ns if of_root is None or not self.uplink.present else min(own_ns, of_root)

    def close(self) -> None:
        """Send the last account. Blocks until it is on the disk, for at most ten seconds."""
        timeout_s = _INTERRUPTED_S if self._run_status.interrupted else self._finish_s
        if not self._sealed:
            self._sealed = True
            account = self._account(max(0, self._numbers.run.rolls - 1), final=True)
            on_disk = threading.Event()
            self._submit(self._collector.close(self._numbers, account), on_disk.set)
            on_disk.wait(_DISK_S)
        self.search.open(
            self._parts.aggregator,
            self._parts.directory.journal,
            hindrance=self.obstacle(),
            valueless=self._numbers.run.valueless_segments,
            channel=self.channel,
            now_ns=self._parts.clock.monotonic_ns,
        )
        self.uplink.finish(timeout_s)

    @property
    def settled(self) -> bool:
        """True if the root has confirmed the end, or never will."""
        return self.uplink.settled

    @property
    def needed(self) -> bool:
        """True while the root may ask for values."""
        return self.uplink.delivered and not self.uplink.over

    def conclude(self) -> None:
        """Add to the warnings what the root did not get."""
        uplink, writer, status = self.uplink, self._writer, self._run_status
        self._is_concluded = True
        for beginning in (_SILENT, _ALONE, _DISK, _FULL):
            status.take_back(beginning)
        if writer.dropped:
            records = number_of(writer.dropped, "record")
            status.warn([f"the root was behind: it did not get {records} of this node"])
        reason = self._lack()
        if reason:
            status.warn([reason])
        self._set_root("refused" if uplink.refused else "undelivered" if reason else "delivered", reason)

    def _lack(self) -> str:
        """Return why the root does not have all of this node at its end; empty if it has."""
        uplink, writer = self.uplink, self._writer
        if uplink.refused:
            return self._alone()
        if unwritten := writer.added_up + len(self._unwritten):
            why = f"{_DISK}{writer.failed}" if writer.failed else "the disk is too slow"
            lack = f"has not taken the last {number_of(unwritten, 'interval')} of this node: {why}"
        elif uplink.delivered:
            return ""
        elif not uplink.welcomed:
            lack = f"never got node {self.node}: {uplink.undelivered or 'it has not answered in time'}"
        else:
            left = number_of(len(writer.outbox), "batch", "batches")
            lack = f"has not taken {left} of this node: {uplink.undelivered or 'there was no time left'}"
        merge = f"`telemetry merge {shlex.quote(self._run_status.directory)} …` adds the runs of nodes up"
        return f"{_SILENT}{uplink.address} {lack}. {merge}"

    def stop(self) -> None:
        """End the connection and close the files."""
        self.search.close()
        self.uplink.stop()
        self._writer.outbox.close()

    def _alone(self) -> str:
        return f"{_ALONE}{self.uplink.address}: {self.uplink.refused}"

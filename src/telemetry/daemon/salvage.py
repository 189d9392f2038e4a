"""Salvage: the events of a killed producer, read from its ring and taken in as if it had sent them.

The lock of a ring tells whether its process lives, in any pid namespace. A salvage may be repeated, by this
aggregator or the next one: batches that were taken in before are known by their numbers. A file is removed once its
events are in the journal.

A producer that was killed before its hello arrived is introduced by the hello beside its ring.
"""

from __future__ import annotations

import logging
import os
from typing import Final

from telemetry.aggregator.producers.producer import Producer
from telemetry.common.clock import SYSTEM_CLOCK
from telemetry.common.formatting import number_of
from telemetry.daemon.components import DaemonParts
from telemetry.daemon.ingest import Ingest
from telemetry.daemon.process_watch import alive
from telemetry.daemon.run_status import RunStatus
from telemetry.daemon.write_ahead import WriteAheadLog
from telemetry.store.ring_file import RingFile, RingGone, RingInUse, RingUnreadable, open_ring, read_introduction
from telemetry.transport.endpoints import ipc_path, leads_to
from telemetry.transport.ring_directory import list_rings, namespaces
from telemetry.wire.control import CannotResend, Hello
from telemetry.wire.rings import RING_SUFFIX, Introduction
from telemetry.wire.version import may_talk

_LOG = logging.getLogger("telemetry.daemon")
_SILENT_NS: Final = 2_000_000_000  # a live producer pings more often


class Salvage:
    """Salvage of the producers of one live run. For the service's thread only."""

    def __init__(self, parts: DaemonParts, log: WriteAheadLog, ingest: Ingest, run_status: RunStatus) -> None:
        self._parts = parts
        self._log = log
        self._ingest = ingest
        self._run_status = run_status
        self._unknown = UnknownRings(parts)
        self._unreadable: set[str] = set()

    def is_dead(self, producer: Producer) -> bool:
        """Return whether a producer of this host has ended, with an `end` or without."""
        if producer.host != self._parts.host or producer.pid <= 0 or producer.pid == os.getpid():
            return False
        if self._has_ring(producer):
            try:
                with open_ring(producer.ring, producer.key):
                    return True
            except RingInUse:
                return False
            except RingUnreadable:
                pass
        return not alive(producer.pid)

    def silent_ones(self, now_ns: int) -> None:
        """Salvage the producers that died some seconds ago, while the run goes on."""
        self._introduce_unknown()
        for producer in self._unended():
            if now_ns - producer.last_seen_ns > _SILENT_NS:
                self.salvage(producer)

    def all_dead(self) -> None:
        """Salvage all producers that are dead, before the books close."""
        self._introduce_unknown()
        for producer in self._unended():
            self.salvage(producer)

    def salvage(self, producer: Producer) -> None:
        """Take in what a producer committed and did not send, if its process has ended and its ring can be read."""
        if not self._has_ring(producer) or producer.key in self._unreadable:
            return
        try:
            with open_ring(producer.ring, producer.key) as ring:
                self._take(ring, producer)
        except RingInUse:
            return
        except RingGone:
            self._unreadable.add(producer.key)
        except RingUnreadable as why:
            self._give_up(producer, str(why))
        except Exception as error:  # noqa: BLE001 – one damaged file must not end the run; told as a warning
            _LOG.exception("the ring of %s could not be read", producer.key)
            self._give_up(producer, repr(error))

    def remove_files(self) -> None:
        """Remove the rings of all producers that are dead. Their events are in the result or can't be read."""
        for producer in self._parts.aggregator.book:
            if self._has_ring(producer):
                try:
                    with open_ring(producer.ring, producer.key) as ring:
                        ring.remove()
                except (RingInUse, RingUnreadable):
                    continue

    def _introduce_unknown(self) -> None:
        """Introduce and salvage the dead producers of this run whose hello has not arrived."""
        try:
            hellos = self._unknown.take_dead()
        except Exception:  # noqa: BLE001 – files of any program must not end the run
            _LOG.exception("rings of unknown producers could not be read")
            return
        for hello in hellos:
            refusal = self._log.hello(hello)
            if refusal:
                whose = f"{hello.name or hello.producer} (process {hello.pid})"
                self._run_status.warn([f"the events of {whose}, which was killed, are lost: {refusal}"])
            else:
                self.salvage(self._parts.aggregator.book[hello.producer])

    def _unended(self) -> list[Producer]:
        producers = self._parts.aggregator.book
        return [producer for producer in producers if producer.greeted and not producer.reconciled]

    def _has_ring(self, producer: Producer) -> bool:
        """Return whether a producer has a ring that may be opened. A path of another host means nothing here."""
        is_here = producer.host == self._parts.host and producer.pid != os.getpid()
        return bool(producer.ring) and is_here and producer.node is None

    def _take(self, ring: RingFile, producer: Producer) -> None:
        from telemetry.daemon.salvaged_batches import RebuiltBatches  # loads the client, which few runs need

        rebuilt = RebuiltBatches(ring, producer)
        if rebuilt.contradicts:
            raise RingUnreadable("batches arrived that it has no trace of")
        before = producer.salvaged
        self._log.salvaging(producer.key)
        for frame in rebuilt.frames():
            self._ingest.take([frame])
        for first, last in producer.sequence.gaps:
            self._log.cannot_resend(CannotResend(producer=producer.key, first=first, last=last))
        if producer.end is None:
            self._log.end(rebuilt.end())
        events = number_of(producer.salvaged - before, "event")
        _LOG.info("%s (process %d) was killed; %s read from its ring", producer.key, producer.pid, events)
        ring.remove()

    def _give_up(self, producer: Producer, reason: str) -> None:
        self._unreadable.add(producer.key)
        whose = producer.name or producer.key
        self._run_status.warn([f"can't read the last events of {whose} (process {producer.pid}): {reason}"])


class UnknownRings:
    """A search for the rings of producers that this run does not know.

    A producer belongs to the run if it introduced itself to the address of this aggregator while it listened there.
    An address may have been that of an earlier run.
    """

    def __init__(self, parts: DaemonParts) -> None:
        self._parts = parts
        self._namespaces = namespaces(parts.hub.address)
        self._since_ns = _listens_since(parts)
        self._passed: set[str] = set()
        """Rings that need no second look: those of other runs, and those that were found."""

    def take_dead(self) -> list[Hello]:
        """Return the hellos of producers of this run that have ended, each once."""
        paths = list_rings()
        self._passed &= paths
        producers = set(self._parts.aggregator.book.known)
        unknown = [path for path in paths - self._passed if _producer_of(path) not in producers]
        return [hello for path in sorted(unknown) if (hello := self._look_at(path)) is not None]

    def _look_at(self, path: str) -> Hello | None:
        """Return the hello of a dead producer of this run. A living one is looked at again later."""
        if not _has_content(path):
            return None
        try:
            introduction = read_introduction(path)
        except OSError:  # no descriptor is free, or another process removes the file: look again
            return None
        if introduction is None or not self._is_ours(introduction, path):
            self._passed.add(path)
            return None
        try:
            with open_ring(path, introduction.hello.producer):
                pass
        except RingInUse:
            return None
        except RingGone:
            self._passed.add(path)
            return None
        except RingUnreadable:
            pass  # its salvage tells why
        self._passed.add(path)
        return introduction.hello

    def _is_ours(self, introduction: Introduction, path: str) -> bool:
        """Return whether a producer meant this run. Return False in doubt."""
        hello, parts = introduction.hello, self._parts
        return (
            hello.producer == _producer_of(path)
            and hello.ring == path
            and hello.host == parts.host
            and hello.pid != os.getpid()
            and not hello.node
            and may_talk(hello.version)
            and hello.mono_ns >= self._since_ns
            and bool(self._namespaces)
            and introduction.namespaces == self._namespaces
            and leads_to(introduction.endpoint, parts.hub.address)
            and parts.aggregator.book.ended(hello.producer) is None
        )


def _listens_since(parts: DaemonParts) -> int:
    """Return since when this address has been that of the run, on the monotonic clock of the system.

    An aggregator that goes on after another can't know who listened in between, except at the run's own address.
    """
    path, run = ipc_path(parts.hub.address), parts.numbers.run
    is_own = path is not None and path.parent.name == run.run_id
    is_same_clock = parts.clock is SYSTEM_CLOCK  # not after the machine was started again
    is_since_start = is_same_clock and (is_own or parts.options.resume is None)
    return run.started_mono_ns if is_since_start else SYSTEM_CLOCK.monotonic_ns()


def _producer_of(path: str) -> str:
    return os.path.basename(path).removesuffix(RING_SUFFIX)


def _has_content(path: str) -> bool:
    """Return False while the file is empty: its process may not have locked it yet."""
    try:
        return os.lstat(path).st_size > 0
    except OSError:
        return False

"""Producers that were killed before their hello arrived: found by the rings that they left."""

from __future__ import annotations

import os

from telemetry.clock import SYSTEM_CLOCK
from telemetry.daemon.components import Parts
from telemetry.store.ring_definitions import read_introduction
from telemetry.store.ring_file import RingGone, RingInUse, RingUnreadable, open_ring
from telemetry.transport.endpoints import ipc_path, leads_to
from telemetry.transport.ring_directory import list_rings, namespaces
from telemetry.wire.control import Hello
from telemetry.wire.rings import RING_SUFFIX, Introduction
from telemetry.wire.version import may_talk


class UnknownRings:
    """A search for the rings of producers that this run does not know.

    A producer belongs to the run if it introduced itself to the address of this aggregator while it listened there.
    An address may have been that of an earlier run.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._namespaces = namespaces(parts.hub.address)
        self._since_ns = _listens_since(parts)
        self._passed: set[str] = set()
        """Rings that need no second look: those of other runs, and those that were found."""

    def take_dead(self) -> list[Hello]:
        """Return the hellos of producers of this run that have ended, each once."""
        paths = list_rings()
        self._passed &= paths
        known = set(self._parts.aggregator.producers())
        unknown = [path for path in paths - self._passed if _producer_of(path) not in known]
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
            and parts.aggregator.ended(hello.producer) is None
        )


def _listens_since(parts: Parts) -> int:
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

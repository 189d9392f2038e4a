"""The parts of a new producer: its outbox, its sockets, the way of rows into its buffer, and spare descriptors."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from telemetry.client.catalog import Catalog
from telemetry.client.recorders import Recorders, blocking_extend
from telemetry.client.redaction import REDACTION
from telemetry.client.sending.flusher import Flusher
from telemetry.client.sending.masking import RecordMasker, labels_of
from telemetry.client.sending.outbox import Outbox
from telemetry.common.clock import SYSTEM_CLOCK, Clock
from telemetry.errors import NoRoomError
from telemetry.redaction import COUNTER, COUNTER_UNIT
from telemetry.transport.producer import ProducerLink
from telemetry.wire.drop_reasons import Reason

if TYPE_CHECKING:
    from telemetry.config.schema import EmitConfig


def make_outbox(
    producer: str, config: EmitConfig, recorders: Recorders, catalog: Catalog, clock: Clock = SYSTEM_CLOCK
) -> Outbox:
    """Return an outbox for what the recorders and the catalog of the process hold."""

    def masked_row_id(rule: str) -> float:
        """Return the row id of the counter of values that a rule has masked."""
        return catalog.row_id("counter", COUNTER, COUNTER_UNIT, labels_of(rule), within="")

    return Outbox(
        producer,
        recorders.buffer,
        catalog.definitions,
        masker=RecordMasker(REDACTION, masked_row_id),
        tallies={
            Reason.BUFFER_FULL: recorders.buffer_full,
            Reason.NOT_A_NUMBER: recorders.refused,
            Reason.BLOCK_TIMEOUT: recorders.timed_out,
            Reason.UNENCODABLE: recorders.unencodable,
        },
        row_bound=row_bound(config),
        clock=clock,
    )


def row_bound(config: EmitConfig) -> int | None:
    """Return the number of rows beyond which an outbox drops them. None if callers wait for room instead."""
    return None if config.policy == "block" else config.buffer_events


def connect(endpoint: str, producer: str, descriptors: DescriptorReserve) -> ProducerLink:
    """Return the sockets of a producer. Raise NoRoomError if the process can't open enough file descriptors."""
    if not descriptors.has_room():
        raise NoRoomError(
            f"can't reach {endpoint}: this process has too many open files",
            hint="raise the limit with `ulimit -n`",
        )
    link = ProducerLink(endpoint, producer)
    descriptors.hold()
    return link


def record_into(recorders: Recorders, flusher: Flusher, config: EmitConfig) -> None:
    """Let all recorders put their rows into the buffer, from which the flusher takes them."""
    buffer, outbox = recorders.buffer, flusher.outbox
    buffer.hold(config.buffer_events)
    if config.policy != "block":
        recorders.install(buffer.extend)
        return
    recorders.install_waiting(
        blocking_extend(
            buffer,
            config.buffer_events,
            config.block_timeout_s,
            wake=flusher.wake,
            progress=lambda: outbox.next_seq,
            timed_out=recorders.timed_out.hit_many,
        )
    )


_NEEDED: Final = 16
"""A ZeroMQ context with two connected sockets takes 8 descriptors. libzmq aborts the process if it has too few."""


class DescriptorReserve:
    """A reserve of null device descriptors. Not thread-safe: callers hold the lock of the process."""

    def __init__(self) -> None:
        self._held: list[int] = []

    def hold(self) -> None:
        """Open the reserve, unless the process would have too few descriptors left."""
        if not self._held and _can_open(3 * _NEEDED):
            self._held = [os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC) for _ in range(_NEEDED)]

    def release(self) -> None:
        """Close the reserve and free its descriptors."""
        held, self._held = self._held, []
        for descriptor in held:
            os.close(descriptor)

    def has_room(self) -> bool:
        """Check that the process can open the descriptors that sockets need.

        Closes the reserve if that is necessary.
        """
        if _can_open(_NEEDED):
            return True
        self.release()
        return _can_open(_NEEDED)


def _can_open(count: int) -> bool:
    opened: list[int] = []
    try:
        for _ in range(count):
            opened.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    except OSError:
        return False
    finally:
        for descriptor in opened:
            os.close(descriptor)
    return True

"""The parts of a new producer, without its thread."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from telemetry.client.catalog import Catalog
from telemetry.client.native_recorders import build_recorders
from telemetry.client.producer_parts import DescriptorReserve, connect, make_outbox, record_into, row_bound
from telemetry.client.recorders import Recorders
from telemetry.client.sending.flusher import Flusher
from telemetry.config import EmitConfig
from telemetry.errors import NoRoomError
from telemetry.wire.codec import decode_batch

DROP = EmitConfig(buffer_events=1_000)
BLOCK = EmitConfig(buffer_events=1_000, policy="block", block_timeout_s=0.01)


@pytest.fixture
def recorders() -> Recorders:
    return build_recorders()


@pytest.fixture
def catalog(recorders: Recorders) -> Catalog:
    return Catalog(recorders, recorders.unencodable)


class Sender:
    """The part of a flusher that waiting callers see."""

    def __init__(self) -> None:
        self.woken = 0
        self.outbox = SimpleNamespace(next_seq=0)

    def wake(self) -> None:
        self.woken += 1


def fill(recorders: Recorders, count: int) -> None:
    record = recorders.record(0.0)
    for value in range(count):
        record(value)


def test_an_outbox_sends_what_the_process_has(recorders: Recorders, catalog: Catalog) -> None:
    """Definitions of instruments, their rows, and the number of values that were none."""
    made: Any = catalog.instrument("series", "s", "ms")
    outbox = make_outbox("p1", DROP, recorders, catalog)
    record_into(recorders, cast(Flusher, Sender()), DROP)
    made.record(2.0)
    made.record("two")
    recorders.unencodable.hit()
    outbox.settle()
    packed = outbox.pack()
    assert packed is not None
    batch = decode_batch(packed.frame)
    assert (batch.producer, batch.rows.events, len(batch.records)) == ("p1", 1, 1)
    assert outbox.dropped == {"not_a_number": 1, "unencodable": 1}


@pytest.mark.parametrize(("config", "bound"), [(DROP, 1_000), (BLOCK, None)], ids=["drop", "block"])
def test_an_outbox_drops_rows_only_if_no_caller_waits(
    recorders: Recorders, catalog: Catalog, config: EmitConfig, bound: int | None
) -> None:
    """The outbox has no bound of rows with policy block, since the callers keep the bound there."""
    assert row_bound(config) == bound
    assert make_outbox("p1", config, recorders, catalog).row_bound == bound


def test_callers_wait_with_policy_block_alone(recorders: Recorders) -> None:
    """Callers that wait first wake the sender. After the timeout the event is dropped and counted."""
    sender = Sender()
    record_into(recorders, cast(Flusher, sender), BLOCK)
    fill(recorders, 1_001)
    assert (recorders.buffer.waiting, recorders.timed_out.total, sender.woken) == (1_000, 1, 1)
    record_into(recorders, cast(Flusher, sender), DROP)
    fill(recorders, 1)
    assert (recorders.timed_out.total, sender.woken) == (1, 1)


def test_without_descriptors_there_are_no_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    """libzmq would abort the process without descriptors, so no socket is made. The error names the remedy."""
    reserve = DescriptorReserve()
    monkeypatch.setattr(reserve, "has_room", lambda: False)
    with pytest.raises(NoRoomError, match="too many open files") as raised:
        connect("ipc:///nowhere", "p1", reserve)
    assert raised.value.hint == "raise the limit with `ulimit -n`"


def test_sockets_come_with_a_reserve_for_a_child(tmp_path: Any) -> None:
    """A forked child gives it up for sockets of its own."""
    reserve = DescriptorReserve()
    link = connect(f"ipc://{tmp_path}/c", "p1", reserve)
    try:
        assert len(reserve._held) > 0
    finally:
        link.close(0.0)
        reserve.release()

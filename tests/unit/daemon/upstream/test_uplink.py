"""The connection of a leaf to its root, over real sockets: what it sends, how it ends, and when it gives up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from telemetry.common.clock import SYSTEM_CLOCK
from telemetry.daemon.upstream.uplink import Uplink
from telemetry.store.outbox import DiskOutbox, StoredBatch
from telemetry.testing import builders
from telemetry.testing.aggregator import FakeAggregator
from telemetry.wire.control import GetStatus, Hello, Response, Status
from telemetry.wire.events import Mark

DEADLINE_S = 30.0
WaitUntil = Callable[..., Any]
Connect = Callable[..., Uplink]


@pytest.fixture
def outbox(short_dir: Path) -> Iterator[DiskOutbox]:
    made = DiskOutbox(short_dir / "upstream")
    yield made
    made.close()


@pytest.fixture
def root(short_dir: Path) -> Iterator[FakeAggregator]:
    with FakeAggregator(short_dir) as made:
        yield made


@pytest.fixture
def connect(outbox: DiskOutbox) -> Iterator[Connect]:
    """`connect(address)` starts an uplink, which is stopped at the end of the test."""
    made: list[Uplink] = []

    def start(
        address: str, producer: str = "leaf", is_below: Callable[[str], bool] | None = None, **options: Any
    ) -> Uplink:
        hello = Hello(producer=producer, name="job", node="a")
        made.append(Uplink(address, hello, outbox, clock=SYSTEM_CLOCK, **options))
        made[-1].is_below = is_below or made[-1].is_below
        made[-1].start()
        return made[-1]

    yield start
    for uplink in made:
        uplink.stop()


def fill(outbox: DiskOutbox, count: int) -> None:
    """Append intervals of one batch with one mark each, and release them."""
    for seq in range(outbox.next_seq, outbox.next_seq + count):
        frame = builders.frame("leaf", seq, seq, records=[Mark(f"m{seq}")])
        outbox.append([StoredBatch(seq, seq, seq, 1, frame)], {})
    outbox.released = outbox.next_seq


def received(root: FakeAggregator) -> list[str]:
    heard = root.heard.get("leaf")
    return [record.text for record in heard.records if isinstance(record, Mark)] if heard else []


def test_what_is_released_is_sent_once_and_forgotten(
    root: FakeAggregator, outbox: DiskOutbox, connect: Connect, wait_until: WaitUntil
) -> None:
    """Batches that are released while the uplink runs are sent, too. Acknowledged batches leave the outbox."""
    fill(outbox, 3)
    uplink = connect(root.endpoint)
    wait_until(lambda: len(received(root)) == 3, DEADLINE_S)
    fill(outbox, 2)
    wait_until(lambda: received(root) == [f"m{seq}" for seq in range(5)], DEADLINE_S)
    wait_until(lambda: len(outbox) == 0, DEADLINE_S)
    assert uplink.present
    assert root.heard["leaf"].hello is not None
    assert root.heard["leaf"].hello.node == "a"


@pytest.mark.slow
def test_the_end_follows_the_last_acknowledgement(
    root: FakeAggregator, outbox: DiskOutbox, connect: Connect, wait_until: WaitUntil
) -> None:
    """The totals of the end are those of the outbox. Then the leaf stays until the root is gone."""
    fill(outbox, 3)
    uplink = connect(root.endpoint)
    uplink.finish(DEADLINE_S)
    wait_until(lambda: uplink.delivered, DEADLINE_S)
    end = root.heard["leaf"].end
    assert end is not None
    assert (end.batches, end.emitted, end.unfinished) == (3, 3, False)
    assert not uplink.over
    root.state = "COMPLETE"
    wait_until(lambda: not uplink.present, DEADLINE_S)
    root.stop()
    wait_until(lambda: uplink.over, DEADLINE_S)
    assert uplink.undelivered == ""


def test_it_leaves_after_a_while_even_if_the_root_goes_on(
    root: FakeAggregator, outbox: DiskOutbox, connect: Connect, wait_until: WaitUntil
) -> None:
    """`linger_s` bounds the wait for questions."""
    uplink = connect(root.endpoint, linger_s=0.1)
    uplink.finish(DEADLINE_S)
    wait_until(lambda: uplink.over, DEADLINE_S)
    assert uplink.delivered


@pytest.mark.slow
def test_a_root_that_never_answers_is_given_up(short_dir: Path, outbox: DiskOutbox, connect: Connect) -> None:
    """A silent root is given up after the time to finish, with the reason."""
    fill(outbox, 1)
    uplink = connect(f"ipc://{short_dir}/nobody")
    uplink.finish(0.2)
    uplink._over.wait(DEADLINE_S)
    assert (uplink.over, uplink.delivered) == (True, False)
    assert uplink.undelivered.startswith("it never answered: no process listens there")
    assert len(outbox) == 1


@pytest.mark.slow
def test_a_root_that_takes_nothing_is_told_the_end_all_the_same(
    root: FakeAggregator, outbox: DiskOutbox, connect: Connect, wait_until: WaitUntil
) -> None:
    """A root that takes nothing gets the end, so that it knows how much is missing."""
    root.reading = root.acknowledging = False
    fill(outbox, 2)
    uplink = connect(root.endpoint)
    wait_until(lambda: uplink.welcomed, DEADLINE_S)
    uplink.finish(0.3)
    wait_until(lambda: uplink.over, DEADLINE_S)
    assert (uplink.delivered, uplink.undelivered) == (False, "it is too slow")
    assert [request.batches for request in root.requests if hasattr(request, "batches")][:1] == [2]


def test_the_end_of_the_roots_run_is_noticed(root: FakeAggregator, connect: Connect, wait_until: WaitUntil) -> None:
    """The answer to a ping shows the end of the root's run at the latest."""
    uplink = connect(root.endpoint)
    wait_until(lambda: uplink.present, DEADLINE_S)
    assert not uplink.root_ends
    root.state = "DRAINING"
    wait_until(lambda: uplink.root_ends, DEADLINE_S)
    assert uplink.present
    assert uplink.drain_until_ns is None, "this root does not tell how long it waits"


def test_requests_of_other_threads_are_sent_and_answered(
    root: FakeAggregator, outbox: DiskOutbox, connect: Connect, wait_until: WaitUntil
) -> None:
    """Answers that are not for a producer come to the callback."""
    answers: list[Response] = []
    uplink = connect(root.endpoint, on_other=answers.append)
    uplink.send(GetStatus(id=70))
    wait_until(lambda: answers, DEADLINE_S)
    assert isinstance(answers[0], Status)
    assert answers[0].id == 70


def test_another_run_at_the_same_address_is_not_the_root(
    root: FakeAggregator, outbox: DiskOutbox, connect: Connect, wait_until: WaitUntil
) -> None:
    """Another run would lack the first root's numbers. The leaf stays alone, also after a restart."""
    outbox.root = "first"
    uplink = connect(root.endpoint)
    wait_until(lambda: uplink.over, DEADLINE_S)
    assert uplink.refused.endswith("is now the address of run fake; this leaf belongs to first")
    assert DiskOutbox(outbox.directory).root == "first"


def test_a_leaf_is_not_its_own_root(root: FakeAggregator, outbox: DiskOutbox, wait_until: WaitUntil) -> None:
    """An address that leads back to the leaf is noticed, whatever it looks like."""
    uplink = Uplink(root.endpoint, Hello(producer="fake", node="a"), outbox, clock=SYSTEM_CLOCK)
    uplink.start()
    wait_until(lambda: uplink.over, DEADLINE_S)
    assert "is the address of this leaf" in uplink.refused


def test_a_leaf_that_lost_its_outbox_is_not_continued(
    root: FakeAggregator, outbox: DiskOutbox, connect: Connect, short_dir: Path, wait_until: WaitUntil
) -> None:
    """New batches would have the numbers of old ones, and the root would drop them as duplicates."""
    fill(outbox, 3)
    first = connect(root.endpoint)
    wait_until(lambda: len(outbox) == 0, DEADLINE_S)
    first.stop()
    empty = DiskOutbox(short_dir / "empty")
    fill(empty, 1)
    second = Uplink(root.endpoint, Hello(producer="leaf", node="a"), empty, clock=SYSTEM_CLOCK)
    second.start()
    wait_until(lambda: second.over, DEADLINE_S)
    empty.close()
    assert "does not have any more" in second.refused
    assert received(root) == ["m0", "m1", "m2"]


@pytest.mark.slow
def test_an_end_that_a_closed_root_confirms_delivers_nothing(
    root: FakeAggregator, outbox: DiskOutbox, connect: Connect, wait_until: WaitUntil
) -> None:
    """Batches that come after the root closed its books count as undelivered."""
    root.reading = root.acknowledging = False
    fill(outbox, 2)
    uplink = connect(root.endpoint)
    wait_until(lambda: uplink.welcomed, DEADLINE_S)
    root.state = "INTERRUPTED"
    uplink.finish(DEADLINE_S)
    wait_until(lambda: uplink.undelivered, DEADLINE_S)
    root.reading = True  # the fake root answers the end once it has read the batches
    wait_until(lambda: uplink.over, DEADLINE_S)
    assert (uplink.delivered, uplink.undelivered) == (False, "its run is over")


@pytest.mark.parametrize(
    "why", ["is now the address of run fake", "a node of this run", "the address of this leaf"]
)
def test_a_run_that_can_not_be_the_root_never_hears_of_this_leaf(
    root: FakeAggregator, outbox: DiskOutbox, connect: Connect, wait_until: WaitUntil, why: str
) -> None:
    """Otherwise its result would wait for a node that is not its own."""
    producer = "leaf"
    if "now" in why:
        outbox.root = "another"
    elif "this leaf" in why:
        producer = "fake"
    uplink = connect(root.endpoint, producer=producer, is_below=lambda run_id: "node" in why and run_id == "fake")
    wait_until(lambda: uplink.over, DEADLINE_S)
    assert why in uplink.refused
    assert not root.heard

"""A root and its leaves: what is written down, what is asked, and how the run ends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.hand_made_leaf import SECOND, HandMadeLeaf, member

from telemetry import limits
from telemetry.aggregator import Aggregator, AggregatorConfig
from telemetry.daemon.exact_percentiles import obstacle
from telemetry.daemon.numbers import Numbers
from telemetry.daemon.recovery.rebuild import Fold
from telemetry.daemon.write_ahead import WriteAheadLog
from telemetry.store.journal import NOTE, JournalReader, JournalWriter
from telemetry.testing import FakeClock
from telemetry.wire import control as msg
from telemetry.wire.codec import decode_note
from telemetry.wire.control import ExpectNodes, Hello
from telemetry.wire.events import Sample
from telemetry.wire.journal import RunState


class Root:
    """The numbers of a root with a journal."""

    def __init__(self, folder: Path, segment_bytes: int = limits.JOURNAL_SEGMENT_BYTES) -> None:
        self.folder = folder
        self.clock = FakeClock()
        now_ns, wall_ns = self.clock.monotonic_ns(), self.clock.wall_ns()
        run = RunState(
            run_id="r",
            name="job",
            started_ns=wall_ns,
            started_mono_ns=now_ns,
            rolled_wall_ns=wall_ns,
            rolled_mono_ns=now_ns,
        )
        self.numbers = Numbers(Aggregator(AggregatorConfig()), run)
        self.journal = JournalWriter(folder, self.numbers.checkpoint(), now_ns, segment_bytes)
        self.log = WriteAheadLog(self.numbers, self.journal, self.clock, now_ns)

    def notes(self) -> list[Any]:
        return [decode_note(bytes(item.data)) for item in JournalReader(self.folder).frames() if item.kind == NOTE]

    def folded(self) -> Numbers:
        """The numbers that the journal gives."""
        fold = Fold(JournalReader(self.folder))
        for entry in fold.entries():
            fold.apply(entry)
        return fold.numbers


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root(tmp_path / "journal")


# --- what is written down ------------------------------------------------------------------------


def test_expected_nodes_are_in_the_journal_once(root: Root) -> None:
    """Expected nodes are repeated by each start of leaves, and a root that is restarted knows them."""
    for _ in range(3):
        assert root.log.expect_nodes(ExpectNodes(nodes=["a", "b"], count=2)) == ""
    assert root.log.expect_nodes(ExpectNodes(nodes=["a"])) == ""
    assert root.log.expect_nodes(ExpectNodes(nodes=["c"])) == ""
    assert root.notes() == [ExpectNodes(nodes=["a", "b"], count=2), ExpectNodes(nodes=["c"])]
    expected = root.folded().aggregator.expected_nodes
    assert (list(expected.names), expected.count) == (["a", "b", "c"], 2)


def test_too_many_nodes_are_refused(root: Root) -> None:
    """A list of nodes beyond the limit is refused as a whole."""
    names = [f"n{number}" for number in range(limits.NODES)]
    assert root.log.expect_nodes(ExpectNodes(nodes=names)) == ""
    assert root.log.expect_nodes(ExpectNodes(nodes=["one more"])) == "a run has at most 2,048 nodes"
    assert len(root.numbers.aggregator.expected_nodes.names) == limits.NODES


def test_a_leaf_may_be_restarted_often(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    """A restarted leaf sends hello as the same producer, each time with another process id."""
    leaf = HandMadeLeaf()
    assert [root.log.hello(leaf.hello(pid=pid)) for pid in range(1, 200)] == [""] * 199
    assert len(root.notes()) == 199
    monkeypatch.setattr(limits, "NODE_HELLOS", 200)
    assert root.log.hello(leaf.hello(pid=200)) == ""
    assert root.log.hello(leaf.hello(pid=201)) == "more than 200 different hellos of one producer"
    assert root.folded().aggregator.book["leaf1"].pid == 200


def test_a_hello_that_tells_the_clock_better_is_news(root: Root) -> None:
    """The first one may have waited for a root that was busy. The better offset survives a restart of the root."""
    leaf, sent_ns = HandMadeLeaf(), root.clock.monotonic_ns()
    root.clock.advance(3.0)
    root.log.hello(leaf.hello(mono_ns=sent_ns))
    root.log.hello(leaf.hello(mono_ns=root.clock.monotonic_ns() - 2 * SECOND))
    root.log.hello(leaf.hello(mono_ns=root.clock.monotonic_ns() - 2 * SECOND))
    assert len(root.notes()) == 2, "the third one says nothing new"
    node = root.folded().aggregator.book["leaf1"].node
    assert node is not None
    assert 2 * SECOND <= (node.offset_ns or 0) < 2.1 * SECOND


# --- old segments --------------------------------------------------------------------------------


def test_a_root_without_values_of_its_own_forgets_old_segments(tmp_path: Path) -> None:
    """The values are in the journals of its nodes. Their loss is no obstacle, also after a restart of the root."""
    root = Root(tmp_path / "journal", segment_bytes=4_000)
    leaf = HandMadeLeaf()
    root.log.hello(leaf.hello())
    for _ in range(250):
        root.log.turn([bytes(leaf.frame(*leaf.second(5, 7)))])
        root.log.renew([])
    assert root.journal.dropped_segments >= 3
    assert len(list((tmp_path / "journal").iterdir())) == 2
    assert obstacle(root.journal, root.numbers.run.valueless_segments) == ""
    folded = root.folded()
    assert folded.run.valueless_segments == root.numbers.run.valueless_segments > 3
    assert folded.aggregator.checkpoint() == root.numbers.aggregator.checkpoint()
    assert folded.aggregator.book.counted_events == 3_000


def test_values_of_direct_producers_keep_their_segments(tmp_path: Path) -> None:
    """Exact percentiles need them. What was forgotten before has none."""
    root = Root(tmp_path / "journal", segment_bytes=4_000)
    leaf = HandMadeLeaf()
    root.log.hello(leaf.hello())
    for number in range(200):
        root.log.turn([bytes(leaf.frame(*leaf.second(5, 7)))])
        if number == 100:
            direct = HandMadeLeaf(run_id="p")
            direct.batches = 1  # no definitions
            root.log.turn([bytes(direct.frame(Sample("latency", 3.0, 0, "ns")))])
            valueless, dropped = root.numbers.run.valueless_segments, root.journal.dropped_segments
        root.log.renew([])
    assert root.numbers.run.valueless_segments == valueless
    assert root.journal.dropped_segments == dropped < valueless
    assert obstacle(root.journal, valueless) == ""


def test_a_run_without_nodes_keeps_its_segments(tmp_path: Path) -> None:
    """The journal of a run without nodes can be replayed from the beginning."""
    root = Root(tmp_path / "journal", segment_bytes=4_000)
    direct = HandMadeLeaf(run_id="p")
    for _ in range(200):
        root.log.turn([bytes(direct.frame(*direct.second(5)))])
        root.log.renew([])
    assert (root.journal.dropped_segments, root.numbers.run.valueless_segments) == (0, 0)


# --- requests ------------------------------------------------------------------------------------


def joined(service: Any, connect: Any, leaf: HandMadeLeaf, **facts: Any) -> Any:
    """A leaf that said hello."""
    peer = connect(service, leaf.run_id, greet=False)
    assert isinstance(peer.ask(leaf.hello(**facts)), msg.Welcome)
    return peer


def send(peer: Any, leaf: HandMadeLeaf, *records: Any) -> None:
    peer.send_frame(leaf.frame(*records))


def test_expected_nodes_are_noted_after_they_are_written(make_service: Any, connect: Any) -> None:
    """The answer comes after the note is written, because its receiver may start a leaf."""
    service = make_service()
    peer = connect(service, "starter", greet=False)
    assert isinstance(peer.ask(ExpectNodes(id=5, nodes=["gpu-1"], count=2)), msg.Noted)
    frames = JournalReader(service.parts.directory.journal).frames()
    notes = [decode_note(bytes(item.data)) for item in frames if item.kind == NOTE]
    assert [note for note in notes if isinstance(note, ExpectNodes)] == [
        ExpectNodes(id=5, nodes=["gpu-1"], count=2)
    ]
    many = ExpectNodes(id=6, nodes=[f"n{number}" for number in range(limits.NODES)])
    answer = peer.ask(many)
    assert (answer.code, answer.message) == ("refused", "a run has at most 2,048 nodes")
    service.close_books()
    late = peer.ask(ExpectNodes(id=7, nodes=["gpu-2"]))
    assert (late.code, late.message) == ("refused", "the run is over")


def test_producers_of_a_node_are_listed_on_request(make_service: Any, connect: Any) -> None:
    """The producers of a node are in no snapshot, because there may be ten thousand."""
    service = make_service()
    leaf = HandMadeLeaf()
    peer = joined(service, connect, leaf)
    send(peer, leaf, *leaf.second(5), member("w", name="worker", rank=3))
    peer.applied(5)
    members = peer.ask(msg.GetMembers(id=5, node="gpu-1"))
    assert members.members == [msg.MemberFacts(producer="w", name="worker", rank=3)]
    unknown = peer.ask(msg.GetMembers(id=6, node="gpu-2"))
    assert (unknown.code, unknown.message) == (
        "refused",
        "this run has no node 'gpu-2'; `telemetry nodes` lists its nodes",
    )


# --- the end -------------------------------------------------------------------------------------


def test_the_run_ends_with_its_nodes(make_service: Any, connect: Any) -> None:
    """The run ends at once, and complete, when the last expected node has ended."""
    service = make_service({"run.orphan_grace_s": 0})
    leaves = [HandMadeLeaf("l1", "a"), HandMadeLeaf("l2", "b")]
    service.parts.aggregator.expected_nodes.expect(ExpectNodes(nodes=["a"], count=2))
    for leaf in leaves:
        assert not service.run_status.ending
        peer = joined(service, connect, leaf)
        send(peer, leaf, *leaf.last())
        peer.say(leaf.end())
        peer.until(lambda peer=peer: peer.all(msg.Ended))
    service.live()
    assert service.run_status.reason == "all nodes have ended"


def test_a_direct_producer_keeps_the_run_alive(make_service: Any, connect: Any) -> None:
    """The run waits for a direct producer, whose events would otherwise be cut off."""
    service = make_service({"run.orphan_grace_s": 0})
    leaf = HandMadeLeaf()
    service.parts.aggregator.expected_nodes.expect(ExpectNodes(count=1))
    driver = connect(service, "driver")
    peer = joined(service, connect, leaf)
    send(peer, leaf, *leaf.last())
    peer.say(leaf.end())
    peer.until(lambda: peer.all(msg.Ended))
    ticks = service.cost.ticks
    service.turns_until(lambda: service.cost.ticks > ticks + 5)
    assert not service.run_status.ending
    driver.end()
    service.live()
    assert service.run_status.reason == "all nodes have ended"


def test_without_expected_nodes_the_grace_decides(make_service: Any, connect: Any) -> None:
    """Another leaf may be about to connect."""
    service = make_service({"run.orphan_grace_s": 0.05})
    leaf = HandMadeLeaf()
    peer = joined(service, connect, leaf)
    send(peer, leaf, *leaf.last())
    peer.say(leaf.end())
    service.live()
    assert service.run_status.reason == "all producers have been gone for 0.05 s"


@pytest.mark.slow
def test_a_drain_waits_for_a_leaf_that_died(make_service: Any, connect: Any) -> None:
    """Somebody restarts it, unlike a producer: until the deadline it may come back and end."""
    service = make_service({"run.drain_timeout_s": 2.0})
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        gone.wait()
    leaf = HandMadeLeaf()
    joined(service, connect, leaf, pid=gone.pid, host=service.parts.host)
    connect(service, "worker", pid=gone.pid, host=service.parts.host)
    service.run_status.end("enough")
    turn, back = service.turn, []

    def turns_and_comes_back() -> None:
        turn()
        waited_ns = service.parts.clock.monotonic_ns() - service.feed._drain_began_ns
        if waited_ns > SECOND and not back:
            peer = joined_again(service, connect, leaf)
            back.append(peer)

    def joined_again(service: Any, connect: Any, leaf: HandMadeLeaf) -> Any:
        peer = connect(service, leaf.run_id, greet=False)
        peer.service.turn = turn
        assert isinstance(peer.ask(leaf.hello(pid=os.getpid(), host=service.parts.host)), msg.Welcome)
        peer.link.connect_events(service.parts.hub.endpoints.events)
        send(peer, leaf, *leaf.second(3), *leaf.last())
        peer.say(leaf.end())
        service.turn = turns_and_comes_back
        return peer

    service.turn = turns_and_comes_back
    service.drain()
    assert back, "the drain did not wait"
    assert service.parts.aggregator.book.waiting_for() == ["worker"]
    assert service.snapshot().nodes[0].completeness == "complete"


def test_a_hello_of_a_producer_says_nothing_about_nodes(root: Root) -> None:
    """Old and new producers leave the field empty."""
    root.log.hello(Hello(producer="p"))
    assert root.numbers.aggregator.book["p"].node is None
    assert root.numbers.aggregator.root.leaves() == {}

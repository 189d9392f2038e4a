"""Accounts of nodes in snapshots: what is complete, what is lost, and why, in words."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.hand_made_leaf import MONO_NS, SECOND, WALL_NS, HandMadeLeaf, member, relay

from telemetry.aggregator import Aggregator, AggregatorConfig, SnapshotFacts
from telemetry.aggregator.nodes.leaf_side import LeafFacts
from telemetry.testing import batch
from telemetry.wire.consistency import contradiction
from telemetry.wire.control import End, ExpectNodes, Hello, MemberFacts
from telemetry.wire.events import Axis, Count, Define, EventBatch, Mark, Params, Table
from telemetry.wire.snapshot import Accounting, MetricsSnapshot, NodeStat

NOW = 2 * MONO_NS
"""Monotonic clock of the root, which has nothing to do with those of the leaves."""


def root(**options: Any) -> Aggregator:
    return Aggregator(AggregatorConfig(**options))


def take(aggregator: Aggregator, *batches: EventBatch, now_ns: int = NOW) -> list[Any]:
    """Admit and apply batches as one turn."""
    new = [one for one in batches if aggregator.admit(one, now_ns)]
    return list(aggregator.apply(new, now_ns, WALL_NS + now_ns - NOW))


def snapshot(aggregator: Aggregator, state: str = "COMPLETE", now_ns: int = NOW) -> MetricsSnapshot:
    """A snapshot whose sums hold."""
    facts = SnapshotFacts(run_id="r", name="n", state=state)  # type: ignore[arg-type]
    made = aggregator.snapshot(facts, now_ns, WALL_NS + now_ns - NOW)
    assert contradiction(made) == ""
    return made


def met(*leaves: HandMadeLeaf, **options: Any) -> Aggregator:
    """A root that these leaves have connected to."""
    aggregator = root(**options)
    for leaf in leaves:
        assert aggregator.hello(leaf.hello(), NOW - 5 * SECOND, WALL_NS)
    return aggregator


def test_a_leaf_that_ended_well_is_a_complete_node() -> None:
    """A leaf that ended well is a complete node, and no producer of the run.

    The leaf's producers are in the account of the run.
    """
    leaf = HandMadeLeaf()
    aggregator = met(leaf)
    take(aggregator, leaf.batch(*leaf.second(5, 7)), leaf.batch(*leaf.last(reason="stopped on request")))
    aggregator.end(leaf.end(), NOW)
    made = snapshot(aggregator)
    (node,) = made.nodes
    assert (node.node, node.leaf, node.host, node.pid) == ("gpu-1", "leaf1", "host-1", 7)
    assert (node.status, node.completeness, node.reason) == ("ended", "complete", "stopped on request")
    assert node.account == Accounting(emitted=12, received=12, applied=12)
    assert made.accounting == node.account
    assert (made.completeness, made.producers, made.warnings) == ("complete", [], [])
    assert (made.direct_producers, made.producer_count) == (0, 2)
    assert [(stat.name, stat.value) for stat in made.counters] == [("n", 5)]
    assert [(stat.name, stat.count) for stat in made.series] == [("latency", 7)]
    assert aggregator.book.counted_events == 12
    assert aggregator.book.waiting_for() == []


def test_events_that_a_leaf_salvaged_are_named_at_the_root() -> None:
    """A producer of the node was killed: its leaf counts what it read from the ring, and the root adds it up."""
    below = Aggregator(AggregatorConfig(leaf=True))
    below.hello(Hello(producer="p"), NOW, WALL_NS)
    take(below, batch("p", 0, 0, records=[Count("m")]))
    below.salvage("p")
    take(below, batch("p", 1, 1, records=[Count("m"), Count("m")]))
    assert below.node_account(0).account.salvaged == 2
    leaf = HandMadeLeaf()
    aggregator = met(leaf)
    sums = Accounting(emitted=12, received=12, applied=12, salvaged=2)
    take(aggregator, leaf.batch(*leaf.second(5, 7)))
    interval, account = leaf.last()
    take(aggregator, leaf.batch(interval, replace(account, account=sums)))
    aggregator.end(leaf.end(), NOW)
    assert snapshot(aggregator).nodes[0].account == snapshot(aggregator).accounting == sums


def test_direct_producers_and_nodes_add_up() -> None:
    """The account of the run is the sum of both."""
    leaf = HandMadeLeaf()
    aggregator = met(leaf)
    aggregator.hello(Hello(producer="p", name="driver"), NOW, WALL_NS)
    direct = batch("p", 0, 0, records=[Define(1, "n", "counter"), Count("m")], rows=[(1, MONO_NS, 2.0)] * 3)
    take(aggregator, leaf.batch(*leaf.second(5)), direct)
    made = snapshot(aggregator)
    assert [stat.producer for stat in made.producers] == ["p"]
    assert (made.accounting.emitted, made.accounting.applied) == (9, 9)
    assert {stat.name: stat.value for stat in made.counters} == {"n": 11, "m": 1}


def test_a_leaf_that_goes_on_is_incomplete() -> None:
    """A result must not be called complete before each node has said that nothing follows."""
    leaf = HandMadeLeaf()
    aggregator = met(leaf)
    take(aggregator, leaf.batch(*leaf.second(5)))
    live = snapshot(aggregator, "LIVE")
    assert (live.nodes[0].status, live.nodes[0].completeness, live.nodes[0].owing) == (
        "live",
        "incomplete",
        ["worker"],
    )
    assert live.warnings == [], "that is how a live run is"
    over = snapshot(aggregator)
    assert (over.completeness, over.nodes[0].reason) == ("incomplete", "it has not ended")
    assert over.warnings == ["node gpu-1 has not ended"]


def test_values_that_the_leaf_has_counted_and_the_root_has_not_added_are_missing() -> None:
    """The leaf counts what it sends; the lost batch had twelve values."""
    leaf = HandMadeLeaf(node="gpu-7")
    aggregator = met(leaf)
    take(aggregator, leaf.batch(*leaf.second(5)))
    leaf.batch(*leaf.second(12))
    take(aggregator, leaf.batch(*leaf.last()))
    aggregator.end(leaf.end(), NOW)
    waiting = snapshot(aggregator, "DRAINING")
    assert (waiting.nodes[0].missing_batches, waiting.pending.producers) == (1, ["gpu-7"])
    aggregator.cannot_resend("leaf1", 1, 1, NOW)
    made = snapshot(aggregator)
    (node,) = made.nodes
    assert (node.completeness, node.unrepairable, node.missing_batches) == ("lossy", 1, 0)
    assert node.account == Accounting(emitted=17, received=5, applied=5, missing=12, unrepairable=1)
    assert made.completeness == "lossy"
    assert made.warnings == ["node gpu-7: 12 values of its last intervals are missing"]


def test_a_batch_that_arrives_late_is_no_loss() -> None:
    """Values and accounts may come in another order: the newest account is valid."""
    leaf = HandMadeLeaf()
    aggregator = met(leaf)
    first, second, last = leaf.batch(*leaf.second(5)), leaf.batch(*leaf.second(6)), leaf.batch(*leaf.last())
    take(aggregator, first)
    take(aggregator, last)
    aggregator.end(leaf.end(), NOW)
    assert snapshot(aggregator).completeness == "incomplete"
    take(aggregator, second)
    made = snapshot(aggregator)
    assert (made.completeness, made.accounting.applied, made.accounting.repaired) == ("complete", 11, 1)
    assert made.nodes[0].completeness == "complete"


def test_an_interval_whose_definition_is_late_is_counted_once() -> None:
    """The first batch has the definitions. Until it arrives, the values of the second one are missing."""
    leaf = HandMadeLeaf()
    aggregator = met(leaf)
    first, second = leaf.batch(*leaf.second(5, 2)), leaf.batch(*leaf.second(6, 3))
    take(aggregator, second)
    early = snapshot(aggregator, "LIVE").accounting
    assert (early.applied, early.missing) == (0, 16)
    take(aggregator, first)
    made = snapshot(aggregator, "LIVE").accounting
    assert (made.emitted, made.applied, made.missing) == (16, 16, 0)
    assert not aggregator.records_values


def test_an_interval_may_arrive_before_its_account() -> None:
    """A large second is several batches. Numbers and account must agree in between."""
    leaf = HandMadeLeaf()
    aggregator = met(leaf)
    interval = leaf.interval(5)
    take(aggregator, leaf.batch(interval))
    assert snapshot(aggregator, "LIVE").accounting == Accounting(emitted=5, received=5, applied=5)
    take(aggregator, leaf.batch(leaf.account()))
    assert snapshot(aggregator, "LIVE").accounting == Accounting(emitted=5, received=5, applied=5)


def test_losses_on_the_node_are_losses_of_the_run() -> None:
    """The events that a producer of the leaf dropped are losses of the run."""
    leaf = HandMadeLeaf(lost=3)
    aggregator = met(leaf)
    take(aggregator, leaf.batch(*leaf.second(5)), leaf.batch(*leaf.last("lossy")))
    aggregator.end(leaf.end(), NOW)
    made = snapshot(aggregator)
    assert (made.completeness, made.accounting.lost) == ("lossy", 3)
    assert made.accounting.dropped_by_producer == {"buffer_full": 3}
    assert made.warnings == ["node gpu-1 lost 3 events"]


@pytest.mark.parametrize(
    ("said", "completeness", "warning"),
    [
        ("incomplete", "incomplete", "node gpu-1 has producers that have not ended"),
        ("interrupted", "interrupted", "node gpu-1 was interrupted"),
    ],
)
def test_a_leaf_that_did_not_end_well(said: Any, completeness: str, warning: str) -> None:
    """The run can't be complete, although everything that the leaf had is here."""
    leaf = HandMadeLeaf()
    aggregator = met(leaf)
    take(aggregator, leaf.batch(*leaf.last(said, reason="stopped by SIGTERM")))
    aggregator.end(leaf.end(), NOW)
    made = snapshot(aggregator)
    assert (made.nodes[0].completeness, made.completeness) == (completeness, "incomplete")
    assert made.warnings == [warning]


def test_an_end_without_the_last_account_is_incomplete() -> None:
    """A node without its last account is incomplete. Only this account tells what the leaf's producers came to."""
    leaf = HandMadeLeaf()
    aggregator = met(leaf)
    take(aggregator, leaf.batch(*leaf.second(5)))
    aggregator.end(leaf.end(), NOW)
    made = snapshot(aggregator)
    assert (made.completeness, made.nodes[0].reason) == ("incomplete", "it ended without its last account")
    assert made.warnings == ["node gpu-1 ended without its last account"]


def test_a_node_that_never_came_is_named() -> None:
    """Nodes are written down before their leaves start."""
    leaf = HandMadeLeaf()
    aggregator = met(leaf)
    aggregator.expected_nodes.expect(ExpectNodes(nodes=["gpu-9", "gpu-1"]))
    take(aggregator, leaf.batch(*leaf.last()))
    aggregator.end(leaf.end(), NOW)
    assert not aggregator.root.all_ended()
    made = snapshot(aggregator)
    assert [(node.node, node.leaf, node.status) for node in made.nodes] == [
        ("gpu-1", "leaf1", "ended"),
        ("gpu-9", "", "lost"),
    ]
    assert made.nodes[1].reason == "it never connected"
    assert made.completeness == "incomplete"
    assert made.warnings == ["node gpu-9 never connected"]
    assert snapshot(aggregator, "LIVE").warnings == []


def test_nodes_without_a_name_are_counted() -> None:
    """`--nodes 3` says how many there are, and not which."""
    leaf = HandMadeLeaf()
    aggregator = met(leaf)
    aggregator.expected_nodes.expect(ExpectNodes(count=3))
    take(aggregator, leaf.batch(*leaf.last()))
    aggregator.end(leaf.end(), NOW)
    made = snapshot(aggregator)
    assert (made.completeness, len(made.nodes)) == ("incomplete", 1)
    assert made.warnings == ["2 of 3 expected nodes never connected"]
    aggregator.expected_nodes.expect(ExpectNodes(count=1))
    assert not aggregator.root.all_ended(), "the number only grows"


def test_all_expected_nodes_have_ended() -> None:
    """The root waits for nothing more when all expected nodes have ended."""
    leaves = [HandMadeLeaf("l1", "a"), HandMadeLeaf("l2", "b")]
    aggregator = met(*leaves)
    assert not aggregator.root.all_ended(), "no node is expected"
    aggregator.expected_nodes.expect(ExpectNodes(nodes=["a"], count=2))
    for leaf in leaves:
        assert not aggregator.root.all_ended()
        take(aggregator, leaf.batch(*leaf.last()))
        aggregator.end(leaf.end(), NOW)
    assert aggregator.root.all_ended()
    assert snapshot(aggregator).completeness == "complete"


def test_many_warnings_are_one() -> None:
    """One for each reason, with the names of the first nodes."""
    aggregator = root()
    aggregator.expected_nodes.expect(ExpectNodes(nodes=[f"gpu-{number:02}" for number in range(45)]))
    leaves = [HandMadeLeaf(f"l{number}", f"cpu-{number}") for number in range(2)]
    for leaf in leaves:
        aggregator.hello(leaf.hello(), NOW, WALL_NS)
    first = leaves[0].batch(*leaves[0].second(1))
    leaves[1].batch(*leaves[1].second(12))
    take(aggregator, first, leaves[0].batch(*leaves[0].last("lossy")), leaves[1].batch(*leaves[1].last()))
    for leaf in leaves:
        aggregator.end(leaf.end(), NOW)
        aggregator.cannot_resend(leaf.run_id, 0, 9, NOW)
    assert snapshot(aggregator).warnings == [
        "nodes gpu-00, gpu-01, gpu-02, gpu-03, gpu-04 and 40 more never connected",
        "node cpu-1: 12 values of its last intervals are missing",
        "node cpu-0 has a lossy result",
    ]


def test_two_live_leaves_of_one_node_are_two_rows() -> None:
    """A node that was started anew without its old directory. The first leaf stays unaccounted for."""
    leaves = [HandMadeLeaf("l1"), HandMadeLeaf("l2")]
    aggregator = met(*leaves)
    take(aggregator, leaves[1].batch(*leaves[1].last()))
    aggregator.end(leaves[1].end(), NOW)
    made = snapshot(aggregator)
    assert [(node.node, node.leaf) for node in made.nodes] == [("gpu-1", "l1"), ("gpu-1", "l2")]
    assert (made.completeness, made.warnings) == ("incomplete", ["node gpu-1 has not ended"])


def test_a_leaf_is_welcome_after_its_restart() -> None:
    """A restarted leaf is the same producer under another process id, and its batches go on."""
    leaf = HandMadeLeaf()
    aggregator = met(leaf)
    take(aggregator, leaf.batch(*leaf.second(5)))
    assert aggregator.hello(leaf.hello(pid=8, host="host-2"), NOW, WALL_NS)
    take(aggregator, leaf.sent[0], leaf.batch(*leaf.second(6)))
    (node,) = snapshot(aggregator, "LIVE").nodes
    assert (node.pid, node.host, node.account.applied, node.account.duplicates) == (8, "host-2", 11, 1)


def test_a_leaf_is_never_folded() -> None:
    """The row of a leaf is that of its node, and is never folded."""
    leaf = HandMadeLeaf()
    aggregator = met(leaf)
    take(aggregator, leaf.batch(*leaf.last()))
    aggregator.end(leaf.end(), NOW)
    assert not aggregator.book["leaf1"].foldable


def test_only_the_first_hello_makes_a_leaf() -> None:
    """A producer whose events are in the account of the run stays a producer."""
    aggregator = root()
    aggregator.hello(Hello(producer="p", name="worker"), NOW, WALL_NS)
    aggregator.hello(Hello(producer="p", name="worker", node="gpu-1"), NOW, WALL_NS)
    take(aggregator, batch("p", records=[Count("n")]))
    made = snapshot(aggregator)
    assert ([stat.producer for stat in made.producers], made.nodes) == (["p"], [])


# --- records -------------------------------------------------------------------------------------


def test_only_a_leaf_sends_records_of_a_leaf() -> None:
    """Records of a leaf are malformed if they come from any other producer."""
    leaf = HandMadeLeaf(run_id="p")
    aggregator = root()
    aggregator.hello(Hello(producer="p", name="worker"), NOW, WALL_NS)
    records = [*leaf.second(5), member("w"), relay(Mark("m"), WALL_NS)]
    take(aggregator, leaf.batch(*records))
    made = snapshot(aggregator, "LIVE")
    assert made.producers[0].dropped == {"malformed_record": 4}
    assert (made.nodes, made.marks) == ([], [])


def test_a_leaf_sends_nothing_else() -> None:
    """A leaf sends no events of its own, because they would be in no account."""
    leaf = HandMadeLeaf()
    aggregator = met(leaf)
    sent = batch(
        "leaf1", 0, 0, records=[Define(1, "n", "counter"), Count("n"), Mark("m")], rows=[(1, MONO_NS, 1.0)]
    )
    take(aggregator, sent)
    made = snapshot(aggregator, "LIVE")
    assert made.nodes[0].account.dropped == {"malformed_record": 2, "malformed_rows": 1}
    assert (made.counters[0].value, made.marks) == (0, [])


def test_a_relayed_record_is_one_of_the_run() -> None:
    """A relayed record has its producer, and its time on the root's wall clock.

    The leaf's wall clock does not matter.
    """
    skewed = WALL_NS + 7_200 * SECOND
    leaf = HandMadeLeaf(wall_ns=skewed)
    aggregator = met(leaf)
    records = [
        relay(Mark("half way"), skewed + SECOND // 2),
        relay(Params({"lr": 0.5, "api_key": "sk-1234567890abcdef1234567890"}), skewed),
        relay(Axis("train", "sum"), skewed),
    ]
    leaf.rolls = 1
    (mark, params, axis) = take(aggregator, leaf.batch(*records))
    assert (mark.producer, mark.record) == ("worker", Mark("half way"))
    made = snapshot(aggregator, "LIVE")
    assert [(one.text, one.producer) for one in made.marks] == [("half way", "worker")]
    assert made.params["lr"] == 0.5
    assert "sk-" not in str(made.params["api_key"]), "secrets are masked here as well"
    assert [one.name for one in made.axes] == ["train"]
    assert mark.wall_ns - params.wall_ns == SECOND // 2
    assert abs(mark.wall_ns - WALL_NS) < 10 * SECOND
    assert axis.producer == "worker"


@pytest.mark.parametrize("record", [Count("n"), Define(9, "x", "counter"), Table("t", ["a"], [[1, 2]])])
def test_a_relay_carries_records_of_the_stream_only(record: Any) -> None:
    """Anything else is malformed, and counts as dropped on this node."""
    leaf = HandMadeLeaf()
    aggregator = met(leaf)
    take(aggregator, leaf.batch(*leaf.second(5), relay(record, WALL_NS)))
    (node,) = snapshot(aggregator, "LIVE").nodes
    assert node.account == Accounting(emitted=5, received=5, applied=4, dropped={"malformed_record": 1})


def test_relays_need_room_in_the_record_log() -> None:
    """Relayed records need room in the record log, as the records of a direct producer do."""
    leaf = HandMadeLeaf()
    aggregator = met(leaf, record_cap_bytes=10)
    assert take(aggregator, leaf.batch(*leaf.second(5), relay(Mark("m"), WALL_NS))) == []
    made = snapshot(aggregator, "LIVE")
    assert made.nodes[0].account.dropped == {"records_full": 1}
    assert any(said.startswith("the record log is full") for said in made.warnings)


def test_columns_that_do_not_fit_together_add_nothing() -> None:
    """The values of columns that do not fit together stay missing, because the leaf has counted them."""
    leaf = HandMadeLeaf()
    aggregator = met(leaf)
    broken = leaf.interval(5)
    take(aggregator, leaf.batch(*leaf.second(4), _cut(broken), leaf.account()))
    (node,) = snapshot(aggregator, "LIVE").nodes
    assert (node.account.missing, node.account.dropped) == (5, {"malformed_record": 1})
    assert aggregator.counters.stats()[0].value == 4


def _cut(interval: Any) -> Any:
    return type(interval)(
        interval.roll, interval.start_ns, interval.end_ns, counters=type(interval.counters)(events=b"123")
    )


@pytest.mark.parametrize(
    "sums",
    [
        Accounting(emitted=3, received=2),
        Accounting(emitted=-1, received=-1, applied=-1),
        Accounting(received=2, emitted=2, applied=3, dropped={"negative": -1}),
        Accounting(emitted=1 << 60, received=1 << 60, applied=1 << 60),
        Accounting(dropped={str(number): 0 for number in range(1_000)}),
    ],
)
def test_an_account_that_can_not_be_true_is_malformed(sums: Accounting) -> None:
    """An account that cannot be true is malformed, as it would make the account of the run wrong."""
    leaf = HandMadeLeaf()
    aggregator = met(leaf)
    take(aggregator, leaf.batch(*leaf.second(5)))
    take(aggregator, leaf.batch(_with(leaf.account(), sums)))
    (node,) = snapshot(aggregator, "LIVE").nodes
    assert node.account.dropped == {"malformed_record": 1}
    assert node.account.emitted == 5


def _with(account: Any, sums: Accounting) -> Any:
    return type(account)(account.roll, account.values, sums)


def test_unusual_reasons_of_many_nodes_are_bounded() -> None:
    """Every snapshot repeats them."""
    leaves = [HandMadeLeaf(f"l{number}", f"n{number}") for number in range(4)]
    aggregator = met(*leaves)
    for number, leaf in enumerate(leaves):
        leaf.values = 0
        dropped = {f"odd-{number}-{each}": 1 for each in range(30)}
        sums = Accounting(emitted=30, dropped_by_producer=dropped)
        take(aggregator, leaf.batch(_with(leaf.account(), sums)))
    made = snapshot(aggregator, "LIVE").accounting
    assert sum(made.dropped_by_producer.values()) == 120
    assert len(made.dropped_by_producer) == 33


# --- clocks --------------------------------------------------------------------------------------


@pytest.mark.parametrize("skew_s", [-7_200, 0, 2, 7_200])
def test_the_wall_clock_of_a_node_changes_nothing(skew_s: int) -> None:
    """The hellos tell how the monotonic clocks relate."""
    leaf = HandMadeLeaf(wall_ns=WALL_NS + skew_s * SECOND, mono_ns=77 * SECOND)
    aggregator = root()
    aggregator.hello(leaf.hello(mono_ns=leaf.mono_ns), NOW + 30_000_000, WALL_NS)
    aggregator.hello(leaf.hello(mono_ns=leaf.mono_ns + SECOND, pid=9), NOW + SECOND + 1_000_000, WALL_NS)
    take(aggregator, leaf.batch(*leaf.second(1)), now_ns=NOW + 3 * SECOND)
    (node,) = snapshot(aggregator, "LIVE", NOW + 3 * SECOND).nodes
    assert node.interval_ns == WALL_NS + SECOND + 1_000_000
    assert node.last_seen_ns == WALL_NS + 3 * SECOND


def test_a_batch_is_never_in_the_future() -> None:
    """A hello that was on its way for long makes the clock of the leaf seem late. The first batch shows it."""
    leaf = HandMadeLeaf()
    aggregator = root()
    aggregator.hello(leaf.hello(), NOW + 60 * SECOND, WALL_NS)
    take(aggregator, leaf.batch(*leaf.second(1)), now_ns=NOW + 61 * SECOND - 1)
    (node,) = snapshot(aggregator, "LIVE", NOW + 61 * SECOND - 1).nodes
    assert node.interval_ns == WALL_NS + 61 * SECOND - 1


# --- members -------------------------------------------------------------------------------------


def test_producers_of_a_node_on_request() -> None:
    """Producers of a node are found by the node's name or its leaf's id.

    A producer that introduces itself again replaces its facts.
    """
    leaf = HandMadeLeaf()
    aggregator = met(leaf)
    aggregator.expected_nodes.expect(ExpectNodes(nodes=["gpu-9"]))
    take(aggregator, leaf.batch(member("a", name="x"), member("b", rank=3, host="h", pid=5)))
    take(aggregator, leaf.batch(member("a", name="y")))
    expected = [MemberFacts(producer="b", host="h", pid=5, rank=3), MemberFacts(producer="a", name="y")]
    assert aggregator.root.members("gpu-1") == aggregator.root.members("leaf1") == expected
    assert aggregator.root.members("gpu-9") == []
    assert aggregator.root.members("gpu-8") is None


# --- the leaf's side -----------------------------------------------------------------------------


def test_a_leaf_reports_its_producers_once() -> None:
    """A leaf reports its producers at the end of the interval in which they introduced themselves.

    A producer that changes is reported again.
    """
    leaf = Aggregator(AggregatorConfig(leaf=True))
    leaf.hello(Hello(producer="a", name="x", host="h", pid=1, rank=0), NOW, WALL_NS)
    leaf.hello(Hello(producer="b", name="y"), NOW, WALL_NS)
    assert leaf.leaf.new_members() == []
    leaf.roll(WALL_NS, WALL_NS + SECOND, SECOND)
    assert leaf.leaf.new_members() == [member("a", name="x", host="h", rank=0, pid=1), member("b", name="y")]
    leaf.hello(Hello(producer="b", name="z"), NOW, WALL_NS)
    leaf.roll(WALL_NS, WALL_NS + SECOND, SECOND)
    assert leaf.leaf.new_members() == [member("b", name="z")]


def test_the_account_of_a_leaf() -> None:
    """The account of a leaf has what its result would be if it ended now.

    The only difference is that its producers may go on.
    """
    leaf = Aggregator(AggregatorConfig(leaf=True))
    leaf.hello(Hello(producer="p", name="x"), NOW, WALL_NS)
    leaf.hello(Hello(producer="q"), NOW, WALL_NS)
    records: list[Any] = [Count("n"), Mark("m"), Define(1, "s", "series")]
    take(leaf, batch("p", 0, 0, records=records, rows=[(1, MONO_NS, 2.0), (1, MONO_NS, -1.0)]))
    facts = LeafFacts(hindrance="the journal is off", endpoint="tcp://x", warnings=["w" * 9_999] * 20)
    account = leaf.node_account(3, facts)
    assert (account.roll, account.values, account.producers) == (3, 2, 2)
    assert account.account == Accounting(emitted=4, received=4, applied=3, dropped={"negative": 1})
    assert (account.completeness, account.owing, account.final) == ("incomplete", ["p", "q"], False)
    assert (account.hindrance, account.endpoint) == ("the journal is off", "tcp://x")
    assert (len(account.warnings), len(account.warnings[0])) == (8, 4_096)
    leaf.end(End(producer="p", batches=1, emitted=4), NOW)
    leaf.end(End(producer="q", batches=0, emitted=0), NOW)
    assert leaf.node_account(4, LeafFacts(final=True)).completeness == "lossy"
    assert leaf.node_account(4, LeafFacts(final=True, interrupted=True)).completeness == "interrupted"
    assert leaf.node_account(4, LeafFacts(final=True, unaccounted=True)).completeness == "incomplete"


def test_a_middle_level_adds_its_nodes_to_its_account() -> None:
    """A leaf may have leaves itself."""
    below = HandMadeLeaf()
    middle = met(below, leaf=True)
    middle.expected_nodes.expect(ExpectNodes(nodes=["gpu-2"]))
    middle.hello(Hello(producer="own"), NOW, WALL_NS)
    take(middle, below.batch(*below.second(5), member("w")), batch("own", 0, 0, records=[Count("n")]))
    middle.roll(WALL_NS, WALL_NS + SECOND, SECOND)
    account = middle.node_account(1)
    assert (account.nodes, account.producers, account.values) == (2, 3, 6)
    assert (account.account.emitted, account.account.applied) == (6, 6)
    assert account.owing == ["own", "gpu-1", "gpu-2"]
    assert {one.producer for one in middle.leaf.new_members()} == {"leaf1", "own", "w"}


def test_a_restored_root_says_the_same() -> None:
    """Nodes, members and what is expected are in the checkpoint."""
    leaf = HandMadeLeaf()
    aggregator = met(leaf)
    aggregator.expected_nodes.expect(ExpectNodes(nodes=["gpu-9"], count=4))
    take(aggregator, leaf.batch(*leaf.second(5, 3), member("a")))
    aggregator.roll(WALL_NS, WALL_NS + SECOND, SECOND)
    restored = Aggregator.restore(bytes(aggregator.checkpoint()))
    assert restored.checkpoint() == aggregator.checkpoint()
    assert snapshot(restored) == snapshot(aggregator)
    assert restored.root.members("gpu-1") == aggregator.root.members("gpu-1")
    more = leaf.batch(*leaf.last())
    for each in (restored, aggregator):
        take(each, more)
        each.end(leaf.end(), NOW)
    assert snapshot(restored) == snapshot(aggregator)


def test_the_rate_of_a_node_counts_its_values() -> None:
    """A batch of a leaf has few records and many values."""
    leaf = HandMadeLeaf()
    aggregator = met(leaf)
    take(aggregator, leaf.batch(*leaf.second(500)))
    aggregator.roll(WALL_NS, WALL_NS + SECOND, SECOND)
    stat: NodeStat = snapshot(aggregator, "LIVE").nodes[0]
    assert stat.events_per_s == 500.0


@pytest.mark.parametrize(
    ("expected", "missing"),
    [
        (ExpectNodes(count=2), ["1 of 2 expected nodes never connected"]),
        (ExpectNodes(nodes=["gpu-1"]), []),
        (ExpectNodes(), None),
    ],
)
def test_leaves_with_one_name_are_told_apart(expected: ExpectNodes, missing: list[str] | None) -> None:
    """Two machines may have the same host name. A run that expects nodes names both, and counts one."""
    leaf, twin = HandMadeLeaf(), HandMadeLeaf("leaf2")
    aggregator = met(leaf, twin)
    aggregator.expected_nodes.expect(expected)
    for one in (leaf, twin):
        take(aggregator, one.batch(*one.last()))
        aggregator.end(one.end(), NOW)
    twins = (
        "2 leaves have the same name gpu-1: run leaf1 on host-1 (pid 7), run leaf2 on host-1 (pid 7); they count "
        "as one node, so give each its own --node"
    )
    assert snapshot(aggregator).warnings == ([] if missing is None else [twins, *missing])


# --- out of order, contradictory, hostile --------------------------------------------------------


def test_an_account_that_was_sent_again_does_not_replace_the_last_one() -> None:
    """The last account is of the same interval as the one before, which may arrive after it."""
    leaf = HandMadeLeaf()
    aggregator = met(leaf)
    before, last = leaf.batch(*leaf.second(5, 7)), leaf.batch(leaf.account("complete", final=True))
    take(aggregator, last)
    take(aggregator, before)
    aggregator.end(leaf.end(), NOW)
    made = snapshot(aggregator)
    assert (made.completeness, made.nodes[0].completeness, made.nodes[0].reason) == ("complete", "complete", "")


def test_definitions_that_arrive_last_complete_the_node() -> None:
    """A batch of definitions alone was lost and sent again, after the last interval."""
    leaf = HandMadeLeaf()
    aggregator = met(leaf)
    definitions = leaf.batch()
    take(aggregator, leaf.batch(*leaf.second(5, 7)), leaf.batch(*leaf.last()))
    aggregator.end(leaf.end(), NOW)
    assert snapshot(aggregator).nodes[0].completeness == "incomplete"
    take(aggregator, definitions)
    made = snapshot(aggregator)
    assert (made.completeness, made.counters[0].value, made.series[0].count) == ("complete", 5, 7)
    assert made.nodes[0].account == Accounting(emitted=12, received=12, applied=12, repaired=1)


def test_definitions_that_never_arrive_are_a_loss() -> None:
    """Lost definitions are a loss although no event is missing.

    A lost definition may have put a counter within a series.
    """
    leaf = HandMadeLeaf()
    aggregator = met(leaf)
    take(aggregator, leaf.batch(*leaf.second(5, 7)))
    leaf.batch()
    take(aggregator, leaf.batch(*leaf.last()))
    aggregator.end(leaf.end(), NOW)
    aggregator.cannot_resend("leaf1", 1, 1, NOW)
    made = snapshot(aggregator)
    assert (made.completeness, made.accounting.lost) == ("lossy", 0)
    assert made.nodes[0].reason == "1 batch of its leaf can't arrive any more"


@pytest.mark.parametrize(
    ("bad_frames", "reason"),
    [
        ({}, "it has a lossy result"),
        ({"too_many_producers": 1}, "it refused producers, because it had too many"),
    ],
)
def test_a_lossy_node_makes_the_run_lossy(bad_frames: dict[str, int], reason: str) -> None:
    """A lossy node makes the run lossy, even if its account has no losses."""
    leaf = HandMadeLeaf()
    aggregator = met(leaf)
    account = leaf.account("lossy", final=True)
    account = replace(account, account=replace(account.account, bad_frames=bad_frames))
    take(aggregator, leaf.batch(account))
    aggregator.end(leaf.end(), NOW)
    made = snapshot(aggregator)
    assert (made.nodes[0].completeness, made.completeness, made.accounting.lost) == ("lossy", "lossy", 0)
    assert made.nodes[0].reason == reason


def test_more_values_than_the_leaf_has_counted_are_no_complete_node() -> None:
    """A node with more values than its leaf has counted is incomplete. Some of its values count twice."""
    leaf = HandMadeLeaf()
    aggregator = met(leaf)
    take(aggregator, leaf.batch(*leaf.second(5, 7)))
    leaf.values -= 3
    take(aggregator, leaf.batch(*leaf.last()))
    aggregator.end(leaf.end(), NOW)
    made = snapshot(aggregator)
    assert (made.completeness, made.nodes[0].completeness) == ("incomplete", "incomplete")
    assert made.nodes[0].reason == "it sent 3 values more than it counted"
    assert made.warnings == ["node gpu-1 sent 3 values more than it counted"]


@pytest.mark.parametrize("rows", [[(1, MONO_NS, 2.0)], [(2, MONO_NS, 2.0)]])
def test_a_producer_with_rows_does_not_become_a_leaf(rows: list[Any]) -> None:
    """A producer with rows does not become a leaf.

    The rows, applied or waiting, would be in the numbers and in no account.
    """
    aggregator = root()
    take(aggregator, batch("p", records=[Define(1, "n", "counter")], rows=rows))
    assert aggregator.hello(Hello(producer="p", node="gpu-1", mono_ns=MONO_NS), NOW, WALL_NS)
    take(aggregator, batch("p", 1, 1, records=[Define(2, "m", "counter")]))
    made = snapshot(aggregator)
    assert (made.nodes, made.accounting.applied, sum(stat.value for stat in made.counters)) == ([], 1, 2)

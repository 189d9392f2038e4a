"""Nodes as a snapshot shows them, also those that are expected and have not connected."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any, ClassVar, Final, NamedTuple

from msgspec.structs import replace

from telemetry import limits
from telemetry.aggregator.config import AggregatorConfig
from telemetry.aggregator.nodes.state import NodeState
from telemetry.aggregator.producers.producer import Producer
from telemetry.common.formatting import number_of
from telemetry.wire.control import ExpectNodes
from telemetry.wire.drop_reasons import Count, Reason, merge_reasons
from telemetry.wire.nodes import NodeAccount
from telemetry.wire.snapshot import Accounting, Completeness, NodeStat

_NAMED: Final = 5  # nodes named in one warning
_MOST_BATCHES: Final = (1 << 63) - 1  # maximum on the wire; leaves may claim more than that
_CHARS_SHOWN: Final = 256  # of each text of a leaf: every snapshot repeats them


class Words(NamedTuple):
    """Sentences for one reason. `{count}` stands for a number with its noun, `{are}` for its verb."""

    one: str
    """About one node, after its name."""
    several: str
    noun: tuple[str, str] = ("", "")
    """Singular and plural of what is counted. Empty: nothing is."""
    only_at_the_end: bool = False
    """True if it is no reason for a warning while the run goes on."""

    def of_one(self, name: str, count: int) -> str:
        text = self._filled(self.one, count)
        return f"node {name}: {text}" if self._is_sentence else f"node {name} {text}"

    def of_several(self, names: list[str], count: int) -> str:
        text = self._filled(self.several, count)
        more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
        return f"nodes {', '.join(names[:_NAMED])}{more}{':' if self._is_sentence else ''} {text}"

    def of_it(self, count: int) -> str:
        text = self._filled(self.one, count)
        return text if self._is_sentence else f"it {text}"

    @property
    def _is_sentence(self) -> bool:
        """True if the text has a subject of its own."""
        return self.one.startswith("{count}")

    def _filled(self, text: str, count: int) -> str:
        amount = number_of(count, *self.noun) if self.noun[0] else ""
        return text.format(count=amount, are="is" if count == 1 else "are")


_WORDS: Final[Mapping[str, Words]] = {
    "unconnected": Words("never connected", "never connected", only_at_the_end=True),
    "not_ended": Words("has not ended", "have not ended", only_at_the_end=True),
    "batches": Words(
        "{count} of its leaf did not arrive", "{count} of their leaves did not arrive", ("batch", "batches"), True
    ),
    "no_account": Words("ended without its last account", "ended without their last accounts"),
    "doubled": Words(
        "sent {count} more than it counted", "sent {count} more than they counted", ("value", "values")
    ),
    "interrupted": Words("was interrupted", "were interrupted"),
    "owing": Words("has producers that have not ended", "have producers that have not ended"),
    "incomplete": Words("has an incomplete result", "have incomplete results"),
    "values": Words(
        "{count} of its last intervals {are} missing",
        "{count} of their last intervals {are} missing",
        ("value", "values"),
    ),
    "lost": Words(
        "{count} of its leaf can't arrive any more",
        "{count} of their leaves can't arrive any more",
        ("record", "records"),
    ),
    "gone": Words(
        "{count} of its leaf can't arrive any more",
        "{count} of their leaves can't arrive any more",
        ("batch", "batches"),
    ),
    "dropped": Words(
        "{count} of its leaf could not be added to the numbers",
        "{count} of their leaves could not be added to the numbers",
        ("record", "records"),
    ),
    "lossy": Words("lost {count}", "lost {count}", ("event", "events")),
    "lossy_result": Words("has a lossy result", "have lossy results"),
    "refusing": Words("refused producers, because it had too many", "refused producers, because they had too many"),
}


class Lack(NamedTuple):
    """A reason why a node is not complete."""

    kind: str
    completeness: Completeness
    number: int = 0
    detail: str = ""

    @property
    def reason(self) -> str:
        """Sentence for the row of the node."""
        text = _WORDS[self.kind].of_it(self.number)
        return f"{text}: {self.detail}" if self.detail else text


UNCONNECTED: Final = Lack("unconnected", "incomplete")


def lack_of(leaf: Producer, node: NodeState) -> Lack | None:
    """Return the main reason why a node is not complete, or None if it is."""
    if not leaf.reconciled:
        missing = sum(last - first + 1 for first, last in leaf.sequence.gaps)
        ended = leaf.end is not None and missing > 0
        return Lack("batches" if ended else "not_ended", "incomplete", missing)
    if node.account is None or not node.account.final:
        return Lack("no_account", "incomplete")
    if node.values > node.account.values:
        return Lack("doubled", "incomplete", node.values - node.account.values)
    if not is_lossless(leaf, node) and node.account.completeness in ("complete", "lossy"):
        return _loss_here(leaf, node)
    return _told(node.account)


def _told(account: NodeAccount) -> Lack | None:
    """Return what the last account of a leaf says."""
    if account.completeness == "interrupted":
        return Lack("interrupted", "interrupted", detail=account.reason)
    if account.completeness == "incomplete":
        return Lack("owing" if account.owing else "incomplete", "incomplete")
    if account.completeness == "lossy":
        if account.account.lost:
            return Lack("lossy", "lossy", account.account.lost)
        refuses = Reason.TOO_MANY_PRODUCERS.value in account.account.bad_frames
        return Lack("refusing" if refuses else "lossy_result", "lossy")
    return None


def _loss_here(leaf: Producer, node: NodeState) -> Lack:
    """Return what was lost between the leaf and the numbers of the root."""
    if node.missing_values:
        return Lack("values", "lossy", node.missing_values)
    if leaf.account.missing:
        return Lack("lost", "lossy", leaf.account.missing)
    dropped = leaf.account.ledger.dropped_total + leaf.account.dropped_by_producer_total
    if not dropped:
        return Lack("gone", "lossy", leaf.sequence.unrepairable)
    return Lack("dropped", "lossy", dropped)


def warnings(node_lacks: Iterable[tuple[str, Lack]], *, over: bool) -> list[str]:
    """Return one warning for each reason, with the names of the first nodes. `over`: the run has ended."""
    groups: dict[str, list[tuple[str, int]]] = {}
    for name, lack in node_lacks:
        if over or not _WORDS[lack.kind].only_at_the_end:
            groups.setdefault(lack.kind, []).append((name, lack.number))
    return [_warning(kind, nodes) for kind, nodes in sorted(groups.items(), key=lambda item: _ORDER[item[0]])]


def _warning(kind: str, nodes: list[tuple[str, int]]) -> str:
    names, count = [name for name, _ in nodes], sum(count for _, count in nodes)
    template = _WORDS[kind]
    return template.of_one(names[0], count) if len(names) == 1 else template.of_several(names, count)


_ORDER: Final = {kind: position for position, kind in enumerate(_WORDS)}


class Nodes(NamedTuple):
    """All nodes of a run, by name, and what is wrong with them."""

    stats: list[NodeStat]
    lacks: list[tuple[str, Lack]]
    """Name and reason of each node that is not complete."""
    missing: int
    """Number of expected nodes without a name that never connected."""
    expected: int
    twins: list[str] = []  # noqa: RUF012 – never changed
    """A sentence for each name of several leaves, if the run expects nodes."""

    def warnings(self, *, over: bool) -> list[str]:
        """Return one warning for each reason. `over`: the run has ended."""
        messages = warnings(self.lacks, over=over) + self.twins
        if self.missing and over:
            messages.append(f"{self.missing:,} of {number_of(self.expected, 'expected node')} never connected")
        return messages

    @property
    def owing(self) -> list[str]:
        """Names of nodes whose events are not all known."""
        unknown = [name for name, lack in self.lacks if lack.completeness != "lossy"]
        return unknown + ["a node that never connected"] * self.missing


NO_NODES: Final = Nodes([], [], 0, 0)


def nodes_of(
    leaves: Iterable[Producer],
    expected: ExpectedNodes,
    config: AggregatorConfig,
    now_ns: int,
    wall_ns: int,
    *,
    shift_ns: int,
    window_s: float,
) -> Nodes:
    """Return the leaves as nodes, and the expected nodes that have none.

    `now_ns` is the aggregator's monotonic clock. `shift_ns` converts the run's clock to the wall clock.
    """
    rows: list[tuple[NodeStat, Lack | None]] = []
    for leaf in leaves:
        if leaf.node is not None:
            lack = lack_of(leaf, leaf.node)
            rows.append((_stat(leaf, leaf.node, lack, config, now_ns, wall_ns, shift_ns, window_s), lack))
    node_names = {stat.node for stat, _ in rows}
    rows += [
        (NodeStat(node=name, status="lost", reason=UNCONNECTED.reason), UNCONNECTED)
        for name in expected.unmet(node_names)
    ]
    rows.sort(key=lambda row: (row[0].node, row[0].leaf))
    return Nodes(
        [stat for stat, _ in rows],
        [(stat.node, lack) for stat, lack in rows if lack is not None],
        expected.missing(node_names),
        expected.count,
        _twins([stat for stat, _ in rows]) if expected else [],
    )


def _twins(stats: list[NodeStat]) -> list[str]:
    """Return a sentence for each name that several leaves have, up to a bound. `stats` are sorted by name."""
    sentences: list[str] = []
    for name, group in groupby(stats, key=lambda stat: stat.node):
        leaves = list(group)
        if len(leaves) > 1 and len(sentences) < _NAMED:
            places = [f"run {stat.leaf} on {stat.host or 'an unknown host'} (pid {stat.pid})" for stat in leaves]
            listed = ", ".join(places[:_NAMED])
            more = f" and {len(places) - _NAMED:,} more" if len(places) > _NAMED else ""
            sentences.append(
                f"{len(leaves):,} leaves have the same name {name}: {listed}{more}; they count as one node, so "
                "give each its own --node"
            )
    return sentences


def _stat(  # noqa: PLR0917 – one place builds the row
    leaf: Producer,
    node: NodeState,
    lack: Lack | None,
    config: AggregatorConfig,
    now_ns: int,
    wall_ns: int,
    shift_ns: int,
    window_s: float,
) -> NodeStat:
    account = node.account or NodeAccount(0, 0, Accounting())
    return NodeStat(
        node=node.name,
        leaf=leaf.key,
        host=leaf.host,
        pid=leaf.pid,
        status=leaf.status(now_ns, config),
        completeness=lack.completeness if lack is not None else "complete",
        reason=(lack.reason if lack is not None else account.reason)[:_CHARS_SHOWN],
        producers=account.producers,
        owing=account.owing,
        nodes=account.nodes,
        account=account_of(leaf, node),
        missing_batches=min(sum(last - first + 1 for first, last in leaf.sequence.gaps), _MOST_BATCHES),
        unrepairable=leaf.sequence.unrepairable,
        events_per_s=leaf.events_per_s(window_s),
        interval_ns=max(0, node.interval_ns + shift_ns) if node.interval_ns else 0,
        last_seen_ns=max(0, wall_ns - (now_ns - leaf.last_seen_ns)),
        clock_error_s=account.clock_error_ns / 1e9 if account.clock_error_ns else None,
        endpoint=account.endpoint[:_CHARS_SHOWN],
        directory=account.directory[:_CHARS_SHOWN],
        warnings=[warning[:_CHARS_SHOWN] for warning in account.warnings],
    )


def account_of(leaf: Producer, node: NodeState) -> Accounting:
    """Return the account of the producers of a node. Each emitted event is in one place, as in any account.

    The leaf counts as applied what it has counted itself. Of these events, values that the root has not added are
    missing, and records that the root dropped are dropped.
    """
    reported = node.account.account if node.account is not None else Accounting()
    if _is_unchanged(leaf, node):
        return reported
    lost_here = missing_here(leaf, node)
    dropped_here, dropped_by_leaf = leaf.account.ledger.by_reason(), leaf.account.dropped_by_producer
    counted = node.account.values if node.account is not None else 0
    ahead = max(0, node.values - counted)  # an interval arrives before the account that includes it
    gone = lost_here + sum(dropped_here.values()) + sum(dropped_by_leaf.values())
    applied = max(0, reported.applied + ahead - gone)
    dropped = merge_reasons(reported.dropped, dropped_here)
    dropped_by_producer = merge_reasons(reported.dropped_by_producer, dropped_by_leaf)
    missing = reported.missing + lost_here
    received = applied + sum(dropped.values()) + reported.waiting
    return replace(
        reported,
        emitted=received + sum(dropped_by_producer.values()) + missing,
        received=received,
        applied=applied,
        dropped=dropped,
        dropped_by_producer=dropped_by_producer,
        missing=missing,
        repaired=reported.repaired + leaf.sequence.repaired,
        unrepairable=reported.unrepairable + leaf.sequence.unrepairable,
        duplicates=reported.duplicates + leaf.sequence.duplicates,
    )


def _is_unchanged(leaf: Producer, node: NodeState) -> bool:
    """Return whether the numbers of the root are those of the report. Fast, because snapshots ask all leaves."""
    sequence = leaf.sequence
    counted = node.account.values if node.account is not None else 0
    return (
        node.values == counted
        and leaf.account.lossless
        and not (sequence.repaired or sequence.unrepairable or sequence.duplicates)
    )


def missing_here(leaf: Producer, node: NodeState) -> int:
    """Return the number of events that the leaf has counted and the root has not received.

    Records that did not arrive stand for one event each, unless more values than that are known to be missing.
    """
    return max(node.missing_values, leaf.account.missing)


def is_lossless(leaf: Producer, node: NodeState) -> bool:
    """Return whether everything that the leaf sent is in the numbers of the root.

    A batch that was given up may have had definitions, which are no events.
    """
    return leaf.account.lossless and not node.missing_values and not leaf.sequence.unrepairable


class ExpectedNodes:
    """Names and number of the nodes that the run can't be complete without. Both only grow."""

    STATE: ClassVar[Mapping[str, Any]] = {"names": dict[str, None], "count": Count}
    DERIVED: ClassVar[tuple[str, ...]] = ()

    def __init__(self) -> None:
        self.names: dict[str, None] = {}
        self.count = 0
        """Number of nodes that the run has at least, whatever their names."""

    def __bool__(self) -> bool:
        return bool(self.names or self.count)

    def has_room_for(self, note: ExpectNodes) -> bool:
        return len(self.names.keys() | set(note.nodes)) <= limits.NODES

    def is_news(self, note: ExpectNodes) -> bool:
        return note.count > self.count or any(name not in self.names for name in note.nodes)

    def expect(self, note: ExpectNodes) -> None:
        """Add the nodes of a note. Names beyond the bound count, but have no row."""
        for name in note.nodes:
            if len(self.names) < limits.NODES:
                self.names[name] = None
        self.count = max(self.count, note.count)

    def unmet(self, node_names: Iterable[str]) -> list[str]:
        """Return the expected names that are not among `node_names`, sorted."""
        return sorted(self.names.keys() - set(node_names))

    def missing(self, node_names: Iterable[str]) -> int:
        """Return the number of nodes beyond `node_names` and the expected names that are still missing."""
        return max(0, self.count - len(self.names.keys() | set(node_names)))

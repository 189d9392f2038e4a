"""Reasons why nodes are not complete, in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from telemetry.aggregator.nodes.accounts import is_lossless
from telemetry.aggregator.nodes.state import NodeState
from telemetry.aggregator.producers.producer import Producer
from telemetry.drop_reasons import Reason
from telemetry.formatting import number_of
from telemetry.wire.nodes import NodeAccount
from telemetry.wire.snapshot import Completeness

_NAMED: Final = 5  # nodes named in one warning


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
        said = number_of(count, *self.noun) if self.noun[0] else ""
        return text.format(count=said, are="is" if count == 1 else "are")


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


def warnings(lacks: Iterable[tuple[str, Lack]], *, over: bool) -> list[str]:
    """Return one warning for each reason, with the names of the first nodes. `over`: the run has ended."""
    groups: dict[str, list[tuple[str, int]]] = {}
    for name, lack in lacks:
        if over or not _WORDS[lack.kind].only_at_the_end:
            groups.setdefault(lack.kind, []).append((name, lack.number))
    return [_warning(kind, nodes) for kind, nodes in sorted(groups.items(), key=lambda item: _ORDER[item[0]])]


def _warning(kind: str, nodes: list[tuple[str, int]]) -> str:
    names, count = [name for name, _ in nodes], sum(count for _, count in nodes)
    words = _WORDS[kind]
    return words.of_one(names[0], count) if len(names) == 1 else words.of_several(names, count)


_ORDER: Final = {kind: place for place, kind in enumerate(_WORDS)}

"""Accounts of nodes: what a leaf reports of its producers, less what has not reached the numbers of the root."""

from __future__ import annotations

from msgspec.structs import replace

from telemetry.aggregator.nodes.state import NodeState
from telemetry.aggregator.producers.producer import Producer
from telemetry.drop_reasons import merge_reasons
from telemetry.wire.snapshot import Accounting


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

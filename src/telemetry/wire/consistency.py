"""Sums that must hold in every snapshot. A result that fails a check was changed or damaged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Final

from telemetry.wire.snapshot import Accounting, MetricsSnapshot, ProducerStat, SeriesStat

_TOTALS: Final = ("emitted", "received", "applied", "waiting", "missing")
_OF_FOLDED: Final = ("emitted", "received", "applied")
_REASONS: Final = ("dropped", "dropped_by_producer")


def contradiction(snapshot: MetricsSnapshot) -> str:
    """Return the first thing in the snapshot that does not add up, or an empty string."""
    return next(_contradictions(snapshot), "")


def _contradictions(snapshot: MetricsSnapshot) -> Iterator[str]:
    yield from _account("the accounting", snapshot.accounting)
    for producer in snapshot.producers:
        yield from _account(f"the account of producer {producer.producer!r}", producer)
    for node in snapshot.nodes:
        yield from _account(f"the account of node {node.node!r}", node.account)
    yield from _sums(snapshot)
    for stat in snapshot.series:
        labels = ",".join(f"{key}={value}" for key, value in stat.labels.items())
        yield from _series(f"series {stat.name}{{{labels}}}" if labels else f"series {stat.name}", stat)


def _account(whose: str, account: Accounting | ProducerStat) -> Iterator[str]:
    dropped, by_producer = sum(account.dropped.values()), sum(account.dropped_by_producer.values())
    counts = (account.emitted, account.received, account.applied, account.waiting, account.missing)
    if min(*counts, *account.dropped.values(), *account.dropped_by_producer.values()) < 0:
        yield f"{whose} has a negative count"
    if account.emitted != account.received + by_producer + account.missing:
        yield (
            f"{whose} has {account.emitted:,} emitted events, but {account.received:,} received +"
            f" {by_producer:,} dropped by producers + {account.missing:,} missing"
        )
    if account.received != account.applied + dropped + account.waiting:
        yield (
            f"{whose} has {account.received:,} received events, but {account.applied:,} applied +"
            f" {dropped:,} dropped + {account.waiting:,} waiting"
        )


def _sums(snapshot: MetricsSnapshot) -> Iterator[str]:
    """Check that the totals equal the sums over producers and nodes. A snapshot without any passes."""
    if not snapshot.producers and not snapshot.nodes:
        return
    accounts = [*snapshot.own_producers, *(node.account for node in snapshot.nodes)]
    whose = "its producers and nodes" if snapshot.nodes else "its producers"
    for name in (*_TOTALS, *_REASONS):
        total = _count(getattr(snapshot.accounting, name))
        added = sum(_count(getattr(account, name)) for account in accounts)
        if snapshot.folded is not None and name in _OF_FOLDED:
            added += snapshot.folded.events
        if total != added:
            yield f"the accounting has {total:,} {name.replace('_', ' ')} events, {whose} {added:,}"


def _count(value: int | Mapping[str, int]) -> int:
    return sum(value.values()) if isinstance(value, Mapping) else value


def _series(name: str, stat: SeriesStat) -> Iterator[str]:
    counts = [count for _, count in stat.histogram]
    if stat.count < 0 or min(counts, default=0) < 0:
        yield f"{name} has a negative count"
    if counts and sum(counts) != stat.count:
        yield f"{name} has {stat.count:,} values, but its histogram {sum(counts):,}"
    yield from _ascending(name, stat.percentiles)
    yield from _ascending(f"the window of {name}", stat.window.percentiles)
    if stat.min is None or stat.max is None:
        return
    if stat.min > stat.max:
        yield f"{name} has a minimum of {stat.min}, above its maximum of {stat.max}"
    for key, value in stat.percentiles.items():
        if not stat.min <= value <= stat.max:
            yield f"{name} has a p{key} of {value}, outside of its range from {stat.min} to {stat.max}"


def _ascending(name: str, percentiles: Mapping[str, int | float]) -> Iterator[str]:
    ordered = sorted(percentiles.items(), key=lambda item: float(item[0]))  # ValueError: the key is not a number
    for (low, at_low), (high, at_high) in pairwise(ordered):
        if at_low > at_high:
            yield f"{name} has a p{low} of {at_low}, above its p{high} of {at_high}"

"""The root of a run on several machines."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace
from tests.unit.tui.feeds import SECOND_NS

from telemetry.wire.control import MemberFacts
from telemetry.wire.snapshot import Accounting, MetricsSnapshot, NodeStat

OPENED: Final = "leaf-node-b"
MEMBERS: Final = tuple(
    MemberFacts(producer=f"p{rank}", name="train", host="node-b", pid=4_100 + rank, rank=rank) for rank in (0, 1, 2)
)


def fleet(snapshot: MetricsSnapshot) -> MetricsSnapshot:
    """Five nodes: one is silent, one has not connected, the others are well."""
    now_ns = snapshot.time_ns
    stats = [
        NodeStat(
            node=name,
            leaf=f"leaf-{name}",
            host=name,
            pid=31 + at,
            producers=8 if name != "node-b" else 3,
            account=Accounting(emitted=98_000 + at, received=98_000 + at, applied=98_000 + at),
            events_per_s=1_310.0 - 7 * at,
            interval_ns=now_ns - SECOND_NS,
            last_seen_ns=now_ns,
        )
        for at, name in enumerate(("node-a", "node-b", "node-c", "node-d"))
    ]
    stats[3] = replace(
        stats[3], status="late", last_seen_ns=now_ns - 10 * SECOND_NS, interval_ns=now_ns - 11 * SECOND_NS
    )
    return replace(snapshot, nodes=[*stats, NodeStat(node="node-e")], producers=[])

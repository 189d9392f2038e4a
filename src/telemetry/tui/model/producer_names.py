"""Short names of producers, also of those that only a node knows."""

from __future__ import annotations

from collections.abc import Mapping

from telemetry.common.formatting import printable
from telemetry.tui.model.scene import Scene


def short_names(scene: Scene) -> Mapping[str, str]:
    """Return names without host and process, by producer id; the id of a node is that of its leaf.

    A producer of a node is known once the node was opened.
    """
    if scene.snapshot is None:
        return {}
    nodes = {stat.leaf: stat.node for stat in scene.snapshot.nodes if stat.leaf}
    name_by_id = {leaf: printable(name) for leaf, name in nodes.items()}
    for stat in scene.snapshot.producers:
        name_by_id[stat.producer] = _short(stat.rank, stat.name or stat.producer)
    for leaf, members in scene.members.items():
        for member in members:
            name = _short(member.rank, member.name or member.producer)
            name_by_id[member.producer] = f"{name} on {printable(nodes.get(leaf, leaf))}"
    return name_by_id


def _short(rank: int | None, name: str) -> str:
    return f"rank {rank}" if rank is not None else printable(name)

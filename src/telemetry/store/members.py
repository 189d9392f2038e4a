"""Producers of a node, from the run directory of its leaf."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from telemetry.errors import RunDirectoryError
from telemetry.store.final_snapshot import find_final
from telemetry.store.run_directory import RunDirectory
from telemetry.wire.control import MemberFacts
from telemetry.wire.snapshot import NodeStat


def members_on_disk(node: NodeStat, fallback_dirs: Sequence[str] = ()) -> list[MemberFacts] | None:
    """Return the producers that the leaf's own result lists. Those of a middle level are its nodes.

    Return None if there is no such result on this machine. On another machine, its path may belong to another run.
    """
    if not node.directory:
        return None
    with suppress(RunDirectoryError):
        directory = RunDirectory.open(Path(node.directory))
        final = find_final(directory, fallback_dirs) if directory.run_id == node.leaf else None
        if final is not None:
            result = final.read()
            nodes = [
                MemberFacts(producer=stat.leaf, name=stat.node, host=stat.host, pid=stat.pid)
                for stat in result.nodes
                if stat.leaf
            ]
            return nodes + [
                MemberFacts(producer=stat.producer, name=stat.name, host=stat.host, pid=stat.pid, rank=stat.rank)
                for stat in result.producers
            ]
    return None

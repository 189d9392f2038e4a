"""Producers of a node, from the result of its leaf."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from telemetry.store.final_snapshot import write_final
from telemetry.store.members import members_on_disk
from telemetry.store.run_directory import RunDirectory
from telemetry.wire.control import MemberFacts
from telemetry.wire.snapshot import MetricsSnapshot, NodeStat, ProducerStat


def test_members_come_from_the_result_of_the_leaf(tmp_path: Path) -> None:
    """Members of a node come from its result on disk.

    Without a result, or with that of another run, they are unknown.
    """
    leaf = RunDirectory.create(tmp_path, "leaf", "aaaa1111", 0)
    node = NodeStat(node="n1", leaf="aaaa1111", directory=str(leaf.path))
    assert members_on_disk(node) is None
    stat = ProducerStat(producer="p", name="train", host="n1", pid=7, rank=3)
    write_final(MetricsSnapshot(run_id="aaaa1111", name="leaf", state="COMPLETE", producers=[stat]), [leaf.final])
    assert members_on_disk(node) == [MemberFacts(producer="p", name="train", host="n1", pid=7, rank=3)]
    below = MetricsSnapshot(
        run_id="aaaa1111", name="leaf", state="COMPLETE", nodes=[NodeStat(node="b", leaf="cc", host="h", pid=1)]
    )
    write_final(below, [leaf.final])
    assert members_on_disk(node) == [MemberFacts(producer="cc", name="b", host="h", pid=1)]
    assert members_on_disk(replace(node, leaf="bbbb2222")) is None
    assert members_on_disk(replace(node, directory=str(tmp_path / "gone"))) is None
    assert members_on_disk(replace(node, directory="")) is None

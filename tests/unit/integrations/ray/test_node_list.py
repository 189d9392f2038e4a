"""The durable list of nodes."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from telemetry.errors import RunDirectoryError
from telemetry.integrations.ray.placement import NodeList


def test_nodes_are_on_the_disk_once_they_are_added(tmp_path: Path) -> None:
    """Another list, as after a restart of the actor, has the same nodes. No other user can read the file."""
    path = tmp_path / "private" / "nodes.json"
    nodes = NodeList(path)
    assert nodes.names == []
    nodes.add({"id-b": "gpu-2", "id-a": "gpu-1"})
    nodes.add({"id-c": "gpu-3"})
    again = NodeList(path)
    assert again.names == ["gpu-1", "gpu-2", "gpu-3"]
    assert again.ids == ["id-b", "id-a", "id-c"]
    assert "id-c" in again
    assert "id-d" not in again
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_node_that_can_not_be_written_is_not_listed(tmp_path: Path) -> None:
    """A node that can't be written is not listed and raises an error, so its leaf does not start."""
    path = tmp_path / "file" / "nodes.json"
    nodes = NodeList(path)
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(RunDirectoryError, match=r"nodes\.json"):
        nodes.add({"id": "gpu-1"})
    assert nodes.names == []


def test_a_damaged_list_is_an_error(tmp_path: Path) -> None:
    """A root with an empty list could call a run complete that lacks a node."""
    path = tmp_path / "nodes.json"
    path.write_text("{")
    with pytest.raises(RunDirectoryError, match=r"nodes\.json"):
        NodeList(path)

"""Settings of a run on several nodes: what is accepted, and the one line that tells what is wrong."""

from __future__ import annotations

import pytest

from telemetry.config.schema import Config, UpstreamConfig
from telemetry.daemon.upstream.root_address import check_node, check_root, expected_nodes, with_root_of
from telemetry.errors import EndpointError, UsageError
from telemetry.store.run_directory import Manifest
from telemetry.wire.control import ExpectNodes


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        ("", None),
        ("  ", None),
        ("4", ExpectNodes(count=4)),
        ("a, b,a", ExpectNodes(nodes=["a", "b"])),
        ("gpu-1", ExpectNodes(nodes=["gpu-1"])),
        ("1,2", ExpectNodes(nodes=["1", "2"])),
    ],
)
def test_nodes_are_a_number_or_names(text: str, nodes: ExpectNodes | None) -> None:
    """A number alone is a count; several numbers are names."""
    assert expected_nodes(text) == nodes


@pytest.mark.parametrize("text", ["0", "2049", " , ", "a\tb", "x" * 201 + ",b", ",".join(map(str, range(2_049)))])
def test_what_can_not_be_nodes_is_refused(text: str) -> None:
    """Too few, too many, and names that can't be shown."""
    with pytest.raises(UsageError):
        expected_nodes(text)


def test_the_address_of_a_root_is_checked() -> None:
    """A root's address must be one to connect to, and not the leaf's own, with or without a key."""
    check_root("", "ipc:///run/a")
    check_root("tcp://10.0.0.1:5", "tcp://10.0.0.2:5")
    with pytest.raises(EndpointError, match=r"upstream\.address"):
        check_root("10.0.0.1", "ipc:///run/a")
    with pytest.raises(UsageError, match="of this leaf"):
        check_root("tcp://10.0.0.1:5#key", "tcp://10.0.0.1:5")


def test_a_resumed_run_has_the_root_of_its_manifest() -> None:
    """A resumed run has no root if its manifest has none, whatever the settings are now."""
    now = Config(upstream=UpstreamConfig(address="ipc:///other"))
    manifest = Manifest(run_id="r", name="n", config={"upstream": {"address": "ipc:///root", "node": "a"}})
    assert with_root_of(manifest, now).upstream == UpstreamConfig(address="ipc:///root", node="a")
    assert with_root_of(Manifest(run_id="r", name="n"), now).upstream.address == ""


def test_the_name_of_a_node_is_checked() -> None:
    """`--nodes` must be able to name it, and each table must be able to show it."""
    for name in ("", "gpu-1", "rack 3/b"):
        check_node(name)
    for name in (" ", "a,b", "a\nb", "x" * 201):
        with pytest.raises(UsageError, match="not a valid name for a node"):
            check_node(name)

"""Tests of what people see of a run on two nodes.

They see it in `nodes`, `ls`, reports, gates and the feed of the cockpit.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.process.leaves import DEADLINE_S, Cluster

from telemetry.tui.feed.live import LiveFeed
from telemetry.tui.feed.news import MembersOf, News

pytestmark = pytest.mark.slow


def listed(ground: Any, *words: str) -> Any:
    """Return what `telemetry nodes --json` prints."""
    code, out, err = ground.run("nodes", *words, "--json")
    assert code == 0, err
    return json.loads(out)


def test_nodes_of_a_live_run_and_of_its_result(ground: Any, wait_until: Callable[..., Any]) -> None:
    """Live with the producers of each node; afterwards from the result of its leaf."""
    cluster = Cluster(ground)
    root = cluster.root("--nodes", "a,b,c")
    leaves = {node: cluster.leaf(node, root) for node in "ab"}
    cluster.record("one", leaves["a"])
    cluster.record("two", leaves["a"])
    cluster.record("three", leaves["b"])
    # names of producers travel with the interval in which they introduced themselves
    wait_until(lambda: len(listed(ground, root.run_id, "a")["producers"]) == 2, DEADLINE_S)
    wait_until(lambda: len(listed(ground, root.endpoint, "b")["producers"]) == 1, DEADLINE_S)
    assert {one["name"] for one in listed(ground, root.run_id, leaves["a"].run_id)["producers"]} == {"one", "two"}
    assert [(stat["node"], stat["leaf"] != "") for stat in listed(ground, root.run_id)] == [
        ("a", True),
        ("b", True),
        ("c", False),
    ]
    code, out, err = ground.run("nodes", root.run_id)
    assert code == 0, err
    assert out.splitlines()[1].split()[:3] == ["c", "not", "connected"]
    assert out.splitlines()[-2:] == ["3 nodes, 2 complete so far, 3 producers", "c: it has not connected yet"]
    code, _, err = ground.run("nodes", root.run_id, "d")
    assert (code, "its nodes are a, b, c" in err) == (2, True)
    assert {run["name"]: run["nodes"] for run in ground.live()} == {"root": 3, "leaf-a": 0, "leaf-b": 0}
    check_cockpit(root.endpoint, leaves["b"].run_id, wait_until)
    cluster.made()
    final = cluster.stop(root)
    assert final["completeness"] == "incomplete"
    for leaf in leaves.values():
        leaf.wait()
    assert {one["name"] for one in listed(ground, str(root.directory), "a")["producers"]} == {"one", "two"}
    code, out, err = ground.run("report", str(root.directory))
    assert code == 0, err
    assert "nodes that are not complete: c" in out
    assert "1 of 3 nodes incomplete" in out.splitlines()[0]
    code, out, err = ground.run(
        "gate", str(root.directory), "incomplete_nodes == 1", "nodes == 3", "producers == 3"
    )
    assert code == 0, out + err


def check_cockpit(endpoint: str, leaf: str, wait_until: Callable[..., Any]) -> None:
    """The cockpit's feed asks the root."""
    told: list[News] = []
    feed = LiveFeed(endpoint)
    feed.start(told.append)
    try:
        feed.list_members(leaf)
        wait_until(lambda: any(isinstance(news, MembersOf) for news in told), DEADLINE_S)
    finally:
        feed.close()
    [answer] = [news for news in told if isinstance(news, MembersOf)]
    assert (answer.node, [member.name for member in answer.members]) == (leaf, ["three"])

"""A root in its own process and leaves that tests make by hand: complete, lossy, killed, absent; a killed root."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.hand_made_leaf import SECOND, ConnectedLeaf, answer, member, relay

from telemetry.transport.producer import ProducerLink
from telemetry.wire.control import (
    CannotResend,
    Ended,
    ExpectNodes,
    GetMembers,
    GetStatus,
    MemberFacts,
    Members,
    Noted,
    Request,
    Resend,
    Response,
    Status,
    Stop,
)
from telemetry.wire.events import Mark
from telemetry.wire.snapshot import MetricsSnapshot

DEADLINE_S = 60.0


class Root:
    """`telemetry serve` and a control connection to it."""

    def __init__(self, ground: Any, *words: str) -> None:
        self.ground = ground
        self.process, self.endpoint = ground.serve(*words)
        self.link = ProducerLink(self.endpoint, "starter")
        self.leaves: list[ConnectedLeaf] = []

    def ask(self, request: Request) -> Response:
        return answer(self.link, request)

    def expect(self, *nodes: str, count: int = 0) -> None:
        assert isinstance(self.ask(ExpectNodes(id=1, nodes=list(nodes), count=count)), Noted)

    def leaf(self, run_id: str, node: str, pid: int | None = None) -> ConnectedLeaf:
        self.leaves.append(ConnectedLeaf(self.endpoint, run_id, node, pid))
        return self.leaves[-1]

    def snapshot(self) -> MetricsSnapshot:
        status = self.ask(GetStatus(id=2))
        assert isinstance(status, Status)
        return status.snapshot

    def until(self, condition: Callable[[MetricsSnapshot], object]) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not condition(snapshot := self.snapshot()):
            assert time.monotonic() < deadline, snapshot
            time.sleep(0.05)

    def stop(self) -> None:
        self.ask(Stop(id=3, reason="enough"))

    def result(self) -> dict[str, Any]:
        """The final file, once the root has exited."""
        self.process.communicate(timeout=DEADLINE_S)
        return dict(self.ground.final())

    def close(self) -> None:
        self.link.close(0.0)
        for leaf in self.leaves:
            leaf.close()


@pytest.fixture
def root(ground: Any) -> Iterator[Root]:
    ground.environ["TELEMETRY_RUN__DRAIN_TIMEOUT_S"] = "2"
    made = Root(ground)
    yield made
    made.close()


def sums(account: dict[str, Any]) -> tuple[int, int, int]:
    return account["emitted"], account["applied"], account["missing"]


def test_a_run_of_two_nodes_is_complete(root: Root) -> None:
    """The run ends by itself when both nodes have ended, and has the numbers of both.

    Members are listed on request.
    """
    root.expect("gpu-1", count=2)
    leaves = [root.leaf(f"run-{node}", node) for node in ("gpu-1", "gpu-2")]
    for number, leaf in enumerate(leaves):
        for _ in range(5):
            leaf.send(*leaf.made.second(10 + number, 7))
        leaf.send(member(f"worker-{number}"), relay(Mark(f"mark {number}"), time.time_ns(), f"worker-{number}"))
    root.until(lambda snapshot: snapshot.accounting.applied == 175)
    root.until(lambda snapshot: len(snapshot.marks) == 2)
    members = root.ask(GetMembers(id=4, node="gpu-2"))
    assert isinstance(members, Members)
    assert members.members == [MemberFacts(producer="worker-1")]
    for leaf in leaves:
        leaf.send(*leaf.made.last())
        assert leaf.end().missing == 0
    result = root.result()
    assert (result["state"], result["completeness"], result["reason"]) == (
        *("COMPLETE", "complete"),
        "all nodes have ended",
    )
    assert sums(result["accounting"]) == (175, 175, 0)
    assert [(node["node"], node["completeness"]) for node in result["nodes"]] == [
        ("gpu-1", "complete"),
        ("gpu-2", "complete"),
    ]
    assert (result["producers"], result["warnings"]) == ([], [])
    assert {mark["producer"] for mark in result["marks"]} == {"worker-0", "worker-1"}


def test_a_batch_that_is_lost_for_good_is_said(root: Root) -> None:
    """The values of a batch that is lost for good are missing, to the value."""
    root.expect("gpu-1")
    leaf = root.leaf("run-1", "gpu-1")
    leaf.send(*leaf.made.second(10))
    leaf.make(*leaf.made.second(12))
    leaf.send(*leaf.made.last())
    assert leaf.link.send_control(leaf.made.end())
    ended: list[Ended] = []
    deadline = time.monotonic() + DEADLINE_S
    while not ended:
        assert time.monotonic() < deadline
        for response in leaf.link.receive_control(0.1):
            if isinstance(response, Resend):
                assert (response.first, response.last) == (1, 1)
                assert leaf.link.send_control(CannotResend(producer="run-1", first=1, last=1))
            elif isinstance(response, Ended):
                ended.append(response)
    result = root.result()
    assert (result["completeness"], sums(result["accounting"])) == ("lossy", (22, 10, 12))
    assert result["warnings"] == ["node gpu-1: 12 values of its last intervals are missing"]


def test_a_node_that_never_came_is_named(root: Root) -> None:
    """Although everything that came is here."""
    root.expect("gpu-1", "gpu-9")
    leaf = root.leaf("run-1", "gpu-1")
    leaf.send(*leaf.made.second(10), *leaf.made.last())
    leaf.end()
    root.stop()
    result = root.result()
    assert (result["state"], result["completeness"]) == ("COMPLETE", "incomplete")
    assert result["warnings"] == ["node gpu-9 never connected"]
    assert [(node["node"], node["status"], node["reason"]) for node in result["nodes"]] == [
        ("gpu-1", "ended", ""),
        ("gpu-9", "lost", "it never connected"),
    ]


def test_a_leaf_that_was_killed_is_named(root: Root) -> None:
    """The root waits for it until the deadline of its drain, because somebody may restart it."""
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        gone.wait()
    leaf = root.leaf("run-1", "gpu-1", pid=gone.pid)
    leaf.send(*leaf.made.second(10))
    root.until(lambda snapshot: snapshot.accounting.applied == 10)
    leaf.close()
    stopped = time.monotonic()
    root.stop()
    result = root.result()
    assert time.monotonic() - stopped > 1.5, "it did not wait"
    assert (result["completeness"], sums(result["accounting"])) == ("incomplete", (10, 10, 0))
    assert result["warnings"] == ["node gpu-1 has not ended"]


def test_a_leaf_that_is_restarted_goes_on(root: Root) -> None:
    """A leaf that is restarted is the same producer, whatever its process.

    Its numbers go on, and what it repeats counts once.
    """
    root.expect("gpu-1")
    leaf = root.leaf("run-1", "gpu-1")
    for _ in range(3):
        leaf.send(*leaf.made.second(10))
    root.until(lambda snapshot: snapshot.accounting.applied == 30)
    unsent = leaf.make(*leaf.made.second(5))
    leaf.close()
    leaf.connect(pid=os.getppid())
    for data in (*leaf.frames[1:3], unsent):
        leaf.send_frame(data)
    leaf.send(*leaf.made.last())
    leaf.end()
    result = root.result()
    assert (result["completeness"], sums(result["accounting"])) == ("complete", (35, 35, 0))
    assert result["nodes"][0]["pid"] == os.getppid()
    assert result["accounting"]["duplicates"] == 2


def test_a_root_that_is_killed_and_resumed_loses_nothing(ground: Any) -> None:
    """A root that was killed and resumed knows all nodes that it ever had, and those still to come."""
    root = Root(ground)
    root.expect("gpu-1", "gpu-2")
    first, second = root.leaf("run-1", "gpu-1"), root.leaf("run-2", "gpu-2")
    for _ in range(3):
        first.send(*first.made.second(10), member("worker"))
    second.send(*second.made.second(7))
    root.until(lambda snapshot: snapshot.accounting.applied == 37)
    root.process.send_signal(signal.SIGKILL)
    root.process.wait(DEADLINE_S)
    made_meanwhile = [first.make(*first.made.second(5)) for _ in range(2)]
    second.close()
    directory = next(path for path in (ground.folder / "runs").iterdir() if not path.is_symlink())
    resumed = ground.telemetry("serve", "--resume", str(directory))
    said = [resumed.stderr.readline() for _ in range(2)]
    assert re.search(r"TELEMETRY_ENDPOINT=(\S+)", said[-1]), said
    root.process = resumed
    first.close()
    first.connect()
    for data in (first.frames[2], *made_meanwhile):
        first.send_frame(data)
    first.send(*first.made.last())
    first.end()
    live = root.snapshot()
    assert [(node.node, node.completeness) for node in live.nodes] == [
        ("gpu-1", "complete"),
        ("gpu-2", "incomplete"),
    ]
    members = root.ask(GetMembers(id=4, node="gpu-1"))
    assert isinstance(members, Members)
    assert members.members == [MemberFacts(producer="worker")]
    second.connect()
    second.send(*second.made.last())
    second.end()
    result = root.result()
    assert (result["completeness"], result["reason"]) == ("complete", "all nodes have ended")
    assert sums(result["accounting"]) == (47, 47, 0)
    root.close()


def test_a_root_that_is_behind_its_leaf_says_how_far(root: Root) -> None:
    """An interval of a minute ago is the newest one of a live leaf: `telemetry nodes` tells the lag."""
    leaf = root.leaf("leaf-a", "gpu-1")
    leaf.made.wall_ns -= 60 * SECOND
    leaf.made.mono_ns -= 60 * SECOND
    leaf.send(*leaf.made.second(increments=3))
    root.until(lambda snapshot: snapshot.accounting.applied == 3)
    code, out, err = root.ground.run("nodes", root.endpoint)
    assert code == 0, err
    lags = re.findall(r"1 complete so far, (\d+) s behind|^gpu-1: (\d+) s behind", out, re.MULTILINE)
    assert len(lags) == 2, out
    assert all(59 <= int(first or second) <= 90 for first, second in lags), out
    leaf.send(*leaf.made.last())
    leaf.end()
    root.stop()
    assert root.result()["completeness"] == "complete"

"""Requests for the producers of nodes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Event
from typing import Any

from msgspec.structs import replace

from telemetry.errors import EndpointError
from telemetry.store.final_snapshot import write_final
from telemetry.store.run_directory import RunDirectory
from telemetry.tui.feed.disk import DiskFeed
from telemetry.tui.feed.member_requests import MemberRequests
from telemetry.tui.feed.news import MembersOf, ViewerNote
from telemetry.wire.control import MemberFacts
from telemetry.wire.snapshot import MetricsSnapshot, NodeStat, ProducerStat

WAIT_S = 30.0
RANK_3 = MemberFacts(producer="p", name="train", rank=3)


def test_a_node_that_is_wanted_several_times_is_asked_for_once(told: Any, wait_until: Callable[..., Any]) -> None:
    """Requests wait in their order while an answer is on its way, and `ask` never blocks."""
    asked: list[str] = []
    answering = Event()

    def read(node: str) -> list[MemberFacts]:
        asked.append(node)
        assert answering.wait(WAIT_S)
        return [RANK_3]

    requests = MemberRequests(told, read)
    requests.ask("a")
    wait_until(lambda: asked, WAIT_S)
    for node in ("b", "c", "b"):
        requests.ask(node)
    answering.set()
    wait_until(lambda: len(told.of(MembersOf)) == 3, WAIT_S)
    assert asked == ["a", "b", "c"]
    assert told.of(MembersOf) == [MembersOf(node, (RANK_3,)) for node in ("a", "b", "c")]


def test_a_refusal_is_told_and_the_next_request_is_served(told: Any, wait_until: Callable[..., Any]) -> None:
    """The node counts as answered, so that it does not wait forever."""

    def read(node: str) -> list[MemberFacts]:
        if node == "a":
            raise EndpointError("no aggregator listens")
        return []

    requests = MemberRequests(told, read)
    requests.ask("a")
    requests.ask("b")
    wait_until(lambda: len(told.of(MembersOf)) == 2, WAIT_S)
    assert told.of(ViewerNote) == [
        ViewerNote("the producers of this node are not known: no aggregator listens", bad=True)
    ]
    assert told.of(MembersOf)[0] == MembersOf("a", ())


def test_a_finished_run_reads_the_result_of_the_leaf(
    run: Any, tmp_path: Path, told: Any, snapshot_of: Callable[..., MetricsSnapshot], wait_until: Callable[..., Any]
) -> None:
    """A finished run reads the result of the leaf if that is on this machine.

    Else a note says where the producers would be known.
    """
    leaf = RunDirectory.create(tmp_path, "leaf", "aaaa1111", 0)
    stat = ProducerStat(producer="p", name="train", rank=3)
    write_final(MetricsSnapshot(run_id="aaaa1111", name="leaf", state="COMPLETE", producers=[stat]), [leaf.final])
    here = NodeStat(node="n1", leaf="aaaa1111", directory=str(leaf.path))
    away = replace(here, node="n2", leaf="bbbb2222", directory="/nowhere/leaf")
    write_final(snapshot_of(0, state="COMPLETE", nodes=[here, away]), [run.final])
    feed = DiskFeed(run)
    feed.start(told)
    feed.list_members("aaaa1111")
    wait_until(lambda: told.of(MembersOf), WAIT_S)
    assert told.of(MembersOf)[0].members == (RANK_3,)
    feed.list_members("bbbb2222")
    wait_until(lambda: len(told.of(MembersOf)) == 2, WAIT_S)
    assert any("the leaf's own result is not here" in note.words for note in told.of(ViewerNote))
    feed.close()

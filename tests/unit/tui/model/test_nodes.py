"""The nodes of a run on several machines, and the producers of those that were opened."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
from tests.unit.tui.model.scenes import NOON, SECOND, drawn, producer, scene, snapshot, text

from telemetry.tui.app import export_json
from telemetry.tui.model.header import header, reporting, verdict
from telemetry.tui.model.nodes import node_at
from telemetry.tui.model.overview import marks
from telemetry.tui.model.producers import producers, sort_keys, total
from telemetry.tui.model.scene import Scene, View
from telemetry.tui.model.steps import steps
from telemetry.wire.control import MemberFacts
from telemetry.wire.snapshot import Accounting, AxisStat, MarkStat, NodeStat


def node(name: str, **changes: Any) -> NodeStat:
    stat = NodeStat(
        node=name,
        leaf=f"leaf-{name}",
        host=name,
        pid=31,
        producers=8,
        account=Accounting(emitted=9_000, received=9_000, applied=9_000),
        events_per_s=800.0,
        interval_ns=NOON + 39 * SECOND,
        last_seen_ns=NOON + 40 * SECOND,
    )
    return msgspec.structs.replace(stat, **changes)


MEMBERS = (
    MemberFacts(producer="p1", name="train", host="n2", pid=101, rank=1),
    MemberFacts(producer="p0", name="train", host="n2", pid=100, rank=0),
)
LATE = node("n3", status="late", last_seen_ns=NOON + 30 * SECOND, interval_ns=NOON + 29 * SECOND)


def known(**changes: Any) -> Scene:
    nodes = [node("n1"), node("n2", producers=3), LATE, NodeStat(node="n4")]
    return scene(**{"producers": [], "nodes": nodes, **changes})


def opened(**changes: Any) -> tuple[Scene, View]:
    return replace(known(**changes), members={"leaf-n2": MEMBERS}), View(opened_nodes=frozenset({"leaf-n2"}))


def test_a_root_that_is_behind_is_not_complete_so_far() -> None:
    """The header says how far the root is behind its slowest live leaf, with every verdict."""
    slow = node("n1", interval_ns=NOON - 18 * SECOND)
    accounts = (
        (Accounting(), ("58 s behind · 0 lost", "warn")),
        (Accounting(missing=4), ("58 s behind · 4 missing, requested again", "warn")),
        (Accounting(dropped={"negative": 7}), ("58 s behind · lossy: 7 lost", "bad")),
    )
    for account, wanted in accounts:
        piece = verdict(snapshot(accounting=account, nodes=[slow, node("n2")]))
        assert (piece.text, piece.tone) == wanted
    assert verdict(snapshot(nodes=[node("n2")])).text == "complete so far · 0 lost"


def test_nodes_with_trouble_come_first() -> None:
    """One is late, another has not connected. The rest have the order of names."""
    assert drawn(producers(known(), View()), 158) == [
        "node, producer  producers  host:pid  status          rate  received  lost  repaired     lag   seen",
        "▸ n3                    8  n3:31     late           800/s     9,000     0         0  11.0 s   10 s"
        "  silent for 10 s",
        "▸ n4                    0  –         not connected    0/s         0     0         0       –  never"
        "  it has not connected yet",
        "▸ n1                    8  n1:31     live           800/s     9,000     0         0  1.00 s    now",
        "▸ n2                    3  n2:31     live           800/s     9,000     0         0  1.00 s    now",
    ]


def test_an_opened_node_shows_its_producers_by_rank() -> None:
    """The root knows only who the producers of an opened node are. Producers beyond its list are counted."""
    where, view = opened()
    lines = drawn(producers(where, view), 158)
    assert [line.split("  ")[0] for line in lines[-4:-3]] == ["▾ n2"]
    assert [line.split() for line in lines[-3:]] == [
        ["train", "0", "n2:100"],
        ["train", "1", "n2:101"],
        ["1", "more,", "not", "listed"],
    ]
    waiting = drawn(producers(known(), view), 158)
    assert waiting[-1].strip() == "asking for its producers"
    empty = drawn(producers(replace(where, members={"leaf-n2": ()}), view), 158)
    assert empty[-1].strip() == "3 producers, not listed"


def test_only_a_node_can_be_opened() -> None:
    """The row of a producer leads nowhere."""
    where, view = opened(producers=[producer("own")])
    found = [node_at(where, row.key) for row in producers(where, view).rows]
    assert [stat.node if stat else None for stat in found] == ["n3", "n4", "n1", "n2", None, None, None, None]
    assert node_at(where, None) is None


def test_the_filter_finds_nodes_and_their_opened_producers() -> None:
    """A node whose producer matches stays, with that producer alone."""
    where, view = opened()
    assert len(producers(where, replace(view, filter="not")).rows) == 1
    narrow = drawn(producers(where, replace(view, filter="train 101")), 158)
    assert [line.split()[:2] for line in narrow[1:3]] == [["▾", "n2"], ["train", "1"]]
    assert producers(where, replace(view, filter="nobody")).empty == "no node and no producer matches 'nobody'"


def test_columns_sort_nodes() -> None:
    """Nodes are sorted by any column, also by the number of producers.

    Producers without such a number keep their order.
    """
    where = known(producers=[producer("own")])
    assert "producers" in sort_keys(where)
    names = [row.name.text for row in producers(where, View(sort="producers")).rows]
    assert names == ["▸ n1", "▸ n3", "▸ n2", "▸ n4", "http"]
    names = [row.name.text for row in producers(where, View(sort="lag")).rows]
    assert names == ["▸ n3", "▸ n1", "▸ n2", "▸ n4", "http"]


def test_reporting_counts_nodes_and_all_producers() -> None:
    """The header and the line under the table count nodes and all producers."""
    assert reporting(snapshot(producers=[producer("own")], nodes=[node("n1"), node("n2")])) == (
        "2/2 nodes reporting, 17 producers",
        "plain",
    )
    assert text(total(known(), View(), 120)).startswith(
        "2/4 nodes reporting, 1 not connected, 1 late, 19 producers · 2.40 k/s"
    )
    assert reporting(snapshot(nodes=[node("n1")], missing_nodes=3)) == (
        "1/4 nodes reporting, 3 not connected, 9 producers",
        "warn",
    )
    ended = [node("n1", status="ended"), node("n2", status="ended")]
    assert reporting(snapshot(producers=[], nodes=ended)) == ("2 nodes, all ended, 16 producers", "plain")
    assert reporting(known(nodes=[node("n1", status="lost")]).snapshot or snapshot())[1] == "bad"


def test_a_run_that_lacks_nodes_names_them_at_the_top() -> None:
    """A run that lacks nodes names them at the top. Nodes that never connected and have no name are counted."""
    lacking = [node("n1", status="ended", completeness="complete"), NodeStat(node="n4")]
    where = known(nodes=lacking, state="COMPLETE", completeness="incomplete", missing_nodes=2, producers=[])
    assert "nodes not complete: n4, 2 nodes that never connected" in text(header(where, View(), 120)[-1])


def test_1250_nodes_make_cells_only_for_what_is_seen() -> None:
    """A table computes the figures of its visible rows, so the number of nodes costs little."""
    rows = producers(known(nodes=[node(f"n{number}") for number in range(1_250)]), View()).rows
    assert len(rows) == 1_250
    assert not any(row.made for row in rows)


def test_a_step_that_waits_names_the_node_or_the_rank() -> None:
    """A leaf has the name of its node. A producer of a node is named by its rank once it is known."""
    axis = AxisStat(name="step", closed=3, open=2, newest=3, oldest_open=4, waiting_for=["leaf-n1", "p1"])
    where, view = opened(axes=[axis])
    waits = steps(where, view, width=160).axes.rows[0].cells[-1].text
    assert waits == "step 4: n1, rank 1 on n2"
    waits = steps(known(axes=[axis]), view, width=160).axes.rows[0].cells[-1].text
    assert waits == "step 4: n1, p1"


def test_a_mark_of_a_node_names_it() -> None:
    """A mark that a leaf made itself has its id."""
    lines = marks(known(marks=[MarkStat(text="load begins", time_ns=NOON, producer="leaf-n1")]))
    assert text(lines[0]).endswith("load begins  node n1")


def test_the_export_has_nodes_and_opened_producers() -> None:
    """The export has nodes and opened producers in the order of the table.

    A row that is no producer is left out.
    """
    where, view = opened(producers=[producer("own")])
    found = export_json(where, view, "producers")["producers"]
    assert [(one.get("node"), one.get("producer")) for one in found] == [
        ("n3", None),
        ("n4", None),
        ("n1", None),
        ("n2", None),
        (None, "p0"),
        (None, "p1"),
        (None, "own"),
    ]

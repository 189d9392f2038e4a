"""The nodes of a run on several machines, in each form of its report."""

from __future__ import annotations

import csv
import json
from io import StringIO
from typing import Any

from msgspec.structs import replace

from telemetry.report import render
from telemetry.report.accounting import producers
from telemetry.report.content import content
from telemetry.report.live_line import describe
from telemetry.report.nodes import NODES_SHOWN, nodes, troubled_first
from telemetry.report.rows import rows
from telemetry.wire.report import Report
from telemetry.wire.snapshot import Accounting, MetricsSnapshot, NodeStat, ProducerStat

NOON_NS = 1_772_366_400_000_000_000


def node(name: str, **changes: Any) -> NodeStat:
    """A node that has ended with all its events."""
    account = Accounting(emitted=100, received=100, applied=100)
    stat = NodeStat(
        node=name,
        leaf=f"leaf-{name}",
        host=f"host-{name}",
        pid=7,
        status="ended",
        completeness="complete",
        producers=8,
        account=account,
        last_seen_ns=NOON_NS,
    )
    return replace(stat, **changes)


def snapshot(*stats: NodeStat, **changes: Any) -> MetricsSnapshot:
    """An ended run that has these nodes and no producer of its own."""
    sums = {name: sum(getattr(stat.account, name) for stat in stats) for name in ("emitted", "received", "applied")}
    incomplete = any(stat.completeness == "incomplete" for stat in stats)
    run = MetricsSnapshot(
        run_id="r",
        name="job",
        state="COMPLETE",
        completeness="incomplete" if incomplete else "complete",
        time_ns=NOON_NS + 12_000_000_000,
        accounting=Accounting(missing=sum(stat.account.missing for stat in stats), **sums),
        nodes=list(stats),
    )
    return replace(run, **changes)


def ended(*stats: NodeStat, **changes: Any) -> Report:
    return Report(snapshot=snapshot(*stats, **changes), source="file")


def running(*stats: NodeStat) -> Report:
    return Report(snapshot=snapshot(*stats, state="LIVE", completeness="incomplete"), source="status")


NEVER_CONNECTED = NodeStat(node="n9", status="lost")
LIVE = node("n1", status="live", completeness="incomplete", events_per_s=1_200.0)


def test_a_run_on_one_machine_has_no_such_section() -> None:
    """The report of a run on one machine mentions no nodes. A run without producers shows `none` for them."""
    assert not nodes(ended())
    assert producers(ended()).lines == ["none"]
    assert "node" not in ended().headline()


def test_a_complete_run_has_a_row_for_each_node() -> None:
    """The first line counts them, and so does the headline. Producers of nodes have no rows."""
    report = ended(node("n1"), node("n2"))
    section = nodes(report)
    assert section.lines == ["2 nodes, all complete, 16 producers"]
    assert section.table is not None
    assert section.table.rows == [
        ["n1", "ended", "complete", "8", "100", "0", "0", "host-n1"],
        ["n2", "ended", "complete", "8", "100", "0", "0", "host-n2"],
    ]
    assert section.notes == []
    assert report.headline() == "complete: job, 2 nodes, 16 producers, 200 of 200 events applied, 0 lost"
    assert not producers(report)
    assert nodes(ended(node("n1"))).lines == ["1 node, 1 complete, 8 producers"]


def test_nodes_that_are_not_complete_come_first_and_in_words() -> None:
    """A node without a leaf, one whose producers never ended, and one whose values are missing."""
    owing = node("n5", completeness="incomplete", status="lost", owing=["w0", "w1"], missing_batches=2)
    lacking = node(
        "n4",
        completeness="incomplete",
        account=Accounting(emitted=100, received=88, applied=88, missing=12),
        reason="its leaf died",
        unrepairable=1,
    )
    report = ended(node("n1"), lacking, owing, NEVER_CONNECTED)
    section = nodes(report)
    assert section.lines == ["4 nodes, 1 complete, 24 producers"]
    assert section.table is not None
    assert [row[:3] for row in section.table.rows] == [
        ["n4", "ended", "incomplete"],
        ["n5", "lost", "incomplete"],
        ["n9", "not connected", "incomplete"],
        ["n1", "ended", "complete"],
    ]
    assert section.notes == [
        "n4: its leaf died",
        "n5: never ended there: w0, w1 · 2 batches of its leaf missing",
        "n9: it never connected",
    ]
    assert report.headline() == (
        "incomplete: job, 4 nodes, 24 producers, 288 events applied, 12 lost, 3 of 4 nodes incomplete"
    )


def test_without_a_reason_what_is_missing_is_told() -> None:
    """A node that goes on has not ended; batches that may still come say more."""
    late = replace(LIVE, missing_batches=2, unrepairable=1, reason="it has not ended")
    late = replace(late, account=Accounting(emitted=100, received=88, applied=88, missing=12))
    assert nodes(running(late)).notes == [
        "n1: 12 events missing · 2 batches of its leaf missing · 1 batch of its leaf permanently lost"
    ]


def test_a_root_that_is_behind_says_how_far() -> None:
    """The lag of the slowest live leaf stands beside `complete so far`, on the live line too; a usual one does not.

    A silent leaf is late instead, and the lag ends with the run.
    """
    now_ns = running(LIVE).snapshot.time_ns

    def live(name: str, age_s: float, **changes: Any) -> NodeStat:
        return replace(LIVE, node=name, leaf=name, interval_ns=now_ns - int(age_s * 1e9), **changes)

    late = live("n4", 70, status="late", last_seen_ns=now_ns - 70 * 10**9)
    report = running(live("n1", 2), live("n2", 58.2), live("n3", 5), late)
    assert [stat.node for stat in troubled_first(report)] == ["n4", "n2", "n3", "n1"]
    assert nodes(report).lines == ["4 nodes, 3 complete so far, 58 s behind, 32 producers"]
    assert nodes(report).notes == ["n4: silent for 70 s", "n2: 58 s behind", "n3: 5 s behind"]
    assert describe(report.snapshot).startswith("0:00  58 s behind  3 of 4 nodes complete")
    punctual = running(live("n1", 2.9), live("n2", 0), LIVE)
    assert nodes(punctual).lines == ["3 nodes, all complete so far, 24 producers"]
    assert "behind" not in describe(punctual.snapshot)
    assert nodes(ended(live("n1", 58))).lines == ["1 node, 0 complete, 8 producers"]


def test_expected_nodes_without_a_name_count() -> None:
    """Expected nodes that never connected are counted, although only their number is known."""
    report = ended(node("n1"), missing_nodes=1, completeness="incomplete")
    assert nodes(report).lines == ["2 nodes, 1 complete, 8 producers", "1 expected node never connected"]
    assert report.headline() == "incomplete: job, 2 nodes, 8 producers, 100 events applied, 1 of 2 nodes incomplete"
    assert nodes(replace(running(), snapshot=replace(running().snapshot, missing_nodes=2))).lines == [
        "2 nodes, 0 complete so far, 0 producers",
        "2 expected nodes have not connected yet",
    ]


def test_a_live_node_that_lacks_nothing_is_complete_so_far() -> None:
    """A leaf that is silent is not, and neither is one that ended without its account."""
    late = replace(LIVE, node="n2", leaf="leaf-n2", status="late")
    section = nodes(running(LIVE, late, replace(LIVE, node="n3", status="ended")))
    assert section.lines == ["3 nodes, 1 complete so far, 24 producers"]
    assert section.table is not None
    assert [row[2] for row in section.table.rows] == ["incomplete", "incomplete", "complete so far"]
    assert section.table.rows[2][-1] == "1.20 k/s"
    assert section.notes == ["n2: silent for 12 s"]


def test_of_many_nodes_only_those_with_something_to_say_are_listed() -> None:
    """A warning of a leaf is something to say."""
    many = [node(f"n{number:04}") for number in range(1_247)]
    warned = node("n2000", warnings=["the disk is full"])
    report = ended(*many, warned, NEVER_CONNECTED, node("n8", completeness="lossy", account=LOSSY))
    section = nodes(report)
    assert section.lines == [
        "1,250 nodes, 1,248 complete, 9,992 producers",
        "only nodes with something to say are listed",
    ]
    assert section.table is not None
    assert [row[0] for row in section.table.rows] == ["n9", "n8", "n2000"]
    assert section.notes[1:] == ["n8: dropped there: 3 negative", "n2000: warning: the disk is full"]
    all_well = nodes(ended(*many))
    assert all_well.table is not None
    assert all_well.table.rows == []
    assert all_well.lines == ["1,247 nodes, all complete, 9,976 producers"]


LOSSY = Accounting(emitted=100, received=100, applied=97, dropped={"negative": 3})


def test_many_lost_nodes_fill_no_screen() -> None:
    """Text lists the first ones and counts the others."""
    lost = [node(f"n{number:02}", completeness="incomplete", status="lost", reason="gone") for number in range(50)]
    text = render(ended(*lost), "text")
    assert text.count(": gone") == NODES_SHOWN
    assert "… and 30 more in the JSON form" in text


def test_direct_producers_are_told_of_beside_the_nodes() -> None:
    """The section of direct producers counts these producers and their repairs only."""
    account = Accounting(emitted=7, received=7, applied=7, repaired=3)
    own = ProducerStat(producer="a", completeness="complete", status="ended", repaired=1)
    repaired = node("n1", account=replace(node("n1").account, repaired=2))
    report = ended(repaired, producers=[own], accounting=account)
    assert producers(report).lines == ["1, all complete, 1 batch repaired"]
    assert report.snapshot.producer_count == 9
    silent = replace(own, completeness="incomplete", status="live")
    report = ended(NEVER_CONNECTED, producers=[silent])
    assert report.unknown == "1 of 1 node incomplete, 1 of 1 producer never ended"


def test_every_form_shows_the_nodes() -> None:
    """Text, Markdown, HTML, JSON and CSV."""
    report = ended(node("n1"), NEVER_CONNECTED)
    for form in ("text", "md", "html"):
        assert "it never connected" in render(report, form), form
    assert "2 nodes, 1 complete, 8 producers" in render(
        report,
        "text",
    )
    assert '<a href="#nodes" class="warn">Nodes 1 not complete</a>' in render(report, "html")
    assert [stat["node"] for stat in json.loads(render(report, "json"))["nodes"]] == ["n1", "n9"]
    lines = csv.DictReader(StringIO(render(report, "csv")))
    figures = {(line["name"], line["figure"]): line["value"] for line in lines if line["kind"] == "node"}
    assert figures["n1", "complete"] == "1"
    assert figures["n1", "producers"] == "8"
    assert figures["n9", "complete"] == "0"
    assert figures["n1", "applied"] == "100"
    leaf = next(row.labels for row in rows(report) if row.kind == "node")
    assert leaf == {"leaf": "leaf-n1", "host": "host-n1", "status": "ended"}


def test_the_first_lines_name_what_is_missing() -> None:
    """Nodes by themselves; of a live run, what it waits for."""
    pending = replace(snapshot().pending, producers=["n9", "other", ""])
    report = ended(node("n1"), NEVER_CONNECTED, pending=pending, missing_nodes=2)
    assert content(report).facts[1:] == [
        "never ended: other",
        "nodes that are not complete: n9, 2 nodes that never connected",
    ]
    crowded = replace(report.snapshot, overflow={"gauge": 100})
    words = "without figures of their own: 100 gauges, which are counted in overflow"
    assert words in content(replace(report, snapshot=crowded)).facts
    draining = replace(report.snapshot, state="DRAINING")
    facts = content(replace(report, snapshot=draining, source="status")).facts
    assert "waiting for node n9, other, an expected node" in facts


def test_the_live_line_counts_nodes() -> None:
    """The live line says how many nodes are complete only if not all are."""
    assert "node" not in describe(running(LIVE, node("n2")).snapshot)
    assert "  1 of 2 nodes complete  " in describe(running(LIVE, NEVER_CONNECTED).snapshot)
    assert "node" not in describe(running().snapshot)


def test_the_order_of_names_stays_within_a_rank() -> None:
    """Incomplete ones, then warnings, then the others."""
    report = ended(node("a"), node("b", warnings=["w"]), NEVER_CONNECTED, node("c"))
    assert [stat.node for stat in troubled_first(report)] == ["n9", "b", "a", "c"]

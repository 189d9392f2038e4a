"""`telemetry nodes`: the nodes of a run on several machines, and the producers of one node."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from msgspec import Struct

from telemetry.cli import console, find_run
from telemetry.errors import TelemetryError, UsageError
from telemetry.wire.control import MemberFacts
from telemetry.wire.exit_codes import Exit
from telemetry.wire.report import Report
from telemetry.wire.snapshot import NodeStat

_OFFERED = 10
"""Largest number of nodes that an error names."""


class NodeAndProducers(Struct, kw_only=True, frozen=True):
    """JSON form of one node. `producers` is null if they are not known here."""

    node: NodeStat
    producers: list[MemberFacts] | None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    find_run.add_run_argument(parser)
    parser.add_argument(
        "node", metavar="NODE", nargs="?", help="name of a node, or run id of its leaf: list its producers"
    )
    parser.add_argument("--json", action="store_true", help="print JSON: the nodes, or one node and its producers")


def run(args: argparse.Namespace) -> int:
    target = find_run.find(args)
    report = find_run.report_of(target)
    if args.node is None:
        _write_nodes(report, as_json=args.json)
        return Exit.OK
    node = _node(report, args.node)
    members, why = _members(target, report, node)
    if args.json:
        console.write_json(NodeAndProducers(node=node, producers=members))
    else:
        _write_node(report, node, members)
    if members is None:
        console.say(why)
    return Exit.OK


def _write_nodes(report: Report, *, as_json: bool) -> None:
    from telemetry.common.wording import nodes as summary
    from telemetry.report import nodes
    from telemetry.report.accounting import is_over
    from telemetry.report.table import layout

    everyone = nodes.troubled_first(report)
    if as_json:
        console.write_json(report.snapshot.nodes)
    elif not report.snapshot.node_count:
        console.say(f"{report.snapshot.name} has no nodes; its producers send to its aggregator directly")
    else:
        lines = [
            *layout(nodes.table(report, everyone), console.width(sys.stdout)),
            "",
            summary(report.snapshot, over=is_over(report)),
            *nodes.notes(report, everyone, most=len(everyone)),
        ]
        console.write("\n".join(lines) + "\n")


def _node(report: Report, wanted: str) -> NodeStat:
    """Return the node of this name, or whose leaf has this run id. Raises UsageError."""
    nodes = report.snapshot.nodes
    matching = [stat for stat in nodes if wanted in (stat.node, stat.leaf)]
    if len(matching) > 1:
        leaves = ", ".join(stat.leaf for stat in matching[:_OFFERED]) + (", …" if len(matching) > _OFFERED else "")
        raise UsageError(
            f"{len(matching):,} leaves have the name {wanted!r}", hint=f"give the run id of one of them: {leaves}"
        )
    if matching:
        return matching[0]
    names = ", ".join(stat.node for stat in nodes[:_OFFERED]) + (", …" if len(nodes) > _OFFERED else "")
    hint = f"its nodes are {names}" if nodes else "its producers send to its aggregator directly"
    raise UsageError(f"{report.snapshot.name} has no node {wanted!r}", hint=hint)


def _members(target: find_run.RunTarget, report: Report, node: NodeStat) -> tuple[list[MemberFacts] | None, str]:
    """Return the producers of a node, or None and a sentence that says where they can be found."""
    from telemetry.store.members import members_on_disk
    from telemetry.transport.client import ask_members

    why = "the root lists the producers of a node only while the run is live"
    if report.source == "status":
        try:
            return ask_members(target.endpoint, node.leaf or node.node), ""
        except TelemetryError as error:
            why = error.message
    members = members_on_disk(node, find_run.fallback_dirs())
    if members is None and node.directory:
        why += f"; the leaf has its own result in {node.directory} on {node.host or node.node}"
    return members, why


def _write_node(report: Report, node: NodeStat, members: Sequence[MemberFacts] | None) -> None:
    from telemetry.common.formatting import NOTHING, printable
    from telemetry.report import nodes
    from telemetry.report.table import ReportTable, TableColumn, layout

    width = console.width(sys.stdout)
    lines = layout(nodes.table(report, [node]), width)
    lines += nodes.notes(report, [node])
    places = {"leaf": node.leaf, "address": node.endpoint, "directory": node.directory}
    lines += [printable(f"{what} {where}") for what, where in places.items() if where]
    if members:
        heads = [
            TableColumn("producer"),
            TableColumn("rank"),
            TableColumn("host", 1, right=False),
            TableColumn("pid", 2),
            TableColumn("id", 3, right=False),
        ]
        ranked = sorted(members, key=lambda member: (member.rank is None, member.rank or 0))
        rows = [
            [
                printable(member.name or member.producer),
                NOTHING if member.rank is None else str(member.rank),
                printable(member.host) or NOTHING,
                str(member.pid or NOTHING),
                printable(member.producer),
            ]
            for member in ranked
        ]
        lines += ["", *layout(ReportTable(heads, rows), width)]
    elif members is not None:
        lines += ["", "no producer has said hello to its leaf yet"]
    console.write("\n".join(lines) + "\n")

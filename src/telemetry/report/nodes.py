"""The section of a report about the nodes of a run on several machines."""

from __future__ import annotations

from typing import Final

from telemetry.common import formatting, wording
from telemetry.common.formatting import NOTHING, number_of, printable
from telemetry.report.accounting import is_over
from telemetry.report.table import ReportTable, Section, TableColumn
from telemetry.wire.report import Report
from telemetry.wire.snapshot import NodeStat

NODES_SHOWN: Final = 20
"""Largest number of nodes that are listed although all their events are counted."""
_COLUMNS: Final = [
    TableColumn("node"),
    TableColumn("status", 2, right=False),
    TableColumn("result", right=False),
    TableColumn("producers", 3),
    TableColumn("events", 1),
    TableColumn("lost", 1),
    TableColumn("missing", 4),
    TableColumn("host", 5, right=False),
]
_RATE: Final = TableColumn("events/s", 6)


def nodes(report: Report) -> Section:
    """Return a table of the nodes. If there are many, list only those with something to say."""
    everyone, missing = report.snapshot.nodes, report.snapshot.missing_nodes
    if not report.snapshot.node_count:
        return Section("Nodes")
    over = is_over(report)
    shown = troubled_first(report)
    if len(everyone) > NODES_SHOWN:
        shown = [stat for stat in shown if _speaks(stat, report)]
    lines = [wording.nodes(report.snapshot, over=over)]
    if len(everyone) > len(shown) > 0:
        lines.append("only nodes with something to say are listed")
    if missing:
        connected = "never connected" if over else f"{'has' if missing == 1 else 'have'} not connected yet"
        lines.append(f"{number_of(missing, 'expected node')} {connected}")
    return Section("Nodes", lines, table=table(report, shown), notes=notes(report, shown), rows_shown=NODES_SHOWN)


def not_well(report: Report) -> list[NodeStat]:
    """Return the nodes whose events are not all counted."""
    over = is_over(report)
    return [stat for stat in report.snapshot.nodes if not wording.node_is_well(stat, over=over)]


def troubled_first(report: Report) -> list[NodeStat]:
    """Return all nodes by name: first those that are not complete, then those that are late or have a warning."""
    over = is_over(report)

    def rank(stat: NodeStat) -> int:
        return 0 if not wording.node_is_well(stat, over=over) else 1 if _speaks(stat, report) else 2

    return sorted(report.snapshot.nodes, key=rank)


def table(report: Report, shown: list[NodeStat]) -> ReportTable:
    """Return the table of these nodes, with their rates while the run goes on."""
    over = is_over(report)
    columns = _COLUMNS if over else [*_COLUMNS, _RATE]
    return ReportTable(columns, [_row(stat, over=over) for stat in shown])


def notes(report: Report, shown: list[NodeStat], most: int = NODES_SHOWN) -> list[str]:
    """Return a line for each of these nodes that has something to say."""
    over, lines = is_over(report), []
    for stat in shown[:most]:
        troubles = list(wording.node_troubles(stat, report.snapshot, over=over))
        lines += [f"{printable(stat.node)}: {' · '.join(troubles)}"] if troubles else []
    return lines


def _speaks(stat: NodeStat, report: Report) -> bool:
    return any(wording.node_troubles(stat, report.snapshot, over=is_over(report)))


def _row(stat: NodeStat, *, over: bool) -> list[str]:
    account = stat.account
    below = f" on {formatting.count(stat.nodes)} nodes" if stat.nodes else ""
    cells = [
        printable(stat.node),
        wording.node_status(stat, over=over),
        wording.node_result(stat, over=over),
        f"{formatting.count(stat.producers)}{below}",
        formatting.count(account.applied),
        formatting.count(account.lost),
        formatting.count(account.missing),
        printable(stat.host) or NOTHING,
    ]
    return cells if over else [*cells, formatting.rate(stat.events_per_s)]

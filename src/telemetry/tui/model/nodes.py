"""Rows of the table of producers for a run on several machines: its nodes, and the producers of opened nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from telemetry.common import formatting, wording
from telemetry.common.formatting import NOTHING, printable
from telemetry.tui.model import numbers
from telemetry.tui.model.grid import Cell, Column, Line, Row, Tone
from telemetry.tui.model.scene import Scene, View
from telemetry.tui.model.visible_series import in_order, matches
from telemetry.wire.control import MemberFacts
from telemetry.wire.snapshot import TERMINAL, MetricsSnapshot, NodeStat

_KEY: Final = "node "
"""Prefix of the keys of nodes. Ids of producers contain no space."""
_MEMBER: Final = "member "
_TONES: Final[dict[str, Tone]] = {
    "live": "good",
    "late": "warn",
    "not connected": "warn",
    "lost": "bad",
    "not ended": "bad",
    "ended": "dim",
}
_SILENT: Final = frozenset({"late", "lost"})


def identity(stat: NodeStat) -> str:
    """Return the run id of the leaf of a node; its name while no leaf has connected."""
    return stat.leaf or stat.node


def node_at(scene: Scene, key: str | None) -> NodeStat | None:
    """Return the node whose row has this key; None for any other row."""
    if scene.snapshot is None or key is None or not key.startswith(_KEY):
        return None
    wanted = key.removeprefix(_KEY)
    return next((stat for stat in scene.snapshot.nodes if identity(stat) == wanted), None)


def stat_of_row(scene: Scene, key: str) -> NodeStat | MemberFacts | None:
    """Return what the row with this key is about; None for a row that is no node and no producer of a node."""
    if key.startswith(_KEY):
        return node_at(scene, key)
    node, _, producer = key.removeprefix(_MEMBER).partition(" ")
    members = scene.members.get(node, ()) if key.startswith(_MEMBER) else ()
    return next((member for member in members if member.producer == producer), None)


def node_rows(scene: Scene, view: View, columns: tuple[Column, ...]) -> Iterator[Row]:
    """Yield a row for each node that passes the filter, and for each producer of an opened one.

    Without a chosen order, nodes that are not complete come first, then those with warnings. Figures are computed
    for visible rows only.
    """
    snapshot = scene.snapshot
    if snapshot is None:
        return
    over = snapshot.state in TERMINAL
    sorter = SORTERS.get(view.sort)
    if sorter is None:
        nodes = sorted(snapshot.nodes, key=lambda stat: (wording.node_is_well(stat, over=over), not stat.warnings))
    else:
        nodes = in_order(snapshot.nodes, partial(sorter, snapshot), descending=view.descending)
    for stat in nodes:
        opened = identity(stat) in view.opened_nodes
        members = scene.members.get(identity(stat)) if opened else ()
        passing = matches(f"{stat.node} {stat.host} {wording.node_status(stat, over=over)}", view.filter)
        shown = [member for member in members or () if passing or matches(_searched(member), view.filter)]
        if not (passing or shown):
            continue
        mark = "▾" if opened else "▸"
        name = Cell(f"{mark} {printable(stat.node)}")
        yield Row(_KEY + identity(stat), name, partial(_figures, stat, snapshot, view, columns))
        if opened:
            yield from _member_rows(stat, members, shown, columns)


SORTERS: Final[dict[str, Callable[[MetricsSnapshot, NodeStat], float | str | None]]] = {
    "name": lambda snapshot, stat: stat.node.casefold(),
    "producers": lambda snapshot, stat: stat.producers,
    "host": lambda snapshot, stat: stat.host,
    "status": lambda snapshot, stat: stat.status,
    "rate": lambda snapshot, stat: stat.events_per_s,
    "received": lambda snapshot, stat: stat.account.received,
    "lost": lambda snapshot, stat: stat.account.lost,
    "repaired": lambda snapshot, stat: stat.account.repaired,
    "lag": lambda snapshot, stat: wording.behind_s(stat, snapshot),
    "seen": lambda snapshot, stat: -stat.last_seen_ns,
}


def _searched(member: MemberFacts) -> str:
    return f"{member.name} {member.producer} {member.host}:{member.pid}"


def _figures(stat: NodeStat, snapshot: MetricsSnapshot, view: View, columns: tuple[Column, ...]) -> Line:
    """Return the cells beside the name."""
    over = snapshot.state in TERMINAL
    status = wording.node_status(stat, over=over)
    account, behind_s = stat.account, wording.behind_s(stat, snapshot)
    lost = account.lost
    troubles = ", ".join(wording.node_troubles(stat, snapshot, over=over))
    grave = over and not wording.node_is_well(stat, over=over)
    cells = {
        "rank": Cell(""),
        "producers": Cell(formatting.count(stat.producers)),
        "host": Cell(printable(f"{stat.host}:{stat.pid}") if stat.host else NOTHING, "dim"),
        "status": Cell(status, _TONES[status]),
        "rate": Cell(numbers.rate(stat.events_per_s, "", view.units)),
        "received": Cell(numbers.counted(account.received, view.units)),
        "lost": Cell(formatting.count(lost), "dim" if not lost else "warn" if lost == account.missing else "bad"),
        "repaired": Cell(formatting.count(account.repaired), "plain" if account.repaired else "dim"),
        "lag": Cell(formatting.duration_s(behind_s), "warn" if (behind_s or 0.0) > wording.BEHIND_S else "plain"),
        "seen": Cell(
            numbers.seen(stat.last_seen_ns, snapshot.time_ns, over=over or stat.status == "ended"), _seen_tone(stat)
        ),
        "note": Cell(troubles, "bad" if grave else "warn" if troubles else "plain"),
    }
    return tuple(cells[column.key] for column in columns if column.key != "name")


def _seen_tone(stat: NodeStat) -> Tone:
    return "warn" if stat.status in _SILENT else "plain"


def _member_rows(
    stat: NodeStat, members: tuple[MemberFacts, ...] | None, shown: list[MemberFacts], columns: tuple[Column, ...]
) -> Iterator[Row]:
    """Yield the producers of an opened node. Only its leaf knows how much each has sent."""
    inside = f"{_MEMBER}{identity(stat)} "
    blank = (Cell(""),) * (len(columns) - 1)
    for member in sorted(shown, key=lambda facts: (facts.rank is None, facts.rank or 0)):
        cells = {
            "rank": Cell(NOTHING if member.rank is None else str(member.rank)),
            "host": Cell(printable(f"{member.host}:{member.pid}") if member.host else NOTHING, "dim"),
        }
        figures = tuple(cells.get(column.key, Cell("")) for column in columns if column.key != "name")
        yield Row(inside + member.producer, Cell(f"    {printable(member.name or member.producer)}"), figures)
    if members is None:
        yield Row(inside, Cell("    asking for its producers", "dim"), blank)
    elif len(members) < stat.producers:
        more = f"    {stat.producers - len(members):,} {'more' if members else 'producers'}, not listed"
        yield Row(inside, Cell(more, "dim"), blank)

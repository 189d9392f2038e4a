"""The table of nodes and producers, with notes on producers that differ from the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import median
from typing import Final

from telemetry.common import formatting, wording
from telemetry.common.formatting import NOTHING, printable
from telemetry.tui.model import numbers
from telemetry.tui.model.grid import Cell, Column, Grid, Line, Piece, Row, Tone, fitted
from telemetry.tui.model.header import reporting
from telemetry.tui.model.nodes import SORTERS, node_rows
from telemetry.tui.model.scene import Scene, View
from telemetry.tui.model.visible_series import in_order, is_over, matches
from telemetry.wire.snapshot import TERMINAL, MetricsSnapshot, ProducerStat, ProducerStatus

SLOW_BELOW: Final = 0.9
"""Share of the median rate below which a producer counts as slow. Rates of equal producers differ by less."""
LAGS_BY: Final = 3.0
LAGS_FROM_S: Final = 0.25
"""Lag in seconds below which no producer counts as lagging: producers send every 50 ms."""
LOSES_BY: Final = 3.0
_ENOUGH: Final = 3
"""Fewest producers to compare. With two, the odd one can't be determined."""
_STATUS_TONES: Final[dict[ProducerStatus, Tone]] = {"live": "good", "late": "warn", "lost": "bad", "ended": "dim"}


@dataclass(frozen=True, slots=True)
class ProducerNotes:
    """Notes on producers that differ, by their ids."""

    slowest: str = ""
    slow_share: float = 0.0
    """Rate of the slowest producer, as a share of the median."""
    lagging: frozenset[str] = frozenset()
    losing: frozenset[str] = frozenset()


def producers(scene: Scene, view: View) -> Grid:
    """Return the table of producers, in the chosen order or by rank. Nodes come first.

    Producers without a rank follow in order of arrival, and collectors come last.
    """
    snapshot = scene.snapshot
    if snapshot is None:
        return Grid(empty="no producers yet")
    stats = [stat for stat in snapshot.producers if matches(_searched(stat), view.filter)]
    sorter = _SORTERS.get(view.sort)
    if sorter is None:
        stats.sort(key=lambda stat: (stat.rank is None, stat.rank or 0))
    else:
        stats = in_order(stats, sorter, descending=view.descending)
    stats.sort(key=lambda stat: stat.is_collector)  # no part of the job, so at the end
    columns = _columns(scene)
    odd = notes(snapshot)
    rows = list(node_rows(scene, view, columns))
    for stat in stats:
        cells = _cells(stat, snapshot, odd, view)
        name, *figures = (cells[column.key] for column in columns)
        rows.append(Row(stat.producer, name, tuple(figures)))
    return Grid(
        columns,
        tuple(rows),
        sorted_by=view.sort if sorter else "",
        descending=view.descending,
        empty=_empty(scene, snapshot, view),
    )


def _empty(scene: Scene, snapshot: MetricsSnapshot, view: View) -> str:
    if snapshot.nodes:
        return f"no node and no producer matches '{printable(view.filter)}'"
    if snapshot.producers:
        return f"no producer matches '{printable(view.filter)}'"
    return "the run has no producers" if is_over(scene) else "no producers yet"


def total(scene: Scene, view: View, width: int) -> Line:
    """Return one line about all producers together. Collectors are left out."""
    snapshot = scene.snapshot
    if snapshot is None:
        return ()
    text, tone = reporting(snapshot)
    account = snapshot.accounting
    rate = sum(stat.events_per_s for stat in snapshot.own_producers)
    rate += sum(stat.events_per_s for stat in snapshot.nodes)
    pieces = [
        Piece(text, tone),
        Piece(f"{numbers.rate(rate, '', view.units)}", keep=2),
        Piece(f"{numbers.counted(snapshot.accounting.received, view.units)} received", keep=3),
        Piece(f"{formatting.count(account.lost)} lost", "bad" if account.lost else "plain"),
        Piece(f"{wording.batches(account.repaired)} repaired" if account.repaired else "", keep=1),
        Piece(
            f"{wording.batches(account.unrepairable)} permanently lost" if account.unrepairable else "", "bad", 1
        ),
    ]
    return fitted(pieces, width)


def sort_keys(scene: Scene) -> tuple[str, ...]:
    """Return the sort keys, from left to right. "" stands for the order of ranks."""
    columns = _columns(scene)
    return ("", *(column.key for column in columns if column.key in _SORTERS or column.key in SORTERS))


def notes(snapshot: MetricsSnapshot) -> ProducerNotes:
    """Find the producers that differ. Needs at least three producers.

    * slowest, among those that have not ended: the lowest rate, if it is below 90 % of the median;
    * lagging, among those that have not ended: events more than 250 ms old on arrival, and more than three times as
      old as the median;
    * losing, among all: lost events, and more than three times the median share of them.
    """
    active = [stat for stat in snapshot.own_producers if stat.status != "ended"]
    everybody = snapshot.own_producers
    losing: set[str] = set()
    if len(everybody) >= _ENOUGH:
        shares = {stat.producer: lost(stat) / max(1, stat.emitted) for stat in everybody}
        usual = median(shares.values())
        losing = {producer for producer, share in shares.items() if share > usual * LOSES_BY and share > 0}
    if len(active) < _ENOUGH:
        return ProducerNotes(losing=frozenset(losing))
    slowest = min(active, key=lambda stat: stat.events_per_s)
    middle = median(stat.events_per_s for stat in active)
    share = slowest.events_per_s / middle if middle > 0 else 1.0
    lags = {stat.producer: stat.lag_s for stat in active if stat.lag_s is not None}
    bound = max(LAGS_FROM_S, LAGS_BY * median(lags.values())) if lags else 0.0
    return ProducerNotes(
        slowest=slowest.producer if share < SLOW_BELOW else "",
        slow_share=share,
        lagging=frozenset(producer for producer, lag in lags.items() if lag > bound),
        losing=frozenset(losing),
    )


def lost(stat: ProducerStat) -> int:
    """Return how many events of a producer are missing from the numbers so far."""
    return sum(stat.dropped.values()) + sum(stat.dropped_by_producer.values()) + stat.missing


def _columns(scene: Scene) -> tuple[Column, ...]:
    snapshot = scene.snapshot
    if snapshot is None:
        return ()
    ranked = any(stat.rank is not None for stat in snapshot.producers) or any(
        member.rank is not None for members in scene.members.values() for member in members
    )
    return (
        Column("name", "node, producer" if snapshot.nodes else "producer", right=False),
        *([Column("producers", "producers", keep=4)] if snapshot.nodes else []),
        *([Column("rank", "rank")] if ranked else []),
        Column("host", "host:pid", right=False, keep=5),
        Column("status", "status", right=False, keep=1),
        Column("rate", "rate"),
        Column("received", "received", keep=6),
        Column("lost", "lost", keep=2),
        Column("repaired", "repaired", keep=7),
        Column("lag", "lag", keep=3),
        Column("seen", "seen", keep=4),
        Column("note", "", right=False),
    )


_SORTERS: Final[dict[str, Callable[[ProducerStat], float | str | None]]] = {
    "name": lambda stat: (stat.name or stat.producer).casefold(),
    "rank": lambda stat: stat.rank,
    "host": lambda stat: f"{stat.host}:{stat.pid:08}",
    "status": lambda stat: stat.status,
    "rate": lambda stat: stat.events_per_s,
    "received": lambda stat: stat.received,
    "lost": lost,
    "repaired": lambda stat: stat.repaired,
    "lag": lambda stat: stat.lag_s,
    "seen": lambda stat: -stat.last_seen_ns,
}


def _searched(stat: ProducerStat) -> str:
    return f"{wording.producer(stat)} {stat.status}"


def _cells(stat: ProducerStat, snapshot: MetricsSnapshot, odd: ProducerNotes, view: View) -> dict[str, Cell]:
    """Return the cells by the key of their column."""
    gone = lost(stat)
    note, grave = _note(stat, snapshot, odd)
    slow: Tone = "warn" if stat.producer == odd.slowest else "plain"
    silent = stat.status in ("late", "lost")
    over = snapshot.state in TERMINAL
    not_ended = over and stat.status == "live"
    seen = numbers.seen(stat.last_seen_ns, snapshot.time_ns, over=over or stat.status == "ended")
    return {
        "name": Cell(printable(stat.name or stat.producer)),
        "producers": Cell(""),
        "rank": Cell(NOTHING if stat.rank is None else str(stat.rank)),
        "host": Cell(printable(f"{stat.host}:{stat.pid}") if stat.host else NOTHING, "dim"),
        "status": Cell("not ended", "bad") if not_ended else Cell(stat.status, _STATUS_TONES[stat.status]),
        "rate": Cell(numbers.rate(stat.events_per_s, "", view.units), slow),
        "received": Cell(numbers.counted(stat.received, view.units)),
        "lost": Cell(formatting.count(gone), "dim" if not gone else "warn" if gone == stat.missing else "bad"),
        "repaired": Cell(formatting.count(stat.repaired), "plain" if stat.repaired else "dim"),
        "lag": Cell(formatting.duration_s(stat.lag_s), "warn" if stat.producer in odd.lagging else "plain"),
        "seen": Cell(seen, "warn" if silent else "plain"),
        "note": Cell(note, "bad" if grave else "warn" if note else "plain"),
    }


def _note(stat: ProducerStat, snapshot: MetricsSnapshot, odd: ProducerNotes) -> tuple[str, bool]:
    """Return notes on a producer, worst first, and whether any is grave; empty if all is well."""
    remarks = list(_said(stat, snapshot, odd))
    return ", ".join(remark for remark, _ in remarks), any(grave for _, grave in remarks)


def _said(stat: ProducerStat, snapshot: MetricsSnapshot, odd: ProducerNotes) -> Iterator[tuple[str, bool]]:
    over = snapshot.state in TERMINAL
    if stat.unfinished:
        yield "still recording at the end", True
    elif over and stat.completeness == "incomplete":
        yield "never ended", True
    elif stat.completeness == "unknown":
        yield "said no hello", False
    if stat.unrepairable:
        yield f"{wording.batches(stat.unrepairable)} permanently lost", True
    elif stat.missing_batches:
        yield "gaps, requested again", False
    if stat.salvaged:
        yield f"killed{wording.salvaged(stat.salvaged)}", False
    if stat.producer in odd.losing:
        yield "loses most", True
    if stat.producer in odd.lagging:
        yield "lags", False
    if stat.producer == odd.slowest:
        yield f"slowest: {odd.slow_share * 100:.0f} %", False

"""Writers to trackers: a table with one row for each, and a summary line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from telemetry.common import formatting, wording
from telemetry.common.formatting import printable
from telemetry.common.wording import BackendWording, Health
from telemetry.tui.model import numbers
from telemetry.tui.model.grid import BETWEEN, Cell, Column, Grid, Line, Row, Tone, cut, elided, width_of
from telemetry.tui.model.scene import Scene, View
from telemetry.wire.snapshot import TERMINAL, BackendStat, MetricsSnapshot

TONES: Final[Mapping[Health, Tone]] = {"good": "good", "calm": "accent", "warn": "warn", "bad": "bad"}
_EDGES: Final = 3
"""Columns used by the edges of a table and by its scrollbar."""
_TITLE: Final = Cell("backends", "dim")
_APART: Final = Cell("  ")
_WHY: Final = Cell(": ")
_LEAST_WHY: Final = 12
"""Fewest columns for a reason: a shorter text would be meaningless."""
_FRESH_S: Final = 2.0
"""Age in seconds from which a report counts as old and its age is shown. A writer reports twice a second."""
_COLUMNS: Final = (
    Column("name", "backend", right=False),
    Column("state", "state", right=False),
    Column("queued", "queued"),
    Column("written", "delivered", keep=1),
    Column("dropped", "dropped", keep=2),
    Column("retried", "retried", keep=4),
    Column("no_place", "unsupported", keep=6),
    Column("repeated", "repeated", keep=7),
    Column("restarts", "restarts", keep=8),
    Column("breaker", "breaker", right=False, keep=5),
    Column("seen", "seen", keep=3),
)


def backends(snapshot: MetricsSnapshot, view: View, width: int = 80, *, places: bool = False) -> Grid:
    """Return a table with one row per backend, in the order of their first appearance.

    Rows below a backend have its last error and its drop reasons, and with `places` the location of its data.
    `width` is in columns.
    """
    rows: list[Row] = []
    for stat in snapshot.backends:
        cells = _cells(stat, snapshot, view)
        name, *figures = (cells[column.key] for column in _COLUMNS)
        rows.append(Row(stat.name, name, tuple(figures)))
        rows += _said(stat, snapshot, width - _EDGES, places=places)
    return Grid(_COLUMNS, tuple(rows), empty="no backends")


def backends_line(scene: Scene, width: int) -> Line:
    """Return the summary line, `backends  tensorboard ✓ 12,300 · wandb retrying, 3,200 queued: connection refused`.

    Empty without backends. If the line is too long, healthy backends are counted instead of named, then reasons are
    shortened, then amounts are left out.
    """
    snapshot = scene.snapshot
    if snapshot is None or not snapshot.backends:
        return ()
    stats = [(stat, wording.looked_at_ns(stat, snapshot)) for stat in snapshot.backends]
    summaries = [(printable(stat.name), wording.backend(stat, now_ns)) for stat, now_ns in stats]
    whole = _line(summaries, 0)
    if width_of(whole) <= width:
        return whole
    troubled = [(name, summary) for name, summary in summaries if summary.health != "good"]
    well = len(summaries) - len(troubled)
    without = _line([(name, summary._replace(why="")) for name, summary in troubled], well)
    reasons = sum(bool(summary.why) for _, summary in troubled)
    room = (width - width_of(without)) // max(1, reasons) - len(_WHY.text)
    if room >= _LEAST_WHY:
        return _line([(name, summary._replace(why=elided(summary.why, room))) for name, summary in troubled], well)
    if width_of(without) <= width:
        return without
    return cut(_line([(name, summary._replace(amounts="", why="")) for name, summary in troubled], well), width)


def _line(summaries: Sequence[tuple[str, BackendWording]], well: int) -> Line:
    """Return a line with the count of healthy backends and the names of the others."""
    pieces: list[Line] = [(Cell(f"{well} "), Cell("✓", TONES["good"]))] if well else []
    for name, summary in summaries:
        why = (_WHY, Cell(summary.why)) if summary.why else ()
        pieces.append((Cell(f"{name} "), Cell(f"{summary.state}{summary.amounts}", TONES[summary.health]), *why))
    line = [_TITLE, _APART]
    for index, piece in enumerate(pieces):
        line += [*([BETWEEN] if index else []), *piece]
    return tuple(line)


def _cells(stat: BackendStat, snapshot: MetricsSnapshot, view: View) -> dict[str, Cell]:
    """Return the cells by the key of their column."""
    now_ns = wording.looked_at_ns(stat, snapshot)
    state, health = wording.backend_state(stat, now_ns)
    open_tone: Tone = "plain" if stat.breaker == "closed" else "warn"
    return {
        "name": Cell(printable(stat.name)),
        "state": Cell(state, TONES[health]),
        "queued": _number(stat.queued, view),
        "written": _number(stat.written, view),
        "dropped": _number(sum(stat.dropped.values()), view, "bad"),
        "retried": _number(stat.retried, view),
        "no_place": _number(sum(stat.no_place.values()), view),
        "repeated": _number(stat.repeated, view, "warn"),
        "restarts": _number(stat.restarts, view, "warn"),
        "breaker": Cell(stat.breaker, "dim" if stat.breaker == "closed" else open_tone),
        "seen": Cell(_seen(stat, snapshot), "warn" if wording.is_silent(stat, now_ns) else "plain"),
    }


def _number(number: int, view: View, tone: Tone = "plain") -> Cell:
    text = formatting.count(number) if view.units == "readable" else numbers.plain(number)
    return Cell(text, tone if number else "dim")


def _seen(stat: BackendStat, snapshot: MetricsSnapshot) -> str:
    if not stat.time_ns:
        return "never"
    if snapshot.state in TERMINAL:
        return formatting.clock_time(stat.time_ns)[:8]
    age_s = max(0, snapshot.time_ns - stat.time_ns) / 1e9
    return "now" if age_s < _FRESH_S else numbers.seconds(age_s)


def _said(stat: BackendStat, snapshot: MetricsSnapshot, width: int, *, places: bool) -> Iterator[Row]:
    """Yield rows for texts that do not fit in a column. An error that is over is shown dim."""
    _, health = wording.backend_state(stat, wording.looked_at_ns(stat, snapshot))
    trouble: Tone = "dim" if health in ("good", "calm") else TONES[health]
    details: list[tuple[str, str, Tone]] = []
    if stat.last_error:
        often = f" ({stat.failures:,} in a row, breaker {stat.breaker})" if stat.breaker != "closed" else ""
        details.append(("last error", f"{stat.last_error}{often}", trouble))
    if stat.dropped:
        details.append(("dropped", wording.counted(stat.dropped), "bad"))
    if places and stat.place:
        details.append(("where", stat.place, "dim"))
    for what, text, tone in details:
        head = f"  {what}:"
        short_text = elided(printable(text), width - len(head) - 1)
        yield Row(f"{what} {stat.name}", Cell(head, "dim"), (Cell(short_text, tone),), heading=True)

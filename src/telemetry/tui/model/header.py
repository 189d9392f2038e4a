"""The lines at the top of each screen: the run, its state, and whether its numbers can be trusted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from telemetry.common import formatting, wording
from telemetry.common.formatting import number_of, printable
from telemetry.history.headlines import not_finite
from telemetry.tui.model import numbers
from telemetry.tui.model.grid import (
    BETWEEN,
    Cell,
    Line,
    Piece,
    Tone,
    apart,
    cut,
    elided,
    fitted,
    taken,
    width_of,
    wrapped,
)
from telemetry.tui.model.scene import Scene, Units, View
from telemetry.tui.model.visible_series import moment_words
from telemetry.wire.gates import RUN_EXIT_CODES, GateResult, Outcome, worst
from telemetry.wire.snapshot import TERMINAL, Completeness, MetricsSnapshot, Progress

_LEAST_BAR: Final = 8
_MOST_BAR: Final = 40
"""Longest bar in columns: a longer one is not read more precisely."""
_NAME_COLUMNS: Final = 24
_BADGES: Final[dict[str, tuple[str, Tone]]] = {
    "INITIALIZE": ("WAITING", "accent"),
    "LIVE": ("LIVE", "good"),
    "DRAINING": ("DRAINING", "warn"),
    "COMPLETE": ("COMPLETE", "good"),
    "INTERRUPTED": ("INTERRUPTED", "bad"),
}
_TONES: Final[dict[Completeness, Tone]] = {
    "complete": "good",
    "lossy": "bad",
    "incomplete": "warn",
    "interrupted": "bad",
}
_GATES: Final[dict[Outcome, tuple[str, Tone, int]]] = {
    "fail": ("failed", "bad", 0),
    "inconclusive": ("inconclusive", "warn", 0),
    "pass": ("passed", "good", 3),
}
"""Outcome of gates → words, tone, and when they are left out."""
_GATES_SO_FAR: Final[dict[Outcome, tuple[str, Tone, int]]] = {
    "fail": ("failing", "bad", 0),
    "inconclusive": ("undecided", "dim", 3),
    "pass": ("passing", "good", 3),
}
_OF_COMMAND: Final = ("the command exited", "the command was killed")
"""Starts of reasons that repeat the outcome of the command."""
_SILENT: Final = Cell(" SILENT ", "warn")
TROUBLE_LINES: Final = 4
"""Lines of 80 columns for the age of the last snapshot and a reason that contains a command."""
_NAMED: Final = 4
"""Producers named in a line; further ones are counted."""
_LEAST_NAME: Final = 12
"""Columns always kept for the run's name."""
_NOT_REPORTING: Final = ("ended", "not connected", "late", "lost")
_SUSPECT: Final = ("late", "not connected")
_BEHIND: Final = 0.05
"""Share of late ticks above which an aggregator counts as overloaded."""


def header(scene: Scene, view: View, width: int) -> tuple[Line, ...]:
    """Return the header: two lines of at most `width` columns, or three if the run has a progress goal.

    The first line has the badge and the run, the next one the progress, the last one the completeness of the
    numbers. A connection problem replaces the last line, with at most TROUBLE_LINES lines.
    """
    snapshot = scene.snapshot
    if snapshot is None:
        badge = Cell(" CONNECTING ", "warn" if scene.trouble else "accent")
        message = _trouble(scene, width) or ((Cell("waiting for the first snapshot", "dim"),),)
        return (cut((badge,), width), *message)
    lines = [_first(scene, snapshot, view, width)]
    silent, past = scene.silence_s > 0, scene.moment is not None
    if bar := progress(snapshot, width, silent=silent, past=past, steps_per_s=scene.steps_per_s):
        lines.append(bar)
    if trouble := _trouble(scene, width):
        return (*lines, *trouble)
    pieces = list(_pending(snapshot) if snapshot.state == "DRAINING" else _course(snapshot))
    shown = gates(scene.gates, final=scene.gates_final)
    if scene.gates_final and (of_run := _exit_of_run(snapshot, scene.gates)):
        shown.append(of_run)
    pieces[1:1] = shown
    pieces[:0] = [Piece(text, "warn") for text in not_finite(snapshot, short=True)]
    if snapshot.state in TERMINAL:
        pieces = [*_failure(snapshot, width), *pieces]
    return (*lines, fitted(pieces, width))


def badge(snapshot: MetricsSnapshot, gates: Sequence[GateResult] = ()) -> Cell:
    """Return the state as text between spaces. `gates`: their final results.

    A run is not `good` if its command or a gate failed, if a value is not finite, or if it lost events.
    """
    label, tone = _BADGES[snapshot.state]
    if snapshot.state == "COMPLETE" and wording.failure(snapshot):
        return Cell(" FAILED ", "bad")
    if snapshot.state == "COMPLETE" and gates and worst(list(gates)) == "fail":
        return Cell(" GATE FAILED ", "bad")
    if snapshot.state == "COMPLETE" and snapshot.completeness != "complete":
        tone = _TONES[snapshot.completeness]
    elif snapshot.state == "COMPLETE" and not_finite(snapshot):
        tone = "warn"
    return Cell(f" {label} ", tone)


def _exit_of_run(snapshot: MetricsSnapshot, gates: Sequence[GateResult]) -> Piece | None:
    """Return the exit codes of the command and of `telemetry run`; None if they are the same."""
    of_run = RUN_EXIT_CODES[worst(list(gates))]
    if not of_run or snapshot.command is None or snapshot.command.exit_code != 0:
        return None
    return Piece(f"exit code: command 0, run {of_run}", "plain", 1)


def _failure(snapshot: MetricsSnapshot, width: int) -> Iterator[Piece]:
    """Yield how the command failed, and the exception that it recorded, shortened to the rest of a line."""
    how = wording.failure(snapshot)
    if not how:
        return
    first = Piece(how, "bad")
    yield first
    if reason := wording.last_exception(snapshot.marks):
        beside = taken([first, verdict(snapshot)])
        yield Piece(elided(reason, max(_LEAST_NAME, width - beside - len(BETWEEN.text))), "bad", 1)


def verdict(snapshot: MetricsSnapshot) -> Piece:
    """Return the completeness: `complete so far · 0 lost`, `lossy: 12 lost`, `40 missing, requested again`.

    A root that lacks the last seconds of a node says so instead of `complete so far`: `58 s behind · 0 lost`.
    """
    account = snapshot.accounting
    salvaged = wording.salvaged(account.salvaged)
    if snapshot.state in TERMINAL:
        lost = account.lost + account.waiting
        tone = _TONES[snapshot.completeness]
        separator = ": " if lost else " · "
        return Piece(f"{snapshot.completeness}{salvaged}{separator}{formatting.count(lost)} lost", tone)
    dropped, behind = account.lost - account.missing, wording.behind(snapshot)
    late = f"{behind} · " if behind else ""
    if dropped:
        missing = f", {formatting.count(account.missing)} missing" if account.missing else ""
        return Piece(f"{late}lossy: {formatting.count(dropped)} lost{missing}", "bad")
    if account.missing:
        return Piece(f"{late}{formatting.count(account.missing)} missing, requested again", "warn")
    if behind:
        return Piece(f"{behind}{salvaged} · 0 lost", "warn")
    return Piece(f"complete so far{salvaged} · 0 lost", "good")


def gates(results: Sequence[GateResult], *, final: bool = True) -> list[Piece]:
    """Return the outcome of the gates, such as `1 gate failed`, or `1 gate failing`; empty without gates."""
    if not results:
        return []
    outcome = worst(list(results))
    number = sum(result.outcome == outcome for result in results)
    label, tone, keep = _GATES[outcome] if final else _GATES_SO_FAR[outcome]
    return [Piece(f"{number_of(number, 'gate')} {label}", tone, keep)]


def reporting(snapshot: MetricsSnapshot) -> tuple[str, Tone]:
    """Return the number of reporting producers and a tone, such as `3/4 producers reporting, 1 late`.

    With nodes, it is the number of reporting nodes, and the number of all producers.
    """
    if snapshot.node_count:
        by_status = Counter(wording.node_status(stat, over=False) for stat in snapshot.nodes)
        by_status["not connected"] += snapshot.missing_nodes
        text, tone = _reporting(by_status, "node")
        return f"{text}, {number_of(snapshot.producer_count, 'producer')}", tone
    by_status = Counter(stat.status for stat in snapshot.own_producers)
    by_status["ended"] += snapshot.direct_producers - len(snapshot.own_producers)
    if by_status.total():
        return _reporting(by_status, "producer")
    return ("no producers" if snapshot.state in TERMINAL else "no producers yet"), "dim"


def _reporting(by_status: Counter[str], what: str) -> tuple[str, Tone]:
    total = by_status.total()
    if by_status["ended"] == total:
        return f"{number_of(total, what)}, {'all ' if total > 1 else ''}ended", "plain"
    parts = [f"{by_status['live']:,}/{number_of(total, what)} reporting"]
    parts += [f"{by_status[status]:,} {status}" for status in _NOT_REPORTING if by_status[status]]
    tone: Tone = (
        "bad" if by_status["lost"] else "warn" if any(by_status[status] for status in _SUSPECT) else "plain"
    )
    return ", ".join(parts), tone


def _first(scene: Scene, snapshot: MetricsSnapshot, view: View, width: int) -> Line:
    over = snapshot.state in TERMINAL
    elapsed = formatting.duration_s(snapshot.elapsed_s) if over else numbers.seconds(snapshot.elapsed_s)
    silent = scene.silence_s > 0
    right = _moment(scene, snapshot) if scene.moment else _events(snapshot, view.units, silent=silent)
    # The last known state is outdated while the run is silent.
    mark = _SILENT if silent else badge(snapshot, scene.gates if scene.gates_final else ())
    kept: Line = (BETWEEN, Cell(elapsed))
    room = width - width_of((mark, Cell(" "), *kept))
    name = printable(snapshot.name)
    beside = width_of(right) + 2
    if room - beside >= min(formatting.columns(name), _LEAST_NAME):
        room -= beside
    return apart((mark, Cell(" "), Cell(elided(name, room), "strong"), *kept), right, width)


def _events(snapshot: MetricsSnapshot, units: Units, *, silent: bool) -> Line:
    """Return the events per second and the total of ingested events, without those of collectors.

    The rate is the current one, or the average of a finished run. A silent run has no known rate.
    """
    total = Cell(number_of(snapshot.accounting.applied, "event"))
    if snapshot.state in TERMINAL:
        average = snapshot.accounting.applied / snapshot.elapsed_s if snapshot.elapsed_s > 0 else None
        return (total, BETWEEN, Cell(f"{numbers.rate(average, '', units)} on average", "dim"))
    if silent:
        return (total,)
    of_collectors = sum(stat.events_per_s for stat in snapshot.collectors)
    rate = max(0.0, snapshot.cost.events_per_s - of_collectors)
    return (Cell(numbers.rate(rate, "", units), "strong"), BETWEEN, total)


def _moment(scene: Scene, snapshot: MetricsSnapshot) -> Line:
    """Return the time range of the past that the figures cover. The rest of the header describes the present."""
    assert scene.moment is not None
    ago = numbers.seconds((snapshot.time_ns - scene.moment.end_ns) / 1e9)
    before = "before the end" if snapshot.state in TERMINAL else "ago"
    return (Cell(f"showing {moment_words(scene.moment)} UTC", "accent"), BETWEEN, Cell(f"{ago} {before}", "accent"))


def _trouble(scene: Scene, width: int) -> tuple[Line, ...]:
    """Return lines about a connection problem, or none.

    The advice is at the end, so the text is wrapped, not cut.
    """
    pieces = []
    if scene.trouble:
        pieces.append(Piece(printable(scene.trouble), "bad"))
    if scene.silence_s > 0:
        age = f"{scene.silence_s:.1f} s" if scene.silence_s < 60 else numbers.seconds(scene.silence_s)
        pieces.insert(0, Piece(f"last snapshot {age} ago", "warn"))
    if not pieces:
        return ()
    if taken(pieces) <= width:
        return (fitted(pieces, width),)
    return tuple(line for text, tone, _ in pieces for line in wrapped(text, tone, width))[:TROUBLE_LINES]


def _course(snapshot: MetricsSnapshot) -> Iterator[Piece]:
    over = snapshot.state in TERMINAL
    yield verdict(snapshot)
    if over:
        if snapshot.completeness == "incomplete" and (silent := wording.not_ended(snapshot)):
            yield Piece(f"never ended: {_named(snapshot, silent)}", "warn", 1)
        if lacking := wording.incomplete_nodes(snapshot):
            yield Piece(f"nodes not complete: {_first_of(lacking)}", "warn", 1)
        if unfinished := [stat.producer for stat in snapshot.own_producers if stat.unfinished]:
            yield Piece(f"still recording at the end: {_named(snapshot, unfinished)}", "warn", 1)
        if not (snapshot.command and snapshot.reason.startswith(_OF_COMMAND)):
            yield Piece(printable(snapshot.reason), "bad" if snapshot.state == "INTERRUPTED" else "plain", 2)
        yield Piece("percentiles exact" if snapshot.exact else "", "plain", 3)
    text, tone = reporting(snapshot)
    yield Piece(text, tone, 4 if over else 1)
    if snapshot.warnings:
        number = len(snapshot.warnings)
        yield Piece(number_of(number, "warning"), "warn", 1)
    if not over:
        yield from _cost(snapshot)


def _cost(snapshot: MetricsSnapshot) -> Iterator[Piece]:
    cost = snapshot.cost
    if cost.ticks_late > cost.ticks * _BEHIND:
        yield Piece(f"{cost.ticks_late / cost.ticks * 100:.0f} % of ticks late", "warn", 2)
    if cost.ticks:
        yield Piece(f"aggregator {cost.cpu_percent:.0f} %, {formatting.size(cost.rss_bytes)}", "dim", 3)
    if cost.tick_ms:
        yield Piece(f"tick {formatting.duration_ns(cost.tick_ms * 1e6)}", "dim", 5)
    if cost.journal_bytes:
        yield Piece(f"journal {formatting.size(cost.journal_bytes)}", "dim", 5)


def _pending(snapshot: MetricsSnapshot) -> Iterator[Piece]:
    """Yield what a draining run still waits for, and for how long at most."""
    pending = snapshot.pending
    waiting = [_named(snapshot, pending.producers)] if pending.producers else []
    waiting += list(wording.waiting(snapshot))
    yield Piece(f"waiting for {', '.join(waiting)}" if waiting else "all events received, finishing", "warn")
    if pending.deadline_s is not None:
        yield Piece(f"at most {pending.deadline_s:.0f} s left", "plain", 1)
    yield verdict(snapshot)._replace(keep=2)


def _named(snapshot: MetricsSnapshot, keys: Sequence[str]) -> str:
    """Return the first few of some producers by name."""
    name_by_key = wording.names(snapshot)
    return _first_of([name_by_key.get(key) or printable(key) or "an expected node" for key in keys])


def _first_of(names: Sequence[str]) -> str:
    more = [f"{len(names) - _NAMED:,} more"] if len(names) > _NAMED else []
    return ", ".join([*names[:_NAMED], *more])


def progress(
    snapshot: MetricsSnapshot,
    width: int,
    *,
    silent: bool = False,
    past: bool = False,
    steps_per_s: Mapping[str, float] = MappingProxyType({}),
) -> Line:
    """Return a line such as `requests ━━━━━━━──── 54 % · 10,800 of 20,000 · 18 s left`; empty without a total.

    The bar shows the first item that is not done. The remaining time is unknown while the run is silent. In the
    past there is no bar, since it would show the present: `requests 54 % by now`. `steps_per_s` has the speed of
    axes.
    """
    items = snapshot.progress
    if not items:
        return ()
    shown = next((item for item in items if share(item) < 1), items[0])
    name = cut((Cell(printable(shown.name)), Cell(" ")), _NAME_COLUMNS)
    others = [Piece(_brief(item), keep=3) for item in items if item is not shown]
    room = width - width_of(name) - 1
    if past:
        when = "at the end" if snapshot.state in TERMINAL else "by now"
        count = f"{formatting.count(shown.done)} of {formatting.count(shown.total)}"
        pieces = [Piece(f"{_percent(shown)} % {when}", "dim"), Piece(count, "dim", 2)]
        return cut((*name, *fitted(pieces, room)), width)
    details = fitted([*_words(snapshot, shown, steps_per_s, silent=silent), *others], room - _LEAST_BAR)
    length = max(0, min(_MOST_BAR, room - width_of(details)))
    return cut((*name, *_bar(share(shown), length), Cell(" "), *details), width)


def share(item: Progress) -> float:
    """Return the finished share, from 0 to 1."""
    return max(0.0, min(1.0, item.done / item.total)) if item.total > 0 else 1.0


def rate_of(snapshot: MetricsSnapshot, name: str) -> float:
    """Return the progress per second, over the snapshot's window and all labels."""
    counters = sum(stat.rate for stat in snapshot.counters if stat.name == name)
    return counters + sum(stat.window.rate for stat in snapshot.series if stat.name == name)


def left_s(
    snapshot: MetricsSnapshot, item: Progress, steps_per_s: Mapping[str, float] = MappingProxyType({})
) -> float | None:
    """Return the seconds left at the rate of the window; None if that is unknown or the item is done."""
    rate = steps_per_s.get(item.name) or rate_of(snapshot, item.name)
    return (item.total - item.done) / rate if rate > 0 and share(item) < 1 else None


def _words(
    snapshot: MetricsSnapshot, item: Progress, steps_per_s: Mapping[str, float], *, silent: bool
) -> Iterator[Piece]:
    yield Piece(f"{_percent(item)} %", "strong")
    yield Piece(f"{formatting.count(item.done)} of {formatting.count(item.total)}", keep=2)
    if silent or snapshot.state != "LIVE" or share(item) == 1:
        return
    left = left_s(snapshot, item, steps_per_s)
    is_axis = any(axis.name == item.name for axis in snapshot.axes)
    if left is not None:
        yield Piece(f"{numbers.seconds(left)} left", keep=1)
    elif not is_axis and snapshot.elapsed_s > snapshot.window_s > 0:
        yield Piece(f"none in the last {snapshot.window_s:g} s", "warn", 1)


def _brief(item: Progress) -> str:
    return f"{printable(item.name)} {_percent(item)} %"


def _percent(item: Progress) -> int:
    """Return percent, rounded down: unfinished work never shows 100 %."""
    return int(share(item) * 100)


def _bar(done: float, length: int) -> Line:
    full = int(done * length)
    return (Cell("━" * full, "accent"), Cell("─" * (length - full), "dim"))

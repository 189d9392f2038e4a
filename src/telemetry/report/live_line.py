"""One line about a run that goes on, in the units of its user.

`1:23  24.1 req/s  p50 31.0 ms  p99 134 ms  0 failed  12 in flight` for a load, `1:23  step 1,200  loss 0.312  4.10
steps/s` for a training run. Words about the run itself appear only if something is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from telemetry.common.formatting import columns, count, number_of, printable, without_middle
from telemetry.common.wording import backend, behind, node_is_well, overflow
from telemetry.history.headlines import (
    Headline,
    Health,
    compact,
    has_failures,
    headline,
    left_words,
    makes_room,
    not_finite,
)
from telemetry.history.rates import RecentSteps
from telemetry.wire.snapshot import TERMINAL, MetricsSnapshot, Progress

_HEADLINES: Final = 2
"""Largest number of kinds of requests and axes in a line."""
_REQUESTS: Final = frozenset({"load", "llm"})
_GAP: Final = "  "


@dataclass(frozen=True, slots=True)
class LinePart:
    """A piece of the line that is shown whole or not at all."""

    text: str
    health: Health = "plain"
    narrow: str | None = None
    """Text for a line that is too narrow for all parts: empty to leave this one out first. None: the same text."""


class LiveLine:
    """The line of one run. It remembers the last seconds to measure the speed of steps."""

    def __init__(self) -> None:
        self._steps = RecentSteps()

    def text(self, snapshot: MetricsSnapshot) -> str:
        """Return the whole line."""
        return _GAP.join(part.text for part in self.parts(snapshot))

    def parts(self, snapshot: MetricsSnapshot) -> list[LinePart]:
        """Return the time, what is wrong, then the figures, the most important first.

        Once the run has ended, they are those of the whole run.
        """
        goes_on = snapshot.state not in TERMINAL
        speeds = self._steps.learn(snapshot) if goes_on else {}
        heads = headline(snapshot, recent=goes_on, speeds=speeds)
        if any(head.is_total for head in heads):  # the kinds have no room beside it
            heads = [head for head in heads if head.is_total or head.flavour not in _REQUESTS]
        several, heads = len(heads) > 1, heads[:_HEADLINES]
        parts = [LinePart(_clock(snapshot.elapsed_s)), *_troubles(snapshot)]
        for head in heads:
            subject = [LinePart(head.subject)] if (several or head.is_total) and head.subject else []
            is_counted = bool(snapshot.progress) and head.subject == snapshot.progress[0].name
            parts += [*subject, *_figures(head, spare="steps/s" if is_counted else "")]
        if not heads:
            applied = snapshot.accounting.applied
            parts.append(LinePart(number_of(applied, "event") if applied else "nothing recorded yet"))
        return parts + [
            LinePart(text) for item in snapshot.progress[:1] if (text := _progress(item, snapshot, speeds))
        ]


def describe(snapshot: MetricsSnapshot) -> str:
    """Return the line of a single snapshot, without the speed of steps."""
    return LiveLine().text(snapshot)


def fitted(parts: Sequence[LinePart], width: int) -> list[LinePart]:
    """Return the parts that fit in `width` columns. The first part is cut if it does not fit alone.

    Parts with a narrow text make room for others first: those left out before those shortened, the last ones first.
    """
    parts = list(parts)
    places = [index for index, part in enumerate(parts) if part.narrow is not None]
    for index in sorted(places, key=lambda index: (bool(parts[index].narrow), -index)):
        if columns(joined([part for part in parts if part.text])) <= width:
            break
        parts[index] = LinePart(parts[index].narrow or "", parts[index].health)
    parts = [part for part in parts if part.text]
    kept: list[LinePart] = []
    left = width
    for part in parts:
        left -= columns(part.text) + (len(_GAP) if kept else 0)
        if left < 0:
            break
        kept.append(part)
    return kept or [LinePart(without_middle(part.text, width), part.health) for part in parts[:1]]


def joined(parts: Sequence[LinePart]) -> str:
    """Return the parts as text."""
    return _GAP.join(part.text for part in parts)


def _figures(of: Headline, spare: str = "") -> Iterator[LinePart]:
    """Yield the figures. `spare` is the title of one that a narrow line leaves out first."""
    for figure in of.figures:
        whole, short = compact(figure, of), compact(figure, of, median=False)
        narrow = short if short != whole and has_failures(of.figures) else None
        makes_way = figure.title == spare or makes_room(figure, of.figures)
        yield LinePart(whole, figure.health, "" if makes_way else narrow)


def _troubles(snapshot: MetricsSnapshot) -> Iterator[LinePart]:
    """Yield what is wrong or unusual: values that are not finite, lost events, nodes and backends with problems."""
    for line in not_finite(snapshot, short=True):
        yield LinePart(line, "warn")
    if snapshot.accounting.lost:
        yield LinePart(f"{count(snapshot.accounting.lost)} lost", "bad")
    if snapshot.accounting.salvaged:
        yield LinePart(f"{number_of(snapshot.accounting.salvaged, 'event')} salvaged", "warn")
    if beyond := overflow(snapshot):
        yield LinePart(f"{beyond} in overflow", "warn")
    total = snapshot.node_count
    fine = sum(node_is_well(stat, over=snapshot.state in TERMINAL) for stat in snapshot.nodes)
    if age := behind(snapshot):
        yield LinePart(age, "warn")
    if fine < total:
        yield LinePart(f"{fine:,} of {number_of(total, 'node')} complete", "warn")
    for stat in snapshot.backends:
        status = backend(stat, snapshot.time_ns)
        if status.health not in ("good", "calm"):
            yield LinePart(
                printable(f"{stat.name} {status.state}{status.amounts}"),
                "bad" if status.health == "bad" else "warn",
            )
    if snapshot.state == "DRAINING":
        yield LinePart("ending")


def _progress(item: Progress, snapshot: MetricsSnapshot, speeds: Mapping[str, float]) -> str:
    """Return the share that is done, and the time left at this speed: `40 %, 18 s left`.

    The share of an axis stands beside its step.
    """
    is_axis = any(axis.name == item.name for axis in snapshot.axes)
    share = min(1.0, item.done / item.total) if item.total else 1.0
    if not 0 < share < 1:
        return "" if is_axis else f"{share * 100:.0f} %"
    left_s = snapshot.elapsed_s * (1 - share) / share
    if is_axis:
        speed = speeds.get(item.name)
        left_s = (item.total - item.done) / speed if speed else left_s
        return "" if snapshot.state in TERMINAL or round(left_s) == 0 else left_words(left_s)
    return f"{share * 100:.0f} %, {left_words(left_s)}"


def _clock(elapsed_s: float) -> str:
    """Format a time as `1:23` or `1:02:03`."""
    minutes, seconds = divmod(int(max(0.0, elapsed_s)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"

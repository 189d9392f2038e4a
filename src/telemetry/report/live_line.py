"""A log line about a run, for use once per second."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from telemetry.formatting import count, duration_s, number_of, printable, quantity, rate
from telemetry.request_model import RequestCounts, request_counts, without_requests
from telemetry.span_model import without_spans
from telemetry.wire import requests as words
from telemetry.wire.snapshot import TERMINAL, MetricsSnapshot, Progress, SeriesStat
from telemetry.wording import backend, instrument, node_is_well

_SHOWN: Final = 2
"""Largest number of series, of kinds of requests, and of axes in a line."""
_ETA_S: Final = 120.0
"""Seconds from which the remaining time is shown in minutes, like other durations."""


def describe(snapshot: MetricsSnapshot) -> str:
    """Return the line of a snapshot.

    An example is `12 s LIVE 1.2 M events 98.2 k/s lost 0 · requests 40 % eta 18 s · latency p50 1.2 ms p99 3.4 ms`.
    """
    account = snapshot.accounting
    nodes = _nodes(snapshot)
    parts = [
        f"telemetry {snapshot.elapsed_s:4.0f} s {snapshot.state} {number_of(account.applied, 'event')} "
        f"{rate(snapshot.cost.events_per_s)} lost {count(account.lost)}{nodes}"
    ]
    parts += [_requests(kind) for kind in request_counts(snapshot)[:_SHOWN]]
    parts += [printable(f"{axis.name} step {count(axis.newest)}") for axis in snapshot.axes[:_SHOWN]]
    parts += [_progress(item, snapshot.elapsed_s) for item in snapshot.progress[:1]]
    parts += [_series(stat) for stat in _busy(_newest(_telling(snapshot), snapshot))]
    parts += _troubled(snapshot)
    return " · ".join(parts)


def _nodes(snapshot: MetricsSnapshot) -> str:
    """Return the number of nodes, such as ` 4 nodes` or ` 3/4 nodes complete`; empty without nodes."""
    total = snapshot.node_count
    fine = sum(node_is_well(stat, over=snapshot.state in TERMINAL) for stat in snapshot.nodes)
    if not total:
        return ""
    return f" {number_of(total, 'node')}" if fine == total else f" {fine:,}/{number_of(total, 'node')} complete"


def _troubled(snapshot: MetricsSnapshot) -> Iterator[str]:
    """Yield backends with problems: `wandb retrying, 3,200 queued`."""
    for stat in snapshot.backends:
        words = backend(stat, snapshot.time_ns)
        if words.health not in ("good", "calm"):
            yield printable(f"{stat.name} {words.state}{words.amounts}")


def _requests(kind: RequestCounts) -> str:
    """Return the counts of a kind of request: `chat 2,400 issued 9 in flight 2,343 completed 48 failed`."""
    expired = f" {count(kind.expired)} expired" if kind.expired else ""
    return (
        f"{instrument(kind.kind, kind.labels)} {count(kind.issued)} issued {count(kind.in_flight)} in flight "
        f"{count(kind.completed)} completed {count(kind.failures)} failed{expired}"
    )


def _telling(snapshot: MetricsSnapshot) -> Iterator[SeriesStat]:
    """Yield the series worth showing.

    For requests these are their durations, even if other series have more values.
    """
    others = {id(stat) for stat in without_spans(without_requests(snapshot.series, snapshot))}
    for stat in snapshot.series:
        if id(stat) in others or stat.name.rpartition(".")[2] in (words.TTFT, words.LATENCY):
            yield stat


def _newest(series: Iterable[SeriesStat], snapshot: MetricsSnapshot) -> list[SeriesStat]:
    """Return series with values. A series split by tracking windows is limited to its newest window."""
    ages = words.window_ages(snapshot)

    def age(stat: SeriesStat) -> int:
        return ages[stat.labels.get(words.WINDOW, "")]

    newest: dict[tuple[str, frozenset[tuple[str, str]]], SeriesStat] = {}
    for stat in series:
        place = stat.name, frozenset(label for label in stat.labels.items() if label[0] != words.WINDOW)
        if stat.count and age(stat) >= age(newest.setdefault(place, stat)):
            newest[place] = stat
    return list(newest.values())


def _busy(series: Sequence[SeriesStat]) -> Iterator[SeriesStat]:
    """Yield the busiest series, always in the same order if they are about equally busy.

    Each is the first one with at least half as many values in the window as the busiest. Otherwise about equally
    busy series would alternate.
    """
    left = list(series)
    for _ in range(min(_SHOWN, len(left))):
        most = max(stat.window.count for stat in left)
        chosen = next(stat for stat in left if 2 * stat.window.count >= most)
        left.remove(chosen)
        yield chosen


def _progress(item: Progress, elapsed_s: float) -> str:
    share = min(1.0, item.done / item.total) if item.total else 1.0
    if not 0 < share < 1:
        return f"{item.name} {share:.0%}"
    left_s = elapsed_s * (1 - share) / share
    return f"{item.name} {share:.0%} eta {f'{left_s:.0f} s' if left_s < _ETA_S else duration_s(left_s)}"


def _series(stat: SeriesStat) -> str:
    shown = stat.window.percentiles or stat.percentiles
    figures = " ".join(f"p{key} {quantity(shown[key], stat.unit)}" for key in ("50", "99") if key in shown)
    labels = "{" + ",".join(f"{key}={value}" for key, value in stat.labels.items()) + "}" if stat.labels else ""
    return f"{stat.name}{labels} {figures}"

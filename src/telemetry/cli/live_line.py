"""One line a second about a run, for a log rather than a screen."""

from __future__ import annotations

from telemetry.report.humane import count, quantity
from telemetry.wire.snapshot import MetricsSnapshot, Progress, SeriesStat


def describe(snapshot: MetricsSnapshot) -> str:
    """`12 s LIVE 1.2 M events 98.2 k/s lost 0 · requests 40 % eta 18 s · latency p50 1.2 ms p99 3.4 ms`"""
    account = snapshot.accounting
    parts = [
        f"telemetry {snapshot.elapsed_s:4.0f} s {snapshot.state} {count(account.applied)} events "
        f"{count(snapshot.cost.events_per_s)}/s lost {count(account.lost)}"
    ]
    parts += [_progress(item, snapshot.elapsed_s) for item in snapshot.progress[:1]]
    busiest = sorted(snapshot.series, key=lambda stat: -stat.window.count)[:2]
    parts += [_series(stat) for stat in busiest if stat.count]
    return " · ".join(parts)


def _progress(item: Progress, elapsed_s: float) -> str:
    share = min(1.0, item.done / item.total) if item.total else 1.0
    eta = f" eta {elapsed_s * (1 - share) / share:.0f} s" if 0 < share < 1 else ""
    return f"{item.name} {share:.0%}{eta}"


def _series(stat: SeriesStat) -> str:
    shown = stat.window.percentiles or stat.percentiles
    figures = " ".join(f"p{key} {quantity(shown[key], stat.unit)}" for key in ("50", "99") if key in shown)
    labels = "{" + ",".join(f"{key}={value}" for key, value in stat.labels.items()) + "}" if stat.labels else ""
    return f"{stat.name}{labels} {figures}"

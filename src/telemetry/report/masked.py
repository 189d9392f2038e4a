"""How much was masked in what a run recorded, by rule, and never what."""

from __future__ import annotations

from telemetry import formatting
from telemetry.formatting import printable
from telemetry.redaction import COUNTER, COUNTER_LABEL
from telemetry.report.table import DOT, Section
from telemetry.wire.snapshot import MetricsSnapshot


def masked_words(snapshot: MetricsSnapshot) -> str:
    """Return how many values each rule has masked: `3 github · 1 named`. Empty if there are none."""
    masked = [stat for stat in snapshot.counters if stat.name == COUNTER and stat.value > 0]
    return DOT.join(
        f"{formatting.count(stat.value)} {printable(stat.labels.get(COUNTER_LABEL, ''))}".strip()
        for stat in sorted(masked, key=lambda stat: (-stat.value, stat.labels.get(COUNTER_LABEL, "")))
    )


def masked(snapshot: MetricsSnapshot) -> Section:
    """Return one line about masked values."""
    words = masked_words(snapshot)
    return Section("Masked values", [words] if words else [])

"""How much was masked in what a run recorded, by rule, and never what."""

from __future__ import annotations

from telemetry.common import formatting
from telemetry.common.formatting import number_of, printable
from telemetry.redaction import COUNTER, COUNTER_LABEL
from telemetry.redaction.named import NAMED
from telemetry.report.table import DOT, Section
from telemetry.wire.snapshot import CounterStat, MetricsSnapshot


def masked_words(snapshot: MetricsSnapshot) -> str:
    """Return how many values each rule has masked: `3 github · 1 value with a secret name`. Empty without any."""
    masked = [stat for stat in snapshot.counters if stat.name == COUNTER and stat.value > 0]
    return DOT.join(map(_words, sorted(masked, key=lambda stat: (-stat.value, stat.labels.get(COUNTER_LABEL, "")))))


def _words(stat: CounterStat) -> str:
    rule = stat.labels.get(COUNTER_LABEL, "")
    if rule == NAMED:
        return number_of(stat.value, "value with a secret name", "values with a secret name")
    return f"{formatting.count(stat.value)} {printable(rule)}".strip()


def masked(snapshot: MetricsSnapshot) -> Section:
    """Return one line about masked values."""
    text = masked_words(snapshot)
    return Section("Masked values", [text] if text else [])

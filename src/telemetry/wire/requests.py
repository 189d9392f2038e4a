"""What the instruments of a kind of request are called: `<kind>.<word>`, with the kind's labels.

A request that belongs to a tracking window has the label WINDOW in all of them. Anybody who makes instruments of
these names has requests: producers in other languages need nothing else.
"""

from __future__ import annotations

from typing import Final

from telemetry.wire.events import Kind
from telemetry.wire.snapshot import CounterStat, GaugeStat, MetricsSnapshot, SeriesStat

WINDOW: Final = "window"
REASON: Final = "reason"
FINISH: Final = "finish"
TURN: Final = "turn"

ISSUED: Final = "issued"
COMPLETED: Final = "completed"
"""Label FINISH if the caller gave a finish reason."""
FAILED: Final = "failed"
"""Label REASON."""
EXPIRED: Final = "expired"
AFTER_END: Final = "after_end"
"""Calls for a request that had ended, and keys of requests nobody knows."""
OUT_OF_ORDER: Final = "out_of_order"
"""Durations left out because their end lies before their beginning."""

LATENCY: Final = "latency"
"""Completed requests only, as all that follow; from issued to complete."""
CORRECTED: Final = "latency_corrected"
"""From planned to complete: what a user who came on time would have seen."""
QUEUE_DELAY: Final = "queue_delay"
"""From planned to issued."""
TTFT: Final = "ttft"
CHUNK_GAP: Final = "chunk_gap"
TPOT: Final = "tpot"
INPUT_TOKENS: Final = "input_tokens"
OUTPUT_TOKENS: Final = "output_tokens"
FAILED_LATENCY: Final = "failed_latency"
"""From issued to failed."""
TURN_LATENCY: Final = "turn.latency"
"""Label TURN, as TURN_TTFT."""
TURN_TTFT: Final = "turn.ttft"
CONVERSATION_DURATION: Final = "conversation.duration"
CONVERSATION_TURNS: Final = "conversation.turns"

INSTRUMENTS: Final[dict[str, tuple[Kind, str]]] = {
    ISSUED: ("counter", "requests"),
    COMPLETED: ("counter", "requests"),
    FAILED: ("counter", "requests"),
    EXPIRED: ("counter", "requests"),
    AFTER_END: ("counter", "requests"),
    OUT_OF_ORDER: ("counter", "values"),
    LATENCY: ("series", "ns"),
    CORRECTED: ("series", "ns"),
    QUEUE_DELAY: ("series", "ns"),
    TTFT: ("series", "ns"),
    CHUNK_GAP: ("series", "ns"),
    TPOT: ("series", "ns"),
    INPUT_TOKENS: ("series", "tokens"),
    OUTPUT_TOKENS: ("series", "tokens"),
    FAILED_LATENCY: ("series", "ns"),
    TURN_LATENCY: ("series", "ns"),
    TURN_TTFT: ("series", "ns"),
    CONVERSATION_DURATION: ("series", "ns"),
    CONVERSATION_TURNS: ("series", "count"),
}
"""Kind and unit of each."""
LABEL_OF: Final[dict[str, str]] = {COMPLETED: FINISH, FAILED: REASON, TURN_LATENCY: TURN, TURN_TTFT: TURN}
"""What tells several of one word apart, beside the labels that all of a kind have."""
WITHIN: Final = frozenset({LATENCY, OUTPUT_TOKENS})
"""Those defined within LATENCY, so that rates have a window that stragglers don't stretch."""


def name_of(kind: str, word: str) -> str:
    """What an instrument of this kind of request is called."""
    return f"{kind}.{word}"


def window_ages(snapshot: MetricsSnapshot) -> dict[str, int]:
    """Tracking window → how many are older. "" is what was outside of any, and the oldest.

    Requests are issued in the order of their windows; in which order they complete nobody knows.
    """
    stats: tuple[CounterStat | SeriesStat | GaugeStat, ...] = (
        *snapshot.counters,
        *snapshot.series,
        *snapshot.gauges,
    )
    issued_first = sorted(stats, key=lambda stat: not stat.name.endswith(f".{ISSUED}"))
    windows = dict.fromkeys(("", *(stat.labels[WINDOW] for stat in issued_first if WINDOW in stat.labels)))
    return {window: age for age, window in enumerate(windows)}

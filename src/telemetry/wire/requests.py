"""Names of the instruments of a kind of request: `<kind>.<word>`, with the kind's labels.

A request in a tracking window has the label WINDOW in all its instruments. Any program that records instruments
with these names reports requests; producers in other languages need nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from telemetry.wire.events import Kind
from telemetry.wire.snapshot import CounterStat, GaugeStat, MetricsSnapshot, SeriesStat

WINDOW: Final = "window"
REASON: Final = "reason"
FINISH: Final = "finish"
TURN: Final = "turn"
SLO: Final = "slo"

ISSUED: Final = "issued"
COMPLETED: Final = "completed"
"""Counter of completed requests; label FINISH if the caller gave a finish reason."""
FAILED: Final = "failed"
"""Counter of failed requests; label REASON."""
EXPIRED: Final = "expired"
AFTER_END: Final = "after_end"
"""Counter of calls for a request that had ended, and of unknown request keys."""
OUT_OF_ORDER: Final = "out_of_order"
"""Counter of durations that were left out because their end lies before their beginning."""
GOOD: Final = "good"
"""Counter of completed requests that met all their limits. It exists, at 0, if there are limits."""
MET: Final = "met"
"""Counter of completed requests that met one limit; label SLO, the key of the limit."""

LATENCY: Final = "latency"
"""Time from issued to complete. This and all following series hold completed requests only."""
CORRECTED: Final = "latency_corrected"
"""Time from planned to complete: the latency of a user who arrived on time."""
QUEUE_DELAY: Final = "queue_delay"
"""Time from planned to issued."""
TTFT: Final = "ttft"
ITL: Final = "itl"
"""Time from one chunk to the next, once for each chunk, whatever number of tokens it has."""
TPOT: Final = "tpot"
INPUT_TOKENS: Final = "input_tokens"
OUTPUT_TOKENS: Final = "output_tokens"
FAILED_LATENCY: Final = "failed_latency"
"""Time from issued to failed."""
TURN_LATENCY: Final = "turn.latency"
"""Time of one turn; label TURN, as for TURN_TTFT."""
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
    GOOD: ("counter", "requests"),
    MET: ("counter", "requests"),
    LATENCY: ("series", "ns"),
    CORRECTED: ("series", "ns"),
    QUEUE_DELAY: ("series", "ns"),
    TTFT: ("series", "ns"),
    ITL: ("series", "ns"),
    TPOT: ("series", "ns"),
    INPUT_TOKENS: ("series", "tokens"),
    OUTPUT_TOKENS: ("series", "tokens"),
    FAILED_LATENCY: ("series", "ns"),
    TURN_LATENCY: ("series", "ns"),
    TURN_TTFT: ("series", "ns"),
    CONVERSATION_DURATION: ("series", "ns"),
    CONVERSATION_TURNS: ("series", "count"),
}
"""Kind and unit of each instrument."""
LABEL_OF: Final[dict[str, str]] = {
    COMPLETED: FINISH,
    FAILED: REASON,
    MET: SLO,
    TURN_LATENCY: TURN,
    TURN_TTFT: TURN,
}
"""Label that distinguishes instruments of the same word, besides the labels of the kind."""
WITHIN: Final = frozenset({LATENCY, OUTPUT_TOKENS})
"""Words defined within LATENCY, so that the time range of rates excludes stragglers."""
_CANONICAL: Final = {"chunk_gap": ITL}
"""Words of earlier versions. Their directories and programs still have them."""


def canonical(word: str) -> str:
    """Return the present word for a word of an earlier version. Any other word is returned unchanged."""
    return _CANONICAL.get(word, word)


def limits_param(kind: str, labels: Mapping[str, str]) -> str:
    """Return the name of the parameter that holds the limits of a kind of request, such as `slo.chat`."""
    own = ",".join(f"{key}={labels[key]}" for key in sorted(labels))
    return f"{SLO}.{kind}{{{own}}}" if own else f"{SLO}.{kind}"


def stop_param(kind: str, labels: Mapping[str, str]) -> str:
    """Return the name of the parameter that holds the condition to stop of a kind, such as `stop_when.chat`."""
    return f"stop_when{limits_param(kind, labels).removeprefix(SLO)}"


def name_of(kind: str, word: str) -> str:
    """Return the name of an instrument of this kind of request."""
    return f"{kind}.{word}"


def window_ages(snapshot: MetricsSnapshot) -> dict[str, int]:
    """Map each tracking window to the number of older windows.

    "" stands for requests outside any window. It counts as the oldest.

    Requests are issued in the order of their windows; their order of completion is unknown.
    """
    stats: tuple[CounterStat | SeriesStat | GaugeStat, ...] = (
        *snapshot.counters,
        *snapshot.series,
        *snapshot.gauges,
    )
    issued_first = sorted(stats, key=lambda stat: not stat.name.endswith(f".{ISSUED}"))
    windows = dict.fromkeys(("", *(stat.labels[WINDOW] for stat in issued_first if WINDOW in stat.labels)))
    return {window: age for age, window in enumerate(windows)}

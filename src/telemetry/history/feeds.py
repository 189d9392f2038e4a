"""Findings about the feeds of a run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from telemetry import formatting
from telemetry.formatting import number_of, printable
from telemetry.wire.feeds import NO_TEXT, NO_TOKENIZER, REFUSED, TOOL_CALLS, UNCOUNTED, interruption
from telemetry.wire.report import Report
from telemetry.wire.snapshot import CounterStat

_WHY: Final = {
    NO_TOKENIZER: "no tokenizer was given: pass --tokenizer tokenizer.json, the file that belongs to the model",
    TOOL_CALLS: "the answer contains tool calls, which can't be counted without a chat template",
    NO_TEXT: "the benchmark sent no text for the answer",
}
"""Map of reason of UNCOUNTED → explanation and advice."""


def of_feeds(report: Report) -> Iterator[str]:
    """Yield findings about feeds.

    The accounting of events does not cover messages that a feed missed or could not use.
    """
    counters = report.snapshot.counters
    if said := interruption(counters):
        yield printable(f"{said}: figures lack everything it had not done yet")
    refused = _named(counters, REFUSED)
    if refused:
        reasons = ", ".join(f"{stat.labels.get('reason', '')} {formatting.count(stat.value)}" for stat in refused)
        yield printable(f"a feed ignored some messages: {reasons}")
    for stat in _named(counters, UNCOUNTED):
        reason = stat.labels.get("reason", "")
        why = _WHY.get(reason, reason)
        yield printable(f"the output tokens of {number_of(stat.value, 'completed request')} are unknown: {why}")


def _named(counters: list[CounterStat], name: str) -> list[CounterStat]:
    return [stat for stat in counters if stat.name == name and stat.value]

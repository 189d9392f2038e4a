"""What a reader should know of the feeds of a run."""

from __future__ import annotations

from collections.abc import Iterator

from telemetry import humane
from telemetry.humane import printable
from telemetry.wire.feeds import REFUSED, UNFINISHED
from telemetry.wire.report import Report
from telemetry.wire.snapshot import CounterStat


def of_feeds(report: Report) -> Iterator[str]:
    """An account of events says nothing of what never got to the feed, or was none."""
    counters = report.snapshot.counters
    if _named(counters, UNFINISHED):
        yield "a feed's sender has not said that it ended: what it sent last may be missing"
    refused = _named(counters, REFUSED)
    if refused:
        reasons = ", ".join(f"{stat.labels.get('reason', '')} {humane.count(stat.value)}" for stat in refused)
        yield printable(f"a feed could not use some of what it was sent: {reasons}")


def _named(counters: list[CounterStat], name: str) -> list[CounterStat]:
    return [stat for stat in counters if stat.name == name and stat.value]

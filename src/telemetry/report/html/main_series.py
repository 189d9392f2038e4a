"""The series that a reader of a run looks at first, in groups that belong into one picture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from telemetry.common import wording
from telemetry.common.formatting import printable
from telemetry.history.request_model import RequestCounts, request_counts, without_requests
from telemetry.history.span_model import without_spans
from telemetry.report.content import headlines
from telemetry.wire import requests as words
from telemetry.wire.report import Report
from telemetry.wire.snapshot import SeriesStat
from telemetry.wire.units import TIME_NS

LINES: Final = 8
"""Largest number of lines in one picture."""
_OF_LLM: Final = (words.TTFT, words.ITL, words.LATENCY)
_OF_LOAD: Final = (words.LATENCY,)


@dataclass(frozen=True)
class NameGroup:
    """Series of one name: the tracking windows of a kind of request, or label sets. The busiest is first."""

    title: str
    lines: Sequence[tuple[str, SeriesStat]]
    """Series with the names of their lines, which are short."""
    is_request: bool = False
    """True if the series follow each other as tracking windows."""
    has_tokens: bool = False
    """True if the series are those of requests that are answered with tokens."""
    whole: SeriesStat | None = None
    """The values of all tracking windows together."""

    @property
    def main(self) -> SeriesStat:
        """The busiest series."""
        return self.lines[0][1]


def main_groups(report: Report) -> list[NameGroup]:
    """Return the main series: those of the busiest kind of request, or the busiest series with its label sets."""
    kinds = sorted(request_counts(report.snapshot), key=lambda kind: -kind.issued)
    of_requests = [group for kind in kinds[:1] for group in _of_kind(kind)]
    return of_requests or list(_others(report))


def latencies(report: Report, most: int) -> list[tuple[str, NameGroup]]:
    """Return the latencies of the busiest kinds of request, with the names of the kinds."""
    kinds = sorted(request_counts(report.snapshot), key=lambda kind: -kind.issued)[:most]
    return [
        (wording.instrument(kind.kind, kind.labels), group)
        for kind in kinds
        for group in _of_kind(kind)
        if group.main.name == words.name_of(kind.kind, words.LATENCY)
    ]


def _of_kind(kind: RequestCounts) -> Iterator[NameGroup]:
    is_llm = words.TTFT in kind.series
    parts = kind.windows or (kind,)
    for word in _OF_LLM if is_llm else _OF_LOAD:
        pairs = [(printable(part.window or ""), part.series[word]) for part in parts if word in part.series]
        filled = sorted((pair for pair in pairs if pair[1].count), key=lambda pair: -pair[1].count)
        if filled:
            lines = [(window or "values", stat) for window, stat in filled[:LINES]]
            name = wording.instrument(words.name_of(kind.kind, word), kind.labels)
            yield NameGroup(name, lines, True, kind.has_tokens, kind.series.get(word))


def _others(report: Report) -> Iterator[NameGroup]:
    snapshot = report.snapshot
    filled = [stat for stat in without_spans(without_requests(snapshot.series, snapshot)) if stat.count]
    if not filled:
        return
    subjects = {head.subject for head in headlines(report)}
    named = [stat for stat in filled if wording.instrument(stat.name, stat.labels) in subjects]
    main = max(named or filled, key=lambda stat: (stat.unit in TIME_NS, stat.count))
    same = [stat for stat in filled if stat.name == main.name and stat.unit == main.unit and stat is not main]
    lines = [main, *sorted(same, key=lambda stat: -stat.count)][:LINES]
    yield NameGroup(printable(main.name), [(_labels(stat) or "values", stat) for stat in lines])


def _labels(stat: SeriesStat) -> str:
    return wording.instrument("", stat.labels).strip("{}")

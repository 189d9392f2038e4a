"""Choice of the instruments that are drawn, from the result of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from telemetry import headline_choice
from telemetry.history.instrument_ids import SeriesId, series_id
from telemetry.request_model import request_instruments, without_requests
from telemetry.span_model import without_spans
from telemetry.wire import requests as words
from telemetry.wire.collectors import is_of_machine
from telemetry.wire.snapshot import CounterStat, GaugeStat, MetricsSnapshot, SeriesStat
from telemetry.wire.units import TIME_NS

COUNTERS: Final = 40
GAUGES: Final = 40
MACHINE: Final = 160
"""Largest number of gauges of machine, GPUs and processes."""
HEAT_MAPS: Final = 4
KINDS: Final = 20
"""Largest number of kinds of requests."""


@dataclass(slots=True)
class Kind:
    """The instruments of one kind of request, of all tracking windows, by word of `telemetry.wire.requests`."""

    kind: str
    labels: dict[str, str]
    counters: dict[str, list[SeriesId]] = field(default_factory=dict)
    output_tokens: list[SeriesId] = field(default_factory=list)
    issued: int | float = 0


def drawn_kinds(snapshot: MetricsSnapshot) -> list[Kind]:
    """Return the busiest kinds of requests, in the order of the snapshot."""
    kinds: dict[tuple[str, tuple[tuple[str, str], ...]], Kind] = {}
    for one in request_instruments(snapshot):
        found = kinds.setdefault((one.kind, one.labels), Kind(one.kind, dict(one.labels)))
        if isinstance(one.stat, CounterStat):
            found.counters.setdefault(one.word, []).append(series_id(one.stat))
            if one.word == words.ISSUED:
                found.issued += one.stat.value
        elif one.word == words.OUTPUT_TOKENS:
            found.output_tokens.append(series_id(one.stat))
    busiest = sorted(kinds.values(), key=lambda kind: -kind.issued)[:KINDS]
    return [kind for kind in kinds.values() if kind in busiest]


def drawn_counters(snapshot: MetricsSnapshot) -> list[CounterStat]:
    """Return the counters with the most events that belong to no request and no span."""
    own = without_spans(without_requests(snapshot.counters, snapshot))
    return sorted((stat for stat in own if stat.events), key=lambda stat: -stat.events)[:COUNTERS]


def drawn_gauges(snapshot: MetricsSnapshot) -> list[GaugeStat]:
    """Return the gauges that were set most often, in the order of the snapshot.

    Those of the machine do not count: collectors set them all alike.
    """
    stats = snapshot.gauges
    busiest = sorted(range(len(stats)), key=lambda place: -stats[place].events)
    own = [place for place in busiest if not is_of_machine(stats[place].name)][:GAUGES]
    machine = [place for place in busiest if is_of_machine(stats[place].name)][:MACHINE]
    return [stats[place] for place in sorted([*own, *machine]) if stats[place].events]


def drawn_heat_maps(snapshot: MetricsSnapshot) -> list[SeriesStat]:
    """Return series in a unit of time: latencies of requests, then those of the headline, then the busiest."""
    latencies = {series_id(one.stat) for one in request_instruments(snapshot) if one.word == words.LATENCY}
    named = {choice.name for choice in headline_choice.chosen(snapshot.params)}

    def order(stat: SeriesStat) -> tuple[bool, bool, int]:
        return series_id(stat) not in latencies, stat.name not in named, -stat.count

    timed = [stat for stat in snapshot.series if stat.unit in TIME_NS and stat.count]
    return sorted(timed, key=order)[:HEAT_MAPS]


def ids_of(stats: Sequence[CounterStat] | Sequence[GaugeStat] | Sequence[SeriesStat]) -> list[SeriesId]:
    """Return the identities of these instruments."""
    return [series_id(stat) for stat in stats]

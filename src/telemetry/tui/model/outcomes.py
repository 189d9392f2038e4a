"""Counters of requests that ended alike, as one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from telemetry.request_model import issued_kind
from telemetry.wire import requests as words
from telemetry.wire.snapshot import CounterStat


def summed(counters: Sequence[CounterStat]) -> list[tuple[CounterStat, list[CounterStat]]]:
    """Counters, each with those that it is the sum of: requests of one place that failed, for whatever reason, are
    one, and so are those that completed, however they finished. All others are what they are."""
    kinds = {kind for stat in counters if (kind := issued_kind(stat.name, stat.unit))}
    alike: dict[tuple[str, frozenset[tuple[str, str]]], list[CounterStat]] = {}
    for stat in counters:
        alike.setdefault((stat.name, frozenset(_labels(stat, kinds).items())), []).append(stat)
    return [(_one(stats, dict(labels)), stats) for (_, labels), stats in alike.items()]


def _labels(stat: CounterStat, kinds: set[str]) -> Mapping[str, str]:
    """Those that all of an outcome share."""
    kind, _, word = stat.name.rpartition(".")
    apart = words.LABEL_OF.get(word) if kind in kinds else None
    return {key: value for key, value in stat.labels.items() if key != apart}


def _one(stats: Sequence[CounterStat], labels: dict[str, str]) -> CounterStat:
    if len(stats) == 1 and len(stats[0].labels) == len(labels):
        return stats[0]
    try:
        value: int | float = sum(stat.value for stat in stats)
    except OverflowError:
        value = math.inf  # no float can say it
    rate = sum(stat.rate for stat in stats)
    return replace(stats[0], labels=labels, value=value, events=sum(stat.events for stat in stats), rate=rate)

"""Counters of requests with the same outcome, combined into one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from telemetry.history.request_model import issued_kind, time_range_of
from telemetry.wire import requests as words
from telemetry.wire.snapshot import CounterStat

_OUTCOMES: Final = (words.COMPLETED, words.FAILED)


def summed(counters: Sequence[CounterStat]) -> list[tuple[CounterStat, list[CounterStat]]]:
    """Return counters, each with the counters that it is the sum of.

    Failed requests of one kind and labels are one counter for all reasons. Completed requests are one counter for
    all finish reasons. Other counters stay single.
    """
    kinds = {kind for stat in counters if (kind := issued_kind(stat.name, stat.unit))}
    alike: dict[tuple[str, frozenset[tuple[str, str]]], list[CounterStat]] = {}
    for stat in counters:
        alike.setdefault((stat.name, frozenset(_labels(stat, kinds).items())), []).append(stat)
    return [(_one(stats, dict(labels)), stats) for (_, labels), stats in alike.items()]


def _labels(stat: CounterStat, kinds: set[str]) -> Mapping[str, str]:
    """Return the labels without the one that tells reasons apart."""
    kind, _, word = stat.name.rpartition(".")
    apart = words.LABEL_OF.get(word) if kind in kinds and word in _OUTCOMES else None
    return {key: value for key, value in stat.labels.items() if key != apart}


def _one(stats: Sequence[CounterStat], labels: dict[str, str]) -> CounterStat:
    if len(stats) == 1 and len(stats[0].labels) == len(labels):
        return stats[0]
    try:
        value: int | float = sum(stat.value for stat in stats)
    except OverflowError:
        value = math.inf  # too large for a float
    rate = sum(stat.rate for stat in stats)
    events, (began_ns, ended_ns) = sum(stat.events for stat in stats), time_range_of(stats)
    summed = replace(stats[0], labels=labels, value=value, events=events, rate=rate)
    return replace(summed, began_ns=began_ns, ended_ns=ended_ns)

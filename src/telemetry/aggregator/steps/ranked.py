"""Values of a step by rank, for the ranked names of an axis."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from telemetry import limits
from telemetry.aggregator.steps.merged import ReportedValues
from telemetry.aggregator.steps.reported_part import ReportedPart
from telemetry.wire.events import Name, ProducerId, Rank

Ranks = dict[Name, list[tuple[Rank, float]]]
RankOf = Callable[[ProducerId], int | None]


def values_by_rank(
    by_producer: Mapping[ProducerId, ReportedValues],
    parts: Mapping[ProducerId, ReportedPart],
    names: Iterable[str],
    rank_of: RankOf,
) -> Ranks:
    """Return the finite values of each of these names by rank, at most STEP_RANKS of a name.

    A producer without a rank has its id in place of one. Ranks come first, then ids. Two producers of one rank are
    two entries.
    """
    ranks: Ranks = {}
    for name in names:
        values: list[tuple[Rank, float]] = []
        for producer, reported in by_producer.items():
            value = reported.values.get(name)
            if value is not None:
                rank = reported.rank if reported.rank is not None else rank_of(producer)
                values.append((producer if rank is None else rank, value))
        for part in parts.values():
            values += part.ranks.get(name, ())
        if values:
            ranks[name] = sorted(values, key=_order)[: limits.STEP_RANKS]
    return ranks


def _order(entry: tuple[Rank, float]) -> tuple[bool, Rank, float]:
    rank, value = entry
    return isinstance(rank, str), rank, value

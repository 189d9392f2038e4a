"""Values that producers reported for one step, also by rank, and their merged result."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import translate
from itertools import chain
from re import Pattern
from re import compile as compile_pattern
from typing import Final, NamedTuple

from msgspec import Struct

from telemetry import limits
from telemetry.aggregator.steps.reported_part import ReportedPart, joined, partial_value, spread_of, value_of
from telemetry.wire.events import Axis, Name, Natural, ProducerId, Rank, Reduction, Spread
from telemetry.wire.nodes import PartialValue

Values = dict[Name, float | None]
"""Values by name. Null: not a finite number."""
_NAMES_REMEMBERED: Final = 8 * limits.STEP_NAMES_SHOWN


class ReportedValues(Struct, array_like=True):
    """Newest values of one producer."""

    values: Values
    at_ns: Natural
    """Wall clock of the values, except those in `times`."""
    times: dict[Name, Natural] = {}
    rank: int | None = None
    """Rank of the producer. Known only on an axis with ranked names."""

    def time_of(self, name: str) -> int:
        return self.times.get(name, self.at_ns)

    def add(self, values: Values, at_ns: int) -> None:
        """Add values. A batch that was lost and resent may hold older values, which have no effect."""
        for name, value in values.items():
            if name not in self.values or self.time_of(name) <= at_ns:
                self.values[name] = value
                self.times[name] = at_ns

    def newer_than(self, at_ns: int) -> ReportedValues | None:
        """Return the values after a time, or None if there are none."""
        values = {name: value for name, value in self.values.items() if self.time_of(name) > at_ns}
        times = {name: time_ns for name, time_ns in self.times.items() if name in values}
        return ReportedValues(values, self.at_ns, times, self.rank) if values else None

    @property
    def units(self) -> int:
        """Number of budget units used."""
        return limits.STEP_UNITS + len(self.values) + len(self.times)


def finite(values: Values) -> Values:
    """Return the values with null for every number that is not finite."""
    try:
        if math.isfinite(sum(values.values())):  # type: ignore[arg-type]
            return values
    except TypeError:  # a value is null
        pass
    return {name: _number(value) for name, value in values.items()}


def _number(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def merged(
    by_producer: Mapping[ProducerId, ReportedValues],
    reduction_of: Callable[[str], Reduction],
    names: Iterable[str] | None = None,
) -> tuple[Values, dict[str, Spread]]:
    """Return one value for each name, or for some `names`, and spreads.

    A name reported by several producers has a spread.
    """
    if len(by_producer) == 1 and names is None:
        (only,) = by_producer.values()
        return only.values, {}
    values: Values = {}
    spread: dict[str, Spread] = {}
    for name, who, numbers in _reported(by_producer, names):
        if len(numbers) < 2:
            values[name] = numbers[0] if numbers else None
            continue
        of_all = spread[name] = _spread(who, numbers)
        reduction = reduction_of(name)
        if reduction == "mean":
            values[name] = of_all.mean
        else:
            values[name] = (
                _newest(name, who, by_producer) if reduction == "last" else _reduced(reduction, numbers, of_all)
            )
    return values, spread


def _reported(
    by_producer: Mapping[ProducerId, ReportedValues], names: Iterable[str] | None
) -> Iterator[tuple[str, Sequence[str], Sequence[float]]]:
    """Yield each name with the producers that have a number for it, in order of their ids, and the numbers."""
    ranks = sorted(by_producer)
    reported = [by_producer[rank].values for rank in ranks]
    if names is None:
        names = dict.fromkeys(chain.from_iterable(reported))
    for name in names:
        numbers = [of_rank.get(name) for of_rank in reported]
        if None in numbers:
            pairs = [(rank, number) for rank, number in zip(ranks, numbers, strict=True) if number is not None]
            yield name, [rank for rank, _ in pairs], [number for _, number in pairs]
        else:
            yield name, ranks, numbers  # type: ignore[misc]


def _spread(who: Sequence[str], numbers: Sequence[float]) -> Spread:
    """Return the spread of numbers. Of producers with equal extremes, the first by id is named."""
    low, high = min(numbers), max(numbers)
    mean = min(max(low, _mean(numbers)), high)
    return Spread(len(numbers), low, high, mean, who[numbers.index(low)], who[numbers.index(high)])


def _reduced(reduction: Reduction, numbers: Sequence[float], spread: Spread) -> float | None:
    match reduction:
        case "min":
            return spread.min
        case "max":
            return spread.max
        case "sum":
            return _sum(numbers)
    return spread.mean


def _newest(name: str, who: Sequence[str], by_producer: Mapping[str, ReportedValues]) -> float | None:
    newest = max(who, key=lambda rank: (by_producer[rank].time_of(name), rank))
    return by_producer[newest].values[name]


def _sum(numbers: Sequence[float]) -> float | None:
    try:
        return math.fsum(numbers)
    except OverflowError:
        return None


def _mean(numbers: Sequence[float]) -> float:
    try:
        return math.fsum(numbers) / len(numbers)
    except OverflowError:
        return math.fsum(number / len(numbers) for number in numbers)


def _pattern(text: str) -> Pattern[str]:
    """Return a pattern in which `*` matches anything and all other characters match themselves."""
    return compile_pattern(translate(text.replace("[", "[[]").replace("?", "[?]")))


class Reductions:
    """Reductions of names on one axis. A bounded number of lookups is cached."""

    def __init__(self, declared: Axis | None) -> None:
        self._compiled: Reduction = declared.reduce if declared is not None else "mean"
        self._known: dict[str, Reduction] = {}
        self._patterns: list[tuple[Pattern[str], Reduction]] = []
        self._plain: dict[str, tuple[int, Reduction]] = {}
        """Name → number of patterns that precede it, and its reduction."""
        for name, reduction in (declared.reductions if declared is not None else {}).items():
            if "*" in name:
                if len(self._patterns) < limits.STEP_PATTERNS:
                    self._patterns.append((_pattern(name), reduction))
            else:
                self._plain[name] = (len(self._patterns), reduction)

    def __call__(self, name: str) -> Reduction:
        reduction = self._known.get(name)
        if reduction is None:
            if len(self._known) >= _NAMES_REMEMBERED:
                self._known.clear()
            reduction = self._known[name] = self._look_up(name)
        return reduction

    def _look_up(self, name: str) -> Reduction:
        before, reduction = self._plain.get(name, (len(self._patterns), self._compiled))
        for pattern, wanted in self._patterns[:before]:
            if pattern.match(name):
                return wanted
        return reduction


Partials = dict[Name, PartialValue | None]


class MergedStep(NamedTuple):
    """Values of a step by name, with the spreads of names that several producers reported."""

    values: Values
    spread: dict[Name, Spread]
    partials: Partials
    """Partial values, if they were asked for or the step has parts of leaves."""

    def of(self, names: Iterable[str]) -> MergedStep:
        """Return the result of some names."""
        return MergedStep(
            {name: self.values[name] for name in names},
            {name: self.spread[name] for name in names if name in self.spread},
            {name: self.partials[name] for name in names if name in self.partials},
        )


def merged_step(
    by_producer: Mapping[ProducerId, ReportedValues],
    parts: Mapping[ProducerId, ReportedPart],
    reduction_of: Callable[[str], Reduction],
    names: Iterable[str] | None = None,
    *,
    with_partials: bool = False,
) -> MergedStep:
    """Return the result of a step for all names, or for some. It is independent of the order of arrival."""
    if not parts and not with_partials:
        return MergedStep(*merged(by_producer, reduction_of, names), {})
    partials = dict(_partials(by_producer, parts, names))
    values: Values = {}
    spreads: dict[str, Spread] = {}
    for name, partial in partials.items():
        values[name] = value_of(partial, reduction_of(name)) if partial is not None else None
        spread = spread_of(partial) if partial is not None else None
        if spread is not None:
            spreads[name] = spread
    return MergedStep(values, spreads, partials)


def names_of(
    by_producer: Mapping[ProducerId, ReportedValues], parts: Mapping[ProducerId, ReportedPart]
) -> dict[Name, None]:
    """Return the names of all values, in the order of the producers' ids, then of the leaves' ids."""
    reported = (by_producer[producer].values for producer in sorted(by_producer))
    from_leaves = (parts[leaf].values for leaf in sorted(parts))
    return dict.fromkeys(chain(chain.from_iterable(reported), chain.from_iterable(from_leaves)))


def _partials(
    by_producer: Mapping[ProducerId, ReportedValues],
    parts: Mapping[ProducerId, ReportedPart],
    names: Iterable[str] | None,
) -> Iterator[tuple[str, PartialValue | None]]:
    """Yield each name with its partial value. None: no producer has a finite value."""
    producers = [(producer, by_producer[producer]) for producer in sorted(by_producer)]
    for name in names_of(by_producer, parts) if names is None else names:
        partials = [partial for part in parts.values() if (partial := part.values.get(name)) is not None]
        who = [producer for producer, reported in producers if reported.values.get(name) is not None]
        if who:
            numbers: list[float] = [by_producer[producer].values[name] for producer in who]  # type: ignore[misc]
            partials.append(partial_value(who, numbers, lambda producer: by_producer[producer].time_of(name)))  # noqa: B023
        yield name, joined(partials) if partials else None


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

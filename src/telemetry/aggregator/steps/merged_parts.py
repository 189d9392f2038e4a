"""The merged result of a step, of plain values and of parts from leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import NamedTuple

from telemetry.aggregator.steps.merged import ReportedValues, Values, merged
from telemetry.aggregator.steps.partial_values import joined, partial_value, spread_of, value_of
from telemetry.aggregator.steps.reported_part import ReportedPart
from telemetry.wire.events import Name, ProducerId, Reduction, Spread
from telemetry.wire.nodes import PartialValue

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

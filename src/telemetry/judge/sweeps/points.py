"""Runs grouped into points: by the parameters that differ between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeGuard

from telemetry.common.formatting import did_you_mean, listed, printable
from telemetry.common.headline_choice import shown_params
from telemetry.errors import UsageError
from telemetry.judge.sweeps.params import value_text
from telemetry.wire.collectors import is_of_surroundings
from telemetry.wire.events import Scalar

Params = Mapping[str, Scalar]
MOST_PARAMETERS: Final = 3
"""Largest number of parameters of points, unless the user names them."""
_SHOWN: Final = 6


def parameters_of(runs: Sequence[Params], wanted: Sequence[str] = ()) -> list[str]:
    """Return the parameters that make points, the one for the axis of charts first.

    These are `wanted`, else all that differ between runs, except those of code, machine and software. A parameter
    that changes together with an earlier one is left out. The axis gets the numeric parameter with the most values.
    Raises UsageError.
    """
    present = list(dict.fromkeys(name for params in runs for name in shown_params(params)))
    if wanted:
        for name in wanted:
            if name not in present:
                raise UsageError(f"no run has a parameter {name!r}", hint=_instead(name, present))
        return list(wanted)
    differing = [name for name in present if len(_texts(runs, name)) > 1 and not is_of_surroundings(name)]
    if not differing:
        raise UsageError(
            "the runs do not differ in any parameter",
            hint="record one with `telemetry run --param NAME=VALUE`, or use `telemetry sweep`",
        )
    kept = [name for at, name in enumerate(differing) if not _follows(runs, name, differing[:at])]
    if len(kept) > MOST_PARAMETERS:
        names = listed([printable(name) for name in kept], _SHOWN)
        raise UsageError(
            f"the runs differ in {len(kept)} parameters: {names}", hint=f"choose with --by, such as --by {kept[0]}"
        )
    return axis_first(runs, kept)


def axis_first(runs: Sequence[Params], names: Sequence[str]) -> list[str]:
    """Return the names with the best one for the axis of charts first: numeric, with the most values."""

    def rank(name: str) -> tuple[bool, int]:
        values = [params.get(name) for params in runs]
        return all(map(is_number, values)), len(_texts(runs, name))

    return sorted(names, key=rank, reverse=True)


def together(runs: Sequence[Params], by: Sequence[str]) -> list[str]:
    """Return parameters that change together with one of `by`."""
    names = dict.fromkeys(name for params in runs for name in shown_params(params))
    others = [name for name in names if name not in by and len(_texts(runs, name)) > 1]
    return [name for name in others if _follows(runs, name, by)]


def grouped(runs: Sequence[Params], by: Sequence[str]) -> list[list[int]]:
    """Return the places of the runs of each point. Points are sorted by their values, those of the axis last."""
    order = [*by[1:], by[0]] if by else []
    places: dict[tuple[str, ...], list[int]] = {}
    for index, params in enumerate(runs):
        places.setdefault(tuple(value_text(params.get(name)) for name in order), []).append(index)
    first_seen = {name: list(_texts(runs, name)) for name in order}

    def key(group: list[int]) -> list[tuple[int, float]]:
        values = [(name, runs[group[0]].get(name)) for name in order]
        return [
            (0, float(value)) if is_number(value) else (1, float(first_seen[name].index(value_text(value))))
            for name, value in values
        ]

    return sorted(places.values(), key=key)


def is_number(value: Scalar) -> TypeGuard[int | float]:
    """Return whether a value of a parameter has a place on an axis of numbers."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _texts(runs: Sequence[Params], name: str) -> dict[str, None]:
    """Return the values of a parameter. A run without it, because its command failed early, does not differ."""
    return dict.fromkeys(value_text(params[name]) for params in runs if name in params)


def _follows(runs: Sequence[Params], name: str, earlier: Sequence[str]) -> bool:
    """Return whether each value of an earlier parameter has one value of this one, and the other way round."""
    for other in earlier:
        both = [params for params in runs if name in params and other in params]
        pairs = {(value_text(params[other]), value_text(params[name])) for params in both}
        if len(pairs) == len(_texts(runs, other)) == len(_texts(runs, name)):
            return True
    return False


def _instead(name: str, present: Sequence[str]) -> str:
    if meant := did_you_mean(name, present):
        return meant
    return (
        f"they have: {listed([printable(parameter) for parameter in present], _SHOWN)}"
        if present
        else "they have none"
    )

"""Values of Relax's calls as a run records them: numbers, texts, distributions and timeline events.

A value that fits none of these is refused alone. The other values of its call are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from math import nan
from typing import Any, Final

from telemetry import limits
from telemetry.client import bins
from telemetry.client.catalog import check_text
from telemetry.client.process import PROCESS
from telemetry.client.steps import number, plain_step
from telemetry.client.user_warnings import warn_once
from telemetry.compat.relax.timeline import TraceEvent

STEP: Final = "step"
"""Axis of Relax's steps."""
TIMELINE_EVENTS_KEY: Final = "__timeline_events__"
"""Key of a metric whose value is a list of timeline events."""
LIST_NUMBERS: Final = 65_536
"""Largest list or tensor that is sent over HTTP, in numbers."""
_DEPTH: Final = 8  # of dictionaries in dictionaries

Refuse = Callable[[str, str], None]
"""A function that is called with the name of a value that is left out, and the reason."""


class Events(list[Mapping[str, Any]]):
    """Timeline events in the Chrome trace format."""


Distribution = bins.CountedBins | list[float]
"""Numbers of a list or a tensor: bins that are counted already, or a plain list."""
Plain = float | str | Distribution | Events
"""A value that can be recorded. A number that is not finite is NaN."""
ToDistribution = Callable[[Any], Distribution]
Place = tuple[str, int]
"""Axis and step."""
Entry = tuple[str, Plain, Mapping[str, str] | None]
"""Name, value and tags of one value of a step."""


def plain_values(
    name: object, value: Any, distribution: ToDistribution, refuse: Refuse, depth: int = 0
) -> list[tuple[str, Plain]]:
    """Return the values to record under a name: one, or several for a dictionary. Never raises."""
    try:
        check_text("a name", name, limits.NAME_CHARS)
        if not isinstance(value, Mapping) or _is_event(value):
            return [(str(name), _plain(str(name), value, distribution))]
        if depth >= _DEPTH:
            raise ValueError(f"its dictionaries are nested more than {_DEPTH} deep")
        pairs: list[tuple[str, Plain]] = []
        for key, inner in list(value.items()):
            pairs += plain_values(f"{name}/{key}", inner, distribution, refuse, depth + 1)
        return pairs
    except Exception as error:  # noqa: BLE001 – a value may raise anything; the others are kept
        refuse(name if isinstance(name, str) else shown(name), str(error) or type(error).__name__)
        return []


def _plain(name: str, value: Any, distribution: ToDistribution) -> Plain:
    """Return a value that is no dictionary as it is recorded. Raise TypeError or ValueError if nothing fits."""
    if isinstance(value, str):
        return str(value)
    events = [value] if isinstance(value, Mapping) else value
    if isinstance(events, list | tuple) and (not events or _is_event(events[0])):
        return Events(map(_event, events))
    if name == TIMELINE_EVENTS_KEY:
        raise TypeError(f"it must be a list of timeline events, not {type(value).__name__}")
    if value is None or isinstance(value, bytes):
        raise TypeError(f"{type(value).__name__} is not a number, a text, a list of numbers or a dictionary")
    if not isinstance(value, list | tuple):
        try:
            plain = number(value)
        except Exception:  # noqa: BLE001 – a value may raise anything when it is converted
            if not hasattr(value, "tolist") and not isinstance(value, Iterable):
                raise TypeError(f"{type(value).__name__} is not a number") from None
        else:
            return nan if plain is None else plain
    return distribution(value)


def counted(values: Any) -> Distribution:
    """Count values into bins. Raise TypeError or ValueError if they are no numbers."""
    counts = bins.count(list(values) if isinstance(values, tuple) else values)
    if counts.refused:
        raise TypeError("it has elements that are not numbers")
    return counts


def listed(values: Any) -> Distribution:
    """Return the finite numbers of a list or a tensor. Raise TypeError or ValueError if there are none."""
    size: Any = getattr(values, "numel", None) or getattr(values, "size", None) or getattr(values, "__len__", int)
    too_many = f"it has more than {LIST_NUMBERS:,} numbers: log a part of it, or its mean and percentiles"
    if int(size() if callable(size) else size) > LIST_NUMBERS:
        raise ValueError(too_many)
    if hasattr(values, "tolist"):
        values = values.tolist()
    elif not hasattr(values, "__len__"):
        values = islice(values, LIST_NUMBERS + 1)  # it may never end
    numbers, refused = bins.finite_numbers(values)
    if refused:
        raise TypeError("it has elements that are not numbers")
    if len(numbers) > LIST_NUMBERS:
        raise ValueError(too_many)
    return numbers


def _is_event(value: object) -> bool:
    return isinstance(value, Mapping) and "ph" in value and "ts" in value


def _event(value: Any) -> Mapping[str, Any]:
    """Return a copy of an event, so that later changes have no effect."""
    if not isinstance(value, Mapping):
        raise TypeError(f"a timeline has dictionaries, not {type(value).__name__}")
    return value if isinstance(value, TraceEvent) else dict(value)


def tagged(name: str, tags: Mapping[str, str] | None) -> str:
    """Return the name of a value with its tags, as `loss{rank=0,role=actor}`."""
    return f"{name}{{{','.join(f'{key}={value}' for key, value in sorted(tags.items()))}}}" if tags else name


def count_lost(count: int, *, buffer_full: bool = False) -> None:
    """Count values among the losses of this process's run: as refused, or as dropped by a full buffer."""
    if PROCESS.state in ("live", "inherited"):
        recorders = PROCESS.recorders
        (recorders.buffer_full if buffer_full else recorders.refused).hit_many(count)


def refuse_value(name: str, why: str) -> None:
    """Count a value that is not recorded, and report it once for each name."""
    count_lost(1)
    refuse(name, why)


def refuse(name: str, why: str) -> None:
    """Report once that a name is not recorded, without counting it."""
    warn_once(f"value {name}", f"the value of {name!r} is not recorded: {why}. This warning appears once")


def step_of(step: Any) -> int:
    """Return a step as an integer. Raise TypeError or ValueError.

    Integers of numpy and tensors of one element are steps, and so is a float without a fraction.
    """
    try:
        return plain_step(step)
    except TypeError:
        plain = number(step)
        if plain is None or not plain.is_integer():
            raise TypeError(f"a step must be an integer, not {shown(step)}") from None
        return plain_step(int(plain))


def shown(value: object) -> str:
    """Return a value as a short text for a message."""
    try:
        return repr(value)[:80]
    except Exception:  # noqa: BLE001 – `repr` of a user's object may raise anything
        return type(value).__name__

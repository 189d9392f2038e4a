"""The selection and renaming of values for a backend. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from msgspec.structs import replace

from telemetry.backends.items import (
    Artifact,
    CounterReading,
    GaugeReading,
    Histogram,
    Item,
    Live,
    Params,
    Reading,
    SeriesReading,
    Span,
    Step,
    Table,
    Text,
)
from telemetry.common.formatting import printable
from telemetry.common.headline_choice import PARAM, shown_params
from telemetry.common.wording import labelled
from telemetry.config import BackendsConfig, BackendValues
from telemetry.errors import ConfigError
from telemetry.wire.events import Scalar
from telemetry.wire.snapshot import CounterStat, GaugeStat, SeriesStat

ALIKE: Final = "renamed_alike"
"""Reason for values left out because their new name already belongs to another name."""
_REMEMBERED: Final = 1 << 17  # enough for every name of a run; further names are matched again each time
_SAID: Final = 10  # names in a conflict that are reported; further ones are only counted

_Named = TypeVar("_Named", SeriesReading, CounterReading, GaugeReading, SeriesStat, CounterStat, GaugeStat)
_Value = TypeVar("_Value")


def values_of(config: BackendsConfig, backend: str) -> BackendValues:
    """Return the settings for a backend of this name: its own table, or the table of `*`."""
    return config.values.get(backend) or config.values.get("*") or BackendValues()


class _Idle(NamedTuple):
    words: str
    regex: re.Pattern[str]
    labels: bool = True
    """True if the pattern may match a name with labels."""


class ItemMapping:
    """A mapping of items for one backend. For one thread only.

    If two names are mapped to the same name, the first one keeps it. Apart from that, items are independent.
    """

    def __init__(self, values: BackendValues) -> None:
        """Compile the patterns. Raises ConfigError for impossible renames."""
        self.left_out: dict[str, int] = {}
        """Values left out because of a name conflict, by reason."""
        self._all = not (values.include or values.exclude or values.rename)
        self._include = [_regex(pattern) for pattern in values.include]
        self._exclude = [_regex(pattern) for pattern in values.exclude]
        self._renames = _renames(values.rename)
        self._idle = [
            *(_Idle(f"include {pattern!r}", _regex(pattern)) for pattern in values.include),
            *(_Idle(f"exclude {pattern!r}", _regex(pattern)) for pattern in values.exclude),
            *(_Idle(f"rename {pattern!r}", _regex(pattern), labels=False) for pattern in values.rename),
        ]
        """Patterns that have not matched a name yet."""
        self._known: dict[str, str | None] = {}
        self._owners: dict[tuple[str, str], str] = {}
        """(kind of item, mapped name) → name in the run."""
        self._notes: list[str] = []
        self._alike: set[str] = set()

    def apply(self, item: Item) -> Item | None:
        """Return the item with the values for this backend, or None if none are left.

        Marks always pass. Params pass unless a pattern of `exclude` matches. The choice of figures to show first is
        ours alone.
        """
        if self._all:
            return self.allowed_params(item) if isinstance(item, Params) and PARAM in item.values else item
        change = _CHANGES.get(type(item))
        return item if change is None else change(self, item)

    def notes(self) -> list[str]:
        """Return messages about new name conflicts. Each is returned once."""
        notes, self._notes = self._notes, []
        return notes

    def idle(self) -> str:
        """Describe the patterns that never matched a name; empty if all did."""
        if not self._idle:
            return ""
        patterns = ", ".join(printable(pattern.words) for pattern in self._idle[:_SAID])
        more = f" and {len(self._idle) - _SAID} more" if len(self._idle) > _SAID else ""
        return f"patterns that matched no name of the run: {patterns}{more}; the name of `latency/p99` is `latency`"

    # --- names -----------------------------------------------------------------------------------

    def name(self, name: str, space: str, labels: Mapping[str, str] | None = None) -> str | None:
        """Return the mapped name, or None if it is filtered out or if another name already maps to it.

        Patterns may also match `name{key=value}`, except those of `rename`.
        """
        whole = labelled(name, labels) if labels else name
        if whole in self._known:
            given = self._known[whole]
        else:
            given = self._given(name, whole)
            if len(self._known) < _REMEMBERED:
                self._known[whole] = given
        if given is None or not self._renames:
            return given
        owner = self._owners.get((space, given))
        if owner is None:
            if len(self._owners) < _REMEMBERED:
                self._owners[space, given] = name
        elif owner != name:
            self._refuse(name, owner, given)
            return None
        return given

    def _given(self, name: str, whole: str) -> str | None:
        fitting = (name, whole)
        self._seen(fitting)
        if self._include and not _fits(self._include, fitting):
            return None
        if _fits(self._exclude, fitting):
            return None
        for regex, parts in self._renames:
            match = regex.fullmatch(name)
            if match is not None:
                return "".join(_woven(parts, match.groups())) or name
        return name

    def _seen(self, fitting: Sequence[str]) -> None:
        """Mark patterns as used. `fitting`: a name, without and with its labels."""
        if self._idle:
            self._idle = [
                pattern for pattern in self._idle if not _fits((pattern.regex,), fitting[: 1 + pattern.labels])
            ]

    def _refuse(self, name: str, owner: str, given: str) -> None:
        self.left_out[ALIKE] = self.left_out.get(ALIKE, 0) + 1
        if name not in self._alike and len(self._alike) < _SAID:
            self._alike.add(name)
            what = f"{printable(name)!r} is left out: its new name {printable(given)!r} is already used by"
            self._notes.append(f"{what} {printable(owner)!r}")

    def values(self, values: Mapping[str, _Value], space: str) -> dict[str, _Value]:
        """Return values by mapped name. In a conflict, the earlier name wins."""
        named = ((self.name(name, space), value) for name, value in values.items())
        return {name: value for name, value in named if name is not None}

    def instruments(self, instruments: Iterable[_Named]) -> list[_Named]:
        kept = []
        for instrument in instruments:
            name = self.name(instrument.name, "instrument", instrument.labels)
            if name is not None:
                kept.append(instrument if name == instrument.name else replace(instrument, name=name))
        return kept

    def allowed_params(self, item: Params) -> Item | None:
        for name in item.values if self._idle else ():
            self._seen((name,))
        values = self._kept_params(item.values)
        return replace(item, values=values) if values else None

    def _kept_params(self, values: Mapping[str, Scalar]) -> dict[str, Scalar]:
        """Return parameters without those filtered out, and without the choice of figures."""
        kept = shown_params(values)
        return {name: value for name, value in kept.items() if not _fits(self._exclude, (name,))}

    def step(self, item: Step) -> Item | None:
        named = {name: given for name in item.values if (given := self.name(name, "step")) is not None}
        if not named:
            return None
        values = {given: item.values[name] for name, given in named.items()}
        spread = {named[name]: figures for name, figures in item.spread.items() if name in named}
        return replace(item, values=values, spread=spread)

    def reading(self, item: Reading) -> Item | None:
        series = self.instruments(item.series)
        counters, gauges = self.instruments(item.counters), self.instruments(item.gauges)
        if not (series or counters or gauges or item.final):
            return None
        return replace(item, series=series, counters=counters, gauges=gauges)

    def live(self, item: Live) -> Item | None:
        snapshot = item.snapshot
        own = replace(
            snapshot,
            series=self.instruments(snapshot.series),
            counters=self.instruments(snapshot.counters),
            gauges=self.instruments(snapshot.gauges),
            axes=[replace(axis, values=self.values(axis.values, "step")) for axis in snapshot.axes],
            params=self._kept_params(snapshot.params),
        )
        return replace(item, snapshot=own)

    def named(self, item: Text | Table | Histogram | Artifact | Span) -> Item | None:
        name = self.name(item.name, type(item).__name__)
        return None if name is None else item if name == item.name else replace(item, name=name)


_CHANGES: Final[dict[type, Callable[[ItemMapping, Any], Item | None]]] = {
    Step: ItemMapping.step,
    Reading: ItemMapping.reading,
    Live: ItemMapping.live,
    Params: ItemMapping.allowed_params,
    **dict.fromkeys((Text, Table, Histogram, Artifact, Span), ItemMapping.named),
}


def _fits(patterns: Iterable[re.Pattern[str]], names: Iterable[str]) -> bool:
    return any(pattern.fullmatch(name) is not None for pattern in patterns for name in names)


def _regex(pattern: str) -> re.Pattern[str]:
    """Compile a pattern; each `*` becomes a group.

    All groups but the last match as little as possible and never backtrack, so that no name takes long.
    """
    first, *parts = map(re.escape, pattern.split("*"))
    if not parts:
        return re.compile(first)
    inner = "".join(f"(?>(.*?){part})" for part in parts[:-1])
    return re.compile(f"{first}{inner}(.*){parts[-1]}", re.DOTALL)


def _renames(rename: Mapping[str, str]) -> list[tuple[re.Pattern[str], list[str]]]:
    """Return patterns, and the fixed texts around the `*` of their new names. Raises ConfigError."""
    taken: dict[str, str] = {}
    for pattern, name in rename.items():
        if pattern.count("*") != name.count("*"):
            raise ConfigError(
                f"can't rename {pattern!r} to {name!r}: the numbers of `*` differ",
                hint="use every `*` in the new name, so that names stay different",
            )
        if name in taken and "*" not in name:
            raise ConfigError(f"can't rename both {taken[name]!r} and {pattern!r} to {name!r}")
        taken[name] = pattern
    return [(_regex(pattern), name.split("*")) for pattern, name in rename.items()]


def _woven(parts: list[str], between: tuple[str, ...]) -> list[str]:
    return [piece for pair in zip(parts, (*between, ""), strict=True) for piece in pair]

"""Shortened names of rows: common parts are removed before distinguishing parts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, combinations
from typing import Final

from rich.cells import cell_len

from telemetry.formatting import NOTHING
from telemetry.shortening import MORE, Shortened, shared_out
from telemetry.tui.widgets.strips import fitted

_PIN: Final = "★ "
_FORM: Final = re.compile(r"([^{]+)\{(.+)\}( \[[^\]]*\])?")
"""`name{key=value,key=value} [unit]`, as `telemetry.wording.instrument` writes it."""
_TRIED: Final = 8
"""Number of labels that are tried in pairs."""
_LEAST: Final = 6
"""Columns of an instrument's name that stay before values lose distinguishing parts."""


@dataclass(frozen=True, slots=True)
class _Name:
    mark: str
    name: str
    labels: Mapping[str, str]
    unit: str


_Labels = Sequence[tuple[str, str]]
"""The shown labels of a row."""


@lru_cache(maxsize=64)  # a few tables at a few widths; rows rarely change
def told_apart(names: tuple[str, ...], width: int) -> tuple[str, ...]:
    """Return the names, each shortened to at most `width` columns.

    From `room_needed` columns on, all look different.

    If the names of one instrument do not fit, all of them are shortened in this order: common labels, the keys of
    the others, labels that are not needed to tell them apart, the part before the first dot of the instrument's
    name, the unit, and last parts of that name and of values: see `Shortened`. Other text is also shortened by
    `Shortened`.
    """
    shown = _table(names).shown(width)
    return tuple(text if cell_len(text) <= width else fitted(text, width) for text in map(shown.__getitem__, names))


@lru_cache(maxsize=16)
def room_needed(names: tuple[str, ...]) -> int:
    """Return the columns from which no two of these names look the same, unless they contain a `…`.

    They cover the distinguishing words of each value, and those of the instrument's name or _LEAST columns of it.
    """
    return _table(names).room_needed()


@lru_cache(maxsize=16)
def _table(names: tuple[str, ...]) -> _Table:
    return _Table(names)


class _Table:
    """A set of names that are shown together."""

    def __init__(self, names: Iterable[str]) -> None:
        self._groups: dict[str, dict[str, _Name]] = {}
        """Parsed names by instrument, then by the whole text."""
        self._others: dict[str, tuple[str, str]] = {}
        """Mark and text of names in another form."""
        for text in dict.fromkeys(names):
            mark = _mark(text)
            rest = text[len(mark) :]
            row = _parsed(mark, rest)
            if row is None:
                self._others[text] = mark, rest
            else:
                self._groups.setdefault(row.name, {})[text] = row
        self._bare = _bare(self._groups)
        self._heads = Shortened((self._bare.get(name, name) for name in self._groups), cell_len)
        self._texts = Shortened((text for _, text in self._others.values()), cell_len)
        self._values: dict[str, Shortened] = {}

    def shown(self, width: int) -> dict[str, str]:
        """Return each name shortened to about `width` columns; if that is too few, one may take more."""
        shown = {
            text: f"{mark}{self._texts.cut(rest, max(1, width - cell_len(mark)))}"
            for text, (mark, rest) in self._others.items()
        }
        for group in _without_units(self._without_fronts(width), width):
            rows = list(group.values())
            said = _fitting(rows, width) or [
                self._squeezed(row, labels, width)
                for row, labels in zip(rows, _labels(rows, _enough(rows), whole=False), strict=True)
            ]
            shown.update(zip(group, said, strict=True))
        return shown

    def room_needed(self) -> int:
        """Return the columns needed by the shortest distinguishable forms."""
        others = (cell_len(mark) + self._texts.needs(text) for mark, text in self._others.values())
        rooms = list(others)
        for group in self._groups.values():
            rows = [self._without_front(row) for row in group.values()]
            for row, labels in zip(rows, _labels(rows, _enough(rows), whole=False), strict=True):
                rooms.append(_frame(row, labels) + sum(self._needs(row, labels)))
        return max(rooms, default=0)

    def _without_fronts(self, width: int) -> list[dict[str, _Name]]:
        """Shorten `chat.latency` to `…latency` in all instruments with the same first part if one does not fit."""
        groups = self._groups.items()
        tight = {_front(name) for name, group in groups if not _fitting(list(group.values()), width)}
        return [
            {text: self._without_front(row) for text, row in group.items()} if _front(name) in tight else group
            for name, group in groups
        ]

    def _without_front(self, row: _Name) -> _Name:
        rest = self._bare.get(row.name)
        return replace(row, mark=f"{row.mark}{MORE}", name=rest) if rest else row

    def _squeezed(self, row: _Name, labels: _Labels, width: int) -> str:
        """Shorten the parts of a name. Distinguishing words get space first, then all parts get more."""
        parts = [row.name, *(value for _, value in labels)]
        room = width - _frame(row, labels)
        rooms = shared_out(self._needs(row, labels), [cell_len(part) for part in parts], room)
        head, *values = (
            known.cut(part, max(1, had)) for known, part, had in zip(self._known(labels), parts, rooms, strict=True)
        )
        mark = row.mark.removesuffix(MORE) if head.startswith(MORE) else row.mark
        return f"{mark}{head}{{{','.join(values) or MORE}}}"

    def _needs(self, row: _Name, labels: _Labels) -> list[int]:
        parts = (row.name, *(value for _, value in labels))
        head, *values = (known.needs(part) for known, part in zip(self._known(labels), parts, strict=True))
        return [max(head, min(_LEAST, cell_len(row.name))), *values]

    def _known(self, labels: _Labels) -> Iterator[Shortened]:
        """Yield the sets from which the instrument's name and each value must be distinguishable."""
        yield self._heads
        for key, _ in labels:
            if key not in self._values:
                rows = chain.from_iterable(group.values() for group in self._groups.values())
                self._values[key] = Shortened((row.labels[key] for row in rows if key in row.labels), cell_len)
            yield self._values[key]


def _mark(text: str) -> str:
    """Return the mark of a row: it is pinned, or belongs to the row above."""
    return _PIN if text.startswith(_PIN) else " " * (len(text) - len(text.lstrip(" ")))


def _parsed(mark: str, text: str) -> _Name | None:
    found = _FORM.fullmatch(text)
    if found is None:
        return None
    pairs = [label.partition("=") for label in found[2].split(",")]
    labels = {key: value for key, _, value in pairs}
    if not all(sign for _, sign, _ in pairs) or len(labels) < len(pairs):
        return None  # a value contains a comma: its end is unknown
    return _Name(mark, found[1], labels, found[3] or "")


def _front(name: str) -> str:
    return name.partition(".")[0]


def _bare(names: Iterable[str]) -> dict[str, str]:
    """Return the parts behind the first dot, by name, if they are unique."""
    rests = {name: name.partition(".")[2] for name in names}
    known = Counter((*rests, *rests.values()))
    return {name: rest for name, rest in rests.items() if rest and known[rest] == 1}


def _without_units(groups: Sequence[dict[str, _Name]], width: int) -> list[dict[str, _Name]]:
    """Remove a unit from all names that have it, if some of them do not fit."""
    tight = {row.unit for group in groups if not _fitting(list(group.values()), width) for row in group.values()}
    return [
        {text: replace(row, unit="") if row.unit in tight else row for text, row in group.items()}
        for group in groups
    ]


def _fitting(rows: Sequence[_Name], width: int) -> list[str]:
    """Return rows of one instrument, all written in the longest form in which all fit; empty if no form fits."""
    apart, enough = _apart(rows) or list(rows[0].labels), _enough(rows)
    ways = ((apart, False), (apart, True), (enough, False), (enough, True))
    whole = [_said(row, list(row.labels.items()), bare=False) for row in rows]
    for said in chain([whole], (_all_said(rows, keys, bare=bare) for keys, bare in ways)):
        if all(cell_len(text) <= width for text in said):
            return said
    return []


def _apart(rows: Sequence[_Name]) -> list[str]:
    """Return the labels that tell some rows from others."""
    keys = dict.fromkeys(key for row in rows for key in row.labels)
    return [key for key in keys if len({row.labels.get(key) for row in rows}) > 1]


def _enough(rows: Sequence[_Name]) -> Sequence[str]:
    """Return the fewest labels that tell all rows apart. If one or two are not enough, return all that differ."""
    keys = _apart(rows)
    for kept in chain(combinations(keys, 1), combinations(keys[:_TRIED], 2)):
        if len({tuple(row.labels.get(key) for key in kept) for row in rows}) == len(rows):
            return kept
    return keys


def _labels(rows: Sequence[_Name], keys: Sequence[str], *, whole: bool) -> list[_Labels]:
    """Return the labels of each row, limited to `keys`.

    Missing labels become `–` where rows would look the same otherwise. With `whole` values, rows look the same only
    if all values are equal. Else rows with equally many, but different, labels may look the same.
    """
    found = [[(key, row.labels[key]) for key in keys if key in row.labels] for row in rows]
    had = {tuple(key for key, _ in labels) for labels in found}
    different = {tuple(value for _, value in labels) for labels in found}
    if len(different) == len(rows) if whole else len({len(some) for some in had}) == len(had):
        return list(found)
    return [[(key, row.labels.get(key, NOTHING)) for key in keys] for row in rows]


def _all_said(rows: Sequence[_Name], keys: Sequence[str], *, bare: bool) -> list[str]:
    return [
        _said(row, labels, bare=bare) for row, labels in zip(rows, _labels(rows, keys, whole=True), strict=True)
    ]


def _said(row: _Name, labels: _Labels, *, bare: bool) -> str:
    inside = [value if bare else f"{key}={value}" for key, value in labels]
    if not inside or (not bare and len(inside) < len(row.labels)):
        inside.insert(0, MORE)
    return f"{row.mark}{row.name}{{{','.join(inside)}}}{row.unit}"


def _frame(row: _Name, labels: _Labels) -> int:
    """Return the columns around the name of an instrument and its values."""
    return cell_len(row.mark) + 2 + max(1, len(labels)) - 1 + (0 if labels else 1)

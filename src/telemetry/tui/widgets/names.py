"""Names of rows in less room than they need: what the rows share goes before what tells them apart."""

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
"""Labels that are tried in pairs."""
_LEAST: Final = 6
"""Columns of an instrument's name that stay before values are cut to less than tells them apart."""


@dataclass(frozen=True, slots=True)
class _Name:
    mark: str
    name: str
    labels: Mapping[str, str]
    unit: str


_Labels = Sequence[tuple[str, str]]
"""Those of a row that are shown."""


@lru_cache(maxsize=64)  # a few tables at a few widths; rows seldom come and go
def told_apart(names: tuple[str, ...], width: int) -> tuple[str, ...]:
    """The same names, each of at most `width` columns. From `room_needed` columns on no two look the same.

    Where those of one instrument have no room, all of them lose the labels that they share, then the keys of the
    others, then those without which they still differ, then what stands before the first dot of the instrument's
    name, then their unit, and only then parts of that name and of values: see `Shortened`. So does other text.
    """
    shown = _table(names).shown(width)
    return tuple(text if cell_len(text) <= width else fitted(text, width) for text in map(shown.__getitem__, names))


@lru_cache(maxsize=16)
def room_needed(names: tuple[str, ...]) -> int:
    """Columns from which on no two of these names look the same, unless they hold a `…`: so many as the words that
    tell each value from the others need, and the same of the instrument's name, or _LEAST columns of it."""
    return _table(names).room_needed()


@lru_cache(maxsize=16)
def _table(names: tuple[str, ...]) -> _Table:
    return _Table(names)


class _Table:
    """Names that are shown together."""

    def __init__(self, names: Iterable[str]) -> None:
        self._groups: dict[str, dict[str, _Name]] = {}
        """By instrument, then by the whole text."""
        self._others: dict[str, tuple[str, str]] = {}
        """Mark and text of those of another form."""
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
        """Each name in about so many columns: in too few, one may take more."""
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
        """Were there as little as can be of all of them."""
        others = (cell_len(mark) + self._texts.needs(text) for mark, text in self._others.values())
        rooms = list(others)
        for group in self._groups.values():
            rows = [self._without_front(row) for row in group.values()]
            for row, labels in zip(rows, _labels(rows, _enough(rows), whole=False), strict=True):
                rooms.append(_frame(row, labels) + sum(self._needs(row, labels)))
        return max(rooms, default=0)

    def _without_fronts(self, width: int) -> list[dict[str, _Name]]:
        """`…latency` for `chat.latency`: for all that begin with a front with which some have no room."""
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
        """What tells the parts of a name apart comes first, then all have more alike."""
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
        """What the name of an instrument and each of its values are told apart from."""
        yield self._heads
        for key, _ in labels:
            if key not in self._values:
                rows = chain.from_iterable(group.values() for group in self._groups.values())
                self._values[key] = Shortened((row.labels[key] for row in rows if key in row.labels), cell_len)
            yield self._values[key]


def _mark(text: str) -> str:
    """That a row is pinned, or belongs to the one above."""
    return _PIN if text.startswith(_PIN) else " " * (len(text) - len(text.lstrip(" ")))


def _parsed(mark: str, text: str) -> _Name | None:
    found = _FORM.fullmatch(text)
    if found is None:
        return None
    pairs = [label.partition("=") for label in found[2].split(",")]
    labels = {key: value for key, _, value in pairs}
    if not all(sign for _, sign, _ in pairs) or len(labels) < len(pairs):
        return None  # a value holds a comma: where it ends is not known
    return _Name(mark, found[1], labels, found[3] or "")


def _front(name: str) -> str:
    return name.partition(".")[0]


def _bare(names: Iterable[str]) -> dict[str, str]:
    """What stands behind the first dot, unless that is said of another, too."""
    rests = {name: name.partition(".")[2] for name in names}
    known = Counter((*rests, *rests.values()))
    return {name: rest for name, rest in rests.items() if rest and known[rest] == 1}


def _without_units(groups: Sequence[dict[str, _Name]], width: int) -> list[dict[str, _Name]]:
    """All of the same unit alike."""
    tight = {row.unit for group in groups if not _fitting(list(group.values()), width) for row in group.values()}
    return [
        {text: replace(row, unit="") if row.unit in tight else row for text, row in group.items()}
        for group in groups
    ]


def _fitting(rows: Sequence[_Name], width: int) -> list[str]:
    """Rows of one instrument, all written in the first way in which all have room; none if there is no such way."""
    apart, enough = _apart(rows) or list(rows[0].labels), _enough(rows)
    ways = ((apart, False), (apart, True), (enough, False), (enough, True))
    whole = [_said(row, list(row.labels.items()), bare=False) for row in rows]
    for said in chain([whole], (_all_said(rows, keys, bare=bare) for keys, bare in ways)):
        if all(cell_len(text) <= width for text in said):
            return said
    return []


def _apart(rows: Sequence[_Name]) -> list[str]:
    """Labels that tell some of them from others."""
    keys = dict.fromkeys(key for row in rows for key in row.labels)
    return [key for key in keys if len({row.labels.get(key) for row in rows}) > 1]


def _enough(rows: Sequence[_Name]) -> Sequence[str]:
    """The fewest labels by which all differ; all that tell any apart where one and two are not enough."""
    keys = _apart(rows)
    for kept in chain(combinations(keys, 1), combinations(keys[:_TRIED], 2)):
        if len({tuple(row.labels.get(key) for key in kept) for row in rows}) == len(rows):
            return kept
    return keys


def _labels(rows: Sequence[_Name], keys: Sequence[str], *, whole: bool) -> list[_Labels]:
    """Of each row those of these labels that it has; with `–` for those that it has not where rows would look the
    same without. That can be of any that have as many of other labels, unless their values stand there `whole`."""
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
    """Columns of what stands around the name of an instrument and its values."""
    return cell_len(row.mark) + 2 + max(1, len(labels)) - 1 + (0 if labels else 1)

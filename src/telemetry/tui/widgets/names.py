"""Names of rows in less room than they need: what the rows share goes before what tells them apart."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, combinations
from typing import Final

from rich.cells import cell_len

from telemetry.tui.widgets.strips import MORE, fitted

_FORM: Final = re.compile(r"(★ )?([^{]+)\{(.+)\}( \[[^\]]*\])?")
"""`name{key=value,key=value} [unit]`, as `telemetry.phrases.instrument` writes it, perhaps pinned."""
_TRIED: Final = 8
"""Labels that are tried in pairs."""
_LEAST: Final = 6
"""Columns of the shared name that stay before values are cut."""


@dataclass(frozen=True, slots=True)
class _Name:
    mark: str
    name: str
    labels: Mapping[str, str]
    unit: str


@lru_cache(maxsize=64)  # a few tables at a few widths; rows seldom come and go
def told_apart(names: tuple[str, ...], width: int) -> tuple[str, ...]:
    """The same names, each of at most `width` columns.

    Where those of one instrument have no room, all of them lose the labels that they share, then the keys of the
    others, then those without which they still differ, then what stands before the first dot of the instrument's
    name, then the middle of that, and only then the middle of values. Other text loses its middle.
    """
    shown = {text: text for text in names}
    groups: dict[str, dict[str, _Name]] = {}
    for text in shown:
        parsed = _parsed(text)
        if parsed is not None:
            groups.setdefault(parsed.name, {})[text] = parsed
    bare = _without_front(groups, width)
    for name, group in groups.items():
        rows = [replace(row, name=bare.get(name, name)) for row in group.values()]
        shown.update(zip(group, _fitting(rows, width) or _squeezed(rows, width), strict=True))
    return tuple(_cut(shown[text], width) for text in names)


def _without_front(groups: Mapping[str, Mapping[str, _Name]], width: int) -> dict[str, str]:
    """`…latency` for `chat.latency`: for all that begin with a front with which some have no room, unless the rest
    is that of another, too."""
    rests = Counter(name.partition(".")[2] for name in groups)
    tight = {name.partition(".")[0] for name, group in groups.items() if not _fitting(list(group.values()), width)}
    found = {}
    for name in groups:
        front, _, rest = name.partition(".")
        if front in tight and rest and rests[rest] == 1:
            found[name] = f"{MORE}{rest}"
    return found


def _parsed(text: str) -> _Name | None:
    found = _FORM.fullmatch(text)
    if found is None:
        return None
    pairs = [label.partition("=") for label in found[3].split(",")]
    labels = {key: value for key, _, value in pairs}
    if not all(sign for _, sign, _ in pairs) or len(labels) < len(pairs):
        return None  # a value holds a comma: where it ends is not known
    return _Name(found[1] or "", found[2], labels, found[4] or "")


def _fitting(names: Sequence[_Name], width: int) -> list[str]:
    """Rows of one instrument, all written in the first way in which all have room; none if there is no such way."""
    apart, enough = _apart(names) or list(names[0].labels), _enough(names)
    ways = ((apart, False), (apart, True), (enough, False), (enough, True))
    whole = [_said(name, list(name.labels), bare=False) for name in names]
    for said in chain([whole], ([_said(name, kept, bare=bare) for name in names] for kept, bare in ways)):
        if all(cell_len(text) <= width for text in said):
            return said
    return []


def _apart(names: Sequence[_Name]) -> list[str]:
    """Labels that tell some of them from others."""
    keys = dict.fromkeys(key for name in names for key in name.labels)
    return [key for key in keys if len({name.labels.get(key) for name in names}) > 1]


def _enough(names: Sequence[_Name]) -> Sequence[str]:
    """The fewest labels by which all differ; all that tell any apart where one and two are not enough."""
    keys = _apart(names)
    for kept in chain(combinations(keys, 1), combinations(keys[:_TRIED], 2)):
        if len({tuple(name.labels.get(key) for key in kept) for name in names}) == len(names):
            return kept
    return keys


def _said(name: _Name, keys: Sequence[str], *, bare: bool) -> str:
    if not keys:
        return f"{name.mark}{name.name}{{{MORE}}}{name.unit}"
    inside = [name.labels[key] if bare else f"{key}={name.labels[key]}" for key in keys if key in name.labels]
    if not bare and len(inside) < len(name.labels):
        inside.insert(0, MORE)
    return f"{name.mark}{name.name}{{{','.join(inside)}}}{name.unit}"


def _squeezed(names: Sequence[_Name], width: int) -> list[str]:
    keys = _enough(names)
    return [_squeeze(name, keys, width) for name in names]


def _squeeze(name: _Name, keys: Sequence[str], width: int) -> str:
    values = [name.labels.get(key, "") for key in keys] or [MORE]
    room = width - cell_len(name.mark) - len(values) - 1  # braces, and a comma between two
    needed = sum(map(cell_len, values))
    first = max(min(_LEAST, cell_len(name.name)), min(cell_len(name.name), room - needed))
    head = _cut(name.name, max(1, first))
    free = max(0, room - cell_len(head))
    for left, index in enumerate(sorted(range(len(values)), key=lambda at: cell_len(values[at]))):
        values[index] = _cut(values[index], max(1, free // (len(values) - left)))
        free = max(0, free - cell_len(values[index]))
    return f"{name.mark}{head}{{{','.join(values)}}}"


def _cut(text: str, width: int) -> str:
    return text if cell_len(text) <= width else fitted(text, width)

"""Names of rows and of producers, shortened to the width of their column."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from rich.cells import cell_len

from telemetry.common.formatting import MORE, printable, without_middle
from telemetry.tui.model.scene import Scene

_PIN: Final = "★ "
_FORM: Final = re.compile(r"([^{]+)\{(.+)\}( \[[^\]]*\])?")
"""`name{key=value,key=value} [unit]`, as `telemetry.common.wording.instrument` writes it."""
_LEAST: Final = 6
"""Columns of an instrument's name that stay before its values are cut."""


@dataclass(frozen=True, slots=True)
class _Name:
    mark: str
    name: str
    labels: Mapping[str, str]
    unit: str


@lru_cache(maxsize=64)  # a few tables at a few widths; rows rarely change
def fitted_names(names: tuple[str, ...], width: int) -> tuple[str, ...]:
    """Return the names, each shortened to at most `width` columns.

    All rows of an instrument are written alike, in the longest form in which all of them fit: as they are; without
    labels that the rows of the instrument, or all rows with labels, have in common; with the values of the other
    labels alone; with one label that tells them apart. If none fits, the name of the instrument loses its middle,
    then the values do. Text in another form loses its middle.
    """
    groups: dict[str, dict[str, _Name]] = {}
    shown = {}
    for text in names:
        row = _parsed(text)
        if row is None:
            shown[text] = without_middle(text, width, cell_len)
        else:
            groups.setdefault(row.name, {})[text] = row
    every = [row for group in groups.values() for row in group.values()]
    common = [key for key in every[0].labels if key not in _apart(every)] if len(every) > 1 else []
    for group in groups.values():
        shown.update(zip(group, _fitted(list(group.values()), width, common), strict=True))
    return tuple(map(shown.__getitem__, names))


def _parsed(text: str) -> _Name | None:
    """Split a name into its parts; return None for text in another form."""
    mark = _PIN if text.startswith(_PIN) else " " * (len(text) - len(text.lstrip(" ")))
    match = _FORM.fullmatch(text[len(mark) :])
    if match is None:
        return None
    pairs = [label.partition("=") for label in match[2].split(",")]
    labels = {key: value for key, _, value in pairs}
    if not all(sign for _, sign, _ in pairs) or len(labels) < len(pairs):
        return None  # a value contains a comma: its end is unknown
    return _Name(mark, match[1], labels, match[3] or "")


def _fitted(rows: Sequence[_Name], width: int, common: Sequence[str]) -> list[str]:
    for form in _forms(rows, common):
        if all(cell_len(text) <= width for text in form):
            return form
    keys = _enough(rows)
    return [_cut(row, keys, width) for row in rows]


def _forms(rows: Sequence[_Name], common: Sequence[str]) -> Iterator[list[str]]:
    """Yield the rows in shorter and shorter forms."""
    yield [_written(row, list(row.labels), has_keys=True) for row in rows]
    for keys in (_apart(rows) or [key for key in rows[0].labels if key not in common], _enough(rows)):
        yield [_written(row, keys, has_keys=True) for row in rows]
        yield [_written(row, keys, has_keys=False) for row in rows]


def _apart(rows: Sequence[_Name]) -> list[str]:
    """Return the labels that differ between rows."""
    keys = dict.fromkeys(key for row in rows for key in row.labels)
    return [key for key in keys if len({row.labels.get(key) for row in rows}) > 1]


def _enough(rows: Sequence[_Name]) -> list[str]:
    """Return the first label that alone tells all rows apart, else all that differ."""
    keys = _apart(rows)
    return next(([key] for key in keys if len({row.labels.get(key) for row in rows}) == len(rows)), keys)


def _written(row: _Name, keys: Sequence[str], *, has_keys: bool) -> str:
    inside = [f"{key}={row.labels[key]}" if has_keys else row.labels[key] for key in keys if key in row.labels]
    if not inside or (has_keys and len(inside) < len(row.labels)):
        inside.insert(0, MORE)
    return f"{row.mark}{row.name}{{{','.join(inside)}}}{row.unit}"


def _cut(row: _Name, keys: Sequence[str], width: int) -> str:
    values = ",".join(row.labels[key] for key in keys if key in row.labels) or MORE
    room = width - cell_len(row.mark) - len("{}")
    least = min(_LEAST, cell_len(row.name))
    head = without_middle(row.name, max(least, room - cell_len(values)), cell_len)
    inside = without_middle(values, max(1, room - cell_len(head)), cell_len)
    return without_middle(f"{row.mark}{head}{{{inside}}}", width, cell_len)


def short_names(scene: Scene) -> Mapping[str, str]:
    """Return names without host and process, by producer id; the id of a node is that of its leaf.

    A producer of a node is known once the node was opened.
    """
    if scene.snapshot is None:
        return {}
    nodes = {stat.leaf: stat.node for stat in scene.snapshot.nodes if stat.leaf}
    name_by_id = {leaf: printable(name) for leaf, name in nodes.items()}
    for stat in scene.snapshot.producers:
        name_by_id[stat.producer] = _short(stat.rank, stat.name or stat.producer)
    for leaf, members in scene.members.items():
        for member in members:
            name = _short(member.rank, member.name or member.producer)
            name_by_id[member.producer] = f"{name} on {printable(nodes.get(leaf, leaf))}"
    return name_by_id


def _short(rank: int | None, name: str) -> str:
    return f"rank {rank}" if rank is not None else printable(name)

"""The conversion of items to rows of a W&B history. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import sha256
from string import ascii_letters, digits
from typing import Any, Final, NamedTuple

from telemetry import limits
from telemetry.backends.items import Artifact, Histogram, Item, Mark, Reading, Step, Table, Text, without_gaps
from telemetry.backends.naming import FINAL, AxisOwners, escape, flat
from telemetry.common.formatting import printable
from telemetry.common.wording import labelled
from telemetry.wire.events import Scalar

TIME_AXIS: Final = "elapsed_s"
"""X-axis of items without a step: seconds since the run's start."""
_AXIS: Final = "axis/"
_MEDIA_BYTES: Final = 80  # a name is part of a file name, and of an artifact's name of at most 128
_IN_ARTIFACTS: Final = ascii_letters + digits + "_-"


class WandbTable(NamedTuple):
    """A table, as a value of a row."""

    columns: list[str]
    rows: list[list[Scalar]]


class Picture(NamedTuple):
    """A file, as a value of a row."""

    path: str
    ending: str
    """Ending of a file with such content, such as `.png`."""


class WandbRow(NamedTuple):
    axis: str
    """Column with the x-axis of the others; empty for none."""
    values: dict[str, Any]
    """Values, including the x-axis."""


class WandbRows:
    """A converter of items to rows, with W&B's column names.

    W&B allows one x-axis per name. A name belongs to the axis that used it first; on other axes, the axis is
    appended.
    """

    def __init__(self, started_ns: int, owners: AxisOwners, *, spread: bool) -> None:
        self._started_ns = started_ns
        self._spread = spread
        self._owners = owners

    def of(self, item: Item) -> WandbRow | None:
        """Return the row of an item, or None without values. An image becomes a line of text, like any artifact."""
        row: WandbRow | None = None
        match item:
            case Step():
                row = self._step(item)
            case Reading():
                values = {**flat(item), **_distributions(item)}
                row = self._row(TIME_AXIS, item.elapsed_s, values) if values else None
            case Mark():
                labels = " ".join(f"{key}={value}" for key, value in item.labels.items())
                row = self.one(item, "mark", f"{item.text} {labels}".rstrip())
            case Text():
                row = self.one(item, item.name, item.text)
            case Histogram():
                row = self.one(item, item.name, distribution(item.edges, item.counts))
            case Table():
                row = self.one(item, media(item.name), WandbTable(item.columns, item.rows))
            case Artifact():
                row = self.one(item, item.name, item.uri)
        return row

    def one(self, item: Mark | Text | Table | Histogram | Artifact, name: str, value: Any) -> WandbRow:
        """Return a row with one value, on the axis of the item or at its time."""
        axis = "" if isinstance(item, Mark) else item.axis
        if axis and not isinstance(item, Mark):
            return self._row(axis_key(axis), item.step, {name: value})
        return self._row(TIME_AXIS, (item.time_ns - self._started_ns) / 1e9, {name: value})

    def _step(self, item: Step) -> WandbRow | None:
        values: dict[str, Any] = dict(item.values)
        if self._spread:
            for name, spread in item.spread.items():
                values[f"{name}/min"] = spread.min
                values[f"{name}/max"] = spread.max
        return self._row(axis_key(item.axis), item.step, values) if values else None

    def _row(self, axis: str, position: float, values: dict[str, Any]) -> WandbRow:
        row: dict[str, Any] = {axis: position}
        for name, value in values.items():
            column = column_of(name)
            if not self._owners.has(column, axis):
                column = f"{column} @{axis}"
            row[column] = value
        return WandbRow(axis, row)


def final_values(reading: Reading) -> dict[str, Any]:
    """Return the result, for the summary."""
    return {column_of(name): value for name, value in {**flat(reading), **_distributions(reading)}.items()}


def axis_key(axis: str) -> str:
    """Return the column with the x-axis for an axis of steps."""
    return _AXIS + axis.replace("%", "%25").replace("*", "%2A")


def column_of(name: str) -> str:
    """Return a name that W&B accepts. Different names stay different.

    A name gets a prefix `%` and escapes if it begins with `_` or `%`, looks like an x-axis, or contains ` @` or a
    star, which W&B reads as a pattern.
    """
    if name.startswith(("_", "%", _AXIS)) or name == TIME_AXIS or "*" in name or " @" in name:
        return "%" + name.replace("%", "%25").replace("*", "%2A").replace(" @", "%20@")
    return name


def media(name: str) -> str:
    """Return a name that is valid in a path and short enough."""
    safe = name.replace("\\", "%5C").replace("..", "%2E%2E").replace("\0", "%00").lstrip("/") or "%2F"
    encoded = safe.encode()
    if safe == name and len(encoded) <= _MEDIA_BYTES:
        return name
    return f"{encoded[: _MEDIA_BYTES - 10].decode(errors='ignore')}~{_short(name)}"


def artifact_name(name: str) -> str:
    """Return a valid artifact name: W&B allows 128 characters of few kinds.

    Other characters become a dot and two digits. A long name ends with a checksum.
    """
    safe = escape(name, _IN_ARTIFACTS, ".")
    return safe if len(safe) <= 120 else f"{safe[:110]}.{_short(name)}"


def distribution(edges: Sequence[float], counts: Sequence[int]) -> dict[str, Any]:
    """Return a distribution in W&B's format. Neighbours are merged until it has few enough bins."""
    while len(counts) > limits.WANDB_BINS:
        counts = [sum(counts[at : at + 2]) for at in range(0, len(counts), 2)]
        edges = [*edges[:-1:2], edges[-1]]
    return {"_type": "histogram", "values": list(counts), "bins": list(edges)}


def project_name(name: str) -> str:
    """Return a valid project name: W&B allows 128 characters and excludes a few."""
    return re.sub(r"[/\\#?%:]", "-", printable(name))[:128] or "telemetry"


def run_id(text: str) -> str:
    """Return the id of W&B's run, derived from this run's id."""
    return "".join(char if char in _IN_ARTIFACTS else "-" for char in text)[:64]


def _distributions(reading: Reading) -> dict[str, Any]:
    head = FINAL if reading.final else ""
    return {
        f"{head}{labelled(series.name, series.labels)}/histogram": distribution(*without_gaps(series.cells))
        for series in reading.series
        if series.cells
    }


def _short(name: str) -> str:
    return sha256(name.encode()).hexdigest()[:8]

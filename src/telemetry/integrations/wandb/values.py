"""Values of W&B calls as records of the client: numbers, texts, tables, distributions and files.

Data types of W&B are told apart by the attribute `_log_type`, which those of the library and those of our interface
have in common.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from telemetry import limits
from telemetry.client import bins, user_warnings
from telemetry.client import module_level as client
from telemetry.client.process import PROCESS
from telemetry.client.records import flatten
from telemetry.client.redaction import REDACTION
from telemetry.client.steps import number
from telemetry.integrations.wandb.rules import LoggedPart

_NUMBERS: Final = frozenset({int, float, bool})
_PLAIN: Final = _NUMBERS | {str}
_OF_OBJECTS: Final = ("itertuples", "savefig", "to_plotly_json")
"""Methods of data frames and figures, which have no useful text."""


def are_numbers(data: Mapping[str, Any]) -> bool:
    """Return whether all values are numbers of Python."""
    return _NUMBERS.issuperset(map(type, data.values()))


def flat(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the values by name, with dots for nested dictionaries.

    Arrays are copied, as numbers or as distributions. None is left out.
    """
    if _PLAIN.issuperset(map(type, data.values())):
        return data
    return dict(_flattened(data))


def _flattened(data: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    value: Any
    for name, value in flatten(data):
        if value is None or (isinstance(value, Mapping) and not value):
            continue
        if isinstance(value, list | tuple) and value and kind_of(value[0]):
            several = len(value) > 1
            yield from (
                (f"{name}/{at}" if several else name, item)
                for at, item in enumerate(value[: limits.MEDIA_OF_A_LIST])
            )
            if len(value) > limits.MEDIA_OF_A_LIST:
                _count_cut(name, len(value))
        else:
            yield name, copied(value)


def copied(value: Any) -> Any:
    """Return a value that later changes of the original don't reach: a number, a text or a distribution.

    Data types of W&B, and what is none of these, are returned as they are.
    """
    if type(value) in _PLAIN or kind_of(value):
        return value
    try:
        plain = number(value)
    except Exception:  # noqa: BLE001 – a value may be anything; what is no number is tried as something else
        return _copied_other(value)
    return float("nan") if plain is None else plain


def _copied_other(value: Any) -> Any:
    if any(hasattr(value, method) for method in _OF_OBJECTS):
        return value
    if isinstance(value, list | tuple | set | frozenset | range) or getattr(value, "shape", None):
        try:
            counted = bins.count(list(value) if isinstance(value, set | frozenset | tuple | range) else value)
        except Exception:  # noqa: BLE001 – items may be anything; what can't be counted is kept as text
            return str(value)
        return str(value) if counted.refused else (counted.edges, counted.counts)
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    has_text = any("__str__" in vars(base) for base in type(value).__mro__[:-1])
    return str(value) if has_text else value


def put(part: LoggedPart) -> None:
    """Record the values of one step."""
    axis, step, values = part
    if are_numbers(values):
        client.log(values, step=step, axis=axis)
        return
    numbers: dict[str, Any] = {}
    for name, value in values.items():
        if type(value) in _NUMBERS:
            numbers[name] = value
        elif type(value) is str:
            client.text(name, value, step=step, axis=axis)
        elif type(value) is tuple:
            client.histogram(name, value, step=step, axis=axis)
        else:
            _put_object(name, value, step, axis)
    if numbers:
        client.log(numbers, step=step, axis=axis)


def _put_object(name: str, value: Any, step: int, axis: str) -> None:
    kind = kind_of(value)
    charted = getattr(value, "table", None)  # the data of a custom chart
    if kind == "table" or hasattr(value, "itertuples") or kind_of(charted) == "table":
        columns, rows = table_of(charted if kind_of(charted) == "table" else value)
        client.table(name, columns, rows, step=step, axis=axis)
    elif kind == "histogram":
        client.histogram(name, (value.bins, value.histogram), step=step, axis=axis)
    elif path := getattr(value, "_path", None):
        client.artifact(name, path, kind=kind, step=step, axis=axis)
    elif isinstance(text := getattr(value, "html", None), str):
        client.text(name, text, step=step, axis=axis)
    else:
        _leave_out(value)


def table_of(table: Any) -> tuple[list[str], Iterator[Iterable[Any]]]:
    """Return columns and rows of a W&B table or of a data frame. Rows and cells are made when they are read."""
    columns = [str(column) for column in table.columns]
    if hasattr(table, "itertuples"):
        return columns, iter(table.itertuples(index=False, name=None))
    return columns, map(_cells, table.data)


def _cells(row: Iterable[Any]) -> Iterator[Any]:
    for cell in row:
        yield _cell(cell)


def _cell(value: Any) -> Any:
    """Return what a table shows of a value: the path of a file, JSON of a list."""
    if type(value) in _PLAIN or value is None:
        return value
    if kind_of(value):
        return getattr(value, "_path", None) or getattr(value, "html", None) or type(value).__name__
    if isinstance(value, Mapping | Sequence) and not isinstance(value, str | bytes):
        try:
            return json.dumps(value)
        except (TypeError, ValueError):
            return str(value)
    return value


def put_settings(values: Mapping[str, Any]) -> None:
    """Record settings, or a summary, as params."""
    client.params({name: _setting(value) for name, value in flatten(values)})


def _setting(value: Any) -> Any:
    if type(value) in _PLAIN or value is None:
        return value
    if isinstance(value, list | tuple | set) or kind_of(value):
        return _cell(list(value) if isinstance(value, set) else value)
    try:
        plain = number(value)
    except Exception:  # noqa: BLE001 – a setting may be anything; what is no number is recorded as text
        return value
    return str(value) if plain is None else plain


def put_alert(title: str, text: str) -> None:
    """Record a mark for an alert, without secrets: alerts often quote an error."""
    client.mark(REDACTION.redactor.cut_text(f"{title}: {text}" if text else str(title), limits.TEXT_CHARS))


def kind_of(value: Any) -> str:
    """Return the kind of a data type of W&B, such as `table` or `image`. Empty for another value."""
    kind = getattr(value, "_log_type", None)
    return kind.removesuffix("-file") if isinstance(kind, str) else ""


def _leave_out(value: Any) -> None:
    name = type(value).__name__
    user_warnings.warn_once(
        f"W&B type {name}",
        f"W&B values of the type {name} are not recorded: log the numbers, or an image of it. "
        "This warning appears once for each type",
    )


def _count_cut(name: str, count: int) -> None:
    PROCESS.unencodable.hit_many(count - limits.MEDIA_OF_A_LIST)
    user_warnings.warn_once(
        "W&B list of files",
        f"{name!r} is a list of {count} files: the first {limits.MEDIA_OF_A_LIST} of each such list are recorded, "
        "and the rest are counted. Log them in several calls, under other names. This warning appears once",
    )

"""Encoders of marks, parameters, texts, tables and similar records.

Values are checked, cut to the limits of the wire and encoded at the call. An encoded record can always be sent, and
later changes to the caller's objects have no effect on it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from math import isfinite
from operator import index
from typing import Any, Final, NamedTuple

import msgspec

from telemetry import limits
from telemetry.client.catalog import check_text
from telemetry.client.redaction import REDACTION
from telemetry.errors import InstrumentError, error_text
from telemetry.wire.events import (
    CLOSING_RULES,
    REDUCTIONS,
    Artifact,
    Axis,
    ClosingRule,
    Expect,
    Mark,
    Note,
    Params,
    Reduction,
    Scalar,
    Span,
    Table,
    Uncounted,
)

RECORD_BYTES: Final = limits.MIB  # of all records in a batch, so that it stays below the frame limit
_DEPTH: Final = 32
_INT64: Final = 1 << 63
_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://|data:")
_ENCODE: Final = msgspec.msgpack.Encoder().encode


def mark(text: object, labels: Mapping[str, object], time_ns: int) -> bytes:
    """Encode a mark. Raises only errors of `str` on its arguments."""
    return _ENCODE(Mark(text=clean(text, limits.TEXT_CHARS), time_ns=time_ns, labels=labels_of(labels)))


def exception(error: BaseException, time_ns: int) -> bytes:
    """Encode the mark of an exception: `RuntimeError: out of memory`. Raises only errors of `str` on it."""
    return mark(error_text(error), {}, time_ns)


def params(values: Mapping[str, object], time_ns: int) -> Iterator[bytes]:
    """Encode settings as flat maps: nested keys are joined with dots.

    Yields several records if one can't hold all settings. Raises TypeError if `values` is not a mapping.
    """
    if not isinstance(values, Mapping):
        raise TypeError(f"params must be a map, not {type(values).__name__}")
    flat = [(clean(name, limits.NAME_CHARS) or "_", _scalar(value)) for name, value in flatten(values)]
    flat = list(dict(flat).items())
    for start in range(0, len(flat), limits.PARAMS_PER_RECORD):
        yield from _split(flat[start : start + limits.PARAMS_PER_RECORD], time_ns)


def expect(name: str, total: float, time_ns: int) -> bytes:
    """Encode the expected total of a metric. Raise InstrumentError for an invalid name or total."""
    check_text("a name", name, limits.NAME_CHARS)
    if not isinstance(total, (int, float)) or not 0 <= total <= limits.HIGHEST_BOUND:
        raise InstrumentError(f"{name!r}: the expected total is {total!r}, must be a number from 0 up")
    return _ENCODE(Expect(name=name, total=float(total), time_ns=time_ns))


class Place(NamedTuple):
    """Time and step of a record. An empty axis means that the record belongs to no step."""

    time_ns: int
    axis: str = ""
    step: int = 0


def axis(
    name: str,
    reduce: Reduction,
    reductions: Mapping[str, Reduction],
    time_ns: int,
    closing: ClosingRule = "ended",
    *,
    ranked: Sequence[str] = (),
    groups: Mapping[str, object] | None = None,
    rank: int | None = None,
) -> bytes:
    """Encode how values of several producers are reduced to one, how steps close, and which names are ranked.

    `groups` are those of this process, whose rank is `rank`.

    Raises InstrumentError for an invalid argument.
    """
    check_text("an axis", name, limits.NAME_CHARS)
    if len(reductions) > limits.PARAMS_PER_RECORD:
        raise InstrumentError(
            f"axis {name!r} has {len(reductions)} reductions; the limit is {limits.PARAMS_PER_RECORD}"
        )
    for pattern in reductions:
        check_text(f"a pattern of axis {name!r}", pattern, limits.NAME_CHARS)
    for word in (reduce, *reductions.values()):
        if word not in REDUCTIONS:
            raise InstrumentError(
                f"axis {name!r}: {word!r} is not a reduction", hint=f"use one of {', '.join(REDUCTIONS)}"
            )
    if closing not in CLOSING_RULES:
        raise InstrumentError(
            f"axis {name!r}: {closing!r} is not a rule of closing", hint=f"use one of {', '.join(CLOSING_RULES)}"
        )
    if isinstance(ranked, str):
        raise InstrumentError(
            f"axis {name!r}: `ranked` is the text {ranked!r}", hint=f"pass a list of names: ranked=[{ranked!r}]"
        )
    if len(ranked) > limits.RANKED_NAMES:
        raise InstrumentError(f"axis {name!r} has {len(ranked)} ranked names; the limit is {limits.RANKED_NAMES}")
    for each in ranked:
        check_text(f"a ranked name of axis {name!r}", each, limits.NAME_CHARS)
        if "*" in each:
            raise InstrumentError(f"axis {name!r}: the ranked name {each!r} is a pattern", hint="list the names")
    plain = _groups(name, groups or {})
    if not plain:
        return _ENCODE(Axis(name, reduce, dict(reductions), time_ns, closing, list(ranked)))
    return _ENCODE(Axis(name, reduce, dict(reductions), time_ns, closing, list(ranked), plain, rank))


def _groups(axis: str, groups: Mapping[str, object]) -> dict[str, int | str]:
    """Return groups as plain numbers and texts. Raise InstrumentError for others."""
    if len(groups) > limits.LABEL_COUNT:
        raise InstrumentError(f"axis {axis!r} has {len(groups)} groups; the limit is {limits.LABEL_COUNT}")
    plain: dict[str, int | str] = {}
    for dimension, value in groups.items():
        check_text(f"a dimension of the groups of axis {axis!r}", dimension, limits.LABEL_KEY_CHARS)
        if isinstance(value, str):
            plain[dimension] = clean(value, limits.LABEL_VALUE_CHARS)
            continue
        try:
            number = index(value)  # type: ignore[arg-type]
        except TypeError:
            number = _INT64
        if not -_INT64 <= number < _INT64:
            raise InstrumentError(
                f"axis {axis!r}: group {dimension!r} is {value!r}, must be a number or a name",
                hint='pass the coordinates of this process: groups={"pp": 3, "dp": 5}',
            )
        plain[dimension] = int(number)
    return plain


def note(name: object, text: object, position: Place) -> bytes:
    """Encode a named text, cut to the record limit. Raises only errors of `str` on its arguments."""
    return _ENCODE(Note(name_of(name), clean(text, limits.TEXT_CHARS), *position))


def table(
    name: object, columns: Iterable[object], rows: Iterable[Iterable[object]], position: Place
) -> tuple[bytes, int]:
    """Encode a table. Return it with the number of rows left out.

    Rows with a wrong number of cells and rows beyond the size limit are left out. Raises TypeError or ValueError if
    the input is not a table.
    """
    names = [clean(column, limits.NAME_CHARS) or "_" for column in columns]
    if not 1 <= len(names) <= limits.TABLE_COLUMNS:
        raise ValueError(f"a table must have 1 to {limits.TABLE_COLUMNS} columns, not {len(names)}")
    kept: list[list[Scalar]] = []
    left_out = 0
    for row in rows:
        cells = _cells(row, len(names)) if len(kept) < limits.TABLE_ROWS else None
        if cells is None:
            left_out += 1
        else:
            kept.append(cells)
    encoded = _ENCODE(Table(name_of(name), names, kept, *position))
    while len(encoded) > RECORD_BYTES:
        fewer = min(len(kept) - 1, len(kept) * RECORD_BYTES // len(encoded))
        left_out += len(kept) - fewer
        del kept[fewer:]
        encoded = _ENCODE(Table(name_of(name), names, kept, *position))
    return encoded, left_out


def artifact(name: object, path_or_uri: object, kind: object, position: Place) -> bytes:
    """Encode a reference to a file: a path is made absolute.

    Raises TypeError or ValueError for other values and for a reference that is too long: cut, it would point to
    another file.
    """
    where = os.fsdecode(path_or_uri)  # type: ignore[arg-type]
    where = where if _URI.match(where) else os.path.abspath(where)
    if len(where) > limits.TEXT_CHARS:
        raise ValueError(f"a reference is limited to {limits.TEXT_CHARS:,} characters, got {len(where):,}")
    return _ENCODE(Artifact(name_of(name), where, clean(kind, limits.UNIT_CHARS), *position))


def span(name: object, start_ns: int, end_ns: int, track: object, labels: Mapping[str, object]) -> bytes:
    """Encode a span. Raise ValueError if it ends before it starts."""
    if end_ns < start_ns:
        raise ValueError(f"it ends {start_ns - end_ns} ns before it starts")
    return _ENCODE(Span(name_of(name), start_ns, end_ns, clean(track, limits.NAME_CHARS), labels_of(labels)))


def uncounted(record: Uncounted) -> bytes:
    """Encode text whose tokens the aggregator's workers count.

    Raises ValueError for text too long or not valid Unicode.
    """
    if len(record.text) <= limits.UNCOUNTED_CHARS:
        encoded = _ENCODE(record)
        if len(encoded) <= RECORD_BYTES:
            return encoded
    raise ValueError(
        f"the text is too long to count its tokens: {len(record.text):,} characters, the limits "
        f"are {limits.UNCOUNTED_CHARS:,} characters and one MiB of UTF-8 including its labels"
    )


def _split(items: list[tuple[str, Scalar]], time_ns: int) -> Iterator[bytes]:
    encoded = _ENCODE(Params(values=dict(items), time_ns=time_ns))
    if len(encoded) <= RECORD_BYTES:
        yield encoded
        return
    half = len(items) // 2
    yield from _split(items[:half], time_ns)
    yield from _split(items[half:], time_ns)


def flatten(value: object, prefix: str = "", depth: int = 0) -> Iterator[tuple[str, object]]:
    """Yield the values of nested mappings as they are, under their keys joined with dots."""
    if isinstance(value, Mapping) and depth < _DEPTH and value:
        for key, inner in value.items():
            yield from flatten(inner, f"{prefix}.{key}" if prefix else str(key), depth + 1)
    else:
        yield prefix, value


def _scalar(value: object) -> Scalar:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, float):
        return float(value)
    if isinstance(value, int) and -_INT64 <= value < _INT64:
        return int(value)
    return clean(value, limits.TEXT_CHARS)


def _cells(row: Iterable[object], count: int) -> list[Scalar] | None:
    """Return exactly `count` cells, or None if `row` is not a row of that many."""
    try:
        cells = [] if isinstance(row, str | bytes | Mapping) else [_cell(cell) for cell in islice(row, count + 1)]
    except Exception:  # noqa: BLE001 – `str` of a user's object may raise anything; the other rows are kept
        return None
    return cells if len(cells) == count else None


def _cell(value: Any) -> Scalar:
    """Convert a cell as `_scalar` does. Unwrap numpy numbers and tensors of one element.

    Return None for a number that is not finite, because JSON can't represent it.
    """
    if hasattr(value, "item"):
        with suppress(Exception):  # an array of many elements is kept as text
            value = value.item()
    plain = _scalar(value)
    return None if isinstance(plain, float) and not isfinite(plain) else plain


def labels_of(labels: Mapping[str, object]) -> dict[str, str]:
    return {
        clean(key, limits.LABEL_KEY_CHARS) or "_": clean(value, limits.LABEL_VALUE_CHARS)
        for key, value in islice(labels.items(), limits.LABEL_COUNT)
    }


def name_of(name: object) -> str:
    return clean(name, limits.NAME_CHARS) or "_"


def clean(value: object, max_chars: int) -> str:
    """Return text of at most `max_chars` characters that is valid in UTF-8. A text that is cut is masked before."""
    text = str(value)
    if len(text) > max_chars:
        text = REDACTION.redactor.cut_text(text, max_chars - 1) + "…"
    return text if text.isascii() else text.encode(errors="replace").decode()

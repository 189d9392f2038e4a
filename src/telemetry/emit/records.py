"""Marks, parameters and expectations: checked, cut to the wire's bounds and encoded when they are made.

What comes out can always be sent, and later changes to the caller's objects don't show.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final

import msgspec

from telemetry import limits
from telemetry.emit.catalog import check_text
from telemetry.errors import InstrumentError
from telemetry.wire.events import Expect, Mark, Params, Scalar, Uncounted
from telemetry.wire.masking import mask_secrets

RECORD_BYTES: Final = limits.MIB  # of all records in a batch: with definitions and rows it stays below a frame
_DEPTH: Final = 32
_INT64: Final = 1 << 63
_ENCODE: Final = msgspec.msgpack.Encoder().encode


def mark(text: object, labels: Mapping[str, object], time_ns: int) -> bytes:
    """A mark. Never raises but for what `str` of the arguments raises."""
    kept = {
        clean(key, limits.LABEL_KEY_CHARS) or "_": clean(value, limits.LABEL_VALUE_CHARS)
        for key, value in islice(labels.items(), limits.LABEL_COUNT)
    }
    return _ENCODE(Mark(text=clean(text, limits.TEXT_CHARS), time_ns=time_ns, labels=kept))


def params(values: Mapping[str, object], time_ns: int) -> Iterator[bytes]:
    """Settings as flat maps, nested keys joined with dots, secrets masked; several records if one can't hold them.

    Raises TypeError for what is no map.
    """
    if not isinstance(values, Mapping):
        raise TypeError(f"params are a map, not {type(values).__name__}")
    flat = list(mask_secrets(dict(_flatten("", values, 0))).items())
    for start in range(0, len(flat), limits.PARAMS_PER_RECORD):
        yield from _split(flat[start : start + limits.PARAMS_PER_RECORD], time_ns)


def expect(name: str, total: float, time_ns: int) -> bytes:
    """The base of progress. Raises InstrumentError for a name or a total that can't be."""
    check_text("a name", name, limits.NAME_CHARS)
    if not isinstance(total, (int, float)) or not 0 <= total <= limits.HIGHEST_BOUND:
        raise InstrumentError(f"{name!r}: the expected total is {total!r}, it has to be a number from 0 up")
    return _ENCODE(Expect(name=name, total=float(total), time_ns=time_ns))


def uncounted(record: Uncounted) -> bytes:
    """Text whose tokens somebody else counts. Raises ValueError for one that is too long, or no valid Unicode."""
    if len(record.text) <= limits.UNCOUNTED_CHARS:
        encoded = _ENCODE(record)
        if len(encoded) <= RECORD_BYTES:
            return encoded
    raise ValueError(f"a text of {len(record.text):,} characters is too long to be counted")


def _split(items: list[tuple[str, Scalar]], time_ns: int) -> Iterator[bytes]:
    encoded = _ENCODE(Params(values=dict(items), time_ns=time_ns))
    if len(encoded) <= RECORD_BYTES:
        yield encoded
        return
    half = len(items) // 2
    yield from _split(items[:half], time_ns)
    yield from _split(items[half:], time_ns)


def _flatten(prefix: str, value: object, depth: int) -> Iterator[tuple[str, Scalar]]:
    if isinstance(value, Mapping) and depth < _DEPTH and value:
        for key, inner in value.items():
            yield from _flatten(f"{prefix}.{key}" if prefix else str(key), inner, depth + 1)
    else:
        yield clean(prefix, limits.NAME_CHARS) or "_", _scalar(value)


def _scalar(value: object) -> Scalar:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, float):
        return float(value)
    if isinstance(value, int) and -_INT64 <= value < _INT64:
        return int(value)
    return clean(value, limits.TEXT_CHARS)


def clean(value: object, max_chars: int) -> str:
    """Text of at most `max_chars` that UTF-8 can carry."""
    text = str(value)
    if len(text) > max_chars:
        text = text[: max_chars - 1] + "…"
    return text.encode(errors="replace").decode()

"""Masking of secrets in the definitions and records of a producer, on their way into a batch.

It happens where batches are made, for three reasons. Every definition and record of a process passes there,
whichever call, capture, interface or feed made it, so a new call can't forget it. It is before anything leaves the
process, so no frame, journal, file or tracker ever has the secret. And it is on the flusher's thread, so recording
costs the caller nothing.

Two kinds of records have their names searched when they are made and pass as they are: values of steps, whose names
`telemetry.client.steps` checks once, and entries of the request log, which are made on the flusher's thread. Rows
hold numbers only. A text that is cut at the call is masked before it is cut (`telemetry.client.records.clean`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

import msgspec

from telemetry import limits
from telemetry.client.redaction import Redaction
from telemetry.redaction import COUNTER_LABEL, Redactor

_ENCODE: Final = msgspec.msgpack.Encoder().encode
_DECODE: Final = msgspec.msgpack.Decoder(list[Any]).decode

Mask = Callable[[Redactor, Any], Any]
RowId = Callable[[str], float]
"""A function that returns the row id of the counter for a rule. Below 0: there is no room for it."""


def _text(max_chars: int) -> Mask:
    def mask(redactor: Redactor, text: str) -> str:
        masked = redactor.text(text)
        return masked if len(masked) <= max_chars else masked[: max_chars - 1] + "…"

    return mask


def _name(redactor: Redactor, name: str) -> str:
    return redactor.name(name)[: limits.NAME_CHARS]


def _short(redactor: Redactor, text: str) -> str:
    return redactor.name(text)[: limits.UNIT_CHARS]


def _names(redactor: Redactor, names: list[str]) -> list[str]:
    return [_name(redactor, name) for name in names]


def _keys(redactor: Redactor, values: dict[str, Any]) -> dict[str, Any]:
    return {_name(redactor, name): value for name, value in values.items()}


def _labels(redactor: Redactor, labels: dict[str, str]) -> dict[str, str]:
    masked = redactor.labels(labels) if labels else labels
    if masked == labels:
        return labels
    return {key[: limits.LABEL_KEY_CHARS]: value[: limits.LABEL_VALUE_CHARS] for key, value in masked.items()}


def _params(redactor: Redactor, values: dict[str, Any]) -> dict[str, Any]:
    return {_name(redactor, name): _scalar(redactor.value(name, value)) for name, value in values.items()}


def _scalar(value: Any) -> Any:
    return value[: limits.TEXT_CHARS] if isinstance(value, str) else value


_TEXT: Final = _text(limits.TEXT_CHARS)
FIELDS: Final[dict[str, dict[int, Mask]]] = {
    "define": {2: _name, 4: _short, 5: _labels, 9: _name},
    "sample": {1: _name, 4: _short, 5: _labels},
    "count": {1: _name, 4: _short, 5: _labels},
    "gauge": {1: _name, 4: _short, 5: _labels},
    "expect": {1: _name},
    "axis": {1: _name, 3: _keys, 6: _names, 7: _params},
    "mark": {1: _TEXT, 3: _labels},
    "params": {1: _params},
    "span": {1: _name, 4: _name, 5: _labels},
    "text": {1: _name, 2: _TEXT, 4: _name},
    "table": {1: _name, 2: _names, 5: _name},
    "bins": {1: _name, 5: _name},
    "artifact": {1: _name, 2: _TEXT, 3: _short, 5: _name},
    "session": {1: _name},
    "uncounted": {1: _text(limits.UNCOUNTED_CHARS), 2: _name, 4: _labels, 5: _name},
    "counted": {},
    "scalars": {1: _name, 3: _keys},
    "step_end": {1: _name},
    "step_clear": {1: _name},
    "requests": {1: _name, 2: _labels},
}
"""Tag of a record → position of each field with text in its array, and how it is masked."""
_PASSED: Final = tuple(
    bytes([0x90 + count, 0xA0 + len(tag)]) + tag.encode()
    for tag, count in (("scalars", 5), ("step_end", 4), ("step_clear", 4), ("requests", 6))
)
"""First bytes of records whose names are searched when the records are made."""


class RecordMasker:
    """A mask for the records of one producer. Only the flusher's thread uses it."""

    def __init__(self, redaction: Redaction, row_id: RowId = lambda rule: -1.0) -> None:
        self._redaction = redaction
        self._row_id = row_id

    def masked(self, record: bytes) -> bytes:
        """Return an encoded record or definition without what the rules match."""
        redactor = self._redaction.redactor
        if record.startswith(_PASSED) or redactor.is_off:
            return record
        values = _DECODE(record)
        is_same = True
        if values[0] == "text" and redactor.hides(values[1], values[2]):
            values[2], is_same = redactor.value(values[1], values[2]), False
        for position, mask in FIELDS[values[0]].items():
            if position < len(values):
                value = values[position]
                masked = mask(redactor, value)
                if masked is not value and masked != value:
                    values[position] = masked
                    is_same = False
        if values[0] == "table":
            rows = redactor.cells(values[2], values[3])
            if rows != values[3]:
                values[3] = [[_scalar(cell) for cell in row] for row in rows]
                is_same = False
        return record if is_same else _ENCODE(values)

    def counts(self) -> list[float]:
        """Return rows of the counters of masked values, for what was masked since the last call."""
        redactor = self._redaction.redactor
        if not redactor.has_counts:
            return []
        rows: list[float] = []
        for rule, count in redactor.take_counts().items():
            row_id = self._row_id(rule)
            if row_id >= 0:
                rows += (row_id, time.monotonic_ns(), float(count))
        return rows


def labels_of(rule: str) -> dict[str, str]:
    """Return the labels of the counter for a rule."""
    return {COUNTER_LABEL: rule}

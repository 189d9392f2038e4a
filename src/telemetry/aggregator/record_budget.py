"""How much of the record log is taken, reckoned from the records themselves: the same for a run and its journal."""

from __future__ import annotations

from typing import Any, Final, get_args

import msgspec

from telemetry.wire.events import Streamed

_ENCODER: Final = msgspec.json.Encoder()
_LINE_BYTES: Final = 120
"""Of a line besides its record's fields and its producer: number, time, names and check."""
_NAME_BYTES: Final[dict[type, int]] = {
    kind: sum(len(name) + len('"":') for name in kind.__struct_fields__) for kind in get_args(Streamed)
}


class RecordBudget:
    """The room for records up to a cap. Once a record does not fit, it is full for ever."""

    def __init__(self, cap_bytes: int) -> None:
        self.cap_bytes = cap_bytes
        self.taken_bytes = 0
        """At least what the lines of all records come to."""

    @property
    def is_full(self) -> bool:
        return self.taken_bytes >= self.cap_bytes

    def take(self, producer: str, record: Any) -> bool:
        """Take the room that a record needs. Return whether there was enough."""
        if self.is_full:
            return False
        taken_bytes = self.taken_bytes + line_bytes(producer, record)
        self.taken_bytes = min(taken_bytes, self.cap_bytes)
        return taken_bytes <= self.cap_bytes


def line_bytes(producer: str, record: Any) -> int:
    """Return an upper bound of what a record takes in the record log."""
    fields = len(_ENCODER.encode(record)) + _NAME_BYTES[type(record)]
    return fields + len(_ENCODER.encode(producer)) + _LINE_BYTES

"""Bounds that several owners share, such as the budget of the record log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final, get_args

import msgspec
from msgspec.structs import replace

from telemetry.wire.events import ClosedStep, Streamed
from telemetry.wire.ranked_values import without_packed


class Budget:
    """A total number of units that owners take. An owner with restored state takes its earlier units again."""

    __slots__ = ("left",)

    STATE: ClassVar[Mapping[str, Any]] = {}
    DERIVED: ClassVar[tuple[str, ...]] = ("left",)

    def __init__(self, units: int) -> None:
        self.left = units

    def take(self, units: int) -> bool:
        """Take all of the units and return True, or take none and return False."""
        if units > self.left:
            return False
        self.left -= units
        return True

    def give_back(self, units: int) -> None:
        self.left += units


_ENCODER: Final = msgspec.json.Encoder()
_LINE_BYTES: Final = 120
"""Bytes of a line besides the fields and the producer of its record: number, time, names and checksum."""
_NAME_BYTES: Final[dict[type, int]] = {
    kind: sum(len(name) + len('"":') for name in kind.__struct_fields__) for kind in get_args(Streamed)
}


class RecordBudget:
    """Remaining room for records up to a cap. Once a record does not fit, the budget stays full."""

    def __init__(self, cap_bytes: int) -> None:
        self.cap_bytes = cap_bytes
        self.taken_bytes = 0
        """Upper bound of the size of all record lines."""

    @property
    def is_full(self) -> bool:
        return self.taken_bytes >= self.cap_bytes

    def take(self, producer: str, record: Any) -> bool:
        """Reserve room for a record. Return True if there was enough."""
        if self.is_full:
            return False
        taken_bytes = self.taken_bytes + line_bytes(producer, record)
        self.taken_bytes = min(taken_bytes, self.cap_bytes)
        return taken_bytes <= self.cap_bytes


def line_bytes(producer: str, record: Any) -> int:
    """Return an upper bound of the size of a record in the record log."""
    packed = 0
    if isinstance(record, ClosedStep) and record.ranks:
        readable, packed = without_packed(record.ranks)
        record = replace(record, ranks=readable)
    fields = len(_ENCODER.encode(record)) + _NAME_BYTES[type(record)] + packed
    return fields + len(_ENCODER.encode(producer)) + _LINE_BYTES

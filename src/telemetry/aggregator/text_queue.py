"""Queue of texts whose tokens are not counted yet. Texts stay unchanged until they are reported as done."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from itertools import pairwise
from typing import Annotated, Any, ClassVar

from msgspec import Meta

from telemetry import limits
from telemetry.wire.codec import Malformed, decode_record
from telemetry.wire.drop_reasons import Count
from telemetry.wire.events import Counted, Uncounted

_Number = Annotated[int, Meta(ge=0, le=(1 << 63) - 2)]


class TextQueue:
    """A bounded queue: at most UNCOUNTED_TEXTS texts, and UNCOUNTED_BYTES of their records.

    Texts are numbered from 0 in order of arrival in the run. The state does not include which texts were taken:
    after a restart, all pending texts can be taken again.
    """

    STATE: ClassVar[Mapping[str, Any]] = {
        "next_number": _Number,
        "refused": Count,
        "failed": Count,
        "records": dict[_Number, bytes],
    }
    DERIVED: ClassVar[tuple[str, ...]] = ("_fresh", "_taken", "_bytes")

    def __init__(self) -> None:
        self.next_number = 0
        self.refused = 0
        """Number of texts refused for lack of room."""
        self.failed = 0
        """Number of texts that were done without being counted."""
        self._fresh: OrderedDict[int, bytes] = OrderedDict()
        """Texts that were not taken. An OrderedDict finds its first entry at once, even after many removals."""
        self._taken: dict[int, bytes] = {}
        """Texts that were taken. All have lower numbers than the fresh ones."""
        self._bytes = 0

    def restored(self) -> None:
        numbers = list(self._fresh)
        ordered = all(number < other for number, other in pairwise(numbers))
        if not ordered or (numbers and numbers[-1] >= self.next_number):
            raise ValueError("texts out of order")
        if len(numbers) > limits.UNCOUNTED_TEXTS or self._bytes > limits.UNCOUNTED_BYTES:
            raise ValueError("more texts than there is room for")
        for record in self._fresh.values():
            _read(record)

    @property
    def records(self) -> dict[int, bytes]:
        """Pending texts as records in msgpack, by number. A new queue can be assigned these once."""
        return {**self._taken, **self._fresh}

    @records.setter
    def records(self, records: dict[int, bytes]) -> None:
        self._fresh = OrderedDict(records)
        self._bytes = sum(map(len, records.values()))

    @property
    def pending(self) -> int:
        """Number of texts that are not done, taken or not."""
        return len(self._fresh) + len(self._taken)

    @property
    def fresh(self) -> int:
        """Number of pending texts that were not taken."""
        return len(self._fresh)

    def add(self, record: bytes) -> bool:
        """Add a readable `uncounted` record with a wall clock time. Return False if there is no room for it."""
        full = self.pending >= limits.UNCOUNTED_TEXTS or self._bytes + len(record) > limits.UNCOUNTED_BYTES
        if full:
            self.refused += 1
            return False
        self._fresh[self.next_number] = record
        self.next_number += 1
        self._bytes += len(record)
        return True

    def take(self, most_bytes: int) -> list[tuple[int, Uncounted]]:
        """Return the next texts in order that were not taken from this queue, with their numbers.

        Takes as many as fit into `most_bytes` of records, and at least one if any are left. They stay pending until
        they are counted.
        """
        taken: list[tuple[int, Uncounted]] = []
        room = most_bytes
        for number, record in self._fresh.items():
            room -= len(record)
            if taken and room < 0:
                break
            taken.append((number, _read(record)))
        for number, _ in taken:
            self._taken[number] = self._fresh.pop(number)
        return taken

    def count(self, counted: Counted) -> None:
        """Remove texts that are done. Ignores numbers that are not pending."""
        done = 0
        for number in counted.texts:
            record = self._taken.pop(number, None) or self._fresh.pop(number, None)
            if record is not None:
                done += 1
                self._bytes -= len(record)
        self.failed += min(counted.failed, done)


def _read(record: bytes) -> Uncounted:
    """Decode a record. Raise ValueError for bytes that can't have been added."""
    try:
        text = decode_record(record)
    except Malformed as error:
        raise ValueError(str(error)) from None
    if not isinstance(text, Uncounted):
        raise ValueError("this is no text to be counted")
    return text

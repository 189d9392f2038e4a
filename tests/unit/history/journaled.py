"""Values of each interval of a run's history according to its journal, read as plainly as can be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from telemetry.store.journal import BATCH, NOTE, JournalReader
from telemetry.store.run_directory import RunDirectory
from telemetry.wire.codec import decode_batch, decode_note, decode_record
from telemetry.wire.events import Define
from telemetry.wire.journal import Rolled, Sliced
from telemetry.wire.rows import loose


@dataclass
class Heard:
    """The values that the journal has of one interval of the history."""

    start_ns: int = 0
    end_ns: int = 0
    values: dict[str, list[float]] = field(default_factory=dict)
    increases: Counter[str] = field(default_factory=Counter)
    gauges: dict[str, float] = field(default_factory=dict)


def journaled(directory: RunDirectory, *, sliced: bool = False) -> Iterator[Heard]:
    """An event is of the interval that ends with the next note of one. Batches hold rows and definitions only.

    With `sliced` slices are intervals too, whose times the journal does not have.
    """
    own, names = Heard(), dict[tuple[str, int], tuple[str, str]]()
    for item in JournalReader(directory.journal).frames():
        if item.kind == BATCH:
            for kind, name, value in _events(bytes(item.data), names):
                if kind == "series":
                    own.values.setdefault(name, []).append(value)
                elif kind == "counter":
                    own.increases[name] += value
                else:
                    own.gauges[name] = value
        elif item.kind == NOTE and isinstance(note := decode_note(item.data), Rolled):
            own.start_ns, own.end_ns = note.start_wall_ns, note.end_wall_ns
            yield own
            own = Heard()
        elif sliced and item.kind == NOTE and isinstance(decode_note(item.data), Sliced):
            yield own
            own = Heard()


def _events(data: bytes, names: dict[tuple[str, int], tuple[str, str]]) -> Iterator[tuple[str, str, float]]:
    """Kind, name, value."""
    batch = decode_batch(data)
    for record in map(decode_record, batch.records):
        assert isinstance(record, Define)
        names[batch.producer, record.id] = record.kind, record.name
    flat = loose(batch.rows)
    for number, value in zip(flat[::3], flat[2::3], strict=True):
        yield *names[batch.producer, int(number)], float(value)


def between(intervals: Sequence[Heard], start_s: float, end_s: float) -> list[Heard]:
    """Return the intervals that overlap a time range."""
    origin = intervals[0].start_ns
    return [
        one for one in intervals if (one.start_ns - origin) / 1e9 < end_s and (one.end_ns - origin) / 1e9 > start_s
    ]


def chosen(intervals: Sequence[Heard], start_s: float, end_s: float) -> list[Heard]:
    """Return the intervals with their middle in a time range.

    Without any, return the one that overlaps it longest.
    """
    origin = intervals[0].start_ns
    found = [one for one in intervals if start_s <= ((one.start_ns + one.end_ns) / 2 - origin) / 1e9 < end_s]

    def overlap_s(one: Heard) -> float:
        return min((one.end_ns - origin) / 1e9, end_s) - max((one.start_ns - origin) / 1e9, start_s)

    return found or [max(intervals, key=overlap_s)]

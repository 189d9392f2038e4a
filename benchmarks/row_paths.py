"""What batches in C save: ingest of the same frames in three ways, for turns of several shapes.

    python -m benchmarks.row_paths [--tiny]

The ways are whole batches in C, columns of series in C after numpy has read the rows, and numpy alone. They take
turns in one process, with an aggregator each. A figure is process CPU for an event, with decoding and admission.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from benchmarks.forms import Form, measure, tiny_asked
from telemetry.aggregator import Aggregator, AggregatorConfig, compiled, fast_rows
from telemetry.aggregator.series import group
from telemetry.wire import rows as wire_rows
from telemetry.wire.codec import decode_batch, encode_batch
from telemetry.wire.events import Define, Mark, OutgoingBatch
from telemetry.wire.version import PROTOCOL

SERIES: Final = 100
WAYS: Final = ("batches in C", "columns in C", "numpy")
_ROW: Final = np.dtype([("m0", "u1"), ("id", ">f8"), ("m1", "u1"), ("time", ">u8"), ("m2", "u1"), ("value", ">f8")])
_FIRST_TIME_NS: Final = 10**15
_ANCHOR: Final = (_FIRST_TIME_NS, 1_700_000_000_000_000_000)


class Turn(NamedTuple):
    """Shape of a turn: batches, rows of each, producers that send them in turn, and what is in them."""

    what: str
    batches: int
    rows: int
    producers: int = 1
    kinds: bool = False
    """True if a fifth of the rows is of counters and gauges."""
    marks: bool = False
    """True if each batch has a record."""


TURNS: Final = (
    Turn("one batch of 10,000", 1, 10_000),
    Turn("one batch of 1,000", 1, 1_000),
    Turn("one batch of 1,000 with a record", 1, 1_000, marks=True),
    Turn("one batch of 1,000, a fifth counters and gauges", 1, 1_000, kinds=True),
    Turn("ten batches of 1,000", 10, 1_000),
    Turn("ten batches of 1,000 from ten producers", 10, 1_000, producers=10),
    Turn("a hundred batches of 100", 100, 100),
)


class Frames:
    """Frames of some producers. Their rows are drawn anew for each, so that new pages of histograms are met."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._random = np.random.default_rng(1)
        self._next = {f"p{number}": (0, 0) for number in range(turn.producers)}

    def definitions(self) -> list[bytes]:
        kinds = ["series"] * SERIES + ["counter"] * 15 + ["gauge"] * 10
        defines = [Define(at, f"m{at}", cast(Any, kind), "ns") for at, kind in enumerate(kinds)]
        return [self._frame(producer, defines, np.zeros(0, _ROW)) for producer in self._next]

    def turn(self) -> list[bytes]:
        """Return the frames of the next turn."""
        marks = [Mark("step", _FIRST_TIME_NS)] if self._turn.marks else []
        producers = list(self._next) * self._turn.batches
        return [self._frame(producer, marks, self._rows()) for producer in producers[: self._turn.batches]]

    def _rows(self) -> NDArray[Any]:
        draw, rows = self._random, np.empty(self._turn.rows, _ROW)
        rows["m0"], rows["m1"], rows["m2"] = wire_rows.ID_MARK, wire_rows.TIME_MARK, wire_rows.VALUE_MARK
        rows["id"] = draw.integers(0, SERIES + 25 * self._turn.kinds, len(rows))
        rows["time"] = _FIRST_TIME_NS + 10_000 * np.arange(len(rows))
        rows["value"] = np.rint(draw.lognormal(17, 1, len(rows)))
        return rows

    def _frame(self, producer: str, records: list[Any], rows: NDArray[Any]) -> bytes:
        seq, first = self._next[producer]
        self._next[producer] = seq + 1, first + len(rows) + sum(isinstance(one, Mark) for one in records)
        head = b"\xdd" + (3 * len(rows)).to_bytes(4, "big")
        array = cast(Any, msgspec.Raw(head + rows.tobytes()))
        return bytes(encode_batch(OutgoingBatch(PROTOCOL, producer, seq, first, _ANCHOR, {}, records, array)))


class Ingest:
    """An aggregator that takes turns in one of the ways."""

    def __init__(self, way: str, turn: Turn) -> None:
        self._in_batches = compiled.Columns if way == WAYS[0] else None
        self._in_columns = compiled.Columns if way != WAYS[2] else None
        self._find: Callable[[bytes, int], int] = compiled.find_rows if way == WAYS[0] else wire_rows.find
        self._aggregator = Aggregator(AggregatorConfig())
        self._made = Frames(turn)
        self._turns: list[list[bytes]] = []
        self._take(self._made.definitions())

    def prepare(self, turns: int) -> None:
        """Make the frames of the next turns."""
        self._turns = [self._made.turn() for _ in range(turns)]

    def run(self) -> None:
        """Take one turn."""
        self._take(self._turns.pop())

    def _take(self, frames: list[bytes]) -> None:
        fast_rows.Columns, group.Columns = self._in_batches, self._in_columns  # type: ignore[misc]
        now_ns = time.monotonic_ns()
        batches = [decode_batch(frame, self._find) for frame in frames]
        for batch in sorted(batches, key=lambda one: one.seq):
            assert self._aggregator.admit(batch, now_ns)
        self._aggregator.apply(batches, now_ns, time.time_ns())


def figures(turn: Turn, rounds: int, events: int) -> list[list[float]]:
    """Return the figures of each way, one a round."""
    repeats = max(1, events // (turn.batches * turn.rows))
    ways = [Ingest(way, turn) for way in WAYS]
    found: list[list[float]] = [[] for _ in ways]
    for at in range(rounds + 1):
        for way, mine in zip(ways, found, strict=True):
            way.prepare(repeats)
            ((figure,),) = measure([Form("", way.run, turn.batches * turn.rows, "event")], 1, repeats)
            if at:  # the first round warms up
                mine.append(figure)
    return found


def main() -> None:
    rounds, events = (1, 1_000) if tiny_asked("What whole batches in C save.") else (15, 200_000)
    print(f"| a turn of | {' | '.join(WAYS)} | batches in C to columns in C |")
    print("|---|---|---|---|---|")
    for turn in TURNS:
        ways = figures(turn, rounds, events)
        ratio = statistics.median(new / old for new, old in zip(ways[0], ways[1], strict=True))
        medians = " | ".join(f"{statistics.median(way):.1f}" for way in ways)
        print(f"| {turn.what} | {medians} | × {ratio:.2f} |", flush=True)


if __name__ == "__main__":
    main()

"""What two inner choices cost: how a recorder is switched off and on, and how histogram counts are kept.

    python -m benchmarks.choices [--tiny]

The figures of docs/adr/0006 and docs/adr/0007.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from time import monotonic_ns

import numpy as np

from benchmarks.forms import Form, show, tiny_asked
from telemetry.statistics.hdr.layout import Layout
from telemetry.statistics.hdr.pages import PagedCounts

Record = Callable[[float], None]


def cell_recorder() -> Record:
    """One closure cell holds what becomes of an event: the choice."""
    buffer: deque[float] = deque(maxlen=0)
    extend = buffer.extend

    def install(target: Callable[[tuple[float, int, float]], None]) -> None:
        nonlocal extend
        extend = target

    def record(value: float) -> None:
        extend((1.0, monotonic_ns(), float(value)))

    install(buffer.extend)
    return record


class AttributeRecorder:
    """The state is an attribute of the run, looked up and branched on at every call."""

    def __init__(self) -> None:
        self.live = True
        self.buffer: deque[float] = deque(maxlen=0)

    def record(self, value: float) -> None:
        if self.live:
            self.buffer.extend((1.0, monotonic_ns(), float(value)))


class StrategyRecorder:
    """The state is an object behind a Protocol, called at every call."""

    def __init__(self) -> None:
        self.state = AttributeRecorder()

    def record(self, value: float) -> None:
        self.state.record(value)


def calls(record: Record, count: int) -> Callable[[], None]:
    def run() -> None:
        for _ in range(count):
            record(1.5)

    return run


def recorder_forms(count: int) -> list[Form]:
    kinds = {
        "record: one closure cell (the choice)": cell_recorder(),
        "record: attribute and branch": AttributeRecorder().record,
        "record: state object": StrategyRecorder().record,
    }
    return [Form(name, calls(record, count), count, "event") for name, record in kinds.items()]


def count_forms(series: int, events: int) -> list[Form]:
    """Lognormal values of 1 ms around: each series occupies a few pages of its range."""
    layout = Layout.of(3)
    source = np.random.default_rng(1)
    rows = source.integers(0, series, events).astype(np.intp)
    slots = layout.slot_of(source.lognormal(14, 1, events).astype(np.int64))
    paged = PagedCounts(layout)
    for _ in range(series):
        paged.add_row()
    flat = np.zeros((series, layout.slots), dtype=np.int64)

    def add_paged() -> None:
        paged.add(rows, slots.copy())

    def add_flat() -> None:
        np.add.at(flat.reshape(-1), rows * layout.slots + slots, 1)

    add_paged()
    held = paged.used * (paged.fresh.itemsize + paged.settled.itemsize) * paged.fresh.shape[1]
    note = f"counts, {series} series"
    return [
        Form(f"{note}: pages and page sums (the choice)", add_paged, events, "event", held // series * events),
        Form(f"{note}: one flat table", add_flat, events, "event", flat.nbytes // series * events),
    ]


def main() -> None:
    tiny = tiny_asked("What two inner choices cost.")
    count, series, rounds, repeats = (100, (2,), 1, 1) if tiny else (10_000, (100, 1_000), 15, 20)
    forms = recorder_forms(count)
    for number in series:
        forms += count_forms(number, count)
    print("Bytes of counts are for each series.\n")
    show(forms, rounds, repeats)


if __name__ == "__main__":
    main()

"""The display histogram: log-linear cells with fixed edges, four cells to each doubling.

Cell `i` holds the ticks in `[edge(i), edge(i + 1))`:

    0 1 2 3 | 4 5 6 7 | 8 10 12 14 | 16 20 24 28 | 32 ...

Frames can be subtracted from each other, and histograms of several producers added, cell by cell.
"""

from __future__ import annotations

from typing import Final

PER_DOUBLING: Final = 4


def edge(index: int) -> int:
    """Return the lower edge of a cell, in ticks."""
    if index < PER_DOUBLING:
        return index
    return (PER_DOUBLING + index % PER_DOUBLING) << (index // PER_DOUBLING - 1)


def cell(ticks: int) -> int:
    """Return the cell that a tick count falls into."""
    if ticks < PER_DOUBLING:
        return ticks
    shift = ticks.bit_length() - 3
    return (ticks >> shift) + PER_DOUBLING * shift


CELLS: Final = cell((1 << 53) - 1) + 1

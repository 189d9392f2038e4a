"""Choice of the values of ranks that the record log packs, and an upper bound of their bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

from telemetry.wire.events import Rank
from telemetry.wire.stragglers import WAIT, WORK

Ranked = Sequence[tuple[Rank, float]]
FEWEST: Final = 65
"""Number of ranks from which values are packed. Fewer stay readable."""
_ROUNDED: Final = (WORK, WAIT)
"""Durations that keep seven digits. Values of other names are kept exactly."""
_LARGEST: Final = 1e38
_FIELD_BYTES: Final = 100
_RANGE_BYTES: Final = 30
_ESCAPED: Final = 6
"""Bytes of a character in JSON at most."""


def width_of(name: str) -> int:
    """Return the number of bytes of a value before it is deflated."""
    return 4 if name in _ROUNDED else 8


def can_be_packed(name: str, ranked: Ranked) -> bool:
    """Return whether values are many, each process has a rank, and each number fits."""
    most = _LARGEST if name in _ROUNDED else float("inf")
    return len(ranked) >= FEWEST and all(isinstance(rank, int) and abs(value) < most for rank, value in ranked)


def without_packed(ranks: Mapping[str, Ranked]) -> tuple[dict[str, Ranked], int]:
    """Return the values that stay readable, and an upper bound of the bytes that the others take."""
    readable = {name: values for name, values in ranks.items() if not can_be_packed(name, values)}
    return readable, sum(_most_bytes(name, ranks[name]) for name in ranks if name not in readable)


def _most_bytes(name: str, ranked: Ranked) -> int:
    ranges = 1 + sum(after[0] - before[0] != 1 for before, after in pairwise(ranked))  # type: ignore[operator]
    return _ESCAPED * len(name) + _FIELD_BYTES + ranges * _RANGE_BYTES + width_of(name) * len(ranked) * 3 // 2

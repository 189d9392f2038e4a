"""Percentiles as integer ratios, and the only rank rule: the value at rank `ceil(p * n)` of the sorted values."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from telemetry.errors import UsageError

Ratio = tuple[int, int]

DECIMALS: Final = 7
"""Decimals of a percentile. The denominator stays within 10**9, so that `ranks` can't overflow int64."""
_DECIMAL: Final = re.compile(rf"(\d{{1,3}})(?:\.(\d{{1,{DECIMALS}}}))?", re.ASCII)


def parse_percentile(key: str) -> Ratio:
    """Parse a percentile: `"99.9"` → `(999, 1000)`. Raises UsageError unless it is a decimal with 0 < p <= 100."""
    match = _DECIMAL.fullmatch(key)
    if match is None:
        hint = f"write it like 50 or 99.9, with at most {DECIMALS} decimals"
        raise UsageError(f"percentile {key!r} is not a decimal number", hint=hint)
    whole, fraction = match[1], match[2] or ""
    numerator, denominator = int(whole + fraction), 100 * 10 ** len(fraction)
    if not 0 < numerator <= denominator:
        raise UsageError(f"percentile {key!r} is outside (0, 100]")
    return numerator, denominator


def rank(ratio: Ratio, count: int) -> int:
    """Return the rank `ceil(p * count)`, at least 1."""
    numerator, denominator = ratio
    return max(-(-numerator * count // denominator), 1)


def ranks(ratios: Sequence[Ratio], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the `rank` of every count (rows) and ratio (columns)."""
    numerators = np.array([ratio[0] for ratio in ratios], dtype=np.int64)
    denominators = np.array([ratio[1] for ratio in ratios], dtype=np.int64)
    wholes, rests = np.divmod(counts[:, None], denominators)
    result: NDArray[np.int64] = wholes * numerators - (-(rests * numerators) // denominators)
    return np.maximum(result, 1, out=result)

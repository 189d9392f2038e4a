"""Sums of numbers by whole second, and lists of numbers in as few bytes as they need. Pure."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from telemetry.statistics.hdr.layout import Floats, Integers

AT_ONCE: Final = 1 << 16
"""Numbers of a piece, so that temporary arrays of a piece stay small."""
_SECOND: Final = 10**9


class SecondSums:
    """Sums by second since a moment. Numbers are added in the given order, so that the sums are reproducible."""

    def __init__(self, begin_ns: int) -> None:
        self._begin_ns = begin_ns
        self._seconds = np.zeros(0, np.int64)
        self._sums = np.zeros(0)

    def add(self, times_ns: Integers, weights: Floats | None = None) -> None:
        """Add a number for each time; 1 without weights."""
        seconds = (times_ns - self._begin_ns) // _SECOND
        all_seconds = np.union1d(self._seconds, seconds)
        if all_seconds.size > self._seconds.size:
            sums = np.zeros(all_seconds.size)
            sums[np.searchsorted(all_seconds, self._seconds)] = self._sums
            self._seconds, self._sums = all_seconds, sums
        np.add.at(self._sums, np.searchsorted(all_seconds, seconds), 1.0 if weights is None else weights)

    @property
    def most(self) -> float:
        """Largest sum of a second; 0 without any."""
        return float(self._sums.max(initial=0.0))


class SmallNumbers:
    """A growing list of numbers of one type. It takes a wider type as soon as a number does not fit."""

    def __init__(self, *codes: str) -> None:
        """`codes` are types of `array`, from narrow to wide."""
        self._wider = list(codes[1:])
        self._numbers: array[Any] = array(codes[0])

    def __len__(self) -> int:
        return len(self._numbers)

    def extend(self, numbers: Iterable[Any]) -> None:
        """Append numbers. Raises OverflowError for one that is too large for the widest type."""
        numbers = list(numbers)
        while True:
            try:
                self._numbers.extend(array(self._numbers.typecode, numbers))
                return
            except (OverflowError, TypeError):
                if not self._wider:
                    raise
            wider: array[Any] = array(self._wider.pop(0))
            wider.frombytes(self.view().astype(wider.typecode).tobytes())
            self._numbers = wider

    def view(self) -> NDArray[Any]:
        """Return all numbers without a copy. Nothing may be appended while the result is in use."""
        return np.frombuffer(self._numbers, self._numbers.typecode)

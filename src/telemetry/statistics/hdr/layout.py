"""The slots of values: HdrHistogram's bucket arithmetic, vectorised.

A histogram counts whole ticks. Its slots are one tick wide up to `2 * 10**digits`, and twice as wide with each
doubling above, so that a slot is never wider than `10**-digits` of the values in it.
"""

from __future__ import annotations

from functools import cache, cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from telemetry.errors import UsageError

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

PAGE_BITS: Final = 8
PAGE_SLOTS: Final = 1 << PAGE_BITS
TICK_BITS: Final = 53
"""Number of bits of a tick count: below 2**53 float64 represents every integer."""
MANTISSA_BITS: Final = 52
EXPONENT_BIAS: Final = 1023
DIGITS: Final = range(1, 6)


def constant(value: int) -> Integers:
    """Return an operand that numpy need not convert: an int makes a thousand rows take half as long again."""
    return np.array(value, np.int64)


class Layout:
    """The slots of one precision. Get it with `Layout.of(digits)`; instances are immutable and shared.

    The slot of a tick count equals the counts index of `HdrHistogram(1, 2**53 - 1, digits)`.
    """

    def __init__(self, digits: int) -> None:
        if digits not in DIGITS:
            raise UsageError(f"digits must be 1 to 5, not {digits}")
        self.digits = digits
        self.half_bits = (2 * 10**digits - 1).bit_length() - 1
        self.slots = (TICK_BITS + 1 - self.half_bits) << self.half_bits
        self.pages = -(-self.slots // PAGE_SLOTS)
        self.linear = 1 << self.half_bits
        self._shift = constant(MANTISSA_BITS - self.half_bits)
        self._offset = constant((EXPONENT_BIAS + self.half_bits - 1) << self.half_bits)
        self._linear = constant(self.linear)

    @staticmethod
    def of(digits: int) -> Layout:
        """Return the layout of 1 to 5 significant digits. Raises UsageError for other numbers."""
        return _layout(digits)

    @property
    def error_bound(self) -> float:
        """Largest relative distance of two values in one slot."""
        return float(10.0**-self.digits)

    def slot_of(self, ticks: Integers) -> Integers:
        """Return the slots of tick counts in [0, 2**53)."""
        whole = ticks.astype(np.float64)
        return self.slot_of_whole(whole, bool(whole.size) and float(whole.min()) < self.linear)

    def slot_of_whole(self, ticks: Floats, small: bool) -> Integers:
        """Return the slots of tick counts that are whole floats in [0, 2**53). `small`: some are below `linear`.

        A float64 is itself a log-linear number: exponent and leading mantissa bits, read as one integer, count the
        slots. Below `linear`, where slots are one tick wide, that number is smaller than the ticks, so the larger
        of both is the slot.
        """
        slots: Integers = np.right_shift(ticks.view(np.int64), self._shift)
        np.subtract(slots, self._offset, out=slots)
        if small:
            narrow = ticks.astype(np.int64)
            np.minimum(narrow, self._linear, out=narrow)
            np.maximum(slots, narrow, out=slots)
        return slots

    def lowest_of(self, slots: Integers) -> Integers:
        """Return the smallest tick count of each slot."""
        doublings = self._doublings(slots)
        lowest: Integers = (slots - (doublings << self.half_bits)) << doublings
        return lowest

    def highest_of(self, slots: Integers) -> Integers:
        """Return the largest tick count of each slot."""
        doublings = self._doublings(slots)
        highest: Integers = ((slots - (doublings << self.half_bits) + 1) << doublings) - 1
        return highest

    @cached_property
    def lowest(self) -> Integers:
        """Smallest tick count of every slot."""
        return self.lowest_of(np.arange(self.slots, dtype=np.int64))

    @cached_property
    def highest(self) -> Integers:
        """Largest tick count of every slot."""
        return self.highest_of(np.arange(self.slots, dtype=np.int64))

    def _doublings(self, slots: Integers) -> Integers:
        doublings: Integers = np.maximum((slots >> self.half_bits) - 1, 0)
        return doublings


@cache
def _layout(digits: int) -> Layout:
    return Layout(digits)

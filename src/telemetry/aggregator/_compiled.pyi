import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

SOURCE_CRC: int
"""CRC-32 of the source of this module."""

def record(
    index: NDArray[np.intp],
    value: Floats,
    shift: Floats,
    sums: NDArray[np.complex128],
    least: Floats,
    most: Floats,
    integral: NDArray[np.bool_],
    scale: Floats,
    highest_tick: Floats,
    table: Integers,
    fresh: NDArray[np.uint32],
    fresh_sums: Integers,
    pages_per_row: int,
    half_bits: int,
    reached: float,
    /,
) -> float:
    """Record rows. Return how much further sums of deviations may reach than `reached`.

    Returns −1 and records nothing if a row has a special case.
    """

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

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
    room: float,
    /,
) -> float:
    """How far sums of deviations may have moved; −1 if a row needs something special, and nothing was done."""

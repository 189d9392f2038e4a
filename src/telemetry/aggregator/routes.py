"""Route of a row: `kind << 24 | index` of its instrument, or a negative reason why it has none."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from telemetry.wire.events import Kind

Routes = NDArray[np.intp]

INDEX_BITS: Final = 24
KIND_CODES: Final[dict[Kind, int]] = {"series": 0, "counter": 1, "gauge": 2}

UNKNOWN: Final = -1
"""Missing definition: the row waits."""
CONFLICT: Final = -2
"""Definition that contradicts an earlier one."""
INVALID: Final = -3
"""Definition that can't be used."""
MALFORMED: Final = -4
"""Invalid id or invalid row."""


def route(kind: Kind, index: int) -> int:
    """Return the route to an instrument by its kind and index."""
    return KIND_CODES[kind] << INDEX_BITS | index

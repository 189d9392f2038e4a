"""A route: one number that says where a row goes, `kind << 24 | index`, or, if negative, why it goes nowhere."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from telemetry.wire.events import Kind

Routes = NDArray[np.intp]

INDEX_BITS: Final = 24
KIND_CODES: Final[dict[Kind, int]] = {"series": 0, "counter": 1, "gauge": 2}

UNKNOWN: Final = -1
"""No definition yet: the row waits."""
CONFLICT: Final = -2
"""The definition contradicts an earlier one."""
INVALID: Final = -3
"""The definition can't be used."""
MALFORMED: Final = -4
"""The id is no id, or the row is no row."""


def route(kind: Kind, index: int) -> int:
    """The route to the instrument of this index among its kind."""
    return KIND_CODES[kind] << INDEX_BITS | index

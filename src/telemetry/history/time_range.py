"""The choice of a time range of a run."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final

from telemetry.errors import UsageError
from telemetry.wire.units import TIME_NS

_TIME: Final = re.compile(r"([-+]?)(\d+(?:\.\d*)?|\.\d+)\s*([a-zµ]*)", re.ASCII | re.IGNORECASE)
_UNITS: Final = {
    "": 1.0,
    "m": 60.0,
    "d": 86_400.0,
    "w": 604_800.0,
    **{unit: of_ns / 1e9 for unit, of_ns in TIME_NS.items()},
}
_HINT: Final = "write it like 30s, 5m, 1h or 90; -10s means ten seconds before the end"


@dataclass(frozen=True, kw_only=True, slots=True)
class TimeRangeChoice:
    """A time range in seconds since the run's start. Negative numbers, and -0.0, count back from its end.

    None means the start, or the end. At most one of `trim_warmup` and `steady` may be set; each searches only
    between `from_s` and `to_s`.
    """

    from_s: float | None = None
    to_s: float | None = None
    trim_warmup: bool = False
    """True to leave out the time before the figures settle."""
    steady: bool = False
    """True to take the longest time range in which the figures stay the same."""

    def __post_init__(self) -> None:
        """Check the choice. Raises UsageError for an invalid one."""
        if self.trim_warmup and self.steady:
            raise UsageError("trim_warmup and steady can't be combined", hint="use one of them")
        for at_s in (self.from_s, self.to_s):
            if at_s is not None and not math.isfinite(at_s):
                raise UsageError(f"{at_s} is not a time of a run", hint=_HINT)

    @property
    def whole(self) -> bool:
        """True if the choice excludes nothing."""
        return self == TimeRangeChoice()


def parse_time(text: str) -> float:
    """Parse `"30s"`, `"5m"`, `"1h"`, `"30d"`, `"90"` or `"1.5s"` into seconds. Raises UsageError.

    `"-10s"` gives a negative number: ten seconds before the end.
    """
    match = _TIME.fullmatch(text.strip())
    factor = _UNITS.get(match[3]) if match else None
    if match is None or factor is None:
        raise UsageError(f"{text!r} is not a time", hint=_HINT)
    seconds = float(match[2]) * factor
    return -seconds if match[1] == "-" else seconds

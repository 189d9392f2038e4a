"""Which part of a run is asked for."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final

from telemetry.errors import UsageError
from telemetry.wire.units import TIME_NS

_TIME: Final = re.compile(r"([-+]?)(\d+(?:\.\d*)?|\.\d+)\s*([a-zµ]*)", re.ASCII | re.IGNORECASE)
_UNITS: Final = {"": 1.0, "m": 60.0, **{unit: of_ns / 1e9 for unit, of_ns in TIME_NS.items()}}
_HINT: Final = "write it like 30s, 5m, 1h or 90; -10s is ten seconds before the end"


@dataclass(frozen=True, kw_only=True, slots=True)
class TimeRangeChoice:
    """Seconds since the run's start; negative ones, and -0.0, are before its end. None: the start, or the end.

    At most one of `trim_warmup` and `steady`; each looks only at what lies between `from_s` and `to_s`.
    """

    from_s: float | None = None
    to_s: float | None = None
    trim_warmup: bool = False
    """Without what comes before the figures settle."""
    steady: bool = False
    """The longest part in which they don't change."""

    def __post_init__(self) -> None:
        """Raises UsageError for a choice that can't be."""
        if self.trim_warmup and self.steady:
            raise UsageError("a part is chosen by trim_warmup or by steady, not by both", hint="use one of them")
        for at_s in (self.from_s, self.to_s):
            if at_s is not None and not math.isfinite(at_s):
                raise UsageError(f"{at_s} is no time of a run", hint=_HINT)

    @property
    def whole(self) -> bool:
        """Nothing is left out."""
        return self == TimeRangeChoice()


def parse_time(text: str) -> float:
    """`"30s"`, `"5m"`, `"1h"`, `"90"` or `"1.5s"` in seconds; `"-10s"`, negative, is before the end. Raises
    UsageError."""
    found = _TIME.fullmatch(text.strip())
    factor = _UNITS.get(found[3]) if found else None
    if found is None or factor is None:
        raise UsageError(f"{text!r} is no time", hint=_HINT)
    seconds = float(found[2]) * factor
    return -seconds if found[1] == "-" else seconds

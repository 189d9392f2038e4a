"""What an aggregator can be told when it is built."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from telemetry import limits


@dataclass(frozen=True, slots=True)
class AggregatorConfig:
    """Built once at the edge; nothing here changes during a run."""

    percentiles: Annotated[tuple[str, ...], Meta(max_length=limits.PERCENTILES)] = (
        *("50", "75", "90", "95", "99", "99.9", "99.99"),
    )
    """Decimal strings, as they become keys."""
    window_s: float = 10
    """Length of the moving window, in whole rolls of one second, at least one."""
    series_cap: Annotated[int, Meta(ge=0, le=limits.SERIES_MOST)] = limits.SERIES
    """Instruments of each kind; the rest share one called `overflow`."""
    late_after_s: float = limits.LATE_AFTER_S
    lost_after_s: float = limits.LOST_AFTER_S
    step_grace_s: Annotated[float, Meta(ge=0, le=1e9)] = limits.STEP_GRACE_S
    """A step is closed so long after a producer ended it, whoever has not. In whole intervals of the history."""

    record_cap_bytes: Annotated[int, Meta(ge=0)] = limits.RECORDS_CAP_BYTES
    """Of the record log."""

    @property
    def window_rolls(self) -> int:
        return max(1, round(self.window_s))

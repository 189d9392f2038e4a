"""Settings of an aggregator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from telemetry import limits


@dataclass(frozen=True, slots=True)
class AggregatorConfig:
    """Settings, built once when the aggregator starts. They stay unchanged during a run."""

    percentiles: Annotated[tuple[str, ...], Meta(max_length=limits.PERCENTILES)] = (
        *("50", "75", "90", "95", "99", "99.9", "99.99"),
    )
    """Percentiles as decimal strings, because they become keys."""
    window_s: float = 10
    """Length of the moving window in seconds, rounded to whole rolls of one second, at least one."""
    series_cap: Annotated[int, Meta(ge=0, le=limits.SERIES_MOST)] = limits.SERIES
    """Maximum number of instruments of each kind. All others share one called `overflow`."""
    late_after_s: float = limits.LATE_AFTER_S
    lost_after_s: float = limits.LOST_AFTER_S
    step_grace_s: Annotated[float, Meta(ge=0, le=1e9)] = limits.STEP_GRACE_S
    """Time after which a step is closed once a producer has ended it, even if others have not.

    Counted in whole intervals of the history.
    """

    record_cap_bytes: Annotated[int, Meta(ge=0)] = limits.RECORDS_CAP_BYTES
    """Maximum size of the record log."""

    request_log_cap_bytes: Annotated[int, Meta(ge=0)] = limits.REQUEST_LOG_CAP_BYTES
    """Maximum size of the request log."""

    leaf: bool = False
    """True if the sums of each interval are sent to another aggregator, the root."""

    @property
    def window_rolls(self) -> int:
        return max(1, round(self.window_s))

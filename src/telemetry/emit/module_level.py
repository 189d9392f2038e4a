"""Instruments and records without a run at hand: instruments bind to the process's run when it comes.

With TELEMETRY_ENDPOINT set, making an instrument or a record attaches the process by itself; without an endpoint
instruments are null objects, and records vanish.
"""

from __future__ import annotations

from typing import Any, Final, cast

from telemetry.emit.instruments import Counter, Gauge, Series
from telemetry.emit.kinds import Tracking
from telemetry.emit.process import PROCESS
from telemetry.emit.recording import Recording
from telemetry.emit.request import Request
from telemetry.emit.requests import Requests, check_arguments


def counter(name: str, /, unit: str = "", **labels: object) -> Counter:
    """The counter of this name and these labels. Raises InstrumentError."""
    return cast(Counter, PROCESS.instrument("counter", name, unit, labels))


def gauge(name: str, /, unit: str = "", **labels: object) -> Gauge:
    """The gauge of this name and these labels. Raises InstrumentError."""
    return cast(Gauge, PROCESS.instrument("gauge", name, unit, labels))


def series(
    name: str,
    /,
    unit: str = "",
    *,
    digits: int = 3,
    low: float | None = None,
    high: float | None = None,
    **labels: object,
) -> Series:
    """The series of this name and these labels. Raises InstrumentError.

    `digits` (1 to 5) is the precision of live percentiles; `low` is the smallest difference worth telling apart
    and `high` the largest expected value, in `unit`.
    """
    return cast(Series, PROCESS.instrument("series", name, unit, labels, digits=digits, low=low, high=high))


def requests(name: str, /, *, expire_s: float | None = None, stop_when: str = "", **labels: object) -> Requests:
    """The kind of request of this name and these labels. Raises InstrumentError. See `Run.requests`."""
    return PROCESS.requests(name, labels, expire_s, stop_when)


def request(name: str, /, **issue: Any) -> Request:
    """Issues one request, with the arguments of `Requests.issue`. See `Run.request`."""
    kind = PROCESS.requests(name, {})
    try:
        return kind.issue(**issue)
    except TypeError:
        check_arguments(name, issue)
        raise


def tracking(window: str = "measured") -> Tracking:
    """A block whose requests, of this process, belong to a tracking window. See `Run.tracking`."""
    return PROCESS.tracking(window)


_RECORDING: Final = Recording(PROCESS)

axis = _RECORDING.axis
log = _RECORDING.log
end_step = _RECORDING.end_step
text = _RECORDING.text
table = _RECORDING.table
bins = _RECORDING.histogram  # `telemetry.histogram` is a package
image = _RECORDING.image
artifact = _RECORDING.artifact
span = _RECORDING.span
span_at = _RECORDING.span_at

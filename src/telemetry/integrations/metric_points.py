"""Instruments for metrics that a program puts one by one under a group and a name, as torchelastic's are.

`unit_of` is the rule for the unit of any metric that has only a name.

NAME.success, NAME.failure   counter   of calls, as `prof` puts them: the value 1
NAME                         series    any other metric: values from 0 up
NAME.below_zero              gauge     values below zero, which no series takes
NAME.not_finite              counter   NaN and infinity
NAME.other                   gauge     other values of a metric whose first value was that of a call
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from math import inf
from typing import Any, Final

from telemetry.client import user_warnings
from telemetry.client.module_level import counter, gauge, series
from telemetry.errors import InstrumentError

_NAME_SHOWN: Final = 100
_CALLS: Final = (".success", ".failure")
_UNIT: Final = re.compile(r"(?<![._]per)[._](ns|us|ms|s|bytes)\Z")

PutPoint = Callable[[Any], None]


def point_recorder(group: object, name: object, **labels: str) -> PutPoint:
    """Return the function that records values of one metric.

    It never raises. A metric that can't be an instrument is reported once, and its values are left out. The unit is
    that of `unit_of`. A group that is no text, or is empty, gives no label.
    """
    if isinstance(group, str) and group:
        labels = {"group": group, **labels}
    unit = unit_of(name)
    may_count = isinstance(name, str) and name.endswith(_CALLS)
    record: PutPoint = _leave_out

    def begin(value: Any) -> None:
        """Make the instrument for the first value."""
        nonlocal record
        try:
            if may_count and value == 1:
                record = _call_recorder(str(name), labels)
            else:
                record = series(name, unit, labels=labels).record  # type: ignore[arg-type]  # another type raises
        except InstrumentError as error:
            record = _leave_out
            _report(name, error)
        record(value)

    record = begin

    def put_odd(value: Any) -> None:
        """Record a value that a series refuses."""
        try:
            if -inf < value < 0:
                gauge(f"{name}.below_zero", unit, labels=labels).set(value)
            else:
                counter(f"{name}.not_finite", labels=labels).add()
        except InstrumentError as error:
            _report(name, error)

    def put(value: Any) -> None:
        try:
            if 0 <= value < inf:
                record(value)
            else:
                put_odd(value)
        except Exception:  # noqa: BLE001 – comparing any object may raise anything; the recorder counts the value
            record(value)

    return put


def _call_recorder(name: str, labels: Mapping[str, str]) -> PutPoint:
    """Return the recorder of calls that succeeded or failed."""
    add = counter(name, labels=labels).add

    def record(value: Any) -> None:
        if value == 1:
            add(1)
        else:
            gauge(f"{name}.other", labels=labels).set(value)

    return record


def unit_of(name: object) -> str:
    """Return the unit at the end of a metric's name, as in `load.duration.ms` and `write_latency_ms`; or nothing.

    `tokens_per_s` is a rate and has no unit.
    """
    match = _UNIT.search(name) if isinstance(name, str) else None
    return match[1] if match else ""


def _leave_out(value: Any) -> None:
    pass


def _report(name: object, error: InstrumentError) -> None:
    shown = repr(name)[:_NAME_SHOWN]
    user_warnings.warn_once(f"metric {shown}", f"metric {shown} is not recorded: {error}")

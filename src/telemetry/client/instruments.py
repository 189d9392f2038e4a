"""Counter, Gauge and Series: the instruments that a program holds.

Definitions are checked when an instrument is made, values at each call.
"""

from __future__ import annotations

from collections.abc import Mapping

from telemetry.client.recorders import Add, Record
from telemetry.client.timing import BlockTimer
from telemetry.errors import InstrumentError
from telemetry.wire.events import Define
from telemetry.wire.units import TIME_NS


class Instrument:
    """Base of instruments: name, unit and labels.

    Threads share one object per (kind, name, labels) in a process.
    """

    __slots__ = ("_definition",)

    def __init__(self, definition: Define) -> None:
        self._definition = definition

    @property
    def name(self) -> str:
        return self._definition.name

    @property
    def unit(self) -> str:
        return self._definition.unit

    @property
    def labels(self) -> Mapping[str, str]:
        return self._definition.labels

    @property
    def definition(self) -> Define:
        return self._definition

    def __repr__(self) -> str:
        labels = "".join(f", {key}={value!r}" for key, value in self.labels.items())
        return f"<{type(self).__name__} {self.name!r}, unit={self.unit!r}{labels}>"


class Counter(Instrument):
    """A sum that only grows. The aggregator drops and counts negative increments."""

    __slots__ = ("add",)
    add: Add

    def __init__(self, definition: Define, add: Add) -> None:
        super().__init__(definition)
        self.add = add


class Gauge(Instrument):
    """A current value. With several processes, the newest value wins."""

    __slots__ = ("set",)
    set: Record

    def __init__(self, definition: Define, record: Record) -> None:
        super().__init__(definition)
        self.set = record


class Series(Instrument):
    """A distribution of values from 0 up."""

    __slots__ = ("record",)
    record: Record

    def __init__(self, definition: Define, record: Record) -> None:
        super().__init__(definition)
        self.record = record

    def time(self) -> BlockTimer:
        """Return a `with` block or decorator that records durations.

        Raises InstrumentError unless `unit` is a time unit.
        """
        ns_per_unit = TIME_NS.get(self.unit)
        if ns_per_unit is None:
            raise InstrumentError(
                f"series {self.name!r} is in {self.unit or 'no unit'}, which is not a unit of time",
                hint=f"define it with one of {', '.join(TIME_NS)}",
            )
        return BlockTimer(self.record, ns_per_unit)

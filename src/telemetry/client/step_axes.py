"""Step axes for values whose program names no axis.

Steps of an axis close in ascending order. Programs written for a tracker log each name with a step count of its
own: training losses by batch, validation losses by epoch. This module finds the names that count alike, and gives
each such group an axis.
"""

from __future__ import annotations

from collections import deque
from math import inf
from typing import Final

from telemetry import limits
from telemetry.client.process import PROCESS
from telemetry.client.records import clean
from telemetry.client.signal_safe import Locked
from telemetry.client.steps import DEFAULT_AXIS

_NEWEST: Final = limits.STEPS_KEPT // 2
"""Number of steps of an axis that still take values.

The aggregator corrects twice as many. The reserve covers steps that were logged earlier and are higher: those close
later, because open steps close in ascending order.
"""
_NAMES: Final = 20_000  # names that are remembered


class _Axis:
    """One axis: its name, its highest step, and which steps the aggregator certainly still accepts."""

    __slots__ = ("floor", "highest", "name", "newest", "order")

    def __init__(self, name: str, step: int) -> None:
        self.name = name
        self.highest = step
        self.floor = -inf
        """Steps up to this one may be closed for good. Their values are refused, except for the steps in `newest`.
        """
        self.order: deque[int] = deque((step,))
        """The newest steps, in the order in which they were first logged."""
        self.newest = {step}
        """The same steps."""

    def takes(self, step: int) -> bool:
        """Return whether the aggregator accepts values of this step."""
        return step > self.floor or step in self.newest

    def add(self, step: int) -> None:
        """Register that values of a new step are logged."""
        self.newest.add(step)
        self.order.append(step)
        if len(self.order) > _NEWEST:
            oldest = self.order.popleft()
            self.newest.discard(oldest)
            if oldest > self.floor:  # noqa: PLR1730 – `max` takes three times as long, and this runs at each step
                self.floor = oldest
        if step > self.highest:  # noqa: PLR1730 – as above
            self.highest = step


class _Guest:
    """A source that names its axes itself, on the first axis of a map."""

    __slots__ = ("axis", "highest")

    def __init__(self, axis: _Axis, step: int) -> None:
        self.axis = axis
        self.highest = step
        """Highest step of this source."""


class StepAxes(Locked):
    """A map from names to axes, one per source of names. Thread-safe.

    A new name joins the axis whose highest step is its step, or the nearest below. If all axes have passed its
    step, it gets an axis of its own, named after its first path element. A name whose steps fall far behind its
    axis, or begin anew, moves to another one. The map is empty again when the process attaches to another run.
    """

    def __init__(self, first: str = DEFAULT_AXIS) -> None:
        """`first` is the name of the first axis."""
        super().__init__()
        self._first = first
        self._axes: list[_Axis] = []
        self._axis_of: dict[str, _Axis] = {}
        self._guests: dict[str, _Guest] = {}
        """Sources on the first axis that name their axes themselves."""
        self._reserved: dict[tuple[str, str], str] = {}
        """Other axes of such sources, by source and the name that it has chosen. No name of the map joins them."""
        self._attached = PROCESS.attached

    def axis(self, name: str, step: int) -> str:
        """Return the axis for a value of this name and step."""
        if self._attached != PROCESS.attached:
            self._begin_run()
        axis = self._axis_of.get(name)
        if axis is not None and step == axis.highest:
            return axis.name
        with self._lock:
            if axis is None or (step < axis.highest and not axis.takes(step)):
                axis = self._join(name, step)
            if step not in axis.newest:
                axis.add(step)
        return axis.name

    def near(self, name: str, step: int) -> str:
        """Return the axis for a record that is no value, such as a text: that of its name, or the nearest one.

        Such a record is never refused, so it begins no axis and moves none.
        """
        if self._attached != PROCESS.attached:
            self._begin_run()
        nearest = self._axis_of.get(name)
        if nearest is None:
            with self._lock:
                nearest = min(self._axes, key=lambda axis: abs(axis.highest - step), default=None)
                if nearest is None:
                    return self._first
                if len(self._axis_of) < _NAMES:
                    self._axis_of[name] = nearest
        return nearest.name

    def split(self, names: list[str], step: int) -> dict[str, list[str]]:
        """Return the names of one call by axis."""
        by_axis: dict[str, list[str]] = {}
        for name in names:
            by_axis.setdefault(self.axis(name, step), []).append(name)
        return by_axis

    def place(self, source: str, name: str, step: int) -> str:
        """Return the axis for a step of a source that names its axes itself: the one of this name, if it is free.

        Several sources and names of the map may share the first axis. A source whose next step is too late there
        moves to an axis of its own, `SOURCE/NAME`. A step behind the newest one of its source moves nothing.
        """
        if self._attached != PROCESS.attached:
            self._begin_run()
        if name != self._first:
            return self._reserved.get((source, name)) or self._reserve(source, name)
        guest = self._guests.get(source)
        if guest is not None:
            axis = guest.axis
            if step > axis.highest:
                with self._lock:
                    guest.highest = step
                    axis.add(step)
                return axis.name
            if step == guest.highest == axis.highest:
                return axis.name
        with self._lock:
            if guest is None or (step > guest.highest and not guest.axis.takes(step)):
                guest = self._guests[source] = _Guest(self._axis_of_guest(source, step), step)
            guest.highest = max(guest.highest, step)
            axis = guest.axis
            if step not in axis.newest and axis.takes(step):
                axis.add(step)
        return axis.name

    def _axis_of_guest(self, source: str, step: int) -> _Axis:
        if not self._axes:
            self._axes.append(_Axis(self._first, step))
        if self._axes[0].takes(step):
            return self._axes[0]
        return _Axis(self._reserve(source, self._first), step)

    def _reserve(self, source: str, name: str) -> str:
        """Keep the name of an axis for a source. Add the name of the source if others have it already."""
        with self._lock:
            taken = self._taken()
            kept = self._free([f"{source}/{name}"], taken) if name in taken else name
            self._reserved[source, name] = kept
        return kept

    def _begin_run(self) -> None:
        with self._lock:
            self._attached = PROCESS.attached
            self._axes = []
            self._axis_of = {}
            self._guests = {}
            self._reserved = {}

    def _join(self, name: str, step: int) -> _Axis:
        """Return the axis for a name that is new, or that its axis has left behind."""
        remembers = name in self._axis_of or len(self._axis_of) < _NAMES
        joined = max((axis for axis in self._axes if axis.highest <= step), key=_highest, default=None)
        if joined is None and (len(self._axes) >= limits.UNNAMED_AXES or not remembers):
            joined = next((axis for axis in self._axes if axis.takes(step)), None)
        if joined is None:
            joined = self._axes[-1] if len(self._axes) >= limits.UNNAMED_AXES else self._begin(name, step)
        if remembers:
            self._axis_of[name] = joined
        return joined

    def _begin(self, name: str, step: int) -> _Axis:
        wanted = [self._first] if not self._axes else [name.partition("/")[0], name]
        axis = _Axis(self._free(wanted, self._taken()), step)
        self._axes.append(axis)
        return axis

    def _taken(self) -> set[str]:
        return {axis.name for axis in self._axes}.union(self._reserved.values())

    @staticmethod
    def _free(wanted: list[str], taken: set[str]) -> str:
        """Return the first of these names that is valid and free, else the last one with a number."""
        wanted += [f"{wanted[-1][:190]} {number}" for number in range(2, len(taken) + 3)]
        names = (clean(each, limits.NAME_CHARS) for each in wanted)
        return next(each for each in names if each and each not in taken)


def _highest(axis: _Axis) -> int:
    return axis.highest


SHARED: Final = StepAxes()
"""The map of all sources in this process that use the default axis, so that none lags behind another."""

"""Step axes for values whose program names no axis.

Steps of an axis close in ascending order. Programs written for a tracker log each name with a step count of its
own: training losses by batch, validation losses by epoch. This module finds the names that count alike, and gives
each such group an axis.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from math import inf
from typing import Final

from telemetry import limits
from telemetry.client.process import PROCESS
from telemetry.client.records import clean
from telemetry.client.steps import DEFAULT_AXIS

_NEWEST: Final = limits.STEPS_KEPT // 2
"""Number of steps of an axis that still take values.

The aggregator corrects twice as many. The reserve covers steps that were logged earlier and are higher: those close
later, because open steps close in ascending order.
"""
_AXES: Final = 32  # of a process; half of those of a run
_NAMES: Final = 20_000  # names that are remembered


class _Axis:
    """One axis: its name, its highest step, and which steps the aggregator certainly still accepts."""

    __slots__ = ("floor", "highest", "name", "newest", "order")

    def __init__(self, name: str, step: int) -> None:
        self.name = name
        self.highest = step
        self.floor = -inf
        """The highest step that may be closed for good. It and lower steps are refused unless they are new."""
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


class StepAxes:
    """A map from names to axes, one per source of names. Thread-safe.

    A new name joins the axis whose highest step is its step, or the nearest below. If all axes have passed its
    step, it gets an axis of its own, named after its first path element. A name whose steps fall far behind its
    axis, or begin anew, moves to another one. The map is empty again when the process attaches to another run.
    """

    def __init__(self, first: str = DEFAULT_AXIS) -> None:
        """`first` is the name of the first axis."""
        self._first = first
        self._lock = threading.Lock()
        self._axes: list[_Axis] = []
        self._axis_of: dict[str, _Axis] = {}
        self._attached = PROCESS.attached
        _ALL.add(self)

    def axis(self, name: str, step: int) -> str:
        """Return the axis for a value of this name and step."""
        if self._attached != PROCESS.attached:
            self._begin_run()
        found = self._axis_of.get(name)
        if found is not None and step == found.highest:
            return found.name
        with self._lock:
            if found is None or (step < found.highest and not found.takes(step)):
                found = self._join(name, step)
            if step not in found.newest:
                found.add(step)
        return found.name

    def near(self, name: str, step: int) -> str:
        """Return the axis for a record that is no value, such as a text: that of its name, or the nearest one.

        Such a record is never refused, so it begins no axis and moves none.
        """
        if self._attached != PROCESS.attached:
            self._begin_run()
        found = self._axis_of.get(name)
        if found is None:
            with self._lock:
                found = min(self._axes, key=lambda axis: abs(axis.highest - step), default=None)
                if found is None:
                    return self._first
                if len(self._axis_of) < _NAMES:
                    self._axis_of[name] = found
        return found.name

    def split(self, names: list[str], step: int) -> dict[str, list[str]]:
        """Return the names of one call by axis."""
        by_axis: dict[str, list[str]] = {}
        for name in names:
            by_axis.setdefault(self.axis(name, step), []).append(name)
        return by_axis

    def _begin_run(self) -> None:
        with self._lock:
            self._attached = PROCESS.attached
            self._axes = []
            self._axis_of = {}

    def renew_lock(self) -> None:
        """Replace the lock in a forked child. A thread of the parent may have held it."""
        self._lock = threading.Lock()

    def _join(self, name: str, step: int) -> _Axis:
        """Return the axis for a name that is new, or that its axis has left behind."""
        remembers = name in self._axis_of or len(self._axis_of) < _NAMES
        joined = max((axis for axis in self._axes if axis.highest <= step), key=_highest, default=None)
        if joined is None and (len(self._axes) >= _AXES or not remembers):
            joined = next((axis for axis in self._axes if axis.takes(step)), None)
        if joined is None:
            joined = self._axes[-1] if len(self._axes) >= _AXES else self._begin(name, step)
        if remembers:
            self._axis_of[name] = joined
        return joined

    def _begin(self, name: str, step: int) -> _Axis:
        taken = {axis.name for axis in self._axes}
        wanted = [self._first] if not self._axes else [name.partition("/")[0], name]
        wanted += [f"{wanted[-1][:190]} {number}" for number in range(2, len(taken) + 3)]
        names = (clean(each, limits.NAME_CHARS) for each in wanted)
        made = _Axis(next(each for each in names if each and each not in taken), step)
        self._axes.append(made)
        return made


def _highest(axis: _Axis) -> int:
    return axis.highest


_ALL: Final[weakref.WeakSet[StepAxes]] = weakref.WeakSet()
SHARED: Final = StepAxes()
"""The map of all sources in this process that use the default axis, so that none lags behind another."""


def _renew_locks() -> None:
    for axes in list(_ALL):
        axes.renew_lock()


os.register_at_fork(after_in_child=_renew_locks)

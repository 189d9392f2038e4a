"""A bounded buffer of values that wait until their step is reported, and counts of those that were sent at once."""

from __future__ import annotations

import atexit
import weakref
from collections.abc import Iterable
from typing import Final

from telemetry.client import user_warnings
from telemetry.client.signal_safe import Locked
from telemetry.client.user_warnings import warn_once
from telemetry.common.formatting import number_of
from telemetry.compat.relax.values import Entry, Place

VALUES: Final = 100_000
"""Number of values that a client holds. Beyond it, the oldest step is dropped."""
OPEN_STEPS: Final = 1_024
"""Steps with values that were sent at once, whose counts are kept until the report."""
_ALL: Final[weakref.WeakSet[StepBuffer]] = weakref.WeakSet()


@atexit.register
def _warn_of_rest() -> None:
    """Report the values that still wait when the program ends."""
    count, steps = sum(each.count(None) for each in _ALL), sum(len(each.places) for each in _ALL)
    if count:
        user_warnings.warn(
            f"not recorded, because report_step was not called for them: {number_of(count, 'value')} of "
            f"{number_of(steps, 'step')}"
        )


class StepBuffer(Locked):
    """Values by axis and step. Thread-safe. A forked child begins without values."""

    def __init__(self) -> None:
        super().__init__()
        self._begin()
        _ALL.add(self)
        self.dropped = 0
        """Number of values that were dropped because the buffer was full."""

    def _begin(self) -> None:
        self._steps: dict[Place, list[Entry]] = {}
        self._count = 0
        self._sent: dict[Place, int] = {}

    def renew_lock(self) -> None:
        """Replace the lock, and forget the values of the parent."""
        super().renew_lock()
        self._begin()

    def add(self, axis_step: Place, entries: Iterable[Entry]) -> None:
        """Add values of a step. Drop the oldest step if there are too many."""
        with self._lock:
            held = self._steps.get(axis_step)
            if held is None:
                held = self._steps[axis_step] = []
            before = len(held)
            held.extend(entries)
            self._count += len(held) - before
            while self._count > VALUES:
                self._drop_oldest()

    def count_sent(self, axis_step: Place, count: int) -> None:
        """Count values of a step that were sent at once. The counts of the oldest steps are forgotten."""
        with self._lock:
            self._sent[axis_step] = self._sent.get(axis_step, 0) + count
            if len(self._sent) > OPEN_STEPS:
                del self._sent[next(iter(self._sent))]

    def take(self, axis_step: Place) -> tuple[list[Entry], int]:
        """Return the values of a step and the number that was sent at once, and forget them."""
        with self._lock:
            entries = self._steps.pop(axis_step, [])
            self._count -= len(entries)
            return entries, self._sent.pop(axis_step, 0)

    def clear(self, step: int | None) -> None:
        """Forget the values of a step on all axes, or all values."""
        with self._lock:
            for axis_step in [each for each in self._steps if step in (None, each[1])]:
                self._count -= len(self._steps.pop(axis_step))

    def clear_sent(self, axis: str, step: int | None) -> None:
        """Forget the number of values that were sent for a step, or for all steps of an axis."""
        with self._lock:
            for axis_step in [each for each in self._sent if each[0] == axis and step in (None, each[1])]:
                del self._sent[axis_step]

    def count(self, step: int | None) -> int:
        """Return the number of values of a step on all axes, or of all values."""
        with self._lock:
            if step is None:
                return self._count
            return sum(len(entries) for axis_step, entries in self._steps.items() if axis_step[1] == step)

    @property
    def places(self) -> set[Place]:
        """The axes and steps that have values."""
        with self._lock:
            return set(self._steps)

    @property
    def open_places(self) -> set[Place]:
        """The axes and steps that have values, or of which values were sent."""
        with self._lock:
            return {*self._steps, *self._sent}

    def _drop_oldest(self) -> None:
        (axis, step), entries = next(iter(self._steps.items()))
        del self._steps[axis, step]
        self._count -= len(entries)
        self.dropped += len(entries)
        warn_once(
            "step buffer",
            f"{number_of(len(entries), 'value')} of step {step} on the axis {axis!r} were dropped, because more "
            f"than {VALUES:,} values wait for their report. Call report_step for each step",
        )

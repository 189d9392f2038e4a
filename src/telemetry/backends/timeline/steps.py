"""Spans by step: those that name their step, and those that ended between two steps. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from typing import Final

from telemetry.backends.items import Span
from telemetry.backends.timeline.trace import STEP, StepRange

OPEN_STEPS: Final = 8
"""Steps that still take spans: the newest ones."""
WAITING: Final = 50_000
"""Spans that wait for the end of their step. The oldest ones beyond that belong to no step."""


class SpansByStep:
    """A queue of spans, and the newest steps of one axis with their spans."""

    def __init__(self, axis: str = "") -> None:
        """`axis` is the axis whose steps count; empty for the first one that a step closes on."""
        self.axis = axis
        self.boundary_ns = 0
        """End of the newest step."""
        self._forgotten: int | None = None
        """Highest step that takes no more spans."""
        self.changed: set[int] = set()
        """Steps whose spans have changed since `take_changed`."""
        self._waiting: deque[Span] = deque(maxlen=WAITING)
        self._spans: dict[int, list[Span]] = {}
        self._ranges: dict[int, StepRange] = {}

    def add(self, span: Span) -> None:
        """Add a span to its step. Without a step yet, it waits."""
        step = self._step_of(span)
        if step is None:
            self._waiting.append(span)
        elif step in self._spans or self._forgotten is None or step > self._forgotten:
            self._put(step, span)

    def close(self, axis: str, step: int, end_ns: int) -> None:
        """Register that a step has ended, and give it the spans that ended before it did."""
        self.axis = self.axis or axis
        if axis != self.axis or step in self._ranges or end_ns <= self.boundary_ns:
            return
        self._ranges[step] = StepRange(axis, step, self.boundary_ns, end_ns)
        self.boundary_ns = end_ns
        self._spans.setdefault(step, [])
        self.changed.add(step)
        waiting, self._waiting = self._waiting, deque(maxlen=WAITING)
        for span in waiting:
            self.add(span)

    def take_changed(self) -> list[tuple[int, StepRange | None, list[Span]]]:
        """Return steps with their time range, if they have ended, and all their spans. Forget old steps."""
        found = [(step, self._ranges.get(step), self._spans[step]) for step in sorted(self.changed)]
        self.changed.clear()
        for step in list(self._spans)[:-OPEN_STEPS]:
            del self._spans[step]
            self._forgotten = step if self._forgotten is None else max(step, self._forgotten)
        for step in list(self._ranges)[: -4 * OPEN_STEPS]:
            del self._ranges[step]
        return found

    def _put(self, step: int, span: Span) -> None:
        self._spans.setdefault(step, []).append(span)
        self.changed.add(step)

    def _step_of(self, span: Span) -> int | None:
        named = span.labels.get(STEP, "")
        if named.removeprefix("-").isdecimal():
            return int(named)
        if span.end_ns > self.boundary_ns:
            return None
        ends = [one.end_ns for one in self._ranges.values()]
        return list(self._ranges)[bisect_left(ends, span.end_ns)]

"""Spans by step: those that name their step, and those that ended between two steps. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from typing import Final

from telemetry.backends.items import Span
from telemetry.backends.timeline.trace import STEP, StepRange

OPEN_STEPS: Final = 8
"""Steps that still take spans after they have ended: the newest ones."""
NAMED_STEPS: Final = 1_000
"""Steps that spans name and that have not ended. The oldest ones beyond that take no more spans."""
WAITING: Final = 50_000
"""Spans that wait for the end of their step. The oldest ones beyond that belong to no step."""


class SpansByStep:
    """A queue of spans, and the newest steps of one axis with their spans."""

    def __init__(self, axis: str = "") -> None:
        """`axis` is the axis whose steps count; empty for the first one that a step closes on."""
        self.axis = axis
        self.boundary_ns = 0
        """End of the newest step."""
        self._highest_forgotten: int | None = None
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
        elif not self._is_forgotten(step):
            self._spans.setdefault(step, []).append(span)
            self.changed.add(step)

    def close(self, axis: str, step: int, end_ns: int) -> None:
        """Register that a step has ended, and give it the spans that ended before it did."""
        self.axis = self.axis or axis
        if axis != self.axis or step in self._ranges or end_ns <= self.boundary_ns:
            return
        self._ranges[step] = StepRange(axis, step, self.boundary_ns, end_ns)
        self.boundary_ns = end_ns
        if not self._is_forgotten(step):
            self._spans.setdefault(step, [])
            self.changed.add(step)
        waiting, self._waiting = self._waiting, deque(maxlen=WAITING)
        for span in waiting:
            self.add(span)

    def take_changed(self) -> list[tuple[int, StepRange | None, list[Span]]]:
        """Return steps with their time range, if they have ended, and all their spans. Forget old steps."""
        found = [(step, self._ranges.get(step), self._spans[step]) for step in sorted(self.changed)]
        self.changed.clear()
        ended = [step for step in self._ranges if step in self._spans]
        named = [step for step in self._spans if step not in self._ranges]
        for step in (*ended[:-OPEN_STEPS], *named[:-NAMED_STEPS]):
            self.forget(step)
        for step in list(self._ranges)[: -4 * OPEN_STEPS]:
            del self._ranges[step]
        return found

    def forget(self, step: int) -> None:
        """Take no more spans for a step and for lower steps that are not there."""
        self._spans.pop(step, None)
        highest = self._highest_forgotten
        self._highest_forgotten = step if highest is None else max(step, highest)

    def _is_forgotten(self, step: int) -> bool:
        """Return whether a step takes no more spans: lower steps than a forgotten one have ended, too."""
        highest = self._highest_forgotten
        return step not in self._spans and highest is not None and step <= highest

    def _step_of(self, span: Span) -> int | None:
        named = span.labels.get(STEP, "")
        if named.removeprefix("-").isdecimal():
            return int(named)
        if span.end_ns > self.boundary_ns:
            return None
        ends = [one.end_ns for one in self._ranges.values()]
        return list(self._ranges)[bisect_left(ends, span.end_ns)]

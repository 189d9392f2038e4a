"""The windows of `in every`: all must hold, and the worst one is the evidence."""

from __future__ import annotations

import math
from typing import Final

from telemetry import formatting
from telemetry.formatting import number_of
from telemetry.gates.evidence import Evidence, heard_s
from telemetry.gates.explain import Verdict
from telemetry.gates.tree import Relation
from telemetry.wire.gates import GateResult

_EDGE_S: Final = 0.5


class Windows:
    """An accumulator for the verdicts of windows, which are added in order of time."""

    def __init__(self, relation: Relation, step_s: float, part: Evidence) -> None:
        """Start without windows. `part`: the evidence that is divided into windows."""
        self._relation = relation
        self._step_s = step_s
        self._part = part
        self._count = 0
        self._last = 0
        """Number of windows from the run's start up to the end of the last one."""
        self._failed = 0
        self._worst: tuple[float, Evidence, Verdict] | None = None
        self._unclear: tuple[Evidence, Verdict] | None = None
        """First inconclusive window."""
        self._unclear_count = 0

    def add(self, window: Evidence, verdict: Verdict) -> None:
        self._count += 1
        self._last = max(self._last, round(window.end_s / self._step_s))
        if verdict.outcome == "inconclusive":
            self._unclear_count += 1
            self._unclear = self._unclear or (window, verdict)
            return
        self._failed += verdict.outcome == "fail"
        badness = self._badness(verdict)
        if self._worst is None or badness > self._worst[0]:
            self._worst = badness, window, verdict

    def result(self, text: str) -> GateResult:
        """Return the result.

        One failed window fails the gate; else one inconclusive window makes it inconclusive.
        """
        step = f"{self._step_s:g} s"
        if not self._count:
            took = formatting.duration_s(self._part.end_s - self._part.start_s)
            return self._unknown(text, f"the history has no complete window of {step} in {took}")
        if self._failed and self._worst is not None:
            _, window, verdict = self._worst
            said = f"{verdict.reason} {_when(window)}; {self._failed:,} of {self._windows(step)} failed"
            return self._made(text, window, verdict._replace(outcome="fail", reason=said))
        if self._unclear is not None:
            window, verdict = self._unclear
            said = f"inconclusive in {self._unclear_count:,} of {self._windows(step)}, first {_when(window)}"
            return self._made(text, window, verdict._replace(reason=f"{said}: {verdict.reason}"))
        if missing := self._missing:
            due = number_of(self._due, "window")
            return self._unknown(text, f"the history lacks {missing:,} of {due} of {step}")
        assert self._worst is not None
        _, window, verdict = self._worst
        said = f"{verdict.reason} {_when(window)}, the worst of {self._windows(step)}"
        return self._made(text, window, verdict._replace(reason=said))

    @property
    def _missing(self) -> int:
        """Number of windows that the history lacks, before the last one or at the end of the run."""
        first = math.ceil((self._part.start_s - _EDGE_S) / self._step_s)
        return max(self._due - max(first, 0) - self._count, 0)

    @property
    def _due(self) -> int:
        """Expected number of windows, counted from the run's start."""
        heard = (heard_s(self._part.snapshot) - _EDGE_S) // self._step_s if self._part.whole else 0
        return max(self._last, int(heard))

    def _windows(self, step: str) -> str:
        return f"{number_of(self._count, 'window')} of {step}"

    def _made(self, text: str, window: Evidence, verdict: Verdict) -> GateResult:
        return verdict.result(text, window, windows=self._count, failed=self._failed)

    def _unknown(self, text: str, reason: str) -> GateResult:
        return GateResult(expression=text, outcome="inconclusive", reason=reason, windows=self._count)

    def _badness(self, verdict: Verdict) -> float:
        """Return the distance of the value beyond the limit."""
        assert verdict.left is not None
        assert verdict.right is not None
        beyond = verdict.left.value - verdict.right.value
        if self._relation in (">", ">="):
            return -beyond
        if self._relation == "==":
            return abs(beyond)
        return -abs(beyond) if self._relation == "!=" else beyond


def _when(window: Evidence) -> str:
    return f"from {window.start_s:.0f} s to {window.end_s:.0f} s"

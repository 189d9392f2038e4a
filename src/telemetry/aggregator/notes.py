"""Text facts of a run: marks, params, expectations, warnings. Bounded, because every snapshot repeats them."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, ClassVar

from telemetry import limits
from telemetry.common.formatting import number_of
from telemetry.wire.events import Expect, Mark, Params, Scalar
from telemetry.wire.snapshot import MarkStat


class Notes:
    STATE: ClassVar[Mapping[str, Any]] = {
        "marks": list[MarkStat],
        "params": dict[str, Scalar],
        "expected": dict[str, float],
        "_param_chars": int,
        "_warnings": dict[str, None],
        "_unsaid": int,
    }
    DERIVED: ClassVar[tuple[str, ...]] = ()

    def __init__(self) -> None:
        self.marks: deque[MarkStat] = deque(maxlen=limits.MARKS_KEPT)
        """Newest marks. The record stream has all of them."""
        self.params: dict[str, Scalar] = {}
        self.expected: dict[str, float] = {}
        self._param_chars = 0
        self._warnings: dict[str, None] = {}
        self._unsaid = 0

    def mark(self, producer: str, wall_ns: int, mark: Mark) -> None:
        self.marks.append(MarkStat(text=mark.text, time_ns=wall_ns, producer=producer, labels=mark.labels))

    def add_params(self, params: Params) -> None:
        """Set params. A later value replaces an earlier one.

        Beyond the limits, new params are only in the record stream.
        """
        for name, value in params.values.items():
            grows_by = _chars(name, value) - (_chars(name, self.params[name]) if name in self.params else 0)
            full = name not in self.params and len(self.params) >= limits.PARAMS_KEPT
            if full or self._param_chars + grows_by > limits.PARAM_CHARS_KEPT:
                self.warn(f"more than {limits.PARAMS_KEPT:,} params, or too long ones: the rest is not shown")
                continue
            self._param_chars += grows_by
            self.params[name] = value

    def expect(self, expect: Expect) -> None:
        """Set the expected total of a name. The newest total replaces earlier ones."""
        if expect.name in self.expected or len(self.expected) < limits.PARAMS_KEPT:
            self.expected[expect.name] = expect.total
        else:
            self.warn(f"more than {limits.PARAMS_KEPT:,} expected totals: the rest is not shown")

    def warn(self, message: str) -> None:
        """Add a warning once. Beyond the limit, only the number of further warnings is kept."""
        if message in self._warnings:
            return
        if len(self._warnings) < limits.WARNINGS_KEPT:
            self._warnings[message] = None
        else:
            self._unsaid += 1

    @property
    def warnings(self) -> list[str]:
        return [*self._warnings, *([f"and {number_of(self._unsaid, 'more warning')}"] if self._unsaid else [])]


def _chars(name: str, value: Scalar) -> int:
    return len(name) + (len(value) if isinstance(value, str) else 8)

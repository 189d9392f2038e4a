"""Rules of W&B: which step a logged value belongs to, and what the summary says. No I/O, no clock.

A row of W&B has a step of its own, which counts rows. `define_metric` can name another value of the row as the step
of a name, for example `train/global_step`. Here each such step metric is an axis of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from operator import index
from typing import Any, Final, NamedTuple

from telemetry import limits
from telemetry.client.signal_safe import Locked
from telemetry.client.step_axes import StepAxes
from telemetry.client.steps import DEFAULT_AXIS, number

_PLANS: Final = 1_000  # groups of names that are remembered; all are forgotten beyond that


OPERATIONS: Final = ("min", "max", "mean", "last", "first", "best", "copy", "none")
"""Summaries that `define_metric` takes. `best` and `copy` are those of older versions."""


@dataclass(frozen=True, slots=True)
class MetricRules:
    """Rules for a metric, or for all metrics that begin alike."""

    step_metric: str = ""
    has_synced_step: bool = False
    """True if a row without the step metric gets its last value."""
    operations: frozenset[str] = frozenset()
    has_summary: bool = True


UNDEFINED: Final = MetricRules()


class SummaryTally:
    """A summary of the numbers of one name."""

    __slots__ = ("_count", "_figures", "_operations", "_sum")

    def __init__(self, operations: frozenset[str]) -> None:
        self._operations = [operation for operation in OPERATIONS if operation in operations]
        self._figures: dict[str, float] = {}
        self._count = 0
        self._sum = 0.0

    def add(self, value: Any) -> None:
        try:
            plain = number(value)
        except Exception:  # noqa: BLE001 – a value may be anything; only numbers have a summary
            return
        if plain is None:
            return
        figures = self._figures
        self._count += 1
        self._sum += plain
        for operation in self._operations:
            if operation == "min":
                figures["min"] = min(plain, figures.get("min", plain))
            elif operation == "max":
                figures["max"] = max(plain, figures.get("max", plain))
            elif operation == "first":
                figures.setdefault("first", plain)
            elif operation == "mean":
                figures["mean"] = self._sum / self._count
            else:
                figures["last"] = plain

    def figures(self) -> dict[str, float]:
        return dict(self._figures)


def operations_of(summary: str | None, goal: str | None) -> frozenset[str]:
    """Return the operations of a definition. Raise ValueError for an unknown one."""
    operations = [word.strip().lower() for word in summary.split(",")] if summary else []
    for word in operations:
        if word not in OPERATIONS:
            raise ValueError(f"{word!r} is not a summary: use {', '.join(OPERATIONS)}")
    best = "max" if (goal or "").lower().startswith("max") else "min"
    return frozenset({"best": best, "copy": "last"}.get(word, word) for word in operations)


class LoggedPart(NamedTuple):
    """Values that belong to one step of one axis."""

    axis: str
    step: int
    values: Mapping[str, Any]


class _Group:
    """Names of one call that have the same step metric."""

    __slots__ = ("axis", "counted", "metric", "names")

    def __init__(self, metric: str) -> None:
        self.metric = metric
        """Empty for names that count by W&B's own step."""
        self.names: list[str] = []
        self.counted: list[str] = []
        """The names without the step metric itself, which goes with them."""
        self.axis = ""
        """The axis that all of them are on, if known."""

    def add(self, name: str) -> None:
        self.names.append(name)
        if name != self.metric:
            self.counted.append(name)


class LoggedRows(Locked):
    """The rows of one W&B run, as parts for the axes of steps. Thread-safe.

    A part is returned as soon as its step is certain. Only values whose step metric may still come wait for the end
    of their row.
    """

    def __init__(
        self,
        step: int = 0,
        *,
        suffix: str = "",
        keeps_summary: bool = False,
        say: Callable[[str], object] = lambda line: None,
    ) -> None:
        """Begin at a step of W&B. `suffix` keeps the axes of several runs of one process apart.

        With `keeps_summary`, `summary` has the last value of every name, else only what `define_metric` asked for.
        `say` gets a line for the user about each step metric whose values can't be steps.
        """
        super().__init__()
        self.step = step
        """The step of the open row, or of the next one."""
        self.summary: dict[str, Any] = {}
        self.axis = DEFAULT_AXIS + suffix
        """The axis of W&B's own step."""
        self._suffix = suffix
        self._say = say
        self._keeps_summary = keeps_summary
        self._defined: dict[str, MetricRules] = {}
        self._prefixes: dict[str, MetricRules] = {}
        self._axes: dict[str, StepAxes] = {}
        """Axes by step metric."""
        self._latest: dict[str, int] = {}
        """Newest step by step metric."""
        self._highest: dict[str, int] = {}
        self._plans: dict[tuple[str, ...], list[_Group]] = {}
        self._steps: dict[str, int | None] = {}
        """Steps that the open row has by step metric. None if the value can't be a step."""
        self._waiting: dict[str, Any] = {}
        self._unusable: set[str] = set()
        """Step metrics that had a value which can't be a step."""
        self._has_summaries = False
        """True once a definition asked for a summary other than the last value."""
        self._summaries: dict[str, SummaryTally | bool] = {}
        """Tally of each name. True stands for the last value, False for no summary."""

    # --- definitions -----------------------------------------------------------------------------

    def define(
        self,
        name: str,
        *,
        step_metric: str | None = None,
        step_sync: bool | None = None,
        summary: str | None = None,
        goal: str | None = None,
        overwrite: bool | None = None,
    ) -> None:
        """Define a metric. Raise ValueError for a wrong name or summary.

        A later definition of the same name changes what it names, or replaces everything with `overwrite`.
        """
        stem = name.removesuffix("*")
        if not name or "*" in stem:
            raise ValueError(f"{name!r} is not a metric: a name, or the beginning of names with * at its end")
        operations = operations_of(summary, goal)
        with self._lock:
            definitions = self._prefixes if name.endswith("*") else self._defined
            before = UNDEFINED if overwrite else definitions.get(stem, UNDEFINED)
            is_synced = step_sync if step_sync is not None else step_metric is not None
            definitions[stem] = replace(
                before,
                step_metric=step_metric or before.step_metric,
                has_synced_step=before.has_synced_step or is_synced,
                operations=before.operations | (operations - {"none"}),
                has_summary="none" not in operations if operations else before.has_summary,
            )
            if step_metric and step_metric not in self._axes:
                self._axes[step_metric] = StepAxes(step_metric + self._suffix)
                self._latest[step_metric] = 0
            self._plans.clear()
            self._has_summaries = self._has_summaries or bool(operations)
            self._summaries = {
                name: tally
                for name, tally in self._summaries.items()
                if isinstance(tally, SummaryTally) and name != stem
            }

    def _definition(self, name: str) -> MetricRules:
        """Return the rules for a name: its own, else those of the longest beginning that was defined.

        A name keeps the rules that it was first logged with. Names with an underscore first have only their own.
        """
        definition = self._defined.get(name)
        if definition is None:
            stems = () if name.startswith("_") else tuple(stem for stem in self._prefixes if name.startswith(stem))
            definition = self._prefixes[max(stems, key=len)] if stems else UNDEFINED
            if stems and len(self._defined) < limits.STEP_NAMES_KNOWN:
                self._defined[name] = definition
        return definition

    # --- rows ------------------------------------------------------------------------------------

    def log(self, values: Mapping[str, Any], step: Any = None, commit: bool | None = None) -> list[LoggedPart]:
        """Return what a call of `wandb.log` records. `values` is flat. Raise TypeError for an impossible step.

        A step that is behind the open row is kept as a correction, which W&B would drop.
        """
        with self._lock:
            parts: list[LoggedPart] = []
            if step is not None:
                step = index(step)
                if step > self.step:
                    parts = self._close_row()
                    self.step = step
                elif step < self.step:
                    return self._late(values, step)
            ends = bool(commit) or (commit is None and step is None)
            if self._has_summaries:
                self._summarize(values)
            elif self._keeps_summary:
                self.summary.update(values)
            if self._axes:
                self._add(parts, values)
                if not ends:
                    self._add_waiting(parts)
            elif values:
                parts.append(LoggedPart(self.axis, self.step, values))
            if ends:
                parts += self._close_row()
                self.step += 1
            return parts

    def whole_row(self, values: Mapping[str, Any]) -> int | None:
        """Return the step of a row that one call logs, if all its names count by W&B's own step. Else return None.

        This is the short way of `log` for a call without step and commit.
        """
        if self._axes or self._has_summaries:
            return None
        with self._lock:
            if self._keeps_summary:
                self.summary.update(values)
            step = self.step
            self.step = step + 1
            return step

    def close(self) -> list[LoggedPart]:
        """Return what still waits for the end of its row."""
        with self._lock:
            return self._close_row()

    def _add(self, parts: list[LoggedPart], values: Mapping[str, Any]) -> None:
        for group in self._plan(values):
            metric = group.metric
            if not metric:
                self._append(parts, values, group.names, self.axis, self.step)
                continue
            if metric in values:
                self._steps[metric] = self._step_of(metric, values[metric])
            if metric in self._steps:
                self._append_on(parts, group, self._steps[metric], values)
            else:
                self._waiting.update((name, values[name]) for name in group.names)
                continue
            if self._waiting:  # the newer value replaces the one that waits
                for name in group.names:
                    self._waiting.pop(name, None)

    def _add_waiting(self, parts: list[LoggedPart]) -> None:
        """Add the values that waited for a step metric which is in the row by now."""
        if not self._waiting:
            return
        waiting = dict(self._waiting)
        for group in self._plan(waiting):
            if group.metric in self._steps:
                self._append_on(parts, group, self._steps[group.metric], waiting)
                for name in group.names:
                    self._waiting.pop(name, None)

    def _close_row(self) -> list[LoggedPart]:
        parts: list[LoggedPart] = []
        self._add_waiting(parts)
        if self._waiting:
            waiting, self._waiting = self._waiting, {}
            for group in self._plan(waiting):
                is_synced = any(self._definition(name).has_synced_step for name in group.names)
                self._append_on(parts, group, self._latest[group.metric] if is_synced else None, waiting)
        if self._steps:
            self._steps = {}
        return parts

    def _late(self, values: Mapping[str, Any], step: int) -> list[LoggedPart]:
        """Return the values of a call whose step is behind the open row. The open row stays as it is."""
        parts: list[LoggedPart] = []
        for group in self._plan(values):
            metric = group.metric
            at = _whole(values[metric]) if metric in values and metric not in self._unusable else None
            if at is None:
                self._append(parts, values, group.names, self.axis, step)
            else:
                self._append_on(parts, group, at, values)
        return parts

    def _step_of(self, metric: str, value: Any) -> int | None:
        """Return the step that a value of a step metric stands for, or None."""
        at = _whole(value) if metric not in self._unusable else None
        if at is not None:
            self._latest[metric] = at
        elif metric not in self._unusable:
            self._unusable.add(metric)
            self._say(
                f"the step metric {metric!r} has the value {value!r}, but steps are whole numbers. Its metrics "
                f"count by the steps of W&B from now on; log whole numbers as {metric!r} to have them by those"
            )
        return at

    def _append_on(self, parts: list[LoggedPart], group: _Group, at: int | None, values: Mapping[str, Any]) -> None:
        """Add values at a step of their step metric, or at W&B's own step if there is none."""
        if at is None:
            self._append(parts, values, group.names, self.axis, self.step)
            return
        axes, names = self._axes[group.metric], group.counted
        if at >= self._highest.get(group.metric, at):
            self._highest[group.metric] = at
            if group.axis and axes.axis(names[0], at) == group.axis:  # then so are the other names
                self._append(parts, values, group.names, group.axis, at)
                return
        else:
            self._plans.clear()  # a name may get another axis now
        by_axis = axes.split(names, at) if names else {group.metric + self._suffix: []}
        if len(names) < len(group.names):
            next(iter(by_axis.values())).append(group.metric)
        group.axis = next(iter(by_axis)) if names and len(by_axis) == 1 else ""
        for axis, some in by_axis.items():
            self._append(parts, values, some, axis, at)

    @staticmethod
    def _append(parts: list[LoggedPart], values: Mapping[str, Any], names: list[str], axis: str, step: int) -> None:
        if len(names) == len(values):
            parts.append(LoggedPart(axis, step, values))
        elif names:
            parts.append(LoggedPart(axis, step, {name: values[name] for name in names}))

    def _plan(self, values: Mapping[str, Any]) -> list[_Group]:
        """Return the names by step metric."""
        names = tuple(values)
        plan = self._plans.get(names)
        if plan is None:
            groups: dict[str, _Group] = {}
            for name in names:
                metric = name if name in self._axes else self._definition(name).step_metric
                groups.setdefault(metric, _Group(metric)).add(name)
            plan = list(groups.values())
            if len(self._plans) >= _PLANS:
                self._plans.clear()
            self._plans[names] = plan
        return plan

    # --- the summary -----------------------------------------------------------------------------

    def _summarize(self, values: Mapping[str, Any]) -> None:
        for name, value in values.items():
            tally = self._summaries.get(name)
            if tally is None:
                self._summaries[name] = tally = self._begun_summary(self._definition(name))
            if isinstance(tally, SummaryTally):
                tally.add(value)
                self.summary[name] = tally.figures()
            elif tally:
                self.summary[name] = value

    def _begun_summary(self, definition: MetricRules) -> SummaryTally | bool:
        if definition.has_summary and definition.operations:
            return SummaryTally(definition.operations)
        return definition.has_summary and self._keeps_summary

    def defined_summary(self) -> dict[str, dict[str, float]]:
        """Return the summaries that definitions asked for, by name."""
        with self._lock:
            return {
                name: tally.figures() for name, tally in self._summaries.items() if isinstance(tally, SummaryTally)
            }


def _whole(value: Any) -> int | None:
    """Return the value of a step metric as a step. Return None if it is not a whole number."""
    if type(value) is int:
        return value
    try:
        plain = None if isinstance(value, bool | str) else number(value)
    except Exception:  # noqa: BLE001 – a value may be anything; only whole numbers are steps
        return None
    return int(plain) if plain is not None and plain.is_integer() else None

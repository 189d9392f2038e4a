"""The `timeline` backend: a trace file for each step, and one for the whole run at its end."""

from __future__ import annotations

import os
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from math import nan
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final

import msgspec
from msgspec import Meta, Struct

from telemetry.backends.backend import NotConfigured, RunFacts
from telemetry.backends.items import Item, Live, Mark, Reading, Span, Step
from telemetry.backends.jsonl import line
from telemetry.backends.timeline.trace import STEP, StepRange, TraceIds, document, where_spans_are, whole_document
from telemetry.common.formatting import number_of
from telemetry.limits import MIB
from telemetry.store.append_file import AS_UMASK, AppendFile, describe
from telemetry.store.atomic import write_atomic

OPEN_STEPS: Final = 8
"""Steps that still take spans after they have ended: the newest ones."""
NAMED_STEPS: Final = 1_000
"""Steps that spans name and that have not ended. The oldest ones beyond that take no more spans."""
WAITING: Final = 50_000
"""Spans that wait for the end of their step. The oldest ones beyond that belong to no step."""
_FOLDER: Final = "timeline"
_WORK: Final = "timeline.jsonl"
_KINDS: Final[dict[str, type[Any]]] = {"span": Span, "mark": Mark, "step": Step, "reading": Reading}


class TimelineOptions(Struct, frozen=True, forbid_unknown_fields=True):
    dir: str = ""
    """Folder of the files `timeline_step_N.json`; empty for `timeline/step_N.json` in the run directory."""
    axis: str = ""
    """Axis whose steps get a file each; empty for the first axis that closes a step."""
    keep: Annotated[int, Meta(ge=0)] = 1_000
    """Files to keep, of the highest steps; 0 keeps all."""
    run_mb: Annotated[int, Meta(ge=0, le=1_024)] = 64
    """MiB of spans and marks for the file of the whole run. Later ones are only in files of steps."""


class TimelineBackend:
    """A backend that writes trace files. They are complete at any time: each replaces the one before it."""

    Options: ClassVar[type[Struct]] = TimelineOptions
    takes: ClassVar[tuple[type[Item], ...]] = (Span, Mark, Step, Reading, Live)
    idempotent: ClassVar[bool] = True

    say: Callable[[str], object]
    """Function that prints a line."""

    def __init__(self, options: TimelineOptions, place: Path) -> None:
        self.say = print
        self._options = options
        self._place = place
        self._steps = SpansByStep(options.axis)
        self._names = TraceIds()
        self._run = RunFacts("", "", 0, None)
        self._folder: Path | None = None
        self._file: AppendFile | None = None
        self._size = 0
        self._left_out = 0
        """Items that the file of the run has no room for."""
        self._has_nodes = False
        self._unflushed: set[str] = set()
        """Keys of items since the last flush."""
        self._kept: list[int] = []
        """Steps that have a file, ascending."""

    def open(self, run: RunFacts, state: dict[str, Any]) -> None:
        options = self._options
        default = run.directory / _FOLDER if run.directory is not None else self._place
        self._run = run
        self._folder = Path(os.path.abspath(options.dir)) if options.dir else default
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._file = AppendFile(self._place / _WORK, AS_UMASK)
        except OSError as error:
            raise NotConfigured(f"timeline: {describe(error)}", hint="choose another folder with dir=") from error
        self._size = int(state.get("size", 0))
        self._left_out = int(state.get("left_out", 0))
        self._kept = sorted(int(step) for step in state.get("kept", []))
        self._file.cut(self._size)
        self._steps = SpansByStep(str(state.get("axis", options.axis)))
        for item in self._items():
            self._take(item)
            if isinstance(item, Step):
                self._steps.take_changed()  # they have their files
        self._steps.take_changed()
        if self._left_out:  # the work file lacks spans of these steps, and their files have them
            for step in self._kept:
                self._steps.forget(step)

    def write(self, items: Sequence[Item]) -> None:
        file = self._opened()
        new: list[Item] = []
        for item in items:
            if isinstance(item, Live):
                self._names.producers.update((stat.producer, stat) for stat in item.snapshot.producers)
                self._has_nodes = bool(item.snapshot.nodes)
            elif item.key not in self._unflushed:  # else a flush has failed, and the items are written again
                new.append(item)
        lines, size = [], file.size
        for encoded in map(line, new):
            size += len(encoded)
            if size <= self._options.run_mb * MIB:
                lines.append(encoded)
        file.append([b"".join(lines)])
        self._left_out += len(new) - len(lines)
        for item in new:
            self._unflushed.add(item.key)
            self._take(item)

    def flush(self) -> None:
        self._write_steps()
        self._size = self._opened().size
        self._unflushed.clear()

    def state(self) -> dict[str, Any]:
        return {"size": self._size, "axis": self._steps.axis, "left_out": self._left_out, "kept": self._kept}

    def close(self, *, final: bool) -> None:
        if self._file is None:
            return
        if final:
            self._write_steps()
            self._write_run()
        self._file.close()

    def where(self) -> str:
        return str(self._folder) if self._folder is not None else ""

    # --- files -----------------------------------------------------------------------------------

    def _write_steps(self) -> None:
        for step, time_range, spans in self._steps.take_changed():
            facts = {**self._facts(), "axis": self._steps.axis, "step": step}
            steps = [time_range] if time_range is not None else []
            whole = document(self._names, self._run.started_ns, spans=spans, steps=steps, facts=facts)
            write_atomic(self._path(step), whole, durable=False)
            if step not in self._kept:
                insort(self._kept, step)
        while self._options.keep and len(self._kept) > self._options.keep:
            self._path(self._kept.pop(0)).unlink(missing_ok=True)

    def _write_run(self) -> None:
        facts = {**self._facts(), **({"left_out": self._left_out} if self._left_out else {})}
        whole = whole_document(self._names, self._run.started_ns, self._items(), facts)
        assert self._folder is not None
        write_atomic(self._folder / "timeline.json", whole)
        if not self._left_out and not any(isinstance(item, Span) for item in self._items()):
            self.say(f"the run has no spans, so its files have none; {where_spans_are(has_nodes=self._has_nodes)}")
        if self._left_out:
            self.say(
                f"timeline.json has no room for {number_of(self._left_out, 'item')}; the files of the steps have "
                "all spans; raise run_mb= to keep more"
            )

    def _facts(self) -> dict[str, Any]:
        return {"run_id": self._run.run_id, "run": self._run.name}

    def _path(self, step: int) -> Path:
        assert self._folder is not None
        return self._folder / (f"timeline_step_{step}.json" if self._options.dir else f"step_{step}.json")

    # --- helpers ---------------------------------------------------------------------------------

    def _take(self, item: Item) -> None:
        if isinstance(item, Span):
            self._steps.add(item)
        elif isinstance(item, Step) and not item.revision:
            self._steps.close(item.axis, item.step, item.time_ns)

    def _items(self) -> Iterator[Item]:
        """Yield the items of the work file."""
        with (self._place / _WORK).open("rb") as file:
            for encoded in file:
                kind = _KINDS[msgspec.json.decode(encoded, type=_ItemKind).item]
                yield _decoded_step(encoded) if kind is Step else msgspec.json.decode(encoded, type=kind)

    def _opened(self) -> AppendFile:
        assert self._file is not None
        return self._file


class _ItemKind(Struct):
    item: str


def _decoded_step(encoded: bytes) -> Step:
    """Decode a step of the work file. JSON has null for its values that are not finite."""
    fields = msgspec.json.decode(encoded)
    fields["values"] = {name: nan if value is None else value for name, value in fields["values"].items()}
    return msgspec.convert(fields, Step)


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
        changed_steps = [(step, self._ranges.get(step), self._spans[step]) for step in sorted(self.changed)]
        self.changed.clear()
        ended = [step for step in self._ranges if step in self._spans]
        named = [step for step in self._spans if step not in self._ranges]
        for step in (*ended[:-OPEN_STEPS], *named[:-NAMED_STEPS]):
            self.forget(step)
        for step in list(self._ranges)[: -4 * OPEN_STEPS]:
            del self._ranges[step]
        return changed_steps

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
        ends = [step_range.end_ns for step_range in self._ranges.values()]
        return list(self._ranges)[bisect_left(ends, span.end_ns)]

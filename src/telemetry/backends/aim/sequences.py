"""Bulk writes to Aim's sequences, with the values' own times.

`Run.track` stamps a value with the time of the call and takes ten times as long, because it deletes existing data
of a step first. This module uses the internals of `Run.track` for many values of a name at once. A step has a
single value; a later one replaces it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from telemetry.backends.backend import NotConfigured

_PARTS: Final = ("sequence_infos", "_init_sequence_info", "_update_context_data", "_update_sequence_info", "_track")
_FIELDS: Final = ("val_view", "step_view", "epoch_view", "time_view")


class Point(NamedTuple):
    step: int
    value: float
    time_s: float
    """Wall-clock time in seconds."""


class Sequences:
    """The sequences of a run that is open for writing. Writes survive the end of this process once they return."""

    def __init__(self, run: Any) -> None:
        """Open the sequences. Raises NotConfigured if this release of Aim has other internals."""
        self._tracker = run._tracker
        lacks = [part for part in _PARTS if not hasattr(self._tracker, part)]
        if lacks:
            raise NotConfigured(
                f"this release of aim is not supported: it lacks {', '.join(lacks)}",
                hint="pip install 'aim==3.29.*'",
            )
        from aim.storage import encoding
        from aim.storage.context import Context

        self._meta = run.repo.request_container("meta", run.hash, read_only=False)
        self._container = run.repo.request_container("seqs", run.hash, read_only=False)
        self._encoding = encoding
        self._context = Context

    def write(self, context: Mapping[str, str], points: Mapping[str, Sequence[Point]]) -> None:
        """Write numbers by name, in the given order."""
        where = self._context(dict(context))
        with _at_once(self._meta), _at_once(self._container) as batch:
            self._tracker._update_context_data(where)
            for name, ours in points.items():
                if ours:
                    self._write(where.idx, name, ours, batch)

    def put(self, context: Mapping[str, str], name: str, step: int, value: object, time_s: float) -> None:
        """Write an object of Aim's, such as a text."""
        self._tracker._track(value, time_s, name, step, None, context=dict(context))

    def _write(self, context: int, name: str, points: Sequence[Point], batch: Any) -> None:
        info = self._tracker.sequence_infos[context, name]
        if not info.initialized:
            self._tracker._init_sequence_info(context, name, points[0].value)
        points = list({point.step: point for point in points}.values())  # the last value of a step counts
        ends = telling(points)
        newest = max(ends, key=_step)
        if info.count == newest.step + 1:
            info.count = newest.step  # a correction of the newest step is the newest value
        for point in ends:
            self._tracker._update_sequence_info(context, name, point.value, point.step)
        values, steps, epochs, times = (getattr(info, field).tree.container for field in _FIELDS)
        encode = self._encoding.encode
        nothing = encode(None)
        for step, value, time_s in points:
            key = self._encoding.encode_path(info.step_hash_fn(step))
            values.set(key, encode(value), store_batch=batch)
            steps.set(key, encode(step), store_batch=batch)
            epochs.set(key, nothing, store_batch=batch)
            times.set(key, encode(time_s), store_batch=batch)


@contextmanager
def _at_once(container: Any) -> Iterator[Any]:
    """Collect all writes to a database and commit them together at the end."""
    batch = container.batch()
    container.batch = lambda: batch
    container.commit = lambda _: None
    try:
        yield batch
    finally:
        del container.batch, container.commit
    container.commit(batch)


def telling(points: Sequence[Point]) -> list[Point]:
    """Return the points that define first, last, minimum and maximum of a sequence, in this order, one per step."""
    found = [points[0], max(points, key=_step)]
    real = [point for point in points if not math.isnan(point.value)]
    if real:
        found += [min(real, key=_value), max(real, key=_value)]
    return list({point.step: point for point in found}.values())


def _step(point: Point) -> int:
    return point.step


def _value(point: Point) -> float:
    return point.value

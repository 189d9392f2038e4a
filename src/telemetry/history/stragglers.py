"""Slow ranks of a run, from the closed steps of its record log or of its record stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from telemetry import limits
from telemetry.common import formatting
from telemetry.common.formatting import number_of, printable
from telemetry.errors import RunDirectoryError
from telemetry.statistics.step_windows import MapColumn
from telemetry.statistics.stragglers import CONFIDENCE, Slow, StragglerDetector
from telemetry.store.records import FILE_NAME, RecordLog
from telemetry.store.run_directory import RunDirectory
from telemetry.wire import stragglers as words
from telemetry.wire.events import ClosedStep, Rank
from telemetry.wire.report import LagMap, Straggler, Stragglers
from telemetry.wire.snapshot import MetricsSnapshot

ROWS: Final = 64
COLUMNS: Final = 60
"""Largest size of a map in a report: more ranks and steps are put together."""
_PLACES: Final = 4
_LEAST_SCALE: Final = 0.05
"""Lag that is drawn darkest if all are smaller, so that noise stays pale."""


class StragglerWatch:
    """A collector of closed steps that finds slow ranks on each axis with ranked work and wait."""

    def __init__(self) -> None:
        self._detectors: dict[str, StragglerDetector] = {}
        self._names: dict[str, tuple[str, str]] = {}

    def add(self, step: ClosedStep, params: Mapping[str, object]) -> bool:
        """Add a closed step. Return True if that may have changed the verdict. `params` are those of the run."""
        if not step.ranks or step.revision:
            return False
        names = words.WORK, words.WAIT
        if words.WAIT not in step.ranks:
            names = words.pair(step.axis, params)
        waits = step.ranks.get(names[1])
        if waits is None:
            return False
        detector = self._detectors.setdefault(step.axis, StragglerDetector())
        works = step.ranks.get(names[0], ())
        return detector.add(step.step, _seconds(names[0], works), _seconds(names[1], waits))

    def found(self, snapshot: MetricsSnapshot, rows: int = ROWS, columns: int = COLUMNS) -> list[Stragglers]:
        """Return the verdict on each axis, with maps of at most this size. The snapshot has the names of ranks."""
        called = _Names(snapshot)
        return [
            Stragglers(
                axis=axis,
                ranks=len(detector.ranks),
                steps=detector.steps,
                step_s=detector.step_s,
                confidence=CONFIDENCE,
                slow=[_straggler(slow, called) for slow in detector.verdict()],
                map=lag_map(detector, called, rows, columns),
            )
            for axis, detector in self._detectors.items()
        ]


def stragglers(directory: RunDirectory, snapshot: MetricsSnapshot) -> list[Stragglers]:
    """Return the slow ranks of a run. Return nothing for a large or unreadable record log."""
    watch = StragglerWatch()
    try:
        if (directory.records / FILE_NAME).stat().st_size > limits.READ_SPANS_BYTES:
            return []
        for record in RecordLog(directory.records).readable():
            if isinstance(record.record, ClosedStep):
                watch.add(record.record, snapshot.params)
    except (OSError, RunDirectoryError):
        return []
    return watch.found(snapshot)


def has_work_and_wait(snapshot: MetricsSnapshot) -> bool:
    """Return whether a run has steps with work and wait."""
    return any(words.pair(stat.name, snapshot.params)[1] in stat.values for stat in snapshot.axes)


# --- words -------------------------------------------------------------------------------------------


def sentences(verdict: Stragglers) -> list[str]:
    """Return a line for each slow rank, or the reason why none is named."""
    if verdict.slow:
        return [sentence(straggler, verdict) for straggler in verdict.slow]
    return [
        f"no rank slows the others on axis {printable(verdict.axis)}: {number_of(verdict.steps, 'step')} of "
        f"{number_of(verdict.ranks, 'rank')}, {formatting.percent(verdict.confidence)} confidence"
    ]


def sentence(straggler: Straggler, verdict: Stragglers) -> str:
    """Return a line such as `rank 37 costs 387 ms a step, 6.1 %: it works 9.8 % longer than the others`."""
    costs = "costs" if straggler.now else "cost"
    when = _when(straggler, verdict)
    why = f"it works {formatting.percent(straggler.excess)} longer than the others" if straggler.excess > 0 else ""
    last = f"last in {straggler.last_in:,} of {number_of(straggler.windows, 'window')}"
    facts = ", ".join(part for part in (why, when, last) if part)
    cost = formatting.duration_s(straggler.cost_s)
    return printable(f"{straggler.name} {costs} {cost} a step, {formatting.percent(straggler.cost)}: {facts}")


def _when(straggler: Straggler, verdict: Stragglers) -> str:
    if straggler.always:
        return "from the first steps on" if straggler.now else f"up to {verdict.axis} {straggler.last_step:,}"
    since = f"since {verdict.axis} {straggler.first_step:,}"
    return since if straggler.now else f"from {verdict.axis} {straggler.first_step:,} to {straggler.last_step:,}"


class _Names:
    """Names of ranks for people."""

    def __init__(self, snapshot: MetricsSnapshot) -> None:
        self._producers = {stat.producer: stat for stat in snapshot.producers}
        names = [stat.name for stat in snapshot.producers]
        self._unique = {name for name in names if name and names.count(name) == 1} if len(names) < 1_000 else set()

    def of(self, rank: Rank) -> str:
        if isinstance(rank, int):
            return f"rank {rank}"
        stat = self._producers.get(rank)
        if stat is None:
            return rank
        if stat.name in self._unique:
            return stat.name
        return f"{stat.name or rank} pid {stat.pid}" if stat.pid else stat.name or rank


# --- figures -----------------------------------------------------------------------------------------


def _straggler(slow: Slow, called: _Names) -> Straggler:
    rank = slow.rank if isinstance(slow.rank, int | str) else str(slow.rank)
    return Straggler(
        rank=rank,
        name=called.of(rank),
        cost_s=slow.cost_s,
        cost=slow.share,
        step_s=slow.step_s,
        lag_s=slow.lag_s,
        excess=slow.excess,
        work_s=slow.work_s,
        others_s=slow.others_s,
        least_lag=_known(slow.best),
        first_step=slow.first_step,
        last_step=slow.last_step,
        steps=slow.steps,
        windows=slow.windows,
        last_in=slow.last_in,
        always=slow.always,
        now=slow.now,
    )


def lag_map(detector: StragglerDetector, called: _Names, rows: int, columns: int) -> LagMap:
    """Return the map of rank and step. A cell of several ranks has the largest lag of them, so that one is seen."""
    ranks = sorted(range(len(detector.ranks)), key=lambda index: _order(detector.ranks[index]))
    parts = _parts(len(ranks), rows)
    groups = [[ranks[index] for index in part] for part in parts]
    map_columns = detector.map.columns
    steps = [[map_columns[index] for index in part] for part in _parts(len(map_columns), columns)]
    return LagMap(
        ranks=[_called(group, detector.ranks, called) for group in groups],
        steps=[part[0].first_step for part in steps],
        last_step=map_columns[-1].last_step if map_columns else None,
        lags=[[_cell(group, part) for part in steps] for group in groups],
    )


def scale(lags: LagMap) -> float:
    """Return the lag that is drawn darkest: the largest one of the map, but at least 5 % of a step."""
    return max([_LEAST_SCALE, *(lag for row in lags.lags for lag in row if lag is not None)])


def heat(lag: float, most: float) -> float:
    """Return how dark a lag is drawn: from 0, not later than the median rank, to 1."""
    return min(max(lag / most, 0.0), 1.0)


def _cell(ranks: Sequence[int], columns: Sequence[MapColumn]) -> float | None:
    """Return the mean lag over the columns of the rank that has the largest."""
    most: float | None = None
    for rank in ranks:
        lags = [float(column.lags[rank]) for column in columns if rank < len(column.lags)]
        finite = [lag for lag in lags if np.isfinite(lag)]
        if finite:
            mean = sum(finite) / len(finite)
            most = mean if most is None else max(most, mean)
    return None if most is None else round(most, _PLACES)


def _called(group: Sequence[int], ranks: Sequence[object], called: _Names) -> str:
    first, last = (ranks[index] for index in (group[0], group[-1]))
    if len(group) == 1:
        return printable(called.of(first if isinstance(first, int | str) else str(first)))
    if isinstance(first, int) and isinstance(last, int):
        return f"ranks {first} to {last}"
    return f"{len(group)} ranks"


def _parts(count: int, most: int) -> Iterator[range]:
    """Yield ranges of about equal length that cover `range(count)`, at most `most`."""
    parts = min(count, most)
    for part in range(parts):
        yield range(part * count // parts, (part + 1) * count // parts)


def _order(rank: object) -> tuple[bool, int, str]:
    return (False, rank, "") if isinstance(rank, int) else (True, 0, str(rank))


def _seconds(name: str, values: Iterable[tuple[Rank, float]]) -> Iterable[tuple[Rank, float]]:
    unit = words.seconds(name)
    return values if unit == 1.0 else [(rank, value * unit) for rank, value in values]


def _known(value: float) -> float | None:
    return None if np.isnan(value) else value

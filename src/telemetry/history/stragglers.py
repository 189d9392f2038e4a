"""Causes of slow steps of a run, from the closed steps of its record log or of its record stream."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from telemetry import limits
from telemetry.common import formatting
from telemetry.common.formatting import number_of, printable
from telemetry.errors import RunDirectoryError
from telemetry.statistics.replay import NODE, STAGE, Coordinates, order_of
from telemetry.statistics.step_windows import MapColumn
from telemetry.statistics.stragglers import CONFIDENCE, LEAST_COST, Slow, StragglerDetector
from telemetry.store.records import FILE_NAME, RecordLog
from telemetry.store.run_directory import RunDirectory
from telemetry.store.stragglers_file import StragglersFile, read_stragglers
from telemetry.wire import stragglers as words
from telemetry.wire.events import Axis, ClosedStep, Groups, Rank
from telemetry.wire.report import LagFold, LagMap, LeastCause, Straggler, Stragglers
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
        self._groups: dict[str, dict[Rank, Groups]] = {}
        """Axis → rank → its groups, as far as they came before the first step."""

    def declare(self, axis: Axis, producer: str) -> None:
        """Add the groups that a process declares for its rank."""
        if not axis.groups:
            return
        rank: Rank = producer if axis.rank is None else axis.rank
        detector = self._detectors.get(axis.name)
        if detector is not None:
            detector.group(rank, axis.groups)
            return
        groups = self._groups.setdefault(axis.name, {})
        groups[rank] = {**groups.get(rank, {}), **axis.groups}

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
        detector = self._detectors.get(step.axis)
        if detector is None:
            detector = self._detectors[step.axis] = StragglerDetector()
            for rank, groups in self._groups.pop(step.axis, {}).items():
                detector.group(rank, groups)
        works = step.ranks.get(names[0], ())
        return detector.add(step.step, _seconds(names[0], works), _seconds(names[1], waits))

    def found(self, snapshot: MetricsSnapshot, rows: int = ROWS, columns: int = COLUMNS) -> list[Stragglers]:
        """Return the verdict on each axis, with maps of at most this size. The snapshot has the names of ranks."""
        called = _Names(snapshot)
        return [_verdict(axis, detector, called, rows, columns) for axis, detector in self._detectors.items()]


def stragglers(directory: RunDirectory, snapshot: MetricsSnapshot) -> list[Stragglers]:
    """Return the slow ranks of a run: those that its aggregator found, or else those that its record log shows.

    A large record log is not read again. Then axes are unjudged, unless the aggregator judged most of it.
    """
    watch = StragglerWatch()
    try:
        log_bytes = (directory.records / FILE_NAME).stat().st_size
        judged = _judged(directory)
        if judged is not None and not judged.first_record and judged.log_bytes == log_bytes:
            return judged.stragglers
        if log_bytes > limits.READ_SPANS_BYTES:
            return judged.stragglers if judged is not None else _unjudged(snapshot, log_bytes)
        for record in RecordLog(directory.records).readable():
            if isinstance(record.record, ClosedStep):
                watch.add(record.record, snapshot.params)
            elif isinstance(record.record, Axis):
                watch.declare(record.record, record.producer)
    except (OSError, RunDirectoryError):
        return []
    return watch.found(snapshot)


def _judged(directory: RunDirectory) -> StragglersFile | None:
    """Return the verdicts of the aggregator; None if there are none, or if they can't be read."""
    try:
        return read_stragglers(directory)
    except RunDirectoryError:
        return None


def _unjudged(snapshot: MetricsSnapshot, log_bytes: int) -> list[Stragglers]:
    why = f"the record log has {formatting.size(log_bytes)}, and the aggregator did not judge the steps"
    axes = (stat for stat in snapshot.axes if words.pair(stat.name, snapshot.params)[1] in stat.values)
    return [Stragglers(axis=stat.name, ranks=0, steps=0, step_s=0.0, confidence=0.0, unjudged=why) for stat in axes]


def has_work_and_wait(snapshot: MetricsSnapshot) -> bool:
    """Return whether a run has steps with work and wait."""
    return any(words.pair(stat.name, snapshot.params)[1] in stat.values for stat in snapshot.axes)


# --- words -------------------------------------------------------------------------------------------


def sentences(verdict: Stragglers) -> list[str]:
    """Return a line for each cause, or the line that no rank is named, with what would have been."""
    if verdict.unjudged:
        return [f"slow ranks on axis {printable(verdict.axis)} are not known: {verdict.unjudged}"]
    if not verdict.slow:
        judged = f"{number_of(verdict.steps, 'step')} of {number_of(verdict.ranks, 'rank')}"
        sure = f"{formatting.percent(verdict.confidence)} confidence{_sight(verdict)}"
        return [f"no rank slows the others on axis {printable(verdict.axis)}: {judged}, {sure}"]
    lines = [sentence(straggler, verdict) for straggler in verdict.slow]
    if verdict.together_s is None or verdict.together is None:
        return lines
    count = sum(straggler.now for straggler in verdict.slow)
    cost = f"{formatting.duration_s(verdict.together_s)} a step, {formatting.percent(verdict.together)}"
    return [f"{count} causes cost {cost} together", *lines]


def sentence(straggler: Straggler, verdict: Stragglers) -> str:
    """Return a line such as `rank 37 costs 387 ms a step, 6.1 %: it works 9.8 % longer than the others`."""
    cost = f"{formatting.duration_s(straggler.cost_s)} a step, {formatting.percent(straggler.cost)}"
    if not straggler.sure and straggler.highest_s is not None:
        share = straggler.highest_s / straggler.step_s if straggler.step_s > 0 else 0.0
        cost = f"up to {formatting.duration_s(straggler.highest_s)} a step, {formatting.percent(share)}"
    if straggler.pauses:
        return printable(f"{_pause(straggler, verdict)}: {cost}")
    when = _when(straggler, verdict)
    if straggler.dimension == STAGE:
        verb = "is" if straggler.now else "was"
        reason = f"imbalance or its node {straggler.node}" if straggler.node else "imbalance"
        slower = f"{verb} {formatting.percent(straggler.excess)} slower than the other stages"
        return printable(
            ", ".join(filter(None, (f"{straggler.name} {slower}: {reason}", cost, when, _hidden(straggler))))
        )
    longer = f"longer than the others{' of its stage' if STAGE in straggler.groups else ''}"
    why = f"{formatting.percent(straggler.excess)} {longer}" if straggler.excess > 0 else ""
    last = f"last in {straggler.last_in:,} of {number_of(straggler.windows, 'window')}"
    if straggler.dimension:
        verb, why = "slows" if straggler.now else "slowed", f"they work {why}" if why else ""
        cost = f"{verb} its {number_of(len(straggler.ranks), 'rank')}: together {cost}"
        return printable("; ".join((f"{straggler.name} {cost}", ", ".join(filter(None, (why, when, last))))))
    costs = "costs" if straggler.now else "cost"
    why = f"it works {why}" if why else ""
    facts = ", ".join(part for part in (why, when, last, _hidden(straggler)) if part)
    return printable(f"{straggler.name} {costs} {cost}: {facts}")


def _hidden(straggler: Straggler) -> str:
    """Return what a cost is without the other causes, or why it can't be told; empty if it is what it costs."""
    if not straggler.sure:
        return "can't tell how much of it the other stages hide"
    alone_s = straggler.alone_s or 0.0
    if alone_s > 2.0 * straggler.cost_s and alone_s >= LEAST_COST * straggler.step_s:
        return f"{formatting.duration_s(alone_s)} once the others are repaired"
    return ""


def _pause(straggler: Straggler, verdict: Stragglers) -> str:
    """Return `rank 37 pauses 2.0 s every 20 steps`."""
    verb = "pauses" if straggler.now else "paused"
    times = (
        f"every {number_of(straggler.every, 'step')}" if straggler.every and straggler.every > 1 else "every step"
    )
    if straggler.every is None:
        times = f"in {straggler.pauses:,} of {number_of(straggler.steps, 'step')}"
    until = "" if straggler.now else f" up to {verdict.axis} {straggler.last_step:,}"
    return f"{straggler.name} {verb} {formatting.duration_s(straggler.pause_s)} {times}{until}"


def _sight(verdict: Stragglers) -> str:
    """Return which causes would have been named, and what can't be seen."""
    least = verdict.least
    if least is None:
        return ""
    parts = []
    if least.excess is not None and least.cost_s is not None:
        parts.append(
            f"a rank that works {formatting.percent(least.excess)} longer in each step "
            f"({formatting.duration_s(least.cost_s)} a step)"
        )
    if least.pauses is not None and least.pause_s is not None:
        parts.append(f"one with {number_of(least.pauses, 'pause')} of {formatting.duration_s(least.pause_s)}")
    if not parts:
        return "; these are too few steps to name one"
    return f"; it would name {' or '.join(parts)}, but not rarer pauses or what slows all alike"


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


def _verdict(axis: str, detector: StragglerDetector, called: _Names, rows: int, columns: int) -> Stragglers:
    slow, together_s = detector.verdict(), detector.together_s()
    step_s = max((each.step_s for each in slow), default=detector.step_s)
    sight = detector.sight() if not slow else None
    least = None
    if sight is not None:
        pauses = sight.pauses
        least = LeastCause(
            excess=None if sight.lag_s is None else sight.excess,
            cost_s=None if sight.lag_s is None else sight.cost_s,
            pauses=None if pauses is None else pauses.pauses,
            pause_s=None if pauses is None else pauses.pause_s,
        )
    return Stragglers(
        axis=axis,
        ranks=len(detector.ranks),
        steps=detector.steps,
        step_s=detector.step_s,
        confidence=CONFIDENCE,
        slow=[_straggler(each, called, detector.groups) for each in slow],
        map=lag_map(detector, called, rows, columns),
        together_s=together_s,
        together=None if together_s is None else together_s / step_s if step_s > 0 else 0.0,
        least=least,
    )


def _straggler(slow: Slow, called: _Names, groups: Mapping[Hashable, Coordinates]) -> Straggler:
    rank, members = _rank(slow.rank), [_rank(member) for member in slow.members]
    own = {} if slow.dimension else dict(groups.get(rank, {}))
    shown = [f"{name} {value}" for name, value in own.items() if name != NODE]
    name = f"{called.of(rank)} ({', '.join(shown)})" if shown else called.of(rank)
    if slow.dimension:
        name = f"stage {STAGE}={slow.value}" if slow.dimension == STAGE else f"{slow.dimension} {slow.value}"
    pauses = slow.pauses
    return Straggler(
        rank=rank,
        name=name,
        dimension=slow.dimension,
        group=_rank(slow.value) if slow.dimension else None,
        ranks=members if slow.dimension else [],
        groups=own,
        alone_s=slow.alone_s,
        highest_s=slow.highest_s,
        sure=slow.is_sure,
        pauses=0 if pauses is None else pauses.number,
        pause_s=0.0 if pauses is None else pauses.pause_s,
        every=None if pauses is None else pauses.every,
        node=_node_of_stage(slow, groups),
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


def _node_of_stage(slow: Slow, groups: Mapping[Hashable, Coordinates]) -> str:
    """Return the node that has the ranks of a stage and no others; empty if there is none."""
    nodes = {groups.get(member, {}).get(NODE) for member in slow.members}
    node = nodes.pop() if slow.dimension == STAGE and len(nodes) == 1 else None
    others = any(of_rank.get(NODE) == node for rank, of_rank in groups.items() if rank not in slow.members)
    return "" if node is None or others else str(node)


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
        folds=_folds(detector, steps, rows),
    )


def _folds(detector: StragglerDetector, steps: Sequence[Sequence[MapColumn]], rows: int) -> list[LagFold]:
    """Return a map by group for each dimension. Groups share a row if there are more than rows."""
    columns: dict[str, dict[int | str, list[int]]] = {}
    for column, rank in enumerate(detector.ranks):
        for dimension, value in detector.groups.get(rank, {}).items():
            columns.setdefault(dimension, {}).setdefault(value, []).append(column)
    folds = []
    for dimension, by_value in columns.items():
        values = sorted(by_value, key=order_of)
        if len(values) < 2:
            continue
        parts = [values[part.start : part.stop] for part in _parts(len(values), rows)]
        folds.append(
            LagFold(
                dimension=dimension,
                ranks=[printable(_group_name(dimension, part)) for part in parts],
                lags=[
                    [_cell([each for value in part for each in by_value[value]], step) for step in steps]
                    for part in parts
                ],
            )
        )
    return folds


def _group_name(dimension: str, values: Sequence[int | str]) -> str:
    return f"{dimension} {values[0]}" if len(values) == 1 else f"{dimension} {values[0]} to {values[-1]}"


def _rank(value: object) -> Rank:
    return value if isinstance(value, int | str) else str(value)


def scale(lags: LagMap) -> float:
    """Return the lag that is drawn darkest: the largest one of the map, but at least 5 % of a step."""
    return max([_LEAST_SCALE, *(lag for row in lags.lags for lag in row if lag is not None)])


def heat(lag: float, most: float) -> float:
    """Return how dark a lag is drawn: from 0, not later than the median rank, to 1."""
    return min(max(lag / most, 0.0), 1.0)


def _cell(ranks: Sequence[int], columns: Sequence[MapColumn]) -> float | None:
    """Return the mean lag over the columns of the rank that has the largest."""
    own = np.array(ranks)
    lags = np.full((len(columns), len(own)), np.nan)
    for row, column in enumerate(columns):
        present = own < len(column.lags)
        lags[row, present] = column.lags[own[present]]
    counts = np.isfinite(lags).sum(axis=0)
    if not counts.any():
        return None
    means = np.nansum(lags, axis=0)[counts > 0] / counts[counts > 0]
    return round(float(means.max()), _PLACES)


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

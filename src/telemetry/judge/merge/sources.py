"""The runs to merge: facts about each, and checks that they belong together and can be merged."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

from telemetry import limits
from telemetry.common.formatting import printable
from telemetry.errors import RunDirectoryError, UsageError
from telemetry.store.merge_sources import read_sources
from telemetry.store.run_directory import RunDirectory
from telemetry.wire.codec import carriable
from telemetry.wire.snapshot import TERMINAL, CounterStat, GaugeStat, MetricsSnapshot, SeriesStat
from telemetry.wire.sources import SourceSeries, SourceStat

SeriesId = tuple[str, tuple[tuple[str, str], ...]]
"""Name and sorted labels."""

_PATIENCE_S: Final = 10.0
_OVERFLOW: Final = "overflow"
"""Name of the instrument for values beyond the limits, of any kind and unit."""


@dataclass(frozen=True, kw_only=True)
class Input:
    """A finished run, perhaps already a merged one."""

    directory: RunDirectory
    snapshot: MetricsSnapshot
    sources: tuple[SourceStat, ...]
    """The run itself, or the sources that it was merged from."""
    host: str = ""
    label: str = ""
    """Text that distinguishes it from the others."""
    shift_ns: int = 0
    """Nanoseconds added to all its times."""

    @property
    def begin_ns(self) -> int:
        """Start as wall-clock time, with the shift."""
        started_ns = self.snapshot.started_ns or self.snapshot.time_ns - self._elapsed_ns
        return max(0, started_ns) + self.shift_ns

    @property
    def end_ns(self) -> int:
        return self.begin_ns + self._elapsed_ns

    @property
    def _elapsed_ns(self) -> int:
        return max(0, round(self.snapshot.elapsed_s * 1e9))


def gather(results: Iterable[tuple[RunDirectory, MetricsSnapshot]], *, align_starts: bool = False) -> list[Input]:
    """Read the files next to the results. `align_starts`: shift all runs to the start of the first one.

    Raises UsageError for less than two runs, for a duplicate run, and for instruments that can't be added. Raises
    RunDirectoryError for a run that has not ended, or whose files can't be read. Blocks for seconds while an
    aggregator still has a run locked.
    """
    inputs = [_input(directory, snapshot) for directory, snapshot in results]
    if len(inputs) < 2:
        raise UsageError("a merge needs at least two runs", hint="give two or more runs")
    _refuse_twice(inputs)
    refuse_conflicts(inputs)
    names = labels([(run.snapshot.name, run.host, run.snapshot.run_id) for run in inputs])
    first_ns = min(run.begin_ns for run in inputs)
    return [
        replace(run, label=label, shift_ns=first_ns - run.begin_ns if align_starts else 0)
        for run, label in zip(inputs, names, strict=True)
    ]


def _input(directory: RunDirectory, snapshot: MetricsSnapshot) -> Input:
    if snapshot.state not in TERMINAL or not directory.await_release(_PATIENCE_S):
        raise RunDirectoryError(
            f"{directory.path} is still going", hint="wait for its end, or stop it with `telemetry stop`"
        )
    sources = read_sources(directory)
    if sources:
        return Input(directory=directory, snapshot=snapshot, sources=tuple(sources))
    host = _host(directory, snapshot)
    return Input(directory=directory, snapshot=snapshot, sources=(_source(directory, snapshot, host),), host=host)


def _host(directory: RunDirectory, snapshot: MetricsSnapshot) -> str:
    """Return the host. Without a manifest, it is the host of the producers if all share one."""
    try:
        return directory.read_manifest().host
    except RunDirectoryError:
        hosts = {stat.host for stat in snapshot.producers}
        return hosts.pop() if len(hosts) == 1 else ""


def _source(directory: RunDirectory, snapshot: MetricsSnapshot, host: str) -> SourceStat:
    return SourceStat(
        run_id=snapshot.run_id,
        name=snapshot.name,
        host=host,
        directory=carriable(str(directory.path)),
        started_ns=snapshot.started_ns,
        elapsed_s=snapshot.elapsed_s,
        completeness=snapshot.completeness,
        lost=snapshot.accounting.lost,
        series=[
            SourceSeries(
                name=stat.name,
                labels=stat.labels,
                unit=stat.unit,
                count=stat.count,
                mean=stat.mean,
                p50=stat.percentiles.get("50"),
                p99=stat.percentiles.get("99"),
                max=stat.max,
            )
            for stat in snapshot.series
            if stat.count
        ],
    )


def _refuse_twice(inputs: Sequence[Input]) -> None:
    seen: dict[str, Input] = {}
    for run in inputs:
        for run_id in dict.fromkeys((run.snapshot.run_id, *(source.run_id for source in run.sources))):
            other = seen.setdefault(run_id, run)
            if other is not run:
                paths = list(dict.fromkeys(str(owner.directory.path) for owner in (other, run)))
                raise UsageError(
                    f"run {run_id} would be counted twice: it is in {' and in '.join(paths)}",
                    hint="remove one of them" if paths[1:] else "give it once",
                )


def refuse_conflicts(inputs: Sequence[Input]) -> None:
    """Check that each name has the same kind and unit in all runs. Raises UsageError."""
    kind_by_name: dict[str, tuple[str, str, Input]] = {}
    for run in inputs:
        kinds = (
            ("counter", run.snapshot.counters),
            ("gauge", run.snapshot.gauges),
            ("series", run.snapshot.series),
        )
        for kind, stats in kinds:
            for stat in stats:
                if stat.name == _OVERFLOW:
                    continue
                first_kind, first_unit, first = kind_by_name.setdefault(stat.name, (kind, stat.unit, run))
                if (first_kind, first_unit) != (kind, stat.unit):
                    raise UsageError(
                        f"{stat.name!r} is a {_described(first_kind, first_unit)} in {first.directory.path} "
                        f"and a {_described(kind, stat.unit)} in {run.directory.path}",
                        hint="record it with one name, kind and unit, or leave out one of the runs",
                    )


def _described(kind: str, unit: str) -> str:
    return f"{kind} in {unit}" if unit else f"{kind} without a unit"


def labels(runs: Sequence[tuple[str, str, str]]) -> list[str]:
    """Return distinct labels from (name, host, run id) of each run.

    Labels are names if those are distinct, else hosts, else both, else run ids.
    """
    forms: tuple[Callable[[str, str, str], str], ...] = (
        lambda name, host, run_id: name,
        lambda name, host, run_id: host,
        lambda name, host, run_id: f"{name}@{host}" if host else "",
    )
    for form in forms:
        candidates = [form(*run) for run in runs]
        if all(candidates) and len(set(candidates)) == len(candidates):
            return candidates
    return [run_id for _, _, run_id in runs]


def name_of(inputs: Sequence[Input]) -> str:
    """Return the default name of the merged run."""
    names = {run.snapshot.name.removesuffix("-merged") for run in inputs}
    name = f"{names.pop()}-merged" if len(names) == 1 else "merged"
    return name[-limits.NAME_CHARS :]


_MERGED: Final = "-merged"
_SHOWN: Final = 3


def unrelated(inputs: Sequence[Input]) -> str:
    """Return in words why runs seem unrelated; empty if they belong together.

    They do if they share metrics, and have one name or one program. Runs without metrics, and runs without a
    command, are not judged by these.
    """
    metrics = [(run, _metrics(run.snapshot)) for run in inputs]
    for run, own in metrics:
        others = set(chain.from_iterable(names for other, names in metrics if other is not run))
        if own and others and own.isdisjoint(others):
            return printable(f"{_called(run)} has no metric in common with the other runs")
    names = {run.snapshot.name.removesuffix(_MERGED) for run in inputs}
    programs = list(dict.fromkeys(filter(None, (_program(run.snapshot) for run in inputs))))
    if len(names) > 1 and len(programs) > 1:
        shown = programs if len(programs) <= _SHOWN else [*programs[:_SHOWN], "…"]
        return printable(f"the runs have different names and programs: {', '.join(shown)}")
    return ""


def _metrics(snapshot: MetricsSnapshot) -> set[str]:
    stats: tuple[SeriesStat | CounterStat | GaugeStat, ...] = (
        *snapshot.series,
        *snapshot.counters,
        *snapshot.gauges,
    )
    return {stat.name for stat in stats} | {f"steps of {axis.name}" for axis in snapshot.axes}


def _program(snapshot: MetricsSnapshot) -> str:
    """Return the program of a run's command, without its arguments; empty without a command.

    For an interpreter, it is the script or the module: `bench.py`, `-m bench`.
    """
    argv = snapshot.command.argv if snapshot.command is not None else []
    if not argv:
        return ""
    name = os.path.basename(argv[0])
    if not name.startswith(("python", "torchrun", "node", "ruby", "perl", "bash", "sh")):
        return name
    for at, word in enumerate(argv[1:], 1):
        if word == "-m" and at + 1 < len(argv):
            return f"-m {argv[at + 1]}"
        if word == "-c":
            return " ".join(argv[at : at + 2])
        if not word.startswith("-"):
            return os.path.basename(word)
    return name


def _called(run: Input) -> str:
    return f"{run.snapshot.name} ({run.snapshot.run_id})"

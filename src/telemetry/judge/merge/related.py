"""A check whether runs belong together, because a merge of unrelated runs has no meaning."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import chain
from typing import Final

from telemetry.common.formatting import printable
from telemetry.judge.merge.sources import Input
from telemetry.wire.snapshot import CounterStat, GaugeStat, MetricsSnapshot, SeriesStat

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

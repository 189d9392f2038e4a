"""Does `telemetry compare` keep its promises on a really noisy command? `python -m benchmarks.compare [--quick]`

A small program is run for real, thousands of times, in rounds: twice as it is, and once with 10 % more work; runs
that are compared lie next to each other. Ten rounds are a trial, and no run is in two. Of each trial the run-level
figures (time and CPU time of the pieces, of the forks, of the whole command) go through `telemetry.judge.compare`:

* the two that are the same: is any of the figures called different?
* one that is the same, and the slower one: is any figure called worse?
* ten runs and the ten after them, all the same: what does it cost not to run by turns?
* one run a side, and its values taken for the sample: the mistake that is made most often.

A full run takes ten minutes and writes its figures to benchmarks/results/. Exit code 1: a figure was missed.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any, Final

from msgspec.structs import replace

from benchmarks import table
from benchmarks.harness import ROOT, Figure, Outcome, Size
from telemetry.judge.compare import Comparison, Options, compare
from telemetry.statistics.hdr.percentiles import parse_percentile, rank
from telemetry.statistics.runs import rank_sum_test
from telemetry.wire.report import Report
from telemetry.wire.snapshot import CommandFacts, MetricsSnapshot, SeriesStat

_CHILD: Final = Path(__file__).with_name("compare_child.py")
_UNITS: Final = 10
_SLOWER_UNITS: Final = 11
_TRIALS: Final[dict[Size, int]] = {"full": 200, "quick": 20, "tiny": 2}
_RUNS: Final[dict[Size, int]] = {"full": 10, "quick": 10, "tiny": 5}
_LEVEL: Final = 0.05
_OPTIONS: Final = Options(min_effect=0.0)
_DIFFERENT: Final = ("worse", "better", "changed")


@dataclass(frozen=True)
class Round:
    """Runs next to each other: the second as the first, the third with more work."""

    same: Report
    again: Report
    slower: Report


def measure(rounds: int) -> list[Round]:
    """In turn: again, same, slower – slower, same, again. Either neighbour of `same` comes first equally often."""
    found = []
    for number in range(rounds):
        order = ("again", "same", "slower") if number % 2 == 0 else ("slower", "same", "again")
        made = {kind: _run(_SLOWER_UNITS if kind == "slower" else _UNITS) for kind in order}
        found.append(Round(**made))
        if number % 100 == 99:
            print(f"{number + 1} of {rounds} rounds", file=sys.stderr, flush=True)
    return found


def _run(units: int) -> Report:
    """One run of the command, as a run that telemetry recorded would be reported."""
    interpreter = os.path.realpath(sys.executable)
    begin_ns = time.monotonic_ns()
    child = subprocess.Popen([interpreter, "-I", "-S", str(_CHILD), str(units)], stdout=subprocess.PIPE)
    assert child.stdout is not None
    printed = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    wall_s = (time.monotonic_ns() - begin_ns) / 1e9
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise RuntimeError(f"{_CHILD} exited with code {child.returncode}")
    child.stdout.close()
    names = ("work", "cpu", "fork")
    command = CommandFacts(
        argv=[str(_CHILD)],
        exit_code=0,
        wall_s=wall_s,
        cpu_user_s=usage.ru_utime,
        cpu_system_s=usage.ru_stime,
    )
    snapshot = MetricsSnapshot(
        run_id=str(begin_ns),
        name="compare",
        state="COMPLETE",
        completeness="complete",
        started_ns=begin_ns,
        elapsed_s=wall_s,
        series=[
            _series(name, values) for name, values in zip(names, ast.literal_eval(printed.decode()), strict=True)
        ],
        command=command,
    )
    return Report(snapshot=snapshot, source="file")


def _series(name: str, values: Sequence[int]) -> SeriesStat:
    ordered = sorted(values)
    keys = ("50", "90", "99")
    at = {key: ordered[rank(parse_percentile(key), len(ordered)) - 1] for key in keys}
    return SeriesStat(
        name=name,
        unit="ns",
        count=len(values),
        total=sum(values),
        min=ordered[0],
        max=ordered[-1],
        mean=fmean(values),
        percentiles=at,
        histogram=[(value, 1) for value in values],
    )


# --- trials --------------------------------------------------------------------------------------


def alarmed(comparison: Comparison) -> bool:
    """Whether any figure is called different."""
    return any(metric.verdict in _DIFFERENT for metric in comparison.metrics)


def found(comparison: Comparison) -> bool:
    """Whether any figure is called worse, and none better."""
    return bool(comparison.count("worse")) and not comparison.count("better")


def by_turns(rounds: Sequence[Round]) -> Comparison:
    return compare([one.same for one in rounds], [one.again for one in rounds], _OPTIONS)


def against_slower(rounds: Sequence[Round]) -> Comparison:
    return compare([one.same for one in rounds], [one.slower for one in rounds], _OPTIONS)


def unpaired_against_slower(rounds: Sequence[Round]) -> Comparison:
    """The same runs, by a method that does not know which were neighbours."""
    return compare([one.same for one in rounds], _apart([one.slower for one in rounds]), _OPTIONS)


def unpaired_by_turns(rounds: Sequence[Round]) -> Comparison:
    return compare([one.same for one in rounds], _apart([one.again for one in rounds]), _OPTIONS)


def one_after_the_other(rounds: Sequence[Round]) -> Comparison:
    """As many runs a side as in the others, but first all of one side."""
    runs = [run for one in rounds for run in (one.same, one.again)]
    runs.sort(key=lambda run: run.snapshot.started_ns)
    half = len(runs) // 2
    return compare(runs[:half], runs[half:], _OPTIONS)


def values_for_runs(one: Round) -> bool:
    """One run a side, 40 values each: are they of one kind?"""
    sides = [[value for value, _ in run.snapshot.series[0].histogram] for run in (one.same, one.again)]
    return rank_sum_test(*sides) < _LEVEL


def _apart(reports: Sequence[Report]) -> list[Report]:
    """As if they had started after all others."""
    return [
        replace(report, snapshot=replace(report.snapshot, started_ns=2**62 + at))
        for at, report in enumerate(reports)
    ]


def share(
    trials: Sequence[Sequence[Round]],
    made: Callable[[Sequence[Round]], Comparison],
    told: Callable[[Comparison], bool],
) -> float:
    """Percent of the trials."""
    return 100 * fmean(told(made(trial)) for trial in trials)


def noise(trials: Sequence[Sequence[Round]]) -> dict[str, Any]:
    """Between-run deviation, as a share of the mean, of ten runs that are the same: the median over the trials."""
    figures: dict[str, Callable[[Report], float]] = {
        "command wall": lambda run: run.snapshot.command.wall_s if run.snapshot.command else 0.0,
        "command cpu": lambda run: (
            run.snapshot.command.cpu_user_s + run.snapshot.command.cpu_system_s if run.snapshot.command else 0.0
        ),
        "work p50": lambda run: float(run.snapshot.series[0].percentiles["50"]),
        "work cpu p50": lambda run: float(run.snapshot.series[1].percentiles["50"]),
        "fork p50": lambda run: float(run.snapshot.series[2].percentiles["50"]),
    }
    spread = {}
    for name, read in figures.items():
        sides = [[read(one.same) for one in trial] for trial in trials]
        spread[name] = {
            "cv_within_a_trial": median(stdev(side) / fmean(side) for side in sides),
            "cv_of_all": stdev(value for side in sides for value in side)
            / fmean(value for side in sides for value in side),
            "slower_by": median(read(one.slower) for trial in trials for one in trial)
            / median(read(one.same) for trial in trials for one in trial)
            - 1,
        }
    return spread


def outcome(size: Size) -> Outcome:
    runs, number = _RUNS[size], _TRIALS[size]
    rounds = measure(runs * number)
    trials = [rounds[first : first + runs] for first in range(0, len(rounds), runs)]
    assert by_turns(trials[0]).paired
    assert not one_after_the_other(trials[0]).paired
    alike = f"{number} × {runs} runs of a noisy command against {runs} more"
    figures = [
        Figure(f"{alike}, by turns: any figure called different", share(trials, by_turns, alarmed), "%", 5.0),
        Figure(
            f"{runs} runs a side by turns, 10 % more work: found",
            share(trials, against_slower, found),
            "%",
            90.0,
            better="higher",
        ),
        Figure("the same, neighbours not paired: found", share(trials, unpaired_against_slower, found), "%"),
        Figure(
            "runs that are the same, by turns, not paired: called different",
            share(trials, unpaired_by_turns, alarmed),
            "%",
        ),
        Figure(
            "runs that are the same, one side after the other: called different",
            share(trials, one_after_the_other, alarmed),
            "%",
        ),
        Figure(
            "one run per side, its values taken for the sample: called different",
            100 * fmean(values_for_runs(one) for one in rounds),
            "%",
        ),
    ]
    return Outcome(figures, {"noise": noise(trials)})


def main(argv: Sequence[str] | None = None) -> int:
    args = _parser().parse_args(argv)
    size: Size = args.size
    begin = time.monotonic()
    entry = table.entry(outcome(size), size, time.monotonic() - begin)
    entry["seconds"] = round(time.monotonic() - begin, 1)
    entry["load_average"] = list(os.getloadavg())
    print(table.render({"compare": entry}))
    for name, spread in entry["measurements"]["noise"].items():
        words = ", ".join(f"{what} {value:.1%}" for what, value in spread.items())
        print(f"{name}: {words}", file=sys.stderr)
    if args.out is not None:
        args.out.write_text(json.dumps(entry, indent=1) + "\n")
    elif size == "full":
        table.save(table.default_path(), {"compare": entry})
    return 1 if any(figure["met"] is False for figure in entry["figures"]) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.compare",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for size, words in (("quick", "20 trials: writes no results"), ("tiny", "does it run at all")):
        parser.add_argument(f"--{size}", dest="size", action="store_const", const=size, default="full", help=words)
    parser.add_argument("--out", type=Path, help="write the figures to this JSON file and nothing else")
    return parser


if __name__ == "__main__":
    os.chdir(ROOT)
    raise SystemExit(main())

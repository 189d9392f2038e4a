"""`telemetry sweep --param NAME=VALUE,… -- CMD…`: a run for each value, then a table of all of them."""

from __future__ import annotations

import argparse
import os
import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from telemetry import limits
from telemetry.cli import console, find_run, run_options
from telemetry.cli.beside_run import goodput
from telemetry.cli.commands import serve
from telemetry.cli.commands.curve import FORMATS, STEM, write_sweep
from telemetry.cli.commands.run import name_of
from telemetry.cli.outputs import add_output_arguments, outputs
from telemetry.cli.sweep_runs import Finished, Runner, SweepPlan, finished_runs, result_of
from telemetry.common import formatting
from telemetry.config.load import env_name
from telemetry.config.notify_urls import KEY, joined
from telemetry.errors import UsageError
from telemetry.judge.sweeps.params import (
    Values,
    check_used,
    combinations,
    filled,
    parse_parameters,
    scalar,
    told,
)
from telemetry.wire.exit_codes import Exit

if TYPE_CHECKING:
    from telemetry.judge.sweeps.model import Sweep, SweepPoint
    from telemetry.wire.report import Report

_FIGURES: Final = 5
"""Figures of a line about a finished run."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--param",
        dest="params",
        action="append",
        default=[],
        metavar="NAME=VALUE,VALUE,…",
        help="parameter with its values; {NAME} in an argument of CMD is replaced; with several parameters, all "
        "combinations are run",
    )
    parser.add_argument("--env", action="store_true", help="CMD reads the values from TELEMETRY_PARAM_NAME")
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="run all points N times (default: 1)")
    parser.add_argument(
        "--stop-on-fail",
        action="store_true",
        help="end the sweep after the first run that fails a gate, or whose attainment is below 99 %%",
    )
    parser.add_argument(
        "--strict", action="store_true", help="end the sweep after the first run whose command fails"
    )
    parser.add_argument(
        "--resume", action="store_true", help="use the complete runs of this name, and run only the missing ones"
    )
    parser.add_argument(
        "--name", default=None, help="name of the runs, which may have {NAME} too (default: the command's name)"
    )
    parser.add_argument("--quiet", action="store_true", help="print only the result and what went wrong")
    _add_passed_on(parser)
    add_output_arguments(parser, FORMATS, STEM)
    parser.add_argument(
        "command", nargs=argparse.REMAINDER, metavar="-- CMD …", help="command to run, with its arguments"
    )


def run(args: argparse.Namespace) -> int:
    wanted = outputs(args.formats, args.files, FORMATS, STEM)
    command: list[str] = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not command:
        raise UsageError("no command to run", hint="telemetry sweep --param NAME=1,2,4 -- CMD … {NAME}")
    goodput.checked(args.goodput)
    parameters = parse_parameters(args.params)
    names = [parameter.name for parameter in parameters]
    if not args.env:
        check_used(command, names)
    plan = SweepPlan(combinations(parameters), args.repeat)
    if args.repeat < 1 or len(plan) > limits.SWEEP_RUNS:
        raise UsageError(
            f"--repeat {args.repeat} makes {len(plan):,} runs", hint=f"make 1 to {limits.SWEEP_RUNS:,} runs"
        )
    series = _Series(args, command, names)
    code = series.run_all(plan)
    if not series.reports:
        return code
    sweep = series.result()
    write_sweep(sweep, wanted)
    if not args.quiet and wanted[0].form == "text":
        console.say(f"for curves: {series.way_to_curves()}")
    return code or _code(sweep)


class _Series:
    """The runs of one sweep."""

    def __init__(self, args: argparse.Namespace, command: Sequence[str], names: Sequence[str]) -> None:
        self._args = args
        self._command = command
        self._names = names
        self._root = find_run.root_directory(args.dir)
        self._name: str = args.name or name_of(command)
        self._runner = Runner()
        passed = argparse.ArgumentParser(add_help=False)
        _add_passed_on(passed)
        self._passed = run_options.given_words(passed, args, without=("dir", "notify"))
        if args.notify:  # their secrets may be on no command line
            os.environ[env_name(KEY)] = joined(args.notify)
        self.reports: list[Report] = []

    def run_all(self, plan: SweepPlan) -> int:
        """Run all points, as far as nothing ends the sweep. Return the exit code of what ended it, else 0."""
        for name in {self._named(values) for values in plan.points}:
            serve.check_name(name)
        earlier = {name: self._earlier(name) for name in {self._named(values) for values in plan.points}}
        number, rounds = 0, plan.rounds()
        with self._runner.heeding():
            for points in rounds:
                for index, values in enumerate(points):
                    number += 1
                    where = f"run {number} of {sum(map(len, rounds))}: {told(_params(values))}"
                    done = earlier[self._named(values)].take(values)
                    self._say(where if done is None else f"{where}, done before")
                    if done is None:
                        done, code = self._run(values)
                        if done is None:
                            console.say(f"{told(_params(values))}: the run has no result, so the sweep ends")
                            return code or Exit.ERROR
                    self.reports.append(done)
                    point = self._point(done)
                    self._say(_line(told(_params(values)), done, point))
                    if code := self._end_of(done, point):
                        return code
                    if self._args.stop_on_fail and point.verdict == "fail":
                        for later in rounds:
                            del later[index + 1 :]
                        self._say(f"{told(_params(values))} fails, so later values are not run")
        return Exit.OK

    def result(self) -> Sweep:
        """Return the points of all runs so far."""
        from telemetry.judge.sweeps.build import sweep_of
        from telemetry.judge.sweeps.points import axis_first

        return sweep_of(self.reports, axis_first([report.snapshot.params for report in self.reports], self._names))

    def way_to_curves(self) -> str:
        """Return the command that makes a page of these runs."""
        from shlex import join

        names = list(dict.fromkeys(report.snapshot.name for report in self.reports))
        arguments = ["telemetry", "curve", *names]
        arguments += ["--dir", self._args.dir] if self._args.dir else []
        arguments += ["--last", str(len(self.reports))] if len(names) == 1 else []
        return join([*arguments, "--by", ",".join(self.result().by), "-o", "curve.html"])

    def _run(self, values: Values) -> tuple[Report | None, int]:
        """Run one point. Return its result, or None if it has none, and the exit code."""
        from telemetry.supervise.spawn import telemetry_command

        run_id = secrets.token_hex(4)
        arguments = [*telemetry_command(), "run", "--quiet" if self._args.quiet else "--no-report"]
        arguments += [f"--name={self._named(values)}", f"--dir={self._root}", f"--run-id={run_id}", *self._passed]
        arguments += [f"--param={name}={value}" for name, value in values.items()]
        code = self._runner.run([*arguments, "--", *filled(self._command, values)])
        return result_of(run_id, self._root), code

    def _end_of(self, report: Report, point: SweepPoint) -> int:
        """Return the exit code if the sweep ends after this run, else 0."""
        command = report.snapshot.command
        if self._runner.ended_by:
            console.say("the sweep was stopped")
            return 128 + self._runner.ended_by
        if command is not None and not command.pid:  # it can't be started, whatever its arguments
            return command.exit_code or Exit.ERROR
        if self._args.strict and point.verdict in ("failed", "incomplete"):
            console.say(f"{told(point.params)}: {point.reason}: the sweep ends, because of --strict")
            return (command.exit_code if command is not None else 0) or Exit.INCOMPLETE
        return Exit.OK

    def _point(self, report: Report) -> SweepPoint:
        from telemetry.judge.sweeps.build import sweep_of

        return sweep_of([report], self._names).points[0]

    def _named(self, values: Values) -> str:
        return filled([self._name], values)[0]

    def _earlier(self, name: str) -> Finished:
        return Finished(finished_runs(name, self._root) if self._args.resume else [], self._names)

    def _say(self, message: str) -> None:
        if not self._args.quiet:
            console.say(message)


def _add_passed_on(parser: argparse.ArgumentParser) -> None:
    serve.add_run_flags(parser)
    run_options.add_arguments(parser)


def _params(values: Values) -> dict[str, str | int | float | None]:
    return {name: scalar(text) for name, text in values.items()}


def _line(where: str, report: Report, point: SweepPoint) -> str:
    """Return a line about a finished run: its headline, and how it ended."""
    from telemetry.history.headlines import compact, headline
    from telemetry.judge.sweeps.model import VERDICT_WORDS

    heads = headline(report.snapshot, recent=False, curves=report.curves, requests=report.requests)
    parts = [compact(figure, heads[0]) for figure in heads[0].figures[:_FIGURES]] if heads else ["nothing recorded"]
    command = report.snapshot.command
    parts += [f"took {formatting.duration_s(command.wall_s)}"] if command is not None else []
    if point.verdict == "failed":
        parts.append(f"command failed: {point.reason}")
    elif point.verdict != "none":
        reason = f": {point.reason}" if point.verdict != "pass" and point.reason else ""
        parts.append(f"{VERDICT_WORDS[point.verdict]}{reason}")
    return f"{where}: {' · '.join(parts)}"


def _code(sweep: Sweep) -> int:
    """Return 99 if there are gates and no point passes, 1 if a command failed, else 0."""
    verdicts = [point.verdict for point in sweep.points]
    if sweep.judged == "gates" and "pass" not in verdicts and "fail" in verdicts:
        return Exit.GATE_FAILED
    return Exit.ERROR if "failed" in verdicts else Exit.OK

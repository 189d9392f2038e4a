"""`telemetry run -- CMD…`: an aggregator beside a command, and the report when it ends."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from telemetry import limits
from telemetry.cli import console, run_options
from telemetry.cli.beside_run import goodput, redaction
from telemetry.cli.beside_run import writers as writing
from telemetry.cli.beside_run.captures import Captures
from telemetry.cli.beside_run.feeds import Feeds
from telemetry.cli.beside_run.flight import FlightRecorder, flight_seconds
from telemetry.cli.beside_run.gateway import RunGateway
from telemetry.cli.beside_run.participants import BegunRun, Participants
from telemetry.cli.beside_run.ray import RayRoot
from telemetry.cli.beside_run.writers import RunWriters, interruptible
from telemetry.cli.commands import serve
from telemetry.cli.commands.clean import apply_retention
from telemetry.cli.wrapped.command import Job, shown_argv
from telemetry.cli.wrapped.terminal_mode import TerminalMode, open_mode
from telemetry.common.programs import command_key, program_name
from telemetry.errors import TelemetryError, UsageError
from telemetry.judge.sweeps.params import parse_assignments, variable
from telemetry.report.live_line import LiveLine
from telemetry.transport.subscription import Subscription
from telemetry.wire.codec import carriable
from telemetry.wire.control import Request, Stop, Watch
from telemetry.wire.exit_codes import Exit, strictly
from telemetry.wire.report import Report
from telemetry.wire.snapshot import TERMINAL, CommandFacts

if TYPE_CHECKING:
    from telemetry.cli.beside_run.gates import RunGates
    from telemetry.config.schema import Config
    from telemetry.supervise.aggregator import AggregatorKeeper


_LEAVES_S: Final = 3.0  # for a leaf whose root has its result


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--name",
        default=None,
        help="name of the run (default: the one that the program gives to `telemetry.start`, else the name of its "
        "script)",
    )
    serve.add_run_flags(parser)
    serve.add_param_argument(parser)
    parser.add_argument("--run-id", default=None, help=argparse.SUPPRESS)
    parser.add_argument(
        "--no-report",
        action="store_true",
        help="print no report on stderr at the end, only gates that did not pass",
    )
    parser.add_argument(
        "--quiet",
        action="store_true",
        help="print no live line and no report on stderr, only gates that did not pass and what went wrong",
    )
    parser.add_argument(
        "--tui",
        action="store_true",
        help="show the run in the cockpit, as `telemetry top` does; `q` closes only the cockpit",
    )
    parser.add_argument(
        "--strict",
        action="store_true",
        help="if the command succeeded: exit 4 if the result is not complete, 6 if a feed, the gateway, a "
        "backend, a collector of --collect or all captures failed, or the root did not take this node",
    )
    run_options.add_arguments(parser)
    parser.add_argument(
        "command", nargs=argparse.REMAINDER, metavar="-- CMD …", help="command to run, with its arguments"
    )


def run(args: argparse.Namespace) -> int:
    from telemetry.config.load import load
    from telemetry.supervise.aggregator import AggregatorKeeper
    from telemetry.supervise.run_files import RunFiles
    from telemetry.supervise.spawn import environment, spawn

    parse_assignments(args.params)
    limits_of_requests = goodput.checked(args.goodput)  # first: without `--`, the command is among the limits
    command = _checked_command(args)
    name = _checked_name(args, command)
    flags = serve.flags_of(args)
    config = serve.with_checked_node(args, load(flags).config)
    redactor = redaction.redactor_of(config)
    with (
        goodput.in_environment(limits_of_requests),
        redaction.in_environment(config.redact),
        open_mode(tui=args.tui, redactor=redactor) as terminal,
        Participants() as participants,
    ):
        run_gates, writers = _add_participants(participants, args, config, command, terminal)
        aggregator = spawn(
            name,
            flags | participants.flags,
            owner_pid=os.getpid(),
            timeout_s=config.emit.start_timeout_s,
            takes_name=not args.name,
            run_id=args.run_id or "",
            params=args.params,
            backends=writers.expected,
        )
        keeper = AggregatorKeeper(aggregator, RunFiles.of(aggregator, config.run.fallback_dirs), terminal.say)
        root_watch = serve.RootWatch(terminal.say)
        is_hurried = False
        with Subscription(aggregator.snapshots) as snapshots:
            variables = {
                "TELEMETRY_ENDPOINT": aggregator.endpoint,
                **_params(args),
                **_waits(args, config),
                **participants.begin(BegunRun(name, aggregator.endpoint, aggregator.directory)),
            }
            job = Job(command, variables, terminal.launch, redactor=redactor)
            if job.started:
                terminal.begin(aggregator.directory, environment(flags))
                _ask(keeper, Watch(pid=job.pid), terminal)
                participants.accompany(job)
                job.wait(_CommandWatch(snapshots, keeper, terminal, participants, args, root_watch=root_watch))
                terminal.over()
                is_hurried = _await_workers(keeper, config, job, participants, terminal, quiet=args.quiet)
            participants.end()
            ending = run_gates.ending(job.ending()) if run_gates is not None else job.ending()
            _ask(keeper, Stop(reason=ending, command=job.facts()), terminal)
            report = _result(snapshots, keeper, config, root_watch)
            keeper.release()
        if is_hurried or job.told_to_end:
            terminal.await_leave(patient=False)
        report = participants.conclude(_with_bill(report, job.facts()))
        terminal.await_leave(patient=True)
    _say_result(report, quiet=args.quiet or args.no_report or not job.started)
    if report.snapshot.root is not None and report.snapshot.root.reason:
        console.say(report.snapshot.root.reason)
    _await_leaf(keeper, None if is_hurried else config, quiet=args.quiet)
    apply_retention(config)
    failed = participants.failed or serve.lacks_root(report.snapshot)
    return _exit_code(report, job.exit_code, run_gates, strict=args.strict, failed=failed)


def _add_participants(
    participants: Participants,
    args: argparse.Namespace,
    config: Config,
    command: Sequence[str],
    terminal: TerminalMode,
) -> tuple[RunGates | None, RunWriters]:
    """Add all participants that the command line and the settings ask for. Return gates and writers.

    Raises UsageError for an invalid option.
    """

    def say_waiting(message: str) -> None:
        if not args.quiet:
            terminal.pass_by(f"telemetry: {message}\n")

    gates = _run_gates(args, config, command, terminal)
    backends = writing.writers(args, config, terminal.say, gates=gates is not None)
    recorders = (
        participants.add(RunGateway(args.gateway, args.gateway_grpc, terminal.say)),
        participants.add(
            Feeds(args.feeds, terminal.say, texts=bool(config.tokens.tokenizer), beside=os.getpid()),
        ),
        serve.collectors(args, config, terminal.say),
    )
    participants.add(RayRoot(wanted=args.ray))
    is_reported = not (args.quiet or args.no_report)
    participants.add(
        Captures(args.captures, args.stand_ins, terminal.say, recorders=recorders, is_reported=is_reported)
    )
    if gates is not None:
        participants.add(gates)
    writers = participants.add(RunWriters(backends, config.backends.finish_timeout_s, say_waiting))
    text: str | None = args.flight_recorder
    participants.add(FlightRecorder(None if text is None else flight_seconds(text, config), terminal.say, gates))
    participants.add(recorders[-1])  # the collectors start last and end first
    return gates, writers


def _params(args: argparse.Namespace) -> dict[str, str]:
    """Return the variables that tell the command the parameters of its run."""
    return {variable(name): text for name, text in parse_assignments(args.params).items()}


def _waits(args: argparse.Namespace, config: Config) -> dict[str, str]:
    """Return the variable that tells the command's processes which spans are waits."""
    from telemetry.config.load import env_name

    waits = args.stragglers or ",".join(config.emit.stragglers)
    return {env_name("emit.stragglers"): waits} if waits else {}


def _await_workers(
    keeper: AggregatorKeeper,
    config: Config,
    job: Job,
    participants: Participants,
    terminal: TerminalMode,
    *,
    quiet: bool,
) -> bool:
    """Wait for workers that outlive the command. Return whether a signal cut the wait short."""
    from telemetry.cli.wrapped.workers import await_workers

    def say(message: str) -> None:
        if not quiet:
            terminal.say(message)

    grace_s = config.run.worker_grace_s
    if job.told_to_end:
        grace_s = min(grace_s, limits.WORKER_GRACE_TOLD_S)
    try:
        with interruptible():
            await_workers(keeper, grace_s, say, besides=participants.pids)
    except KeyboardInterrupt:
        return True
    except TelemetryError as error:
        terminal.say(str(error))
    return False


def _result(
    snapshots: Subscription, keeper: AggregatorKeeper, config: Config, root_watch: serve.RootWatch
) -> Report:
    from telemetry.supervise.outcome import await_report

    patience_s = config.run.drain_timeout_s + config.emit.finish_timeout_s
    patience_s += config.tokens.budget_s if config.tokens.tokenizer else 0.0
    patience_s += config.upstream.finish_timeout_s if config.upstream.address else 0.0
    return await_report(
        snapshots,
        keeper,
        patience_s,
        recovery_s=limits.RECOVERY_S,
        patience_after_restart_s=patience_s,
        look=lambda snapshot: root_watch.look(snapshot.root),
    )


def _await_leaf(keeper: AggregatorKeeper, config: Config | None, *, quiet: bool) -> None:
    """Wait until the root needs this leaf no more. A signal ends the wait. Without `config`, don't wait.

    A cluster manager may kill whatever is left of a job when its commands have ended.
    """
    if config is None or not config.upstream.address:
        return
    linger_s = config.upstream.linger_s
    with suppress(KeyboardInterrupt), interruptible():
        if keeper.await_end(_LEAVES_S):
            return
        if not quiet:
            console.say(
                "the root may ask this node for exact percentiles: waiting until its run ends, for at most "
                f"{linger_s:g} s; press Ctrl-C to stop waiting"
            )
        keeper.await_end(linger_s + _LEAVES_S)


def _say_result(report: Report, *, quiet: bool) -> None:
    """Print the report. With `quiet`, print only the gates that did not pass: they explain the exit code."""
    if not quiet:
        _say(report)
    elif report.gates:
        _say_what_did_not_pass(report)


def _say_what_did_not_pass(report: Report) -> None:
    from telemetry.report.gates import gate_lines

    for line in gate_lines([gate for gate in report.gates if gate.outcome != "pass"]).lines:
        console.say(line)


def _exit_code(report: Report, of_command: int, run_gates: RunGates | None, *, strict: bool, failed: bool) -> int:
    """Return the command's own code, unless a gate ended the command.

    If the command succeeded, return the code of the gates (99, 3), else the code of `--strict`.
    """
    if run_gates is not None and run_gates.ended_by is not None:
        return Exit.GATE_FAILED
    if of_command:
        return of_command
    if report.gates:
        from telemetry.cli.beside_run.gates import exit_code

        if code := exit_code(report.gates):
            return code
    return strictly(report.completeness, backend_failed=failed) if strict else Exit.OK


def _run_gates(
    args: argparse.Namespace, config: Config, command: Sequence[str], terminal: TerminalMode
) -> RunGates | None:
    """Return the gates of the run, or None without gates. A gate is masked as the names and labels it is about.

    Raises UsageError for an invalid gate, and for flags that need a gate.
    """
    texts = args.gates or ([] if args.no_gates else list(config.gates.expressions))
    if not texts:
        if args.abort_on_fail or args.baseline is not None:
            flag = "--abort-on-fail" if args.abort_on_fail else "--baseline"
            raise UsageError(f"{flag} requires a gate", hint="add --gate 'EXPR'")
        return None
    from telemetry.cli.beside_run.gates import RunGates, demands
    from telemetry.supervise.spawn import working_directory

    root, redactor = Path(config.run.dir).absolute(), redaction.redactor_of(config)
    expressions = [redaction.masked_gate(text, redactor) for text in texts]
    key = command_key(shown_argv(command, redactor), carriable(working_directory() or ""))
    asked = demands(expressions, config, root, command=key, baseline=args.baseline)
    return RunGates(asked, terminal.say, abort=args.abort_on_fail, quiet=args.quiet)


def _checked_command(args: argparse.Namespace) -> list[str]:
    """Return the command. Raises UsageError if there is none."""
    command: list[str] = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not command:
        raise UsageError("no command to run", hint="telemetry run --name NAME -- CMD …")
    return command


def _checked_name(args: argparse.Namespace, command: list[str]) -> str:
    """Return the name of the run. Raises UsageError."""
    name: str = args.name or name_of(command)
    serve.check_name(name)
    return name


def name_of(command: Sequence[str]) -> str:
    """Make a valid run name from the program of a command, which may stand behind launchers."""
    name = "".join(char if char.isprintable() else "?" for char in program_name(command))
    return name[: limits.NAME_CHARS].strip() or "run"


class _CommandWatch:
    """The work of each second while the command runs."""

    def __init__(
        self,
        snapshots: Subscription,
        keeper: AggregatorKeeper,
        terminal: TerminalMode,
        participants: Participants,
        args: argparse.Namespace,
        *,
        root_watch: serve.RootWatch,
    ) -> None:
        self._snapshots = snapshots
        self._keeper = keeper
        self._terminal = terminal
        self._participants = participants
        self._quiet = args.quiet
        self._root_watch = root_watch
        self._line = LiveLine()
        self._over = False
        self._is_ended_by_command = args.ray
        """True if the command ends the run itself, shortly before its own end."""

    def __call__(self) -> None:
        snapshot = self._snapshots.recv(0.0)
        if self._over:
            snapshot = None
        if snapshot is not None and not self._quiet:
            self._terminal.show(self._line.parts(snapshot))
        if snapshot is not None:
            self._root_watch.look(snapshot.root)
        self._participants.look(snapshot)
        if snapshot is not None and snapshot.state in TERMINAL:
            self._over = True
            self._keeper.release()
            if not self._is_ended_by_command:
                self._terminal.say(
                    "the run was stopped but the command continues; events recorded from now on are not in the "
                    "result"
                )


def _ask(keeper: AggregatorKeeper, request: Request, terminal: TerminalMode) -> None:
    """Send a request; report a failure and go on. Without an answer the result is read from disk."""
    try:
        keeper.ask(request, limits.CONTROL_TIMEOUT_S)
    except TelemetryError as error:
        terminal.say(str(error))


def _with_bill(report: Report, command: CommandFacts) -> Report:
    """Add the command's resource use if the snapshot lacks it.

    A snapshot taken before the command ended lacks it.
    """
    snapshot = report.snapshot
    return replace(report, snapshot=replace(snapshot, command=snapshot.command or command))


def _say(report: Report) -> None:
    from telemetry.cli.find_run import early_rule
    from telemetry.history.run import with_history
    from telemetry.report import render

    report = replace(report, early_rule=early_rule())
    text = render(
        with_history(report, over_time=True), width=console.width(sys.stderr), color=console.color(sys.stderr)
    )
    console.talk(text)

"""`telemetry stack`: Prometheus, Tempo and Grafana beside the runs of this user."""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final

from telemetry.cli import console
from telemetry.cli.parser import CommandParser
from telemetry.errors import TelemetryError, UsageError
from telemetry.wire.exit_codes import Exit

if TYPE_CHECKING:
    from telemetry.stack.control import PartView
    from telemetry.stack.plan import Plan
    from telemetry.stack.settings import StackSettings
    from telemetry.store.stack_state import StackState

_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_READY: Final = "ready"
"""Last line of a detached keeper to the command that started it."""
_PORT_TRIES: Final = 3
_HOW: Final = {"native": "", "compose": "in a container"}


def add_arguments(parser: CommandParser) -> None:
    actions = parser.add_actions("status")
    up = actions.add_parser(
        "up",
        help="start what is installed of Prometheus, Tempo and Grafana, and stay until Ctrl-C",
        allow_abbrev=False,
    )
    stay = up.add_mutually_exclusive_group()
    stay.add_argument("--detach", action="store_true", help="return once everything is ready; `stack down` ends it")
    stay.add_argument("--attach-logs", action="store_true", help="print what the servers log")
    up.add_argument("--auto-port", action="store_true", help="take another port for each one that is in use")
    up.add_argument(
        "--only",
        choices=("native", "compose"),
        help="start only installed programs, or only containers (default: containers for what is not installed)",
    )
    up.add_argument(
        "--log-level",
        choices=("debug", "info", "warning", "error"),
        default="info",
        help="lowest level that the servers log (default: info)",
    )
    up.add_argument("--ready-fd", type=int, default=None, help=argparse.SUPPRESS)
    down = actions.add_parser("down", help="end the stack", allow_abbrev=False)
    status = actions.add_parser("status", help="show what runs, and where", allow_abbrev=False)
    status.add_argument("--json", action="store_true", help="print a JSON object")
    write = actions.add_parser(
        "write", help="only write the files: a compose file, and the configuration of all three", allow_abbrev=False
    )
    write.add_argument("dir", type=Path, metavar="DIR", help="folder for the files")
    for each in (up, down, status):
        each.add_argument(
            "--dir",
            type=Path,
            metavar="DIR",
            help="folder of the stack's files, data and logs (default: telemetry/stack in XDG_STATE_HOME)",
        )
    for each in (up, write):
        each.add_argument("--config", type=Path, metavar="FILE", help="settings of the stack, in TOML")


def run(args: argparse.Namespace) -> int:
    return {"up": _up, "down": _down, "status": _status, "write": _write}[args.action](args)


# --- up ------------------------------------------------------------------------------------------


def _up(args: argparse.Namespace) -> int:
    from telemetry.stack.control import has_left
    from telemetry.stack.settings import load_settings, stack_directory
    from telemetry.store.append_file import describe
    from telemetry.store.stack_state import claimed, read_state

    directory, settings = stack_directory(args.dir), load_settings(args.config)
    if args.detach:
        return _detach(args, directory)
    ending = threading.Event()
    with ExitStack() as last:
        tell = last.enter_context(_Teller(args.ready_fd))
        try:
            last.enter_context(claimed(directory))
            before = read_state(directory)
            if before is not None and has_left(before):
                raise UsageError(
                    f"servers of an earlier stack in {directory} may still run",
                    hint="run `telemetry stack down` first",
                )
            last.enter_context(_signals(ending))
            return _start(directory, settings, args, ending, tell)
        except TelemetryError as error:
            tell.say(str(error))
            return error.exit_code
        except OSError as error:
            tell.say(describe(error))
            return Exit.ERROR


def _start(
    directory: Path, settings: StackSettings, args: argparse.Namespace, ending: threading.Event, tell: _Teller
) -> int:
    """Choose ports and run the stack until a signal. Returns the exit code.

    A free port may be taken before its server listens there. Then `--auto-port` chooses other ports, but
    not for containers.
    """
    from telemetry.stack.keeper import NotReadyError
    from telemetry.stack.plan import make_plan
    from telemetry.store.scrape_targets import remove_dead

    for tries_left in reversed(range(_PORT_TRIES)):
        plan = make_plan(directory, settings, log_level=args.log_level, only=args.only, auto_port=args.auto_port)
        for message in plan.moved:
            tell.say(message)
        plan.layout.write(podman=plan.podman)
        remove_dead(plan.layout.targets)
        try:
            return _keep(plan, ending, tell, attach_logs=args.attach_logs)
        except NotReadyError:
            taken = plan.taken_ports() if args.auto_port and tries_left else []
            if not taken:
                raise
            tell.say(f"port {taken[0]} was taken before its server listened there; trying other ports")
    raise AssertionError("the last try returns or raises")


def _keep(plan: Plan, ending: threading.Event, tell: _Teller, *, attach_logs: bool) -> int:
    """Run the stack until a signal. Returns the exit code."""
    from telemetry.stack.keeper import Keeper, NotReadyError

    def line(name: str, text: str) -> None:
        if attach_logs:
            console.show(f"{name:<10} | {console.visible(text)}\n")

    keeper = Keeper(plan.layout, plan.parts, plan.compose, say=tell.say, line=line, ending=ending)
    try:
        with keeper.running():
            if keeper.wait_until_ready():
                tell.ready(keeper.state)
                if keeper.watch():
                    tell.say("ending the stack")
                    return Exit.OK
    except NotReadyError:
        if not (keeper.was_interrupted or ending.is_set()):
            raise
    if not keeper.is_ready:
        tell.say("the stack was ended before it was ready")
        return Exit.SIGINT
    tell.say("all servers of the stack have ended")
    return Exit.ERROR


class _Teller:
    """Messages of a keeper: to the terminal, or to the command that waits for a detached keeper.

    A detached keeper closes its end of the pipe once it is ready. Later messages go to its log.
    """

    def __init__(self, ready_fd: int | None) -> None:
        self._pipe = os.fdopen(ready_fd, "w", buffering=1) if ready_fd is not None else None

    def __enter__(self) -> _Teller:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def say(self, message: str) -> None:
        pipe = self._pipe  # threads of servers use it too
        if pipe is None:
            console.say(message)
            return
        try:
            pipe.write(f"{console.visible(message)}\n")
        except (OSError, ValueError):  # the command that started it has gone, or knows that it is ready
            self._pipe = None
            console.say(message)

    def ready(self, state: StackState) -> None:
        """Show the stack, here or in the waiting command."""
        if self._pipe is None:
            _show_ready(state)
            console.say("press Ctrl-C to end the stack")
            return
        self.say(_READY)
        self._close()

    def _close(self) -> None:
        pipe, self._pipe = self._pipe, None
        if pipe is not None:
            pipe.close()


@contextmanager
def _signals(ending: threading.Event) -> Iterator[None]:
    """Set the event when a signal asks this process to end. Ignored signals stay ignored, but SIGTERM."""

    def heard(_number: int, _frame: FrameType | None) -> None:
        ending.set()

    wanted = [
        signum for signum in _ENDING if signum == signal.SIGTERM or signal.getsignal(signum) is not signal.SIG_IGN
    ]
    before = {number: signal.signal(number, heard) for number in wanted}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _detach(args: argparse.Namespace, directory: Path) -> int:
    """Start a keeper in a session of its own, and wait until it is ready or ends. Returns the exit code."""
    import subprocess

    from telemetry.stack.keeper import LOGS
    from telemetry.store.stack_state import read_state
    from telemetry.supervise.spawn import telemetry_command

    arguments = ["stack", "up", "--dir", str(directory), "--log-level", args.log_level]
    arguments += ["--config", str(args.config.absolute())] if args.config else []
    arguments += ["--auto-port"] if args.auto_port else []
    arguments += ["--only", args.only] if args.only else []
    log = directory / LOGS / "stack.log"
    for folder in (directory, log.parent):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    reader, writer = os.pipe()
    with open(log, "ab", opener=lambda path, flags: os.open(path, flags, 0o600)) as output:
        before = output.tell()
        keeper = subprocess.Popen(
            [*telemetry_command(), *arguments, "--ready-fd", str(writer)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            pass_fds=(writer,),
        )
    os.close(writer)
    try:
        with os.fdopen(reader, errors="replace") as pipe:
            for line in pipe:
                if line.rstrip("\n") == _READY:
                    state = read_state(directory)
                    if state is not None:
                        _show_ready(state)
                        console.say("`telemetry stack down` ends the stack")
                    return Exit.OK
                console.say(line.rstrip("\n"))
        code = keeper.wait()
        if log.stat().st_size > before:  # it crashed, or servers died meanwhile
            console.say(f"the stack did not start; see {log}")
        return code if code > 0 else Exit.ERROR
    except KeyboardInterrupt:
        keeper.terminate()
        keeper.wait()
        raise


def _from_home(path: str) -> str:
    """Return a path for people: `~` in place of the home folder."""
    from telemetry.common.formatting import printable

    home = os.path.expanduser("~")  # stays `~` for a user without a home
    return printable(f"~/{Path(path).relative_to(home)}" if Path(path).is_relative_to(home) else path)


def _show_ready(state: StackState) -> None:
    from telemetry.common.formatting import printable

    for part in state.parts:
        where = " ".join(word for word in (part.address, _HOW.get(part.how, "")) if word)
        console.show(f"{part.title:<10}  {where or f'skipped: {printable(part.why)}'}\n")
    if state.otlp:
        console.show(f"{'spans':<10}  --to otlp:endpoint={state.otlp},metrics=false\n")
    console.show(f"{'targets':<10}  {_from_home(state.targets)}\n")


# --- the other actions ---------------------------------------------------------------------------


def _down(args: argparse.Namespace) -> int:
    from telemetry.stack.control import end
    from telemetry.stack.settings import stack_directory

    directory = stack_directory(args.dir)
    if not end(directory, console.say):
        console.say(f"no stack is up in {directory}")
        return Exit.OK
    console.say("the stack is down; its data is kept")
    return Exit.OK


def _status(args: argparse.Namespace) -> int:
    from telemetry.stack.control import look
    from telemetry.stack.settings import stack_directory
    from telemetry.store.scrape_targets import remove_dead, target_files
    from telemetry.store.stack_state import read_state

    directory = stack_directory(args.dir)
    state = read_state(directory)
    if state is None:
        if args.json:
            console.write_json({"up": False, "parts": []})
        else:
            console.say("no stack is up; `telemetry stack up --detach` starts one")
            _say_what_up_would_start(directory)
        return Exit.ERROR
    parts = look(state)
    targets = Path(state.targets)
    remove_dead(targets)
    number = sum(len(group.targets) for file in target_files(targets) for group in file.groups)
    if args.json:
        console.write_json(
            {
                "up": True,
                "keeper": state.keeper_pid if state.keeper_lives else None,
                "parts": parts,
                "otlp": state.otlp,
                "targets": {"folder": state.targets, "number": number},
                "logs": state.log,
            }
        )
    else:
        _print_status(state, parts, number)
    is_well = state.keeper_lives and all(part.state in (_READY, "skipped") for part in parts)
    return Exit.OK if is_well else Exit.ERROR


def _say_what_up_would_start(directory: Path) -> None:
    from telemetry.stack.plan import make_plan
    from telemetry.stack.settings import load_settings

    try:
        parts = make_plan(directory, load_settings(None)).parts
    except TelemetryError as error:
        console.say(f"it would fail now: {error}")
        return
    for part in parts:
        where = " ".join(filter(None, (f"at {part.address}", _HOW.get(part.how or "", ""))))
        console.say(f"it would {f'start {part.title} {where}' if part.how else f'skip {part.title}: {part.why}'}")


def _print_status(state: StackState, parts: list[PartView], targets: int) -> None:
    from telemetry.common.formatting import number_of, printable

    for part in parts:
        pid = f"pid {part.pid}" if part.pid else ""
        restarts = f"restarted {number_of(part.restarts, 'time')}" if part.restarts else ""
        facts = (part.state, part.address, pid, _HOW.get(part.how, ""), restarts, printable(part.why))
        console.write(f"{part.title:<10}  {'  '.join(word for word in facts if word)}\n")
    if state.otlp:
        console.write(f"{'spans':<10}  --to otlp:endpoint={state.otlp},metrics=false\n")
    console.write(f"{'targets':<10}  {targets} in {_from_home(state.targets)}\n")
    console.write(f"{'logs':<10}  {_from_home(state.log)}\n")
    if not state.keeper_lives:
        console.say(f"the keeper of the stack (pid {state.keeper_pid}) has ended; run `telemetry stack down`")


def _write(args: argparse.Namespace) -> int:
    from telemetry.stack.layout import COMPOSE_FILE, StackLayout
    from telemetry.stack.parts import compose_command
    from telemetry.stack.settings import load_settings, stack_directory

    layout = StackLayout(stack_directory(args.dir), load_settings(args.config))
    compose = compose_command()
    paths = layout.write(podman=compose[:1] == ("podman",))
    for path in paths:
        console.write(f"{path}\n")
    native = f"telemetry stack up --dir {shlex.quote(str(args.dir))}"
    native += f" --config {shlex.quote(str(args.config))}" if args.config else ""
    file = shlex.quote(str(layout.directory / COMPOSE_FILE))
    containers = f"{' '.join(compose or ('docker', 'compose'))} --file {file} up"
    console.say(f"start it with `{native}`, or only containers with `{containers}`")
    return Exit.OK

"""`telemetry top`: a run in the cockpit or in a browser; without a terminal, one line per second."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final

from telemetry.cli import console, find_run, plain_viewer
from telemetry.cli.commands import status
from telemetry.errors import ConfigError, TelemetryError, UsageError
from telemetry.wire.exit_codes import Exit
from telemetry.wire.snapshot import TERMINAL

if TYPE_CHECKING:
    from telemetry.store.live_runs import LiveRun
    from telemetry.store.run_directory import RunDirectory
    from telemetry.tui.app import Cockpit
    from telemetry.tui.model.scene import Baseline

_NAMED: Final = 5
"""Live runs that fit in an error line."""
_BASELINES: Final = 50
"""Finished runs to offer as baselines.

Reading more result heads causes a noticeable delay, and users do not scroll further.
"""
_LOOK_S: Final = 0.25
"""Interval in seconds between checks that the parent still exists.

Two programs on one terminal disturb each other.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "target",
        metavar="RUN",
        nargs="?",
        default=None,
        help="directory, run id, name, control address, or `latest` (default: the live run, below --dir "
        "if given; asks if there are several; without one, the newest run below --dir)",
    )
    find_run.add_dir_argument(parser)
    parser.add_argument("--baseline", default=None, metavar="RUN", help="finished run to compare with")
    how = parser.add_mutually_exclusive_group()
    how.add_argument(
        "--plain", action="store_true", help="print one line per second instead of the cockpit, until the run ends"
    )
    how.add_argument("--once", action="store_true", help="print the current state and exit")
    how.add_argument("--web", action="store_true", help="serve the cockpit to a browser on this machine")
    parser.add_argument(
        "--json", action="store_true", help="with --once: print the whole snapshot, as `status --json` does"
    )
    parser.add_argument(
        "--port", type=_port, default=None, metavar="N", help="port for --web (default: 8765, or a free port)"
    )
    parser.add_argument("--job-pid", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--served", action="store_true", help=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    _check(args)
    target = _target(args)
    if args.once:
        return _once(args, target)
    if args.web:
        return _web(args, target)
    if args.plain:
        return plain_viewer.follow(target)
    if not has_screen(served=args.served):
        if args.baseline:
            raise UsageError("--baseline works only in the cockpit, which needs a terminal")
        return plain_viewer.follow(target, "no terminal to draw on: printing one line per second, as with --plain")
    return _cockpit(args, target)


def choose(live: Sequence[LiveRun]) -> LiveRun:
    """Ask which of several runs is meant. Blocks until the user answers. Raises UsageError at end of input."""
    from telemetry.common.formatting import printable, timestamp

    widest = max(len(printable(run.name)) for run in live)
    for number, run in enumerate(live, 1):
        name = printable(run.name).ljust(widest)
        console.talk(f"{number:3}  {name}  {run.run_id}  {timestamp(run.started_ns)}  {printable(run.dir)}\n")
    while True:
        console.talk(f"which run? 1–{len(live)} [1]: ")
        answer = sys.stdin.readline()
        if not answer:
            raise UsageError("no run was chosen")
        word = answer.strip() or "1"
        if word.isdecimal() and 1 <= int(word) <= len(live):
            return live[int(word) - 1]


def has_screen(*, served: bool) -> bool:
    """Return whether Textual can draw.

    It reads stdin and writes stderr; a user who redirects stdout wants lines there.

    In a browser Textual can always draw.
    """
    if served:
        return True
    return all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)) and (
        os.environ.get("TERM", "dumb") != "dumb"
    )


def load_baseline(root: Path, fallback_dirs: Sequence[str], spec: str) -> Baseline:
    """Return the result of a finished run, with its curves. Reads files.

    Raises RunNotFoundError or RunDirectoryError.
    """
    from telemetry.history.result import load_report
    from telemetry.history.step_curves import curves_of
    from telemetry.store.run_directory import RunDirectory
    from telemetry.tui.model.scene import Baseline

    report = load_report(spec, root, fallback_dirs)
    if not report.directory or not report.snapshot.axes:
        return Baseline(report.snapshot)
    return Baseline(report.snapshot, tuple(curves_of(RunDirectory.open(Path(report.directory)), report.snapshot)))


def baselines(root: Path, fallback_dirs: Sequence[str], but: RunDirectory | None) -> list[tuple[str, str]]:
    """Return (directory, text) of the newest finished runs except `but`. Reads the heads of files."""
    from telemetry.common.formatting import printable, timestamp
    from telemetry.store.final_snapshot import find_final
    from telemetry.store.run_directory import list_runs

    entries: list[tuple[str, str]] = []
    for directory in list_runs(root):
        final = find_final(directory, fallback_dirs) if but is None or directory.path != but.path else None
        if final is None:
            continue
        with suppress(TelemetryError):
            head = final.head()
            if head.state in TERMINAL:
                text = f"{head.name}  {timestamp(head.started_ns)}  {head.completeness}"
                entries.append((str(directory.path), printable(text)))
        if len(entries) == _BASELINES:
            break
    return entries


def _port(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 65_535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port number")
    return int(text)


def _check(args: argparse.Namespace) -> None:
    """Raise UsageError for options that would have no effect."""
    if args.json and not args.once:
        raise UsageError("--json requires --once", hint="use `telemetry tail` to print snapshots continuously")
    if args.port is not None and not args.web:
        raise UsageError("--port requires --web")
    if args.baseline and (args.plain or args.once):
        raise UsageError("--baseline works only in the cockpit")


def _target(args: argparse.Namespace) -> find_run.RunTarget:
    if args.target is not None:
        target = find_run.find(args)
        if target.endpoint == target.spec:  # the address is all that is known about the run
            find_run.check_listened(target.endpoint)
        return target
    from telemetry.store.live_runs import list_live
    from telemetry.store.run_directory import resolve
    from telemetry.transport import runtime_directory

    root = find_run.root_directory(args.dir)
    alive = [live_run for live_run in list_live(runtime_directory()) if live_run.alive]
    if args.dir is not None:
        alive = [live_run for live_run in alive if _is_in(live_run, root)]
    live = [live_run for live_run in alive if live_run.state not in TERMINAL] or alive
    if not live:
        newest = resolve(find_run.LATEST, root)
        console.say(f"no live run; showing the newest run, {newest.path}")
        return find_run.RunTarget(str(newest.path), root)
    if len(live) > 1 and not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(f"{len(live)} runs are live: {_names(live)}", hint="telemetry top RUN")
    chosen = choose(live) if len(live) > 1 else live[0]
    return find_run.RunTarget(chosen.run_id, root, chosen.endpoint, chosen)


def _is_in(run: LiveRun, root: Path) -> bool:
    return Path(run.dir).parent.resolve() == root.resolve()


def _names(live: Sequence[LiveRun]) -> str:
    from telemetry.common.formatting import printable

    names = [printable(f"{run.name} ({run.run_id})") for run in live[:_NAMED]]
    return ", ".join(names) + (f" and {len(live) - _NAMED:,} more" if len(live) > _NAMED else "")


def _once(args: argparse.Namespace, target: find_run.RunTarget) -> int:
    if args.json:
        return status.run(argparse.Namespace(target=target.spec, dir=args.dir, json=True))
    from telemetry.report import render

    report = find_run.report_of(target)
    console.write(render(report, width=console.width(sys.stdout), color=console.color(sys.stdout)))
    return Exit.OK


def _web(args: argparse.Namespace, target: find_run.RunTarget) -> int:
    from telemetry.cli.browser import launch
    from telemetry.store.run_directory import resolve
    from telemetry.supervise.spawn import telemetry_command

    if not target.endpoint:
        find_run.report_of(target)  # report an error here, where a web page could only show it
    # If the aggregator is gone when a page is opened, the page still finds the run in its directory.
    directory = _directory(target) if target.endpoint else resolve(target.spec, target.root)
    spec = target.spec if directory is None else str(directory.path)
    command = [*telemetry_command(), "top", spec, "--served", "--dir", str(target.root)]
    if args.baseline:
        load_baseline(target.root, find_run.fallback_dirs(), args.baseline)
        command += ["--baseline", args.baseline]
    return launch.serve(command, args.port, _title(target, directory))


def _cockpit(args: argparse.Namespace, target: find_run.RunTarget) -> int:
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # the viewer does no linear algebra either
    import asyncio

    from telemetry.cli.wrapped.terminal import ask_the_terminal
    from telemetry.config import load
    from telemetry.store.run_directory import resolve
    from telemetry.tui.app import Cockpit
    from telemetry.tui.feed.open import open_feed

    ask_the_terminal(1)  # Textual reads the size of this file descriptor
    config, origins = load()
    fallback_dirs = config.run.fallback_dirs
    directory = _directory(target) if target.endpoint else resolve(target.spec, target.root)
    load_result = partial(load_baseline, target.root, fallback_dirs)
    baseline = load_result(args.baseline) if args.baseline else None
    feed = open_feed(target.endpoint, directory, fallback_dirs=fallback_dirs, job_pid=args.job_pid)
    try:
        cockpit = Cockpit(
            feed,
            title=_title(target, directory),
            settings=config.tui,
            stop_words=_stop_words(args.job_pid),
            load_baseline=load_result,
            baselines=partial(baselines, target.root, fallback_dirs, directory),
            baseline=baseline,
            export_dir=Path.cwd(),
            beside_command=bool(args.job_pid),
        )
        return asyncio.run(_until_left(cockpit, args.job_pid))
    except ConfigError as error:
        raise _placed(error, origins) from None
    finally:
        feed.close()


def _placed(error: ConfigError, origins: Mapping[str, str]) -> ConfigError:
    """Add the source of the setting to the error. The message begins with the name of the setting."""
    key, colon, rest = error.message.partition(":")
    return ConfigError(f"{key} ({origins[key]}){colon}{rest}", hint=error.hint) if key in origins else error


async def _until_left(cockpit: Cockpit, parent: int) -> int:
    """Run the cockpit and return its exit code. `parent` is the required parent process; 0 accepts any."""
    import asyncio
    from threading import Thread

    Thread(target=_end_with_terminal, name="terminal-watch", daemon=True).start()
    watch = asyncio.create_task(_leave_with_parent(cockpit, parent)) if parent else None
    await cockpit.run_async()
    if watch is not None:
        watch.cancel()
    return cockpit.return_code or Exit.OK


def _end_with_terminal() -> None:
    """End the process at once when the terminal is gone, or when the browser closed its end of stdin.

    Otherwise Textual would read from it forever at full CPU, and there is no terminal left to restore.
    Blocks until then, in a thread of its own: the event loop may wait forever for room in the queue of output.
    """
    import select

    stdin = select.poll()
    stdin.register(0, 0)  # a hang-up is reported always
    stdin.poll()
    os._exit(128 + signal.SIGHUP)


async def _leave_with_parent(cockpit: Cockpit, parent: int) -> None:
    """Close the cockpit when the parent has died: this process must restore the terminal itself then."""
    import asyncio

    while not (cockpit.is_running and os.getppid() != parent):
        await asyncio.sleep(_LOOK_S)
    _let_modes_be_set()
    cockpit.exit(return_code=128 + signal.SIGHUP)


def _let_modes_be_set() -> None:
    """Allow this process to set terminal modes from the background if the modes are still Textual's.

    Once a shell has the terminal back, this process is in the background. A shell that edits lines has set its own
    modes, in which signals can be typed. Then setting modes fails instead.
    """
    import termios

    with suppress(termios.error):
        typed_signals = termios.tcgetattr(0)[3] & termios.ISIG
        signal.signal(signal.SIGTTOU, _unheeded if typed_signals else signal.SIG_IGN)


def _unheeded(_number: int, _frame: FrameType | None) -> None:
    """Ignore the signal. Having a handler makes it interrupt a call that would otherwise wait or stop."""


def _directory(target: find_run.RunTarget) -> RunDirectory | None:
    """Return the directory of a live run, or None if it can't be read from here."""
    from telemetry.store.run_directory import resolve

    try:
        return resolve(target.directory_spec, target.root)
    except TelemetryError:
        return None


def _title(target: find_run.RunTarget, directory: RunDirectory | None) -> str:
    if target.live is not None:
        return target.live.name
    return (directory.name or directory.path.name) if directory is not None else target.spec


def _stop_words(job_pid: int) -> str:
    if job_pid:
        return "Stop the command? This sends it SIGTERM."
    return "End the run? Producers continue, but later events are not in the result."

"""`telemetry export`: delivery of a run, live or finished, to trackers and monitors, or to files."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from telemetry.cli import console, find_run
from telemetry.errors import EndpointError, RunDirectoryError, UsageError
from telemetry.wire.exit_codes import Exit

if TYPE_CHECKING:
    from telemetry.cli.beside_run.exports import Task
    from telemetry.store.backends import WriterFolder
    from telemetry.wire.control import Welcome


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "targets",
        metavar="RUN",
        nargs="*",
        help="directory, run id, name, control address, or `latest`: the newest run below --dir, or if there is "
        "none, the newest live run (default: latest); --to parquet takes several, and folders of run directories",
    )
    find_run.add_dir_argument(parser)
    parser.add_argument(
        "--to",
        action="append",
        default=[],
        metavar="NAME[:key=value,…]",
        help="backend to export to, such as jsonl or wandb:project=mine; repeatable; as=NAME gives a "
        "second one of the same kind its own name",
    )
    parser.add_argument(
        "--every",
        type=_number,
        metavar="SECONDS",
        help="time between two readings of counters, gauges and series (default: the setting backends.every_s)",
    )
    parser.add_argument(
        "--timeout",
        type=_seconds,
        metavar="SECONDS",
        help="after the run has ended: stop once no data was delivered for this long (default: the "
        "setting backends.finish_timeout_s)",
    )
    parser.add_argument(
        "--resume",
        action="store_true",
        help="deliver what earlier writers of the run have not delivered yet, with their original "
        "options; --to limits this to some writers and replaces their options",
    )
    parser.add_argument(
        "--requests",
        action="append",
        default=[],
        metavar="FILE",
        help="write one row for each request that the run has logged to this file instead: .csv, .jsonl or "
        ".parquet; repeatable",
    )
    parser.add_argument(
        "--steps",
        action="append",
        default=[],
        metavar="FILE",
        help="write one row for each value of each step to this file instead: .csv, .jsonl or .parquet; repeatable",
    )
    parser.add_argument("--list", action="store_true", help="list the backends and their options, then exit")
    parser.add_argument(
        "--json", action="store_true", help="print the outcome of each backend, or the list, as JSON"
    )
    parser.add_argument("--writer", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--endpoint", default="", help=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    if args.list:
        from telemetry.cli.backend_list import show

        return show(as_json=args.json)
    from telemetry.cli.beside_run.writers import check_every

    args.target = args.targets[0] if args.targets else find_run.LATEST
    if args.requests or args.steps:
        return _write_rows(args)
    check_every(args.every)
    if args.writer:
        return _write(args)
    return _export(args)


def _write_rows(args: argparse.Namespace) -> int:
    """Write files with the requests and steps of a run on this machine."""
    from telemetry.cli.export_files import write_request_files, write_step_files
    from telemetry.store.run_directory import resolve

    _check_one(args)
    if args.to or args.resume:
        flag = "--requests" if args.requests else "--steps"
        raise UsageError(f"{flag} writes files, not to backends", hint="give --to in a command of its own")
    target = find_run.find(args)
    directory = resolve(target.directory_spec, target.root)
    if args.requests:
        write_request_files(directory, args.requests)
    if args.steps:
        write_step_files(directory, args.steps)
    return Exit.OK


def _export(args: argparse.Namespace) -> int:
    from telemetry.backends.choice import parse_all, unheeded
    from telemetry.cli.beside_run.exports import Exports
    from telemetry.cli.export_files import KIND, run_directories, write_to_lakes
    from telemetry.config import load

    settings = load({}).config.backends
    choices = parse_all(args.to or ([] if args.resume else settings.to))
    if not choices and not args.resume:
        raise UsageError(
            "no backend to export to", hint="give --to NAME; `telemetry export --list` shows the names"
        )
    for message in unheeded(settings.values, choices):
        console.say(message)
    lakes = [choice for choice in choices if choice.kind == KIND]
    if lakes and not args.resume and len(lakes) == len(choices) and _are_many(args):
        directories = run_directories(args.targets, find_run.root_directory(args.dir))
        return write_to_lakes(directories, lakes, args.every, as_json=args.json)
    _check_one(args)
    endpoint, directory = _located(args)
    code: int = Exit.OK
    if lakes and not args.resume and not endpoint:
        others = [choice for choice in choices if choice.kind != KIND]
        code = write_to_lakes([directory], lakes, args.every, as_json=args.json and not others)
        if not others:
            return code
        choices = others
    given = {choice.name: str(choice) for choice in choices}
    if args.resume:
        tasks = _unfinished(directory, given)
        parse_all([task.to for task in tasks])
        if not tasks:
            console.say(_nothing_to_deliver(directory, given))
            return Exit.OK
    else:
        _say_what_is_done(directory, given)
        tasks = [_task(directory, name, to, args.every) for name, to in given.items()]
    patience_s = settings.finish_timeout_s if args.timeout is None else args.timeout
    with Exports(tasks, endpoint, directory, patience_s=patience_s) as exports:
        exports.wait()
    exports.tell(sys.stderr)
    if args.json:
        console.write_json(exports.stats)
    return max(exports.code, code)


def _are_many(args: argparse.Namespace) -> bool:
    """Return whether several runs are to be exported: more than one, or a folder of run directories."""
    from telemetry.store.run_directory import list_runs

    return len(args.targets) > 1 or (Path(args.target).is_dir() and bool(list_runs(Path(args.target))))


def _check_one(args: argparse.Namespace) -> None:
    """Raise UsageError if several runs are given."""
    if len(args.targets) > 1:
        raise UsageError("only --to parquet exports several runs", hint="export them one after the other")


def _located(args: argparse.Namespace) -> tuple[str, Path]:
    """Return the address of a live run (else empty) and the folder that holds the folders of its writers."""
    from telemetry.store.run_directory import FINAL, resolve
    from telemetry.transport.client import hello

    target = find_run.find(args)
    ended = target.live is not None and (Path(target.live.dir) / FINAL).exists()  # it still answers for a moment
    if target.endpoint and not ended:
        try:
            find_run.check_listened(target.endpoint)
            welcome = hello(target.endpoint)
        except EndpointError:
            if target.live is None:
                raise
        else:
            return target.endpoint, _here(welcome) or target.root / "backends-of" / welcome.run_id
    return "", resolve(target.directory_spec, target.root).path


def _here(welcome: Welcome) -> Path | None:
    """Return the run's directory, or None if it is on another machine."""
    from telemetry.store.run_directory import RunDirectory

    with suppress(RunDirectoryError):
        directory = RunDirectory.open(Path(welcome.directory)) if welcome.directory else None
        return directory.path if directory is not None and directory.run_id == welcome.run_id else None
    return None


def _task(directory: Path, name: str, to: str, every_s: float | None) -> Task:
    """Return the task of one writer. Raises UsageError if the run has another writer of this name."""
    from telemetry.cli.beside_run.exports import Task
    from telemetry.redaction import mask_secrets
    from telemetry.store.backends import writer_folder
    from telemetry.wire.codec import carriable

    folder = writer_folder(directory, name)
    facts = folder.read_facts()
    if facts is not None and [facts.to] != mask_secrets([carriable(to)]):
        raise UsageError(
            f"the run already has a writer named {name} with other options: {facts.to}",
            hint=f"give this one another name: --to {to}{',' if ':' in to else ':'}as={name}-2",
        )
    return Task(name, to, every_s)


def _unfinished(directory: Path, given: dict[str, str]) -> list[Task]:
    """Return tasks for writers that have not finished.

    `given` holds names with new options, which replace the stored ones.
    """
    from telemetry.store.backends import writer_folders

    folders = {folder.path.name: folder for folder in writer_folders(directory)}
    for name in given:
        if name not in folders:
            raise UsageError(
                f"the run has no writer named {name}", hint=f"its writers: {', '.join(folders) or 'none'}"
            )
    wanted = {name: folder for name, folder in folders.items() if not given or name in given}
    return [task for name, folder in wanted.items() if (task := _rest(folder, given.get(name))) is not None]


def _nothing_to_deliver(directory: Path, given: Collection[str]) -> str:
    if not given:
        return f"nothing to deliver: all writers in {directory} are done"
    from telemetry.store.backends import unfinished_writers

    others = sorted(unfinished_writers(directory) - set(given))
    done = f"nothing to deliver: {', '.join(given)} is done already"
    return f"{done}; not done and not selected: {', '.join(others)}" if others else done


def _say_what_is_done(directory: Path, names: Iterable[str]) -> None:
    """Tell the user which writers have delivered the whole run already.

    They do not check whether the backend still has all of it.
    """
    from telemetry.store.backends import writer_folder

    for name in names:
        folder = writer_folder(directory, name)
        with suppress(RunDirectoryError):  # the writer itself reports the error
            if folder.read_checkpoint().done:
                anew = f"remove {folder.path} to deliver the run again"
                console.say(f"{name}: delivered earlier, not checked again; {anew}")


def _rest(folder: WriterFolder, to: str | None) -> Task | None:
    from telemetry.cli.beside_run.exports import Task
    from telemetry.redaction import MASK

    facts = folder.read_facts()
    if facts is None or folder.read_checkpoint().done:
        return None
    if to is None and MASK in facts.to:
        raise UsageError(
            f"the options of {facts.name} contain a secret, which is not stored: {facts.to}",
            hint="give its --to again",
        )
    return Task(folder.path.name, to or facts.to, facts.every_s, facts.cwd)


def _write(args: argparse.Namespace) -> int:
    """Run one writer and end the process with its exit code.

    Never returns: threads that a tracker's library leaves behind must not keep the process alive.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as in `serve`
    from telemetry.backends.writer.options import order
    from telemetry.backends.writer.process import write_run

    if len(args.to) != 1:
        raise UsageError("--writer requires exactly one --to")
    code = write_run(order(args.to[0], Path(args.target), args.endpoint, args.every))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _number(text: str) -> float:
    try:
        return float(text.removesuffix("s"))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds, such as 10") from error


def _seconds(text: str) -> float:
    value = _number(text)
    if not 0.0 <= value <= 366 * 86_400.0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds, such as 10")
    return value

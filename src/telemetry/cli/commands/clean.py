"""`telemetry clean`: removes old runs, and says how much room that makes.

Only directories that `telemetry` has made are removed: directly in the folder of runs, owned by this user, with the
name and a file of a run. Live runs stay. Links are never followed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from telemetry.cli import console, find_run
from telemetry.common import formatting
from telemetry.common.formatting import number_of, printable
from telemetry.errors import RunDirectoryError, TelemetryError, UsageError
from telemetry.wire.exit_codes import Exit

if TYPE_CHECKING:
    from telemetry.config.schema import Config
    from telemetry.store.run_directory import RunDirectory

_DAY_S: Final = 86_400.0


@dataclass(frozen=True)
class OldRun:
    """A run on disk, and what speaks for and against its removal."""

    directory: RunDirectory
    ended_ns: int
    """Wall clock of its end, or of the last sign of life."""
    has_result: bool
    left: str = ""
    """The reason why it must stay; empty if it may be removed."""
    lacks: str = ""
    """What would be lost for good: data of the run that is in no result or no tracker."""

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return _size(self.directory.path)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--older", metavar="AGE", help="remove runs that ended longer ago than this, such as 30d, 2w or 12h"
    )
    parser.add_argument(
        "--keep", type=int, metavar="N", help="keep the newest N runs; without --older, remove all others"
    )
    find_run.add_dir_argument(parser)
    parser.add_argument("--dry-run", action="store_true", help="only list the runs that would be removed")
    parser.add_argument("--yes", action="store_true", help="remove them without asking")


def run(args: argparse.Namespace) -> int:
    from telemetry.config import load

    config = load({"run.dir": args.dir}).config
    root = Path(config.run.dir).absolute()
    older_s, keep = _limits(args, config, root)
    runs = old_runs(root, older_s=older_s, keep=keep)
    chosen = [old_run for old_run in runs if not old_run.left]
    for old_run in runs:
        if old_run.left:
            console.say(f"{old_run.directory.path.name} stays: {old_run.left}")
    if not chosen:
        console.say(f"no run to remove in {root}")
        _remove_leftovers(root)
        return Exit.OK
    _print(chosen)
    if args.dry_run:
        console.say(f"would remove {_total(chosen)}")
        return Exit.OK
    if not args.yes:
        if not console.can_ask():
            raise UsageError("there is no terminal to ask at, so nothing was removed", hint="add --yes")
        if not console.ask(f"Remove {_total(chosen)}?"):
            console.say("nothing was removed")
            return Exit.ERROR
    removed, freed = remove(chosen)
    _remove_leftovers(root)
    console.say(f"removed {number_of(removed, 'run')} and freed {formatting.size(freed)}")
    return Exit.OK if removed == len(chosen) else Exit.ERROR


def apply_retention(config: Config) -> None:
    """Remove the runs that the settings call old, and say so. Never raises.

    Only runs with a result, whose trackers have all of it: anything else is for a person to decide.
    """
    if not config.retention.days:
        return
    root = Path(config.run.dir).absolute()
    try:
        old = old_runs(root, older_s=config.retention.days * _DAY_S, keep=config.retention.keep)
        removed, freed = remove(
            old_run for old_run in old if old_run.has_result and not old_run.left and not old_run.lacks
        )
    except TelemetryError as error:
        console.say(f"old runs were not removed: {error}")
        return
    if removed:
        console.say(
            f"removed {number_of(removed, 'run')} older than {config.retention.days:g} days and freed "
            f"{formatting.size(freed)} (retention.days)"
        )


def old_runs(root: Path, *, older_s: float, keep: int) -> list[OldRun]:
    """Return the runs in a folder that ended longer ago than `older_s`, without the newest `keep`; newest first.

    Raises RunDirectoryError if the folder can't be read.
    """
    from telemetry.store.live_runs import list_live
    from telemetry.store.run_directory import list_runs
    from telemetry.transport import runtime_directory

    live = {live_run.run_id for live_run in list_live(runtime_directory()) if live_run.alive}
    fallback_dirs = find_run.fallback_dirs()
    runs = [_old_run(directory, live, fallback_dirs) for directory in list_runs(root)[keep:]]
    # after the look at the runs: a live one writes all the time, and its last sign of life is not in the future
    before_ns = time.time_ns() - round(older_s * 1e9)
    return [old_run for old_run in runs if old_run.ended_ns <= before_ns]


def remove(runs: Iterable[OldRun]) -> tuple[int, int]:
    """Remove runs. Return their number and the bytes that they had. Say which could not be removed."""
    from telemetry.store.live_runs import forget
    from telemetry.transport import runtime_directory

    removed = freed = 0
    for old_run in runs:
        size = old_run.size
        try:
            old_run.directory.remove()
        except RunDirectoryError as error:
            console.say(str(error))
            continue
        forget(runtime_directory(), old_run.directory.run_id)
        removed, freed = removed + 1, freed + size
    return removed, freed


def _limits(args: argparse.Namespace, config: Config, root: Path) -> tuple[float, int]:
    """Return the age in seconds and the number of runs to keep. Raises UsageError without any limit."""
    from telemetry.history import parse_time
    from telemetry.store.run_directory import list_runs

    if args.keep is not None and args.keep < 0:
        raise UsageError(f"--keep {args.keep} is not a number of runs", hint="give 0 or more")
    if args.older is None and args.keep is None:
        if config.retention.days:
            return config.retention.days * _DAY_S, config.retention.keep
        runs = list_runs(root)
        size = formatting.size(sum(_size(run.path) for run in runs))
        raise UsageError(
            f"say which runs are old: {number_of(len(runs), 'run')} in {root} take {size}",
            hint="--older 30d, --keep 20 or both; or set retention.days",
        )
    older_s = 0.0
    if args.older is not None:
        try:
            older_s = parse_time(args.older)
        except UsageError as error:
            raise UsageError(f"--older: {error.message}", hint="write it like 30d, 2w or 12h") from None
        if older_s < 0:
            raise UsageError(f"--older {args.older} is not an age", hint="write it like 30d, 2w or 12h")
    return older_s, args.keep or 0


def _old_run(directory: RunDirectory, live: Iterable[str], fallback_dirs: Sequence[str]) -> OldRun:
    from telemetry.store.dead_run import remains
    from telemetry.store.final_snapshot import find_final
    from telemetry.wire.snapshot import TERMINAL

    try:
        owner = directory.path.stat().st_uid
        final = find_final(directory, fallback_dirs)
        ended_ns = final.path.stat().st_mtime_ns if final is not None else 0
    except OSError:
        return OldRun(directory, directory.started_ns, has_result=False, left="it can't be read")
    has_result = False
    if final is not None:
        with suppress(RunDirectoryError):
            has_result = final.head().state in TERMINAL
    rest = remains(directory)
    left = _reason_to_stay(directory, owner, live)
    missing = "" if left else _lacks(directory, recoverable=not has_result and rest.recoverable)
    return OldRun(directory, ended_ns or rest.since_ns, has_result, left, missing)


def _reason_to_stay(directory: RunDirectory, owner: int, live: Iterable[str]) -> str:
    from telemetry.store.backends import writer_folders
    from telemetry.store.run_directory import RunDirectory

    if owner != os.geteuid():
        return "it belongs to another user"
    try:
        RunDirectory.open(directory.path)
    except RunDirectoryError:
        return "it has no file of a run"
    if directory.run_id in live or directory.locked():
        return "it is live"
    if find_run.keeper(directory):
        return "its aggregator is being restarted"
    busy = [folder.path.name for folder in writer_folders(directory.path) if folder.taken()]
    return f"it is being delivered to {', '.join(busy)}" if busy else ""


def _lacks(directory: RunDirectory, *, recoverable: bool) -> str:
    from telemetry.store.backends import unfinished_writers

    missing = ["no result yet: `telemetry recover` makes it"] if recoverable else []
    if names := sorted(unfinished_writers(directory.path)):
        missing.append(f"not delivered to {', '.join(names)}")
    return printable("; ".join(missing))


def _print(runs: Sequence[OldRun]) -> None:
    from telemetry.report.table import ReportTable, TableColumn, layout

    now_ns = time.time_ns()
    heads = [TableColumn("run"), TableColumn("ended"), TableColumn("size"), TableColumn("", right=False)]
    rows = [
        [
            printable(old_run.directory.path.name),
            _ago((now_ns - old_run.ended_ns) / 1e9),
            formatting.size(old_run.size),
            old_run.lacks,
        ]
        for old_run in runs
    ]
    console.write("\n".join(layout(ReportTable(heads, rows), console.width(sys.stdout))) + "\n")


def _ago(seconds: float) -> str:
    if seconds >= 2 * _DAY_S:
        return f"{seconds / _DAY_S:.0f} days ago"
    return f"{formatting.duration_s(max(0.0, seconds))} ago"


def _total(runs: Sequence[OldRun]) -> str:
    return f"{number_of(len(runs), 'run')} of {formatting.size(sum(old_run.size for old_run in runs))}"


def _remove_leftovers(root: Path) -> None:
    """Delete what an interrupted removal has left."""
    from telemetry.store.run_directory import REMOVED

    with suppress(OSError):
        for path in root.iterdir():
            if (
                path.name.startswith(".")
                and path.name.endswith(REMOVED)
                and path.is_dir()
                and not path.is_symlink()
            ):
                shutil.rmtree(path, ignore_errors=True)


def _size(folder: Path) -> int:
    """Return the bytes on disk below a folder, without following links."""
    total = 0
    for path, _, files in os.walk(folder):
        for name in files:
            with suppress(OSError):
                total += os.lstat(os.path.join(path, name)).st_blocks * 512
    return total

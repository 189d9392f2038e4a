"""`telemetry clean`: removes old runs and old comparisons of `telemetry ab`, and says how much room that makes.

Only directories that `telemetry` has made are removed, and only those of this user. Runs are directly in the folder
of runs, with the name and a file of a run. Comparisons are directly in its folder `ab`, with a file `ab.json`. Live
ones stay. Links are never followed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from telemetry.cli import console, find_run
from telemetry.common import formatting
from telemetry.common.formatting import number_of, printable
from telemetry.errors import RunDirectoryError, TelemetryError, UsageError
from telemetry.wire.exit_codes import Exit

if TYPE_CHECKING:
    from telemetry.config.schema import Config
    from telemetry.store.run_directory import RunDirectory

Kind = Literal["run", "comparison"]
KINDS: Final[tuple[Kind, ...]] = ("run", "comparison")
_DAY_S: Final = 86_400.0


@dataclass(frozen=True)
class OldFolder:
    """A run or a comparison on disk, and what speaks for and against its removal."""

    directory: RunDirectory
    ended_ns: int
    """Wall clock of its end, or of the last sign of life."""
    has_result: bool
    left: str = ""
    """The reason why it must stay; empty if it may be removed."""
    lacks: str = ""
    """What would be lost for good: data of a run that is in no result or no tracker, or pairs without a result."""
    kind: Kind = "run"

    @property
    def name(self) -> str:
        """Name of the folder below the folder of runs."""
        path = self.directory.path
        return printable(path.name if self.kind == "run" else f"{path.parent.name}/{path.name}")

    @cached_property
    def size(self) -> int:
        """Bytes on disk at the first call."""
        return _size(self.directory.path)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--older",
        metavar="AGE",
        help="remove runs, and comparisons of `telemetry ab`, that ended longer ago than this, such as 30d, 2w or "
        "12h",
    )
    parser.add_argument(
        "--keep",
        type=int,
        metavar="N",
        help="keep the newest N runs and the newest N comparisons; without --older, remove all others",
    )
    find_run.add_dir_argument(parser)
    parser.add_argument("--dry-run", action="store_true", help="only list what would be removed")
    parser.add_argument("--yes", action="store_true", help="remove them without asking")


def run(args: argparse.Namespace) -> int:
    from telemetry.config import load

    config = load({"run.dir": args.dir}).config
    root = Path(config.run.dir).absolute()
    older_s, keep = _limits(args, config, root)
    old = old_folders(root, older_s=older_s, keep=keep)
    chosen = [folder for folder in old if not folder.left]
    for folder in old:
        if folder.left:
            console.say(f"{folder.name} stays: {folder.left}")
    if not chosen:
        console.say(f"no run to remove in {root}, and no comparison")
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
    removed = remove(chosen)
    _remove_leftovers(root)
    for what, freed in _amounts(removed):
        console.say(f"removed {what} and freed {freed}")
    return Exit.OK if len(removed) == len(chosen) else Exit.ERROR


def apply_retention(config: Config) -> None:
    """Remove the runs and comparisons that the settings call old, and say so. Never raises.

    Only those with a result, whose trackers have all of it: anything else is for a person to decide.
    """
    if not config.retention.days:
        return
    root = Path(config.run.dir).absolute()
    try:
        old = old_folders(root, older_s=config.retention.days * _DAY_S, keep=config.retention.keep)
        removed = remove(folder for folder in old if folder.has_result and not folder.left and not folder.lacks)
    except TelemetryError as error:
        console.say(f"old runs were not removed: {error}")
        return
    for what, freed in _amounts(removed):
        console.say(f"removed {what} older than {config.retention.days:g} days and freed {freed} (retention.days)")


def old_folders(root: Path, *, older_s: float, keep: int) -> list[OldFolder]:
    """Return the runs and then the comparisons that ended longer ago than `older_s`, without the newest `keep`.

    The newest `keep` of both kinds are left out. Each kind is sorted, newest first. Raises RunDirectoryError if the
    folder can't be read.
    """
    from telemetry.store.live_runs import list_live
    from telemetry.store.run_directory import list_runs
    from telemetry.transport import runtime_directory

    live = {live_run.run_id for live_run in list_live(runtime_directory()) if live_run.alive}
    fallback_dirs = find_run.fallback_dirs()
    folders = [_old_run(directory, live, fallback_dirs) for directory in list_runs(root)[keep:]]
    folders += [_old_comparison(path) for path in _comparisons(root)[keep:]]
    # after the look at the folders: a live one writes all the time, and its last sign of life is not in the future
    before_ns = time.time_ns() - round(older_s * 1e9)
    return [folder for folder in folders if folder.ended_ns <= before_ns]


def remove(folders: Iterable[OldFolder]) -> list[OldFolder]:
    """Remove folders. Return those that are gone, with their sizes. Say which could not be removed."""
    from telemetry.store.live_runs import forget
    from telemetry.transport import runtime_directory

    removed = []
    for folder in folders:
        _ = folder.size  # it is 0 afterwards
        try:
            folder.directory.remove()
        except RunDirectoryError as error:
            console.say(str(error))
            continue
        if folder.kind == "run":
            forget(runtime_directory(), folder.directory.run_id)
        removed.append(folder)
    return removed


def _limits(args: argparse.Namespace, config: Config, root: Path) -> tuple[float, int]:
    """Return the age in seconds and the number of folders to keep. Raises UsageError without any limit."""
    from telemetry.history import parse_time

    if args.keep is not None and args.keep < 0:
        raise UsageError(f"--keep {args.keep} is not a number of runs", hint="give 0 or more")
    if args.older is None and args.keep is None:
        if config.retention.days:
            return config.retention.days * _DAY_S, config.retention.keep
        raise UsageError(
            f"say which runs are old: {root} has {_total(old_folders(root, older_s=0.0, keep=0))}",
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


def _old_run(directory: RunDirectory, live: Iterable[str], fallback_dirs: Sequence[str]) -> OldFolder:
    from telemetry.store.dead_run import remains
    from telemetry.store.final_snapshot import find_final
    from telemetry.wire.snapshot import TERMINAL

    try:
        owner = directory.path.stat().st_uid
        final = find_final(directory, fallback_dirs)
        ended_ns = final.path.stat().st_mtime_ns if final is not None else 0
    except OSError:
        return OldFolder(directory, directory.started_ns, has_result=False, left="it can't be read")
    has_result = False
    if final is not None:
        with suppress(RunDirectoryError):
            has_result = final.head().state in TERMINAL
    rest = remains(directory)
    left = _reason_to_stay(directory, owner, live)
    missing = "" if left else _lacks(directory, recoverable=not has_result and rest.recoverable)
    return OldFolder(directory, ended_ns or rest.since_ns, has_result, left, missing)


def _comparisons(root: Path) -> list[Path]:
    """Return the folders of all comparisons, newest first."""
    from telemetry.cli.ab.session import FOLDER, directories

    if (root / FOLDER).is_symlink():
        return []
    return [path for path in directories(root) if not path.is_symlink()]


def _old_comparison(path: Path) -> OldFolder:
    from telemetry.cli.ab.session import FILE, read_result
    from telemetry.store.run_directory import RunDirectory, list_runs

    directory = RunDirectory(path)
    ended_ns, left = 0, ""
    try:
        ended_ns = (path / FILE).stat().st_mtime_ns
        if path.stat().st_uid != os.geteuid():
            left = "it belongs to another user"
        elif any(each.locked() for each in (directory, *list_runs(path))):
            left = "it is live"
    except (OSError, RunDirectoryError):
        left = "it can't be read"
    has_result, lacks = False, ""
    with suppress(TelemetryError):
        has_result = not left and read_result(path).ending not in ("", "stopped")
        lacks = "" if has_result or left else "no result yet: `telemetry ab --resume` goes on"
    return OldFolder(directory, ended_ns, has_result, left, lacks, "comparison")


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


def _print(folders: Sequence[OldFolder]) -> None:
    """Print a table of each kind."""
    from telemetry.report.table import ReportTable, TableColumn, layout

    now_ns = time.time_ns()
    tables = []
    for kind, some in _by_kind(folders):
        heads = [TableColumn(kind), TableColumn("ended"), TableColumn("size"), TableColumn("", right=False)]
        rows = [
            [folder.name, _ago((now_ns - folder.ended_ns) / 1e9), formatting.size(folder.size), folder.lacks]
            for folder in some
        ]
        tables.append("\n".join(layout(ReportTable(heads, rows), console.width(sys.stdout))))
    console.write("\n\n".join(tables) + "\n")


def _ago(seconds: float) -> str:
    if seconds >= 2 * _DAY_S:
        return f"{seconds / _DAY_S:.0f} days ago"
    return f"{formatting.duration_s(max(0.0, seconds))} ago"


def _by_kind(folders: Sequence[OldFolder]) -> Iterator[tuple[Kind, list[OldFolder]]]:
    """Yield the kinds that there are, with their folders."""
    for kind in KINDS:
        if some := [folder for folder in folders if folder.kind == kind]:
            yield kind, some


def _amounts(folders: Sequence[OldFolder]) -> Iterator[tuple[str, str]]:
    """Yield the number and the size of each kind, as in `3 runs` and `12.0 MB`."""
    for kind, some in _by_kind(folders):
        yield number_of(len(some), kind), formatting.size(sum(folder.size for folder in some))


def _total(folders: Sequence[OldFolder]) -> str:
    """Describe folders, as in `3 runs of 12.0 MB and 1 comparison of 40.0 kB`."""
    return " and ".join(f"{what} of {size}" for what, size in _amounts(folders)) or "none"


def _remove_leftovers(root: Path) -> None:
    """Delete what an interrupted removal has left."""
    from telemetry.cli.ab.session import FOLDER
    from telemetry.store.run_directory import REMOVED

    folders = [root] if (root / FOLDER).is_symlink() else [root, root / FOLDER]
    for folder in folders:
        with suppress(OSError):
            for path in folder.iterdir():
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

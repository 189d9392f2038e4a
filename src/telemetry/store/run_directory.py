"""Run directories: `<root>/<name>-<UTC time>-<run id>/`, a `latest` link beside them, and finding a run.

manifest.json  final_snapshot.json  history.hlog  daemon.log  output.log
journal/  history/  records/  requests/  upstream/
"""

from __future__ import annotations

import errno
import os
import platform
import re
import shutil
import socket
import time
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from telemetry import limits
from telemetry.common.distribution import version
from telemetry.common.file_lock import FileLock, is_locked, lock_path
from telemetry.common.files import read_file
from telemetry.common.formatting import did_you_mean, number_of
from telemetry.errors import RunDirectoryError, RunNotFoundError, UsageError
from telemetry.redaction import mask_secrets
from telemetry.store.append_file import describe
from telemetry.store.atomic import OWNER_ONLY, write_atomic
from telemetry.store.processes import process_lives
from telemetry.wire.codec import BAD_INPUT, carriable
from telemetry.wire.events import Natural, RunId
from telemetry.wire.seal import check_seal, sealed
from telemetry.wire.version import SCHEMA

__all__ = [
    "LATEST",
    "Manifest",
    "MergedRun",
    "RunDirectory",
    "called",
    "directory_name",
    "list_runs",
    "manifest_for",
    "resolve",
    "slug",
]

LATEST: Final = "latest"
MANIFEST: Final = "manifest.json"
FINAL: Final = "final_snapshot.json"
JOURNAL: Final = "journal"
REMOVED: Final = ".removed"
"""End of the name of a run directory while it is deleted. Such a directory is no run."""

_AGAIN_S: Final = 0.02
_PATIENCE_S: Final = 1.0  # a process that only checks holds the lock for microseconds
_NO_LOCKS: Final = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK, errno.EBADF, errno.EINVAL)
"""Errors of file systems without locks, or without locks on directories: some network file systems."""
_SLUG_CHARS: Final = 80  # with time and id still far below the 255 bytes of a file name
_HAS: Final = f"a run is a directory with {MANIFEST} or {FINAL}"
_RUN_ID: Final = re.compile(r"[A-Za-z0-9_]{1,64}")
_RUN_NAME: Final = re.compile(r"(?P<slug>.+)-(?P<time>\d{8}T\d{6}Z)-(?P<run_id>[A-Za-z0-9_]{1,64})")
_TIME_FORMAT: Final = "%Y%m%dT%H%M%SZ"


class MergedRun(Struct, kw_only=True, frozen=True):
    """A run that was merged into another one."""

    run_id: RunId
    name: str
    host: str = ""
    directory: str = ""
    """Directory at the time of the merge."""


class Manifest(Struct, kw_only=True, frozen=True):
    """The manifest: who ran what, where and with which versions.

    Written at the start, and again when a producer names a run that was started without a name.
    """

    schema_version: int = SCHEMA
    run_id: RunId
    name: str
    started_ns: Natural = 0
    """Wall clock."""
    host: str = ""
    pid: int = 0
    platform: str = ""
    python: str = ""
    telemetry: str = ""
    """Version that wrote the run."""
    cwd: str = ""
    argv: list[str] = []
    endpoint: str = ""
    endpoints: list[str] = []
    """Addresses of control, events, snapshots and records, so that the run can continue there."""
    config: dict[str, Any] = {}
    replay_of: str = ""
    """Directory of the run that this one replays."""
    merged_from: list[MergedRun] = []
    """Runs that `telemetry merge` combined into this one, which never had an aggregator."""
    started_as: str = ""
    """Name with which the run was started, if a producer has given it another one since. Backends keep it."""


@dataclass(frozen=True)
class RunDirectory:
    """The paths of the files of one run. Creating this object touches no file."""

    path: Path
    run_id: str = ""
    slug: str = ""
    started_ns: int = 0
    """Wall clock; rounded to the second if it comes from the directory's name."""

    @staticmethod
    def create(root: Path, name: str, run_id: str, started_wall_ns: int, *, latest: bool = True) -> RunDirectory:
        """Create the directory, for its owner alone (0700), and point `latest` to it.

        Raises RunDirectoryError, UsageError for a bad id.
        """
        if not _RUN_ID.fullmatch(run_id):
            raise UsageError(f"{run_id!r} is not a valid run id", hint="use letters, digits and _, at most 64")
        try:
            path = root.absolute() / directory_name(name, run_id, started_wall_ns)
            link = path.with_name(LATEST)
            if latest and link.is_dir() and not link.is_symlink():
                raise RunDirectoryError(
                    f"{link} is a directory, so it is not replaced by a link",
                    hint="move it away, or choose another --dir",
                )
            path.parent.mkdir(parents=True, exist_ok=True)
            path.mkdir(mode=0o700)
            if latest:
                _point(link, path.name)
        except OSError as error:
            raise RunDirectoryError(
                f"can't create the run directory: {describe(error)}",
                hint="choose a writable folder: --dir, start(dir=…) or TELEMETRY_RUN__DIR",
            ) from error
        return RunDirectory(path, run_id, slug(name), started_wall_ns)

    @staticmethod
    def open(path: Path) -> RunDirectory:
        """Open an existing run directory. Its facts come from its name, else from its manifest.

        Raises RunDirectoryError if it is not a run directory.
        """
        with suppress(ValueError):  # raised for text that can't be a path; then it is not a run directory either
            path = Path(os.path.realpath(path))
        if not is_run(path):
            raise RunDirectoryError(
                f"{path} is not a run directory", hint=f"it contains neither {MANIFEST} nor {FINAL}"
            )
        named = _named(path)
        if named is not None:
            return named
        with suppress(RunDirectoryError):
            manifest = RunDirectory(path).read_manifest()
            return RunDirectory(path, manifest.run_id, slug(manifest.name), manifest.started_ns)
        return RunDirectory(path)

    @property
    def name(self) -> str:
        """Name of the run from its manifest, or else from its directory. Blocks on the disk."""
        with suppress(RunDirectoryError):
            return self.read_manifest().name
        return self.slug

    @property
    def manifest(self) -> Path:
        return self.path / MANIFEST

    @property
    def final(self) -> Path:
        return self.path / FINAL

    @property
    def hlog(self) -> Path:
        return self.path / "history.hlog"

    @property
    def log(self) -> Path:
        return self.path / "daemon.log"

    @property
    def journal(self) -> Path:
        return self.path / JOURNAL

    @property
    def history(self) -> Path:
        return self.path / "history"

    @property
    def records(self) -> Path:
        return self.path / "records"

    @property
    def requests(self) -> Path:
        return self.path / "requests"

    @property
    def upstream(self) -> Path:
        return self.path / "upstream"

    def lock(self) -> FileLock:
        """Lock the directory for this process. Raises RunDirectoryError if another process has it.

        If the file system has no locks, the process named in the manifest owns the directory while it lives.
        """
        try:
            lock = lock_path(self.path, os.O_DIRECTORY, _PATIENCE_S)
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise RunDirectoryError(f"can't lock the run directory: {describe(error)}") from error
            lock = None if self._owner_lives() else FileLock()
        if lock is None:
            raise RunDirectoryError(f"{self.path} is in use by a live aggregator", hint="`telemetry ls` shows it")
        return lock

    def locked(self) -> bool:
        """Return whether a process has locked the directory; True also if that is unknown."""
        try:
            return is_locked(self.path, os.O_DIRECTORY)
        except FileNotFoundError:
            return False
        except OSError as error:
            return error.errno not in _NO_LOCKS or self._owner_lives()

    def await_release(self, timeout_s: float) -> bool:
        """Return whether no process has locked the directory, at the latest after a timeout. Blocks.

        An aggregator that has written its result still answers for a moment before it ends.
        """
        deadline_s = time.monotonic() + timeout_s
        while self.locked():
            if time.monotonic() > deadline_s:
                return False
            time.sleep(_AGAIN_S)
        return True

    def remove(self) -> None:
        """Delete the directory with all its files. `latest` then points to the newest run that is left.

        A link to a directory is not followed, neither here nor inside. Raises RunDirectoryError if a process has
        the run, or if a file can't be deleted.
        """
        if self.path.is_symlink():
            raise RunDirectoryError(f"{self.path} is a link, not a run directory")
        lock = self.lock()
        doomed = self.path.with_name(f".{self.path.name}{REMOVED}")
        try:
            os.rename(self.path, doomed)  # at once: half a run is never listed
            _repoint(self.path.with_name(LATEST), self.path.name)
            shutil.rmtree(doomed)
        except OSError as error:
            raise RunDirectoryError(f"can't delete {self.path}: {describe(error)}") from error
        finally:
            lock.release()

    def _owner_lives(self) -> bool:
        try:
            manifest = self.read_manifest()
        except RunDirectoryError:
            return False
        return manifest.host != socket.gethostname() or process_lives(manifest.pid)

    def write_manifest(self, manifest: Manifest) -> None:
        """Write the manifest atomically.

        Secrets in `argv` and `config` are masked. Blocks. Raises RunDirectoryError.
        """
        masked = replace(manifest, argv=mask_secrets(manifest.argv), config=mask_secrets(manifest.config))
        try:
            data = msgspec.json.format(msgspec.json.encode(masked), indent=2) + b"\n"
            write_atomic(self.manifest, sealed(data), mode=OWNER_ONLY)
        except OSError as error:
            raise RunDirectoryError(f"can't write {self.manifest}: {describe(error)}") from error

    def read_manifest(self) -> Manifest:
        """Read the manifest. Raises RunDirectoryError if it is missing, damaged or newer than this version."""
        try:
            data = read_file(self.manifest, limits.FACTS_BYTES)
            check_seal(data)
            manifest = msgspec.json.decode(data, type=Manifest)
        except OSError as error:
            raise RunDirectoryError(f"can't read the manifest: {describe(error)}") from error
        except BAD_INPUT as error:
            raise RunDirectoryError(f"{self.manifest} is damaged: {error}") from error
        if manifest.schema_version > SCHEMA:
            raise RunDirectoryError(
                f"{self.manifest} has schema version {manifest.schema_version}; this telemetry reads up to {SCHEMA}"
            )
        return manifest


def manifest_for(
    directory: RunDirectory,
    name: str,
    run_id: str,
    argv: Sequence[str],
    endpoint: str,
    *,
    endpoints: Sequence[str] = (),
    config: dict[str, Any] | None = None,
) -> Manifest:
    """Return the manifest of a run of this process."""
    return Manifest(
        run_id=run_id,
        name=name,
        started_ns=directory.started_ns,
        host=socket.gethostname(),
        pid=os.getpid(),
        platform=platform.platform(),
        python=platform.python_version(),
        telemetry=version(),
        cwd=carriable(os.getcwd()),
        argv=[carriable(argument) for argument in argv],
        endpoint=endpoint,
        endpoints=list(endpoints),
        config=config or {},
    )


def directory_name(name: str, run_id: str, started_wall_ns: int) -> str:
    """Return the directory name of a run: `<name>-<UTC time>-<run id>`."""
    stamp = datetime.fromtimestamp(started_wall_ns // 10**9, UTC).strftime(_TIME_FORMAT)
    return f"{slug(name)}-{stamp}-{run_id}"


def slug(name: str) -> str:
    """Return a file name for any name: ASCII letters, digits, `.`, `_` and `-`; never empty, hidden or a path."""
    ascii_name = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    return re.sub(r"[^A-Za-z0-9._-]+", "-", ascii_name)[:_SLUG_CHARS].strip("-._") or "run"


def list_runs(root: Path) -> list[RunDirectory]:
    """Return all runs under `root`, newest first; empty if there is no such directory. Raises RunDirectoryError."""
    try:
        paths = list(root.iterdir())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise RunDirectoryError(f"can't read {root}: {describe(error)}") from error
    runs = [run for path in paths if not path.is_symlink() and (run := _named(path)) and path.is_dir()]
    return sorted(runs, key=_age, reverse=True)


def resolve(spec: str | Path, root: Path) -> RunDirectory:
    """Return the run that `spec` means: a directory, a final_snapshot.json, `latest`, a run id, or a name (newest).

    Raises RunNotFoundError, which names similar runs; RunDirectoryError if `root` can't be read.
    """
    path = Path(spec)
    if path.name in (FINAL, MANIFEST) and path.is_file():
        return RunDirectory.open(path.parent)
    if is_run(path):
        return RunDirectory.open(path)
    text = str(spec)
    if text == LATEST and is_run(root / LATEST):
        return RunDirectory.open(root / LATEST)
    runs = list_runs(root)
    for run in runs:
        if text in (run.run_id, run.path.name):
            return run
    if (named := next(called(text, runs), None)) is not None:
        return named
    raise _not_found(text, root, runs)


def called(name: str, runs: Iterable[RunDirectory]) -> Iterator[RunDirectory]:
    """Yield the runs of a name. If none has it, yield those whose directory was made with it.

    A program may have given its run another name since. Reads manifests as far as the caller goes on.
    """
    wanted, made_with = slug(name), []
    is_found = False
    for run in runs:
        if slug(run.name) == wanted:
            is_found = True
            yield run
        elif run.slug == wanted:
            made_with.append(run)
    if not is_found:
        yield from made_with


def _not_found(text: str, root: Path, runs: Sequence[RunDirectory]) -> RunNotFoundError:
    if os.path.isdir(text):
        within = list_runs(Path(text))
        hint = (
            f"it holds {number_of(len(within), 'run')}: name one of them, and add --dir {text}" if within else _HAS
        )
        return RunNotFoundError(f"{text} is a folder, but not a run", hint=hint)
    if os.path.isfile(text):
        return RunNotFoundError(f"{text} is a file, not a run", hint=_HAS)
    candidates = [word for run in runs for word in (slug(run.name), run.run_id)]
    if runs and (meant := did_you_mean(text, [LATEST, *candidates], most=3)):
        hint = meant
    elif runs:
        hint = f"the newest is {slug(runs[0].name)}, run id {runs[0].run_id}"
    else:
        hint = f"there are no runs in {root.absolute()}"
    return RunNotFoundError(f"no run {text!r} in {root}", hint=hint)


def _point(link: Path, target: str) -> None:
    """Replace the link by a rename, so that a link exists at every moment."""
    temporary = link.with_name(f".{LATEST}.{target}"[:200])
    try:
        temporary.symlink_to(target, target_is_directory=True)
        os.replace(temporary, link)
    except OSError:
        with suppress(OSError):
            temporary.unlink()
        raise


def _repoint(link: Path, gone: str) -> None:
    """Point `latest` to the newest run if it points to one that is gone; delete it if there is no run."""
    if not link.is_symlink() or os.readlink(link) != gone:
        return
    runs = list_runs(link.parent)
    if runs:
        _point(link, runs[0].path.name)
    else:
        link.unlink()


def _named(path: Path) -> RunDirectory | None:
    """Return the run, with the facts in the name of its directory; None if `create` did not make the name."""
    match = _RUN_NAME.fullmatch(path.name)
    if match is None:
        return None
    started = datetime.strptime(match["time"], _TIME_FORMAT).replace(tzinfo=UTC)
    return RunDirectory(path, match["run_id"], match["slug"], int(started.timestamp()) * 10**9)


def _age(run: RunDirectory) -> tuple[int, int]:
    """Return the sort key. The time of the last change orders runs of the same second."""
    try:
        changed_ns = run.path.stat().st_mtime_ns
    except OSError:
        changed_ns = 0
    return run.started_ns, changed_ns


def is_run(path: Path) -> bool:
    """Return whether a path is a run directory. Raises RunDirectoryError if this user may not look into it."""
    try:
        if (path / MANIFEST).is_file() or (path / FINAL).is_file():
            return True
        return (path / JOURNAL).is_dir() and _named(Path(os.path.realpath(path))) is not None
    except PermissionError as error:
        raise RunDirectoryError(
            f"can't read {path}: it {_whose(path)}", hint="ask its owner for `chmod -R g+rX`"
        ) from error


def _whose(path: Path) -> str:
    """Return the reason why this user can't read a directory."""
    try:
        return (
            "belongs to another user" if path.stat().st_uid != os.geteuid() else "has no permissions for its owner"
        )
    except OSError:
        return "lies in a folder that is closed to this user"

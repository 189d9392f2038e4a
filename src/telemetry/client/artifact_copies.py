"""Copies of artifacts in the run directory: a file per content, named by the SHA-256 of what was copied.

The copy is made in the process that records the artifact, at the call, and only if the run directory is on this
machine or on a disk that it shares.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, cast
from urllib.parse import unquote, urlsplit

from telemetry import limits
from telemetry.client import user_warnings
from telemetry.common.formatting import printable
from telemetry.errors import TelemetryError
from telemetry.wire.artifact_copies import FOLDER, path_of, uri_of

if TYPE_CHECKING:
    from telemetry.client.instruments import Counter
    from telemetry.client.process import Process

COUNTER: Final = "telemetry.not_copied"
"""Counter of artifacts that were to be copied and are recorded by reference, by `reason`."""
_CHUNK_BYTES: Final = limits.MIB
_LOOK_AGAIN_S: Final = 1.0  # for the copies of other processes
_MB: Final = 1_000_000

Reason = Literal["too_large", "run_full", "disk_full", "not_a_file", "unreadable", "not_here"]


class NotCopied(Exception):
    """An artifact can't be copied. The text is for people."""

    def __init__(self, reason: Reason, why: str) -> None:
        super().__init__(why)
        self.reason = reason


class Stored(NamedTuple):
    digest: str
    bytes: int
    """Number of bytes that the run directory has grown by."""
    has_changed: bool
    """True if the file was written while it was copied."""


class ArtifactCopies:
    """The copies that one process makes. Any thread may call it."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._said: set[str] = set()
        self._deaf: object = None
        """The producer that waited for its aggregator in vain. It does not wait again."""
        self._total = (0.0, "", 0)
        """When the run directory was looked at, which one it is, and the bytes of its copies then and since."""

    def reference(self, name: object, path_or_uri: object) -> object:
        """Copy a file and return the reference to the copy.

        Return `path_or_uri` itself if there is no copy; then a counter has the reason, and one line on stderr
        explains it. Never raises. Blocks for the copy and, early in the life of this process, for the aggregator.
        """
        try:
            path = _local(os.fsdecode(path_or_uri))  # type: ignore[arg-type]
            directory = self._directory()
            if not directory:
                return path_or_uri
            stored = self._store(path, directory)
            if stored.has_changed:
                self._say("changed", f"{_named(name)} changed while it was copied: the copy may be a mixture")
            uri = uri_of(directory, stored.digest, os.path.basename(path))
            return uri if len(uri) <= limits.TEXT_CHARS else uri.partition("#")[0]
        except NotCopied as error:
            self._left(name, error.reason, str(error))
        except OSError as error:
            suffix = f": {os.fsdecode(error.filename)}" if error.filename else ""  # the file, or its copy
            self._left(name, "unreadable", f"{error.strerror or type(error).__name__}{suffix}")
        except Exception as error:  # noqa: BLE001 – `__fspath__` of a user's object may raise anything
            self._left(name, "not_a_file", str(error))
        return path_or_uri

    def _directory(self) -> str:
        """Return the run directory. Empty if nothing is recorded. Raise NotCopied if it is on another machine."""
        flusher = self._process.ready()
        config = self._process.emit_config
        if flusher is None or config is None:
            return ""
        run = flusher.run
        if run is None and flusher is not self._deaf:
            with suppress(TelemetryError):
                run = flusher.wait_for_welcome(config.start_timeout_s)
        if run is None:
            self._deaf = flusher
            raise NotCopied("not_here", "the aggregator has not answered, so its run directory is unknown")
        # An id is random: a directory with it in its name is that of the run, here or on a shared disk.
        if not run.directory or run.run_id not in os.path.basename(run.directory):
            raise NotCopied("not_here", "the run has no directory")
        if not os.path.isdir(run.directory):
            raise NotCopied("not_here", f"the run directory {run.directory} is not on this machine")
        return run.directory

    def _store(self, path: str, directory: str) -> Stored:
        config = self._process.emit_config
        assert config is not None
        total = self._total_in(directory)
        left = config.artifact_total_mb * _MB - total
        stored = store(path, directory, config.artifact_copy_mb * _MB, left)
        at, where, total = self._total
        self._total = (at, where, total + stored.bytes)
        return stored

    def _total_in(self, directory: str) -> int:
        """Return the bytes of all copies in the run directory, up to a second old for those of other processes."""
        at, where, total = self._total
        now = time.monotonic()
        if where != directory or now - at > _LOOK_AGAIN_S:
            total = _bytes_in(f"{directory}/{FOLDER}")
            self._total = (now, directory, total)
        return total

    def _left(self, name: object, reason: Reason, why: str) -> None:
        with suppress(TelemetryError):  # too many instruments
            cast("Counter", self._process.instrument("counter", COUNTER, "", {"reason": reason})).add()
        self._say(
            reason,
            f"{_named(name)} is recorded by reference, not as a copy: {printable(why)}. Such artifacts are counted "
            f"in {COUNTER}; this warning appears once",
        )

    def _say(self, topic: str, line: str) -> None:
        if topic not in self._said:
            self._said.add(topic)
            user_warnings.warn(line)


def store(path: str, directory: str, most_bytes: int, left_bytes: int) -> Stored:
    """Copy a file into a run directory. Raise NotCopied or OSError; then no part of it is left behind.

    `most_bytes`: the largest file. `left_bytes`: room for further copies in this run.
    """
    source = _open(path)
    try:
        before = os.fstat(source)
        _check_size(before.st_size, most_bytes, left_bytes)
        folder = f"{directory}/{FOLDER}"
        _make_folders(directory, FOLDER)
        space = os.statvfs(folder)
        if space.f_bavail * space.f_frsize < before.st_size + limits.ARTIFACT_FREE_BYTES:
            raise NotCopied("disk_full", "the disk of the run directory is nearly full")
        unfinished = f"{folder}/.{os.getpid()}-{os.urandom(8).hex()}.tmp"
        try:
            digest, length = _copy(source, unfinished, most_bytes, left_bytes)
            copy_path = f"{directory}/{path_of(digest)}"
            if _size_of(copy_path) == length:
                grown = 0
            else:
                _make_folders(directory, os.path.dirname(path_of(digest)))
                os.rename(unfinished, copy_path)
                grown = length
        finally:
            with suppress(FileNotFoundError):
                os.unlink(unfinished)
        after = os.fstat(source)
        has_changed = (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns)
        return Stored(digest, grown, has_changed)
    finally:
        os.close(source)


# --- helpers -----------------------------------------------------------------------------------------


def _local(where: str) -> str:
    """Return the absolute path of a file that a path or an address names. Raise NotCopied for a remote address."""
    if where.startswith("data:") or "://" in where:
        parts = urlsplit(where)
        if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
            raise NotCopied("not_a_file", "only a file of this machine can be copied")
        where = unquote(parts.path, errors="surrogateescape")
    return os.path.abspath(where)


def _open(path: str) -> int:
    """Open a regular file, through links. Raise NotCopied for anything else; never wait for a pipe or a device."""
    kind = os.stat(path).st_mode
    if stat.S_ISREG(kind):
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        if stat.S_ISREG(os.fstat(file).st_mode):
            return file
        os.close(file)
    if stat.S_ISDIR(kind):
        raise NotCopied("not_a_file", "it is a folder; record its files one by one to copy them")
    raise NotCopied("not_a_file", "it is not a regular file")


def _check_size(length: int, most_bytes: int, left_bytes: int) -> None:
    if length > most_bytes:
        raise NotCopied("too_large", f"it has more than {most_bytes // _MB:,} MB (setting emit.artifact_copy_mb)")
    if length > left_bytes:
        raise NotCopied(
            "run_full", "the copies of the run have reached their limit (setting emit.artifact_total_mb)"
        )


def _copy(source: int, target: str, most_bytes: int, left_bytes: int) -> tuple[str, int]:
    """Copy an open file to a new one, onto the disk. Return the digest and the length of what was copied."""
    digest, length = hashlib.sha256(), 0
    file = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        while chunk := os.read(source, _CHUNK_BYTES):
            length += len(chunk)
            _check_size(length, most_bytes, left_bytes)  # it may grow
            digest.update(chunk)
            rest = memoryview(chunk)
            while rest:
                rest = rest[os.write(file, rest) :]
        os.fsync(file)
    finally:
        os.close(file)
    return digest.hexdigest(), length


def _make_folders(directory: str, inner: str) -> None:
    """Make folders in a run directory, each for its owner only."""
    path = directory
    for part in inner.split("/"):
        path = f"{path}/{part}"
        with suppress(FileExistsError):
            os.mkdir(path, 0o700)
        if os.path.islink(path):
            raise OSError(errno.ELOOP, "it is a link, and links in a run directory are not followed", path)


def _bytes_in(folder: str) -> int:
    """Return the bytes of all files in a folder and in its folders."""
    total = 0
    for directory, _, names in os.walk(folder):
        total += sum(max(0, _size_of(f"{directory}/{name}")) for name in names)
    return total


def _size_of(path: str) -> int:
    """Return the size of a file, or -1 if there is none."""
    try:
        return os.stat(path).st_size
    except OSError:
        return -1


def _named(name: object) -> str:
    return f"artifact {name!r}" if isinstance(name, str) else "an artifact"

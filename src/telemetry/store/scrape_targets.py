"""Files of scrape targets, in a folder that Prometheus reads by itself (`file_sd`).

Each writer that is scraped has a file of its own, and removes it at its end. The file names its process. So the
file of a killed process is removed by the next process that looks.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from msgspec import Struct

from telemetry.store.atomic import write_atomic
from telemetry.store.processes import process_lives, start_of
from telemetry.wire.codec import BAD_INPUT

OWNER: Final = "__telemetry_owner"
"""Label with the process of a group of targets: `HOST/NAMESPACE/PID/START`.

Prometheus drops it, as all labels in `__`. Containers may have the name of their host, but have pids of their own.
"""
_SUFFIX: Final = ".json"
_NAME_CHARS: Final = 100
_NOT_IN_FILE_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]+")
_NOT_IN_LABELS: Final = re.compile(r"[^A-Za-z0-9_]")


class ScrapeGroup(Struct, frozen=True):
    """Addresses with the same labels, in the form of Prometheus."""

    targets: list[str]
    """`HOST:PORT` each."""
    labels: dict[str, str] = {}


class ScrapeFile(NamedTuple):
    path: Path
    groups: list[ScrapeGroup]


def state_directory(environ: Mapping[str, str] | None = None) -> Path | None:
    """Return the folder for data of this user that outlives a run, which may not exist; None without a home."""
    environ = os.environ if environ is None else environ
    base = environ.get("XDG_STATE_HOME", "")
    if base and Path(base).is_absolute():
        return Path(base) / "telemetry"
    home = environ.get("HOME", "")
    return Path(home) / ".local" / "state" / "telemetry" if home else None


def default_folder(environ: Mapping[str, str] | None = None) -> Path | None:
    """Return the folder of this user's target files, which may not exist; None without a home."""
    state = state_directory(environ)
    return state / "targets" if state else None


def add_targets(folder: Path, name: str, groups: Sequence[ScrapeGroup]) -> Path:
    """Write the file of this process. Returns its path. Removes files of dead processes first. Raises OSError.

    A second call with the same `name` replaces the file.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    remove_dead(folder)
    pid = os.getpid()
    owner = f"{_here()}/{pid}/{start_of(pid)}"
    own_groups = [ScrapeGroup(group.targets, {**_valid(group.labels), OWNER: owner}) for group in groups]
    word = _NOT_IN_FILE_NAMES.sub("_", name)[:_NAME_CHARS]
    path = folder / f"{word}-{pid}{_SUFFIX}"
    write_atomic(path, msgspec.json.format(msgspec.json.encode(own_groups), indent=2) + b"\n", durable=False)
    return path


def remove_targets(path: Path) -> None:
    """Remove a file of targets. Never raises."""
    with suppress(OSError):
        path.unlink(missing_ok=True)


def remove_dead(folder: Path) -> list[Path]:
    """Remove the files of processes of this host that have ended. Returns their paths. Never raises."""
    dead = [file.path for file in target_files(folder) if _is_dead(file)]
    for path in dead:
        remove_targets(path)
    return dead


def target_files(folder: Path) -> Iterator[ScrapeFile]:
    """Yield the files of targets by name. Skips files in another form."""
    with suppress(OSError):
        for path in sorted(folder.glob(f"*{_SUFFIX}")):
            with suppress(OSError, *BAD_INPUT):
                yield ScrapeFile(path, msgspec.json.decode(path.read_bytes(), type=list[ScrapeGroup]))


def _is_dead(file: ScrapeFile) -> bool:
    """Return whether the process that wrote a file has ended. A file by hand has none, and stays."""
    owners = {group.labels.get(OWNER, "") for group in file.groups}
    return bool(owners) and all(_has_ended(owner) for owner in owners)


def _has_ended(owner: str) -> bool:
    host, pid, started = ["", "", *owner.rsplit("/", 2)][-3:]
    if host != _here() or not (pid.isdecimal() and started.isdecimal()):
        return False  # only its own host or container can tell
    return not process_lives(int(pid), int(started))


def _here() -> str:
    """Return this host, and the inode of the namespace that the pids of this process are in."""
    namespace = 0
    with suppress(OSError):  # there are no namespaces without /proc
        namespace = os.stat("/proc/self/ns/pid").st_ino
    return f"{socket.gethostname()}/{namespace}"


def _valid(labels: Mapping[str, str]) -> dict[str, str]:
    """Return labels with names that Prometheus takes: one wrong name would make it refuse the whole file."""
    valid_labels = {}
    for key, value in labels.items():
        name = _NOT_IN_LABELS.sub("_", key) or "_"
        valid_labels[f"_{name}" if name[0].isdigit() else name] = value
    return valid_labels

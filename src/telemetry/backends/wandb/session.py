"""A run of W&B in this process, and the separate W&B process that receives all its data."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NamedTuple

from telemetry.backends import pictures
from telemetry.backends.backend import NotConfigured, Unavailable, missing
from telemetry.backends.items import Artifact
from telemetry.backends.wandb.log import STEP, LogEntry
from telemetry.backends.wandb.rows import Picture, WandbTable, artifact_name
from telemetry.wire.artifact_copies import original_name

_LOG_FLUSH_S: Final = 0.1  # W&B's default is 15 s
_INIT_S: Final = 30.0  # the sum of these three is below the timeout of a call
_SERVICE_S: Final = 15.0
_FINISH_S: Final = 20.0
_UPLOAD_S: Final = 2.0  # between two requests with rows
_GONE: Final = frozenset({"MailboxClosedError", "HandleAbandonedError", "WandbServiceConnectionError"})
"""Exceptions of the library after its process has ended, besides ConnectionError."""
_AWAY: Final = frozenset({"CommError", "WandbApiFailedError"})
"""Exceptions if the server is down. Rows can wait for it; tables and artifacts need an answer first."""
_MAY_PASS: Final = _AWAY | {"AuthenticationError"}
_NEVER: Final = (401, 403)
_SAYS_NO: Final = re.compile(r"returned error (?:401|403|404)")
_REFUSED: Final = frozenset({"AuthenticationError", "UsageError", "ValidationError"})
_IN_PLACE: Final = {"WANDB_CACHE_DIR": "cache", "WANDB_DATA_DIR": "staging"}
"""Directories that W&B would otherwise create in the user's home."""


class Identity(NamedTuple):
    run_id: str
    project: str
    entity: str = ""
    name: str = ""
    group: str = ""
    tags: tuple[str, ...] = ()
    offline: bool = False


def library(directory: Path) -> Any:
    """Import W&B's package, with its files in `directory` unless the user chose another folder.

    Raises NotConfigured.
    """
    for name, folder in _IN_PLACE.items():
        os.environ.setdefault(name, str(directory / folder))
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
    os.environ.pop("WANDB_SERVICE", None)  # inherited from a program that uses W&B and started this one
    try:
        return import_module("wandb")
    except ModuleNotFoundError as error:
        if error.name == "wandb":
            raise missing("wandb", "wandb") from error
        raise


class WandbSession:
    """A session. All methods raise Unavailable if W&B's process has ended; then a new session can begin."""

    def __init__(self, wandb: Any, identity: Identity, folder: Path) -> None:
        """Begin or resume the run. Blocks for a second, online for up to 45. Raises NotConfigured, Unavailable."""
        self._wandb = wandb
        self._folder = folder
        settings = wandb.Settings(
            console="off",
            silent=True,
            disable_git=True,
            disable_code=True,
            disable_job_creation=True,
            x_disable_stats=True,
            x_disable_meta=True,
            x_disable_machine_info=True,
            x_save_requirements=False,
            x_transaction_log_flush_interval=_LOG_FLUSH_S,
            x_service_wait=_SERVICE_S,
            x_file_stream_transmit_interval=_UPLOAD_S,
            init_timeout=_INIT_S,
            finish_timeout=_FINISH_S,
            finish_timeout_raises=True,
        )
        try:
            self._run = wandb.init(
                id=identity.run_id,
                project=identity.project,
                entity=identity.entity or None,
                name=identity.name or None,
                group=identity.group or None,
                tags=identity.tags or None,
                dir=str(folder),
                mode="offline" if identity.offline else "online",
                resume="allow",
                reinit="create_new",
                settings=settings,
            )
        except Exception as error:
            self.kill()
            raise _named(error) from error
        self.log = Path(self._run.settings.sync_file)
        self.url = "" if identity.offline else str(self._run.url or "")
        self.next_row = int(self._run.starting_step)
        """Next row on the server; 0 offline."""
        process = _process(wandb)
        self.process_id: int = process.pid if process is not None else 0

    def define(self, column: str, axis: str) -> None:
        self._do(lambda: self._run.define_metric(column, step_metric=axis))

    def row(self, number: int, values: Mapping[str, Any]) -> None:
        """Write a row. Numbers must ascend: W&B silently drops a row with a lower number."""
        ready = {key: self._ready(value) for key, value in values.items()}
        self._do(lambda: self._run.log(ready, step=number, commit=True))

    def params(self, values: Mapping[str, Any]) -> None:
        self._do(lambda: self._run.config.update(dict(values), allow_val_change=True))

    def summary(self, values: Mapping[str, Any]) -> None:
        self._do(lambda: self._run.summary.update(dict(values)))

    def again(self, entry: LogEntry) -> None:
        """Write an entry of an earlier process's log that the server lacks."""
        match entry.kind:
            case "params":
                self.params(entry.values)
            case "summary":
                self.summary(entry.values)
            case "files":
                for name in entry.values:
                    self._save(entry.folder / name, entry.folder)
            case "row":
                own = (STEP, "_runtime")
                self.row(entry.number, {name: value for name, value in entry.values.items() if name not in own})

    def artifact(self, item: Artifact) -> None:
        """Add an artifact by reference. If W&B can't find the file, only the row with its name remains."""
        artifact = self._wandb.Artifact(artifact_name(item.name), item.kind or "file", metadata={"key": item.key})
        path = _local(item.uri)
        try:
            uri, name = path.as_uri() if path else item.uri, original_name(item.uri) or None
            artifact.add_reference(uri, name, checksum=False, max_objects=1000)
        except Exception:  # noqa: BLE001 – readers of references: a package or the file may be missing
            return
        self._do(lambda: self._run.log_artifact(artifact))

    def finish(self, *, ended: bool) -> None:
        """Wait until W&B has all data, at most 20 s. Raises Unavailable."""
        try:
            self._do(lambda: self._run.finish(exit_code=0 if ended else 1))
        except TimeoutError as error:
            self.kill()
            raise Unavailable("W&B did not accept the rest in time") from error

    def alive(self) -> bool:
        """Check whether W&B's process is alive. Its sockets only report that on a write."""
        process = _process(self._wandb)
        return process is None or process.poll() is None

    def kill(self) -> None:
        """Kill W&B's process, so that the log stops growing."""
        process = _process(self._wandb)
        if process is not None:
            with suppress(OSError):
                process.send_signal(signal.SIGKILL)
            process.wait()
        with suppress(Exception):  # it talks to a process that has ended
            self._wandb.teardown(exit_code=1)

    def _save(self, path: Path, base: Path) -> None:
        if path.is_file():
            self._do(lambda: self._run.save(str(path), base_path=str(base), policy="now"))

    def _ready(self, value: Any) -> Any:
        match value:
            case WandbTable(columns, rows):
                return self._wandb.Table(columns=columns, data=rows, allow_mixed_types=True)
            case Picture(path, ending):
                return self._wandb.Image(path if Path(path).suffix else str(self._linked(path, ending)))
        return value

    def _linked(self, path: str, ending: str) -> Path:
        """Return a link with an ending to a copy, which has none: W&B looks at it."""
        link = self._folder / "pictures" / f"{Path(path).name}{ending}"
        link.parent.mkdir(exist_ok=True)
        link.unlink(missing_ok=True)  # from an earlier writer, before the run directory was moved
        link.symlink_to(path)
        return link

    def _do(self, call: Any) -> None:
        try:
            call()
        except Exception as error:
            if isinstance(error, ConnectionError) or type(error).__name__ in _GONE:
                self.kill()
                raise Unavailable("W&B's own process exited") from error
            if type(error).__name__ in _MAY_PASS:
                raise _named(error) from error
            raise


def end_orphan(process_id: int, parent_id: int) -> None:
    """Kill a W&B process that has outlived its parent, because it may still write to a log.

    Blocks until it has ended, at most two seconds.
    """
    deadline = time.monotonic() + 2.0
    while _is_orphan(process_id, parent_id) and time.monotonic() < deadline:
        with suppress(OSError):
            os.kill(process_id, signal.SIGKILL)
        time.sleep(0.01)


def picture(item: Artifact) -> Picture | None:
    """Return an image if this machine can read and decode it, else None."""
    path = _local(item.uri) if item.kind == "image" else None
    if path is None or pictures.read(item.uri) is None:
        return None
    try:
        with import_module("PIL.Image").open(path) as image:
            image.verify()
            ending = f".{image.format.lower()}"
    except Exception:  # noqa: BLE001 – not an image, or no library for it: it becomes an ordinary artifact
        return None
    return Picture(str(path), ending)


def _local(uri: str) -> Path | None:
    try:
        return pictures.local(uri)
    except ValueError:
        return None


def _process(wandb: Any) -> Any:
    """Return W&B's process, a `Popen`. The library has no public name for it."""
    attribute: Any = wandb
    for name in ("sdk", "wandb_setup", "_singleton", "_connection", "_proc", "_process"):
        attribute = getattr(attribute, name, None)
    return attribute


def _is_orphan(process_id: int, parent_id: int) -> bool:
    """Check by its command line that a process is the orphan, because process ids are reused."""
    try:
        arguments = Path(f"/proc/{process_id}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return b"wandb-core" in arguments[0] and str(parent_id).encode() in arguments


def _named(error: Exception) -> Exception:
    """Translate an error. W&B reports a rejected key also when the server is down, so the cause is checked."""
    name, text = type(error).__name__, str(error) or type(error).__name__
    answer = getattr(error.__cause__, "response", None)
    away = error.__cause__ is not None and getattr(answer, "http_status", 0) not in _NEVER
    if (name in _REFUSED and not away) or (name in _AWAY and _SAYS_NO.search(text)):
        return NotConfigured(f"W&B: {text}", hint="run `wandb login`, set WANDB_API_KEY, or use mode=offline")
    return Unavailable(f"W&B: {text}")

"""A backend that writes a run to Trackio."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from string import ascii_letters, digits
from typing import Any, ClassVar, Final, NamedTuple, Protocol
from urllib.parse import quote

from msgspec import Struct

from telemetry.backends import pictures
from telemetry.backends.backend import NotConfigured, Refused, RunFacts, Unavailable, missing
from telemetry.backends.items import Artifact, Histogram, Item, Mark, Params, Reading, Step, Table, Text
from telemetry.backends.naming import escape
from telemetry.backends.trackio.rows import TrackioRow, TrackioRows, config_name
from telemetry.store.append_file import describe
from telemetry.store.atomic import write_atomic
from telemetry.wire.events import Scalar

_IN_ARTIFACTS: Final = ascii_letters + digits + "_-"
_IMAGES: Final = frozenset({".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp"})
_PASSING: Final = (408, 425, 429)
_NEVER: Final = (FileExistsError, NotADirectoryError, IsADirectoryError, PermissionError)
_REQUEST_S: Final = 20.0  # two requests must end before the writer counts as hung


class TrackioOptions(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    project: str = ""
    """Name of the project. Empty: the run's name."""
    name: str = ""
    """Name of the run in its project. Empty: name of the run directory."""
    folder: str = ""
    """Folder of all projects. Empty: TRACKIO_DIR, or the folder of the writer."""
    server: str = ""
    """Address of a Trackio server, instead of a folder. TRACKIO_WRITE_TOKEN grants access."""
    group: str = ""
    spread: bool = False
    """True to write `name/min` and `name/max` of values that several producers reported in a step."""


class TrackioBackend:
    """The Trackio backend. Each item is written exactly once, by the keys of rows.

    A correction adds a row to its step.
    """

    Options: ClassVar[type[Struct]] = TrackioOptions
    takes: ClassVar[tuple[type[Item], ...]] = (
        *(Step, Reading, Params, Mark),
        *(Text, Table, Histogram, Artifact),
    )
    idempotent: ClassVar[bool] = True

    def __init__(self, options: TrackioOptions, place: Path) -> None:
        if options.server and options.folder:
            raise NotConfigured("trackio takes either a folder or a server")
        self._options = options
        self._place = place
        self._target: TrackioTarget | None = None
        self._rows: TrackioRows
        self._started_ns = 0
        self._params: dict[str, Scalar] = {}
        self._config_written = -1
        """Number of name groups in the last written configuration; negative if it must be written again."""

    def open(self, run: RunFacts, state: dict[str, Any]) -> None:
        self._started_ns = run.started_ns
        self._params = dict(run.params) | state.get("params", {})
        self._config_written = -1
        self._rows = TrackioRows(run.started_ns, state.get("owners"), spread=self._options.spread)
        project = self._options.project or run.name
        name = self._options.name or (run.directory.name if run.directory else f"{run.name}-{run.run_id}")
        identity = TrackioIdentity(project, name.replace("/", "-"), run.run_id)
        os.environ.setdefault("HF_HUB_OFFLINE", "1")  # otherwise the import asks the hub for the user's name
        try:
            if self._options.server:
                self._target = TrackioServer(identity, self._options.server)
            else:
                self._target = Folder(identity, self._options.folder, self._place)
        except ModuleNotFoundError as error:
            if error.name == "trackio":
                raise missing("trackio", "trackio") from error
            raise

    def write(self, items: Sequence[Item]) -> None:
        rows: list[TrackioRow] = []
        refused: list[str] = []
        for item in items:
            if isinstance(item, Params):
                self._params |= item.values
                self._config_written = -1
            elif isinstance(item, Artifact):
                rows += self._artifact(item, refused)
            else:
                rows += self._rows.of(item)
        if rows:
            self._log(rows)
        marks = [item for item in items if isinstance(item, Mark)]
        if marks:
            self._opened().alert(marks)
        if refused:
            raise Refused("artifact_kind", refused)

    def flush(self) -> None:
        """Write pending parameters.

        They are part of rows, so an empty row is added if needed. All writes are committed.
        """
        if self._params and self._config_written < 0:
            self._log([TrackioRow("params", self._started_ns, 0, {})])

    def state(self) -> dict[str, Any]:
        return {"params": self._params, "owners": self._rows.owners}

    def close(self, *, final: bool) -> None:
        self._target = None

    def where(self) -> str:
        return self._target.where() if self._target is not None else ""

    # --- helpers -------------------------------------------------------------------------------------

    def _opened(self) -> TrackioTarget:
        assert self._target is not None
        return self._target

    def _log(self, rows: Sequence[TrackioRow]) -> None:
        config: dict[str, Any] | None = None
        groups = len(self._rows.owners)
        if groups != self._config_written:
            config = {config_name(name): value for name, value in self._params.items()}
            config |= {"_Username": None, "_Created": iso(self._started_ns), "_Group": self._options.group or None}
            config["_Axes"] = self._rows.owners
        self._opened().log(rows, config)
        self._config_written = groups

    def _artifact(self, item: Artifact, refused: list[str]) -> Iterator[TrackioRow]:
        """Yield a row for an image that this machine can read.

        Otherwise add an artifact of the project, by reference.
        """
        target = self._opened()
        picture = target.picture(item, self._rows.step_of(item)) if item.kind == "image" else None
        if picture is not None:
            yield self._rows.one(item, picture)
            return
        try:
            target.artifact(item, item.kind or "unspecified")
        except ValueError:  # an artifact of another kind already has its name
            refused.append(item.key)


class TrackioTarget(Protocol):
    """A destination for rows, with the keywords of Trackio's own calls.

    All methods raise Unavailable, NotConfigured.
    """

    def log(self, rows: Sequence[TrackioRow], config: dict[str, Any] | None) -> None: ...
    def alert(self, marks: Sequence[Mark]) -> None: ...
    def artifact(self, item: Artifact, kind: str) -> None: ...
    def picture(self, item: Artifact, step: int) -> dict[str, Any] | None:
        """Copy an image to the dashboard's folder and return its value for a row, or None if that is impossible."""

    def where(self) -> str: ...


class TrackioIdentity(NamedTuple):
    project: str
    name: str
    run_id: str

    def key(self, item_key: str) -> str:
        """Return the key of an item with the id of its run in front: two runs may use the same keys."""
        return f"{self.run_id}/{item_key}"


class Folder:
    """A folder of databases, one for each project. Other processes may write to them, too."""

    def __init__(self, identity: TrackioIdentity, folder: str, directory: Path) -> None:
        chosen = folder or os.environ.get("TRACKIO_DIR") or str(directory)
        os.environ["TRACKIO_DIR"] = str(Path(chosen).expanduser().absolute())  # read once, by the import
        from trackio.sqlite_storage import SQLiteStorage
        from trackio.utils import MEDIA_DIR, project_media_dir

        self._identity = identity
        self._storage: Any = SQLiteStorage
        self._media = Path(MEDIA_DIR)
        try:
            SQLiteStorage.validate_project_name(identity.project)
        except ValueError as error:
            raise NotConfigured(str(error), hint="choose another project") from error
        self._pictures = Path(project_media_dir(identity.project)) / identity.name
        try:
            self._database = Path(passing(lambda: SQLiteStorage.init_db(identity.project)))
        except _NEVER as error:
            raise NotConfigured(f"can't write {chosen}: {describe(error)}") from error

    def log(self, rows: Sequence[TrackioRow], config: dict[str, Any] | None) -> None:
        project, name, run_id = self._identity
        passing(
            lambda: self._storage.bulk_log(
                project=project,
                run=name,
                run_id=run_id,
                metrics_list=[row.values for row in rows],
                steps=[row.step for row in rows],
                timestamps=[iso(row.time_ns) for row in rows],
                log_ids=[self._identity.key(row.key) for row in rows],
                config=config,
            )
        )

    def alert(self, marks: Sequence[Mark]) -> None:
        project, name, run_id = self._identity
        passing(
            lambda: self._storage.bulk_alert(
                project=project,
                run=name,
                run_id=run_id,
                titles=[mark.text for mark in marks],
                texts=[said_with(mark) for mark in marks],
                levels=["info"] * len(marks),
                steps=[None] * len(marks),
                timestamps=[iso(mark.time_ns) for mark in marks],
                alert_ids=[self._identity.key(mark.key) for mark in marks],
            )
        )

    def artifact(self, item: Artifact, kind: str) -> None:
        passing(lambda: self._storage.commit_artifact_version(**asked_of(self._identity, item, kind)))

    def picture(self, item: Artifact, step: int) -> dict[str, Any] | None:
        data = pictures.read(item.uri)
        suffix = PurePosixPath(item.uri).suffix.lower()
        if data is None or suffix not in _IMAGES:
            return None
        path = self._pictures / str(step) / f"{item.key}{suffix}"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(path, data, durable=False)
        except OSError as error:
            raise Unavailable(describe(error)) from error
        file_path = str(path.relative_to(self._media))
        return {"_type": "trackio.image", "file_path": file_path, "caption": item.name}

    def where(self) -> str:
        return str(self._database)


class TrackioServer:
    """A server. It stamps rows with its own time, and can't accept an image by its path."""

    def __init__(self, identity: TrackioIdentity, address: str) -> None:
        from trackio.remote_client import RemoteClient
        from trackio.utils import serialize_values

        self._identity = identity
        self._address = address
        self._plain: Callable[[dict[str, Any]], dict[str, Any]] = serialize_values
        client = passing(
            lambda: RemoteClient(
                address,
                write_token=os.environ.get("TRACKIO_WRITE_TOKEN"),
                httpx_kwargs={"timeout": _REQUEST_S},
            )
        )
        self._call: Callable[..., Any] = client.predict

    def log(self, rows: Sequence[TrackioRow], config: dict[str, Any] | None) -> None:
        logs = [
            self._who()
            | {"metrics": self._plain(row.values), "step": row.step, "log_id": self._identity.key(row.key)}
            for row in rows
        ]
        if config is not None:
            logs[0]["config"] = self._plain(config)
        passing(lambda: self._call(api_name="/bulk_log", logs=logs, hf_token=None))

    def alert(self, marks: Sequence[Mark]) -> None:
        alerts = [
            self._who()
            | {"title": mark.text, "text": said_with(mark), "level": "info", "step": None}
            | {"timestamp": iso(mark.time_ns), "alert_id": self._identity.key(mark.key)}
            for mark in marks
        ]
        passing(lambda: self._call(api_name="/bulk_alert", alerts=alerts, hf_token=None))

    def artifact(self, item: Artifact, kind: str) -> None:
        asked = asked_of(self._identity, item, kind)
        passing(lambda: self._call(api_name="/artifact_log", **asked, hf_token=None))

    def picture(self, item: Artifact, step: int) -> dict[str, Any] | None:
        return None

    def where(self) -> str:
        return self._address

    def _who(self) -> dict[str, Any]:
        return {"project": self._identity.project, "run": self._identity.name, "run_id": self._identity.run_id}


def passing(call: Callable[[], Any]) -> Any:
    """Call a function.

    Raises Unavailable for temporary errors, NotConfigured for a rejected token, others as they are.
    """
    import httpx
    from gradio_client.exceptions import AuthenticationError

    try:
        return call()
    except AuthenticationError as error:
        raise NotConfigured(str(error), hint="set TRACKIO_WRITE_TOKEN") from error
    except (sqlite3.OperationalError, httpx.RequestError) as error:
        raise Unavailable(f"{type(error).__name__}: {error}") from error
    except _NEVER:
        raise
    except OSError as error:
        raise Unavailable(describe(error)) from error
    except httpx.HTTPStatusError as error:
        code, text = error.response.status_code, error.response.text[:200]
        message = f"{error.request.url.host} answers {code}: {text}"
        if code in (401, 403) or "write_token" in text:
            raise NotConfigured(message, hint="set TRACKIO_WRITE_TOKEN") from error
        if code in _PASSING or code >= 500:
            raise Unavailable(message) from error
        raise


def iso(time_ns: int) -> str:
    return datetime.fromtimestamp(time_ns / 1e9, UTC).isoformat()


def said_with(mark: Mark) -> str | None:
    pairs = ({"producer": mark.producer} if mark.producer else {}) | mark.labels
    return ", ".join(f"{key}={value}" for key, value in pairs.items()) or None


def asked_of(identity: TrackioIdentity, item: Artifact, kind: str) -> dict[str, Any]:
    """Return the arguments of Trackio's calls for an artifact. Raises ValueError for an invalid address."""
    path = pictures.local(item.uri)
    uri = path.as_uri() if path is not None else re.sub(r"[\s\0]", lambda match: quote(match[0]), item.uri)
    entry = {"path": PurePosixPath(uri).name or "file", "ref": uri, "digest": uri, "size": 0}
    return {
        "project": identity.project,
        "name": escape(item.name, _IN_ARTIFACTS, "."),
        "type": kind,
        "description": None,
        "manifest": [entry],
        "metadata": {"name": item.name, "axis": item.axis, "step": item.step},
        "aliases": [],
        "run_name": identity.name,
        "run_id": identity.run_id,
    }

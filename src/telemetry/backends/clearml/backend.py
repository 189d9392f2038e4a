"""A backend that writes a run to ClearML, with or without its server."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from hashlib import sha256
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, NamedTuple, Protocol
from zipfile import ZIP_DEFLATED, ZipFile

import msgspec
from msgspec import Struct

from telemetry.backends import pictures
from telemetry.backends.backend import NotConfigured, Refused, RunFacts, Unavailable, missing
from telemetry.backends.clearml.events import ClearMLEvents, Event
from telemetry.backends.items import Artifact, Histogram, Item, Mark, Params, Reading, Step, Table, Text
from telemetry.backends.naming import AxisOwners
from telemetry.common.formatting import number_of
from telemetry.store.append_file import AppendFile, describe
from telemetry.store.atomic import replacing, write_atomic
from telemetry.wire.codec import BAD_INPUT
from telemetry.wire.events import Scalar

_BEGIN_S: Final = 50.0  # the import alone takes four seconds on a busy machine
_FILES: Final = ("metrics.jsonl", "log.jsonl")
_CONFIG: Final = "sdk.development.report_use_subprocess: false\n"
"""Configuration of the session. Without this setting, ending a task takes ten seconds."""
_VERSION: Final = "2.13"  # API version of the server, from 2020
_RETRIES: Final = {
    **dict.fromkeys(("total", "connect", "read", "redirect", "status"), 1),
    "backoff_factor": 0.5,
    "backoff_max": 2.0,
}
"""Few retries of the library, because the writer retries itself and reports it."""
_NEVER: Final = (401, 403)


class ClearMLOptions(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    project: str = ""
    """Name of the project. Empty: CLEARML_PROJECT, or the run's name."""
    name: str = ""
    """Name of the task. Empty: CLEARML_TASK, or the name of the run directory."""
    tags: str = ""
    """Tags, separated by commas."""
    mode: Literal["", "online", "offline"] = ""
    """Mode. Empty: offline if CLEARML_OFFLINE_MODE is set, else online."""
    folder: str = ""
    """Folder of offline sessions. Empty: CLEARML_CACHE_DIR, or the folder of the writer."""
    spread: bool = False
    """True to write `name/min` and `name/max` of values that several producers reported in a step."""


class ClearMLBackend:
    """The ClearML backend. Offline, each item is written exactly once.

    A server stores one value for a name and an iteration, even after repeated writes. Lines in its console may be
    duplicated after a kill.
    """

    Options: ClassVar[type[Struct]] = ClearMLOptions
    takes: ClassVar[tuple[type[Item], ...]] = (
        *(Step, Reading, Params, Mark),
        *(Text, Table, Histogram, Artifact),
    )
    idempotent: ClassVar[bool] = True

    def __init__(self, options: ClearMLOptions, place: Path) -> None:
        self._options = options
        self._place = place
        self._offline = _offline(options.mode)
        self.left_out: dict[str, int] = {}
        """Values that ClearML can't store, by reason. The rest of their items was written."""
        self._target: ClearMLTarget | None = None
        self._events: ClearMLEvents
        self._owners: AxisOwners
        self._params: dict[str, Scalar] = {}
        self._artifacts: dict[str, Artifact] = {}
        self._changed = False

    def open(self, run: RunFacts, state: dict[str, Any]) -> None:
        options, environ = self._options, os.environ
        identity = ClearMLIdentity(
            project=options.project or environ.get("CLEARML_PROJECT") or run.name,
            name=options.name
            or environ.get("CLEARML_TASK")
            or (run.directory.name if run.directory else f"{run.name}-{run.run_id}"),
            tags=tuple(filter(None, map(str.strip, options.tags.split(",")))),
        )
        try:
            self._owners = AxisOwners(self._place / "names.json")
        except OSError as error:
            raise NotConfigured(f"can't read {self._place}: {describe(error)}") from error
        self._events = ClearMLEvents(run.started_ns, self._owners, spread=options.spread)
        self._params = dict(run.params) | state.get("params", {})
        kept = msgspec.convert(state.get("artifacts", []), list[Artifact])
        self._artifacts = {item.name: item for item in kept}
        self._changed = True
        if self._offline:
            folder = options.folder or environ.get("CLEARML_CACHE_DIR") or str(self._place)
            self._target = OfflineSession(identity, self._place, Path(folder).expanduser().absolute(), state)
        else:
            self._target = ClearMLServer(identity, state)

    def write(self, items: Sequence[Item]) -> None:
        events: list[Event] = []
        refused: list[str] = []
        odd = 0
        for item in items:
            if isinstance(item, Params):
                self._params |= item.values
                self._changed = True
            elif isinstance(item, Artifact):
                events += self._artifact(item)
            else:
                before = self._events.odd
                item_events = list(self._events.of(item))
                new = self._events.odd - before
                if new and not item_events:
                    refused.append(item.key)
                else:
                    odd += new
                events += item_events
        if events:
            self._opened().send(events)
        if odd:
            self.left_out["not_finite"] = self.left_out.get("not_finite", 0) + odd
        if refused:
            raise Refused("not_finite", refused)

    def flush(self) -> None:
        target = self._opened()
        try:
            self._owners.keep()
        except OSError as error:
            raise Unavailable(describe(error)) from error
        if self._changed:
            target.update(self._params, self._artifacts)
            self._changed = False
        target.sync()

    def state(self) -> dict[str, Any]:
        artifacts = msgspec.to_builtins(list(self._artifacts.values()))
        return {"params": self._params, "artifacts": artifacts, **self._opened().state()}

    def close(self, *, final: bool) -> None:
        if final:
            self._opened().end()

    def where(self) -> str:
        return self._target.where() if self._target is not None else ""

    # --- helpers -------------------------------------------------------------------------------------

    def _opened(self) -> ClearMLTarget:
        assert self._target is not None
        return self._target

    def _artifact(self, item: Artifact) -> list[Event]:
        """Return the event of an image if a browser can find it.

        Otherwise keep a reference, the newest of its name.
        """
        picture = self._opened().picture(item) if item.kind == "image" else None
        if picture is not None:
            return [self._events.image(item, *picture)]
        self._artifacts[item.name] = item
        self._changed = True
        return []


def _offline(mode: str) -> bool:
    is_offline = os.environ.get("CLEARML_OFFLINE_MODE", "").lower() in ("1", "true", "yes", "on", "y", "t")
    return mode == "offline" or (not mode and is_offline)


# `Task` is not used: it takes over signals and threads, and hides which data a server rejected.


class ClearMLServer:
    def __init__(self, identity: ClearMLIdentity, state: dict[str, Any]) -> None:
        """Create a task, or continue the task in `state`. Blocks. Raises NotConfigured, Unavailable."""
        self._session = _session()
        self._task: str = state.get("task", "")
        self._project: str = state.get("project", "")
        if not self._task:
            self._project = self._project_of(identity.project)
            task = {
                "name": identity.name,
                "type": "training",
                "project": self._project,
                "tags": list(identity.tags),
            }
            self._task = str(self._call("tasks", "create", task)["id"])
        self._call("tasks", "started", {"task": self._task, "force": True})

    def send(self, events: Sequence[Event]) -> None:
        task_events = [{**event, "task": self._task} for event in events]
        for event in task_events:
            del event["method"]
        try:
            answers = self._session.send_request_batch("events", "add_batch", version=_VERSION, json=task_events)
        except Exception as error:
            raise Unavailable(f"ClearML: {error}") from error
        for answer in answers or []:
            data = self._checked(answer, "events.add_batch")
            if data.get("errors"):
                raise ValueError(f"ClearML refused {number_of(data['errors'], 'event')}: {data.get('errors_info')}")

    def picture(self, item: Artifact) -> tuple[str, str] | None:
        return (item.uri, item.uri) if item.uri.startswith(("http://", "https://", "s3://", "gs://")) else None

    def update(self, params: dict[str, Scalar], artifacts: dict[str, Artifact]) -> None:
        if params:
            settings = [setting for section in hyperparams(params).values() for setting in section.values()]
            self._call("tasks", "edit_hyper_params", {"task": self._task, "hyperparams": settings, "force": True})
        if artifacts:
            entries = list(map(artifact_entry, artifacts.values()))
            self._call(
                "tasks", "add_or_update_artifacts", {"task": self._task, "artifacts": entries, "force": True}
            )

    def sync(self) -> None:
        """Return at once: each answer already confirms that the data is stored."""

    def state(self) -> dict[str, Any]:
        return {"task": self._task, "project": self._project}

    def end(self) -> None:
        self._call("tasks", "completed", {"task": self._task, "force": True})

    def where(self) -> str:
        host = str(self._session.get_app_server_host())
        return f"{host}/projects/{self._project or '*'}/experiments/{self._task}/output/log"

    def _project_of(self, name: str) -> str:
        pattern = "".join(f"\\{char}" if char in r".^$*+?()[]{}|\\" else char for char in name)
        asked = {"name": f"^{pattern}$", "only_fields": ["id", "name"], "search_hidden": True}
        for project in self._call("projects", "get_all", asked).get("projects", []):
            if project["name"] == name:
                return str(project["id"])
        return str(self._call("projects", "create", {"name": name, "description": ""})["id"])

    def _call(self, service: str, action: str, body: dict[str, Any]) -> dict[str, Any]:
        try:
            answer = self._session.send_request(service, action, version=_VERSION, json=body)
        except Exception as error:
            raise Unavailable(f"ClearML: {error}") from error
        return self._checked(answer, f"{service}.{action}")

    def _checked(self, answer: Any, action: str) -> dict[str, Any]:
        """Return the data of an answer. Raises Unavailable for a temporary error, ValueError for rejected data."""
        if answer.status_code == 200:
            data: dict[str, Any] = answer.json().get("data") or {}
            return data
        message = f"ClearML: {action} answered {answer.status_code}: {answer.text[:200]}"
        if answer.status_code in _NEVER:
            raise NotConfigured(message, hint="ClearML rejects its keys")
        if answer.status_code == 400:
            raise ValueError(message)
        raise Unavailable(message)


def _session() -> Any:
    try:
        sessions = import_module("clearml.backend_api.session")
    except ModuleNotFoundError as error:
        if error.name == "clearml":
            raise missing("clearml", "clearml") from error
        raise
    try:
        return sessions.Session(http_retries_config=dict(_RETRIES))
    except Exception as error:
        raise _named(error) from error


def _named(error: Exception) -> Exception:
    text = str(error).partition("\n")[0]
    if type(error).__name__ == "MissingConfigError":
        return NotConfigured(f"ClearML: {text}", hint="run `clearml-init`, or set mode=offline")
    if type(error).__name__ == "LoginError" and any(str(status) in text for status in _NEVER):
        return NotConfigured(f"ClearML: {text}", hint="ClearML rejects its keys")
    return Unavailable(f"ClearML: {text or type(error).__name__}")


# <session>/task.json        task with parameters and artifacts; replaced when more arrive
# <session>/metrics.jsonl    a list of events on each line
# <session>/log.jsonl        the same for lines of the console
# <session>/data/            images
# <session>.zip              all of the above, once the run is over


class OfflineSession:
    """An offline session. Each item is written exactly once.

    Data after the last checkpoint is cut off and delivered again.
    """

    def __init__(self, identity: ClearMLIdentity, directory: Path, folder: Path, state: dict[str, Any]) -> None:
        """Continue the session in `state`, or create one in `folder`. Raises NotConfigured, Unavailable."""
        try:
            self._folder = Path(state["session"]) if "session" in state else _begin(identity, directory, folder)
            task = (self._folder / "task.json").read_bytes()
            self._task = msgspec.json.decode(task, type=dict[str, Any])
            self._files = {name: AppendFile(self._folder / name) for name in _FILES}
            for name, size in state.get("sizes", dict.fromkeys(_FILES, 0)).items():
                if self._files[name].size < size:
                    raise ValueError(f"{name} is shorter than before")
                self._files[name].cut(size)
        except (FileNotFoundError, NotADirectoryError, PermissionError, *BAD_INPUT) as error:
            raise NotConfigured(f"can't use ClearML's offline session: {error}") from error
        except OSError as error:
            raise Unavailable(describe(error)) from error
        self._flushed = self._sizes()

    def send(self, events: Sequence[Event]) -> None:
        logs = [event | {"worker": "telemetry"} for event in events if event["type"] == "log"]
        images = [event for event in events if event["type"] == "training_debug_image"]
        others = [event for event in events if event["type"] not in ("log", "training_debug_image")]
        # Give each image its own line: an importer that can't upload an image skips the rest of its line.
        metrics = [others, *([image] for image in images)]
        try:
            self._files["metrics.jsonl"].append(self._lines(metrics))
            self._files["log.jsonl"].append(self._lines([logs]))
        except OSError as error:
            self._take_back()
            raise Unavailable(describe(error)) from error

    def picture(self, item: Artifact) -> tuple[str, str] | None:
        data = pictures.read(item.uri)
        if data is None:
            return None
        suffix = Path(item.uri).suffix if Path(item.uri).suffix.isascii() else ""
        named = sha256(f"{item.key}\0{item.name}".encode()).hexdigest()[:20]
        key = f"telemetry.{self._task['id']}/metrics/{named}{suffix[:8]}"
        path = self._folder / "data" / key
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(path, data, durable=False)
        except OSError as error:
            raise Unavailable(describe(error)) from error
        return path.as_uri(), key

    def update(self, params: dict[str, Scalar], artifacts: dict[str, Artifact]) -> None:
        self._task["hyperparams"] = hyperparams(params)
        execution = self._task.setdefault("execution", {})
        execution["artifacts"] = list(map(artifact_entry, artifacts.values()))
        try:
            write_atomic(self._folder / "task.json", json.dumps(self._task).encode())
        except OSError as error:
            raise Unavailable(describe(error)) from error

    def sync(self) -> None:
        try:
            for file in self._files.values():
                os.fdatasync(file.fd)
        except OSError as error:
            self._take_back()
            raise Unavailable(describe(error)) from error
        self._flushed = self._sizes()

    def state(self) -> dict[str, Any]:
        return {"session": str(self._folder), "sizes": self._flushed}

    def end(self) -> None:
        try:
            with replacing(self._zip()) as whole, ZipFile(whole, "w", ZIP_DEFLATED) as zipped:
                for path in sorted(self._folder.rglob("*")):
                    if path.is_file():
                        zipped.write(path, path.relative_to(self._folder).as_posix())
        except OSError as error:
            raise Unavailable(describe(error)) from error

    def where(self) -> str:
        return str(self._folder)

    def _lines(self, lists: Sequence[Sequence[Event]]) -> list[bytes]:
        task = {"task": self._task["id"]}
        return [json.dumps([event | task for event in events]).encode() + b"\n" for events in lists if events]

    def _sizes(self) -> dict[str, int]:
        return {name: file.size for name, file in self._files.items()}

    def _take_back(self) -> None:
        for name, size in self._flushed.items():
            self._files[name].cut(size)

    def _zip(self) -> Path:
        return self._folder.with_name(f"{self._folder.name}.zip")


def _begin(identity: ClearMLIdentity, directory: Path, folder: Path) -> Path:
    if find_spec("clearml") is None:
        raise missing("clearml", "clearml")
    config = directory / "clearml.conf"
    write_atomic(config, _CONFIG.encode(), durable=False)
    own = {"CLEARML_CONFIG_FILE": str(config), "CLEARML_CACHE_DIR": str(folder), "HOME": str(directory)}
    arguments = [
        sys.executable,
        "-P",
        "-m",
        "telemetry.backends.clearml.offline_session",
        identity.project,
        identity.name,
    ]
    try:
        done = subprocess.run(
            [*arguments, *identity.tags],
            env={**os.environ, **own},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            check=False,
            text=True,
            timeout=_BEGIN_S,
        )
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"ClearML did not start a session within {_BEGIN_S:.0f} s") from error
    session = Path(done.stdout.strip().rpartition("\n")[2])
    if done.returncode or not (session / "task.json").is_file():
        raise NotConfigured("ClearML did not start an offline session", hint="see writer.log")
    session.with_name(f"{session.name}.zip").unlink(missing_ok=True)  # zip file of the empty session
    shutil.rmtree(directory / ".clearml", ignore_errors=True)
    return session


class ClearMLIdentity(NamedTuple):
    project: str
    name: str
    tags: tuple[str, ...] = ()


class ClearMLTarget(Protocol):
    """A task. All methods raise Unavailable, NotConfigured."""

    def send(self, events: Sequence[Event]) -> None: ...

    def picture(self, item: Artifact) -> tuple[str, str] | None:
        """Return (URL for a browser, key) of an image, or None if a browser can't find it."""

    def update(self, params: dict[str, Scalar], artifacts: dict[str, Artifact]) -> None:
        """Store all parameters and artifacts so far."""

    def sync(self) -> None:
        """Wait until all sent data would survive the end of this process."""

    def state(self) -> dict[str, Any]: ...

    def end(self) -> None:
        """Mark the task as completed. All data was sent."""

    def where(self) -> str: ...


def hyperparams(params: dict[str, Scalar]) -> dict[str, dict[str, dict[str, str]]]:
    """Return parameters in ClearML's format, in its section `General`."""
    return {
        "General": {
            name: {
                "section": "General",
                "name": name,
                "value": "" if value is None else str(value),
                "type": type(value).__name__,
                "description": "",
            }
            for name, value in params.items()
        }
    }


def artifact_entry(item: Artifact) -> dict[str, Any]:
    """Return an artifact as a reference: ClearML stores its address."""
    uri = f"file://{item.uri}" if item.uri.startswith("/") else item.uri
    return {
        "key": item.name,
        "type": item.kind or "custom",
        "mode": "output",
        "uri": uri,
        "timestamp": item.time_ns // 1_000_000_000,
        "display_data": [["step", f"{item.axis} {item.step}"]] if item.axis else [],
    }

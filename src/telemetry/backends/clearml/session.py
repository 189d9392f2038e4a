"""A task in an offline session: a folder that `Task.import_offline_session` reads as a zip file.

<session>/task.json        task with parameters and artifacts; replaced when more arrive
<session>/metrics.jsonl    a list of events on each line
<session>/log.jsonl        the same for lines of the console
<session>/data/            images
<session>.zip              all of the above, once the run is over
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final
from zipfile import ZIP_DEFLATED, ZipFile

import msgspec

from telemetry.backends import pictures
from telemetry.backends.backend import NotConfigured, Unavailable, missing
from telemetry.backends.clearml.events import Event
from telemetry.backends.clearml.target import Identity, artifact_entry, hyperparams
from telemetry.backends.items import Artifact
from telemetry.store.append_file import AppendFile, describe
from telemetry.store.atomic import replacing, write_atomic
from telemetry.wire.codec import BAD_INPUT
from telemetry.wire.events import Scalar

_BEGIN_S: Final = 50.0  # the import alone takes four seconds on a busy machine
_FILES: Final = ("metrics.jsonl", "log.jsonl")
_CONFIG: Final = "sdk.development.report_use_subprocess: false\n"
"""Configuration of the session. Without this setting, ending a task takes ten seconds."""


class OfflineSession:
    """An offline session. Each item is written exactly once.

    Data after the last checkpoint is cut off and delivered again.
    """

    def __init__(self, identity: Identity, place: Path, folder: Path, state: dict[str, Any]) -> None:
        """Continue the session in `state`, or create one in `folder`. Raises NotConfigured, Unavailable."""
        try:
            self._folder = Path(state["session"]) if "session" in state else _begin(identity, place, folder)
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


def _begin(identity: Identity, place: Path, folder: Path) -> Path:
    if find_spec("clearml") is None:
        raise missing("clearml", "clearml")
    config = place / "clearml.conf"
    write_atomic(config, _CONFIG.encode(), durable=False)
    own = {"CLEARML_CONFIG_FILE": str(config), "CLEARML_CACHE_DIR": str(folder), "HOME": str(place)}
    words = [sys.executable, "-P", "-m", "telemetry.backends.clearml.beginning", identity.project, identity.name]
    try:
        done = subprocess.run(
            [*words, *identity.tags],
            env={**os.environ, **own},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            check=False,
            text=True,
            timeout=_BEGIN_S,
        )
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"ClearML did not start a session within {_BEGIN_S:.0f} s") from error
    found = Path(done.stdout.strip().rpartition("\n")[2])
    if done.returncode or not (found / "task.json").is_file():
        raise NotConfigured("ClearML did not start an offline session", hint="see writer.log")
    found.with_name(f"{found.name}.zip").unlink(missing_ok=True)  # zip file of the empty session
    shutil.rmtree(place / ".clearml", ignore_errors=True)
    return found

"""A task on a ClearML server, through the session class of ClearML's library, which reads the user's configuration.

`Task` is not used: it takes over signals and threads, and hides which data a server rejected.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final

from telemetry.backends.backend import NotConfigured, Unavailable, missing
from telemetry.backends.clearml.events import Event
from telemetry.backends.clearml.target import Identity, artifact_entry, hyperparams
from telemetry.backends.items import Artifact
from telemetry.formatting import number_of
from telemetry.wire.events import Scalar

_VERSION: Final = "2.13"  # API version of the server, from 2020
_RETRIES: Final = {
    **dict.fromkeys(("total", "connect", "read", "redirect", "status"), 1),
    "backoff_factor": 0.5,
    "backoff_max": 2.0,
}
"""Few retries of the library, because the writer retries itself and reports it."""
_NEVER: Final = (401, 403)


class Server:
    def __init__(self, identity: Identity, state: dict[str, Any]) -> None:
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
        owned = [{**event, "task": self._task} for event in events]
        for event in owned:
            del event["method"]
        try:
            answers = self._session.send_request_batch("events", "add_batch", version=_VERSION, json=owned)
        except Exception as error:
            raise Unavailable(f"ClearML: {error}") from error
        for answer in answers or []:
            said = self._checked(answer, "events.add_batch")
            if said.get("errors"):
                raise ValueError(f"ClearML refused {number_of(said['errors'], 'event')}: {said.get('errors_info')}")

    def picture(self, item: Artifact) -> tuple[str, str] | None:
        return (item.uri, item.uri) if item.uri.startswith(("http://", "https://", "s3://", "gs://")) else None

    def update(self, params: dict[str, Scalar], artifacts: dict[str, Artifact]) -> None:
        if params:
            settings = [one for section in hyperparams(params).values() for one in section.values()]
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
        for found in self._call("projects", "get_all", asked).get("projects", []):
            if found["name"] == name:
                return str(found["id"])
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
            said: dict[str, Any] = answer.json().get("data") or {}
            return said
        words = f"ClearML: {action} answered {answer.status_code}: {answer.text[:200]}"
        if answer.status_code in _NEVER:
            raise NotConfigured(words, hint="ClearML rejects its keys")
        if answer.status_code == 400:
            raise ValueError(words)
        raise Unavailable(words)


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

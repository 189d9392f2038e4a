"""Tests of how a writer takes the answers of a ClearML server. Tests with a real server are in tests/backends."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from telemetry.backends.backend import NotConfigured, Unavailable
from telemetry.backends.clearml import backend
from telemetry.backends.clearml.backend import ClearMLIdentity, ClearMLServer
from telemetry.backends.items import Artifact


class Session:
    """Answers as it is told, and remembers what it was asked."""

    def __init__(self) -> None:
        self.status = 200
        self.error: Exception | None = None
        self.data: dict[str, Any] = {}
        self.asked: list[tuple[str, Any]] = []

    def send_request(self, service: str, action: str, *, version: str, json: Any) -> Any:
        return self._answer(f"{service}.{action}", json)

    def send_request_batch(self, service: str, action: str, *, version: str, json: Any) -> Any:
        return [self._answer(f"{service}.{action}", json)]

    def get_app_server_host(self) -> str:
        return "https://app"

    def _answer(self, action: str, body: Any) -> Any:
        if self.error is not None:
            raise self.error
        self.asked.append((action, body))
        said = {"data": {"id": f"id-of-{action}", "projects": [{"id": "x", "name": "p (old)"}], **self.data}}
        return SimpleNamespace(status_code=self.status, text="words", json=lambda: json.loads(json.dumps(said)))


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Session:
    made = Session()
    monkeypatch.setattr(backend, "_session", lambda: made)
    return made


def test_a_task_is_begun_once(session: Session) -> None:
    """The next process goes on in it. A project of nearly the name is another."""
    first = ClearMLServer(ClearMLIdentity("p (", "n", ("a",)), {})
    actions = [action for action, _ in session.asked]
    assert actions == ["projects.get_all", "projects.create", "tasks.create", "tasks.started"]
    assert session.asked[0][1]["name"] == r"^p \($"
    assert session.asked[2][1]["tags"] == ["a"]
    session.asked.clear()
    later = ClearMLServer(ClearMLIdentity("p (", "n"), first.state())
    assert [action for action, _ in session.asked] == ["tasks.started"]
    task = "id-of-tasks.create"
    assert later.where() == f"https://app/projects/id-of-projects.create/experiments/{task}/output/log"


def test_events_are_of_the_task(session: Session) -> None:
    """An event for the server names its task and lacks the fields that only files have."""
    made = ClearMLServer(ClearMLIdentity("p", "n"), {"task": "t1"})
    made.send([{"type": "log", "method": "get", "msg": "x"}])
    assert session.asked[-1] == ("events.add_batch", [{"type": "log", "msg": "x", "task": "t1"}])


@pytest.mark.parametrize(
    ("status", "error"),
    [(500, Unavailable), (502, Unavailable), (401, NotConfigured), (403, NotConfigured), (400, ValueError)],
)
def test_an_answer_passes_or_does_not(session: Session, status: int, error: type[Exception]) -> None:
    """A request that is wrong stays wrong, and so does a key."""
    made = ClearMLServer(ClearMLIdentity("p", "n"), {"task": "t1"})
    session.status = status
    with pytest.raises(error, match=f"events.add_batch answered {status}"):
        made.send([{"type": "log", "method": "get"}])


def test_no_answer_and_refused_events(session: Session) -> None:
    """A network passes; an event that the server does not take is found by taking the batch apart."""
    made = ClearMLServer(ClearMLIdentity("p", "n"), {"task": "t1"})
    session.data = {"errors": 1, "errors_info": "bad"}
    with pytest.raises(ValueError, match="refused 1 event:"):
        made.send([{"type": "log", "method": "get"}])
    session.error = OSError("no route")
    with pytest.raises(Unavailable, match="no route"):
        made.end()


def test_pictures_need_an_address_that_a_browser_opens(session: Session) -> None:
    """Others are artifacts."""
    made = ClearMLServer(ClearMLIdentity("p", "n"), {"task": "t1"})
    facts = {"key": "r1", "time_ns": 0, "name": "p", "kind": "image"}
    assert made.picture(Artifact(**facts, uri="https://there/p.png")) == ("https://there/p.png",) * 2
    assert made.picture(Artifact(**facts, uri="/here/p.png")) is None

"""Tests of how the ClearML backend handles items, in a session that was begun before."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from tests.unit.backends.clearml.sessions import begun, lines

from telemetry.backends.backend import Refused, RunFacts
from telemetry.backends.clearml.backend import ClearMLBackend, ClearMLOptions
from telemetry.backends.items import Artifact, Params, Step

FACTS = RunFacts("id-1", "bench", 10**9, None)


def opened(folder: Path, state: dict[str, Any]) -> ClearMLBackend:
    backend = ClearMLBackend(ClearMLOptions(mode="offline"), folder)
    backend.open(FACTS, state)
    return backend


def step(key: str, **values: float) -> Step:
    return Step(key=key, time_ns=0, axis="train", step=1, values=values)


def test_what_is_not_finite_is_said(tmp_path: Path) -> None:
    """An item with nothing else is refused, others are written without it and counted."""
    backend = opened(tmp_path, begun(tmp_path))
    with pytest.raises(Refused) as refused:
        backend.write([step("r1", a=math.nan), step("r2", a=1.0, b=math.inf), step("r3", c=3.0)])
    assert (refused.value.reason, refused.value.keys) == ("not_finite", {"r1"})
    assert backend.left_out == {"not_finite": 1}
    (events,) = lines(tmp_path / "offline-1" / "metrics.jsonl")
    assert [(event["metric"], event["value"]) for event in events] == [("a", 1.0), ("c", 3.0)]


def test_settings_and_artifacts_outlive_the_process(tmp_path: Path) -> None:
    """Settings and artifacts go on in the state for the next process. The newest of a name counts."""
    backend = opened(tmp_path, begun(tmp_path))
    backend.write([Params(key="r1", time_ns=0, values={"lr": 0.5, "seed": 1})])
    backend.write([Artifact(key="r2", time_ns=0, name="model", uri="s3://b/1")])
    backend.flush()
    later = opened(tmp_path, json.loads(json.dumps(backend.state())))
    later.write([Params(key="r3", time_ns=0, values={"lr": 0.25})])
    later.write([Artifact(key="r4", time_ns=0, name="model", uri="s3://b/2")])
    later.flush()
    task = json.loads((tmp_path / "offline-1" / "task.json").read_bytes())
    settings = {name: one["value"] for name, one in task["hyperparams"]["General"].items()}
    assert settings == {"lr": "0.25", "seed": "1"}
    assert [one["uri"] for one in task["execution"]["artifacts"]] == ["s3://b/2"]


@pytest.mark.parametrize(("mode", "said", "offline"), [("", "1", True), ("", "", False), ("online", "1", False)])
def test_the_environment_may_say_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: Any, said: str, offline: bool
) -> None:
    """An option says it louder."""
    monkeypatch.setenv("CLEARML_OFFLINE_MODE", said)
    backend = ClearMLBackend(ClearMLOptions(mode=mode), tmp_path)
    asked: list[str] = []
    base = "telemetry.backends.clearml.backend."
    monkeypatch.setattr(base + "OfflineSession", lambda *_: asked.append("offline"))
    monkeypatch.setattr(base + "ClearMLServer", lambda *_: asked.append("online"))
    backend.open(FACTS, {})
    assert asked == ["offline" if offline else "online"]

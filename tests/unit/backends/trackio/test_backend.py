"""Tests of the decisions of the Trackio backend before and around its calls.

Tests of Trackio itself are in tests/backends.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from telemetry.backends.backend import NotConfigured, Refused, RunFacts, Unavailable
from telemetry.backends.items import Artifact, Item, Mark, Params, Step
from telemetry.backends.trackio import TrackioBackend, backend
from telemetry.backends.trackio.backend import TrackioOptions
from telemetry.backends.trackio.rows import TrackioRow

STARTED_NS = 1_000_000_000_000
RUN = RunFacts("id-1", "bench", STARTED_NS, Path("/runs/bench-1"), params={"lr": 0.5})


class Kept:
    """A target that keeps what it is given, and fails when it is told to."""

    def __init__(self, identity: Any, *_: Any) -> None:
        self.identity = identity
        self.rows: list[str] = []
        self.configs: list[dict[str, Any]] = []
        self.marks: list[str] = []
        self.kinds: dict[str, str] = {}
        self.down = False

    def log(self, rows: Sequence[TrackioRow], config: dict[str, Any] | None) -> None:
        if self.down:
            raise Unavailable("down")
        self.rows += [row.key for row in rows]
        if config is not None:
            self.configs.append(config)

    def alert(self, marks: Sequence[Mark]) -> None:
        self.marks += [mark.key for mark in marks]

    def artifact(self, item: Artifact, kind: str) -> None:
        if self.kinds.setdefault(item.name, kind) != kind:
            raise ValueError("of another kind")

    def picture(self, item: Artifact, step: int) -> dict[str, Any] | None:
        return {"_type": "trackio.image"} if item.uri == "/here.png" else None

    def where(self) -> str:
        return "there"


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[TrackioBackend, Kept]:
    monkeypatch.setattr(backend, "Folder", Kept)
    made = TrackioBackend(TrackioOptions(group="mine"), tmp_path)
    made.open(RUN, {})
    kept = made._target
    assert isinstance(kept, Kept)
    return made, kept


def step(number: int) -> Step:
    return Step(key=f"r{number}", time_ns=STARTED_NS, axis="train", step=number, values={"x": 1.0})


def test_a_folder_and_a_server(tmp_path: Path) -> None:
    """One of them has to be chosen."""
    with pytest.raises(NotConfigured, match="either a folder or a server"):
        TrackioBackend(TrackioOptions(folder="x", server="http://localhost"), tmp_path)


def test_who_the_run_is(opened: tuple[TrackioBackend, Kept]) -> None:
    """A project of the run's name, in which it is called as its directory."""
    made, kept = opened
    assert kept.identity == ("bench", "bench-1", "id-1")
    assert made.where() == "there"
    made.close(final=False)
    assert made.where() == ""


def test_settings_travel_with_rows_when_they_change(opened: tuple[TrackioBackend, Kept]) -> None:
    """Settings travel with rows when they change, and say which axis has which names.

    Without rows an empty one carries them.
    """
    made, kept = opened
    made.write([step(1)])
    made.write([step(2)])
    made.flush()
    assert [(config["lr"], config["_Axes"], config["_Group"]) for config in kept.configs] == [
        (0.5, {"x": "train"}, "mine")
    ]
    made.write([Params(key="r3", time_ns=STARTED_NS, values={"opt": "adam"})])
    made.flush()
    assert (kept.rows, kept.configs[1]["opt"]) == (["r1", "r2", "params"], "adam")
    assert made.state() == {"params": {"lr": 0.5, "opt": "adam"}, "owners": {"x": "train"}}


def test_settings_are_not_forgotten_by_a_failure(opened: tuple[TrackioBackend, Kept]) -> None:
    """Settings go with the next rows that arrive, so a failure does not lose them."""
    made, kept = opened
    kept.down = True
    with pytest.raises(Unavailable):
        made.write([step(1)])
    kept.down = False
    made.write([step(1)])
    assert (kept.rows, len(kept.configs)) == (["r1"], 1)


def test_an_artifact_of_another_kind_is_refused_alone(opened: tuple[TrackioBackend, Kept]) -> None:
    """All else of the batch is written."""
    made, kept = opened
    at: dict[str, Any] = {"time_ns": STARTED_NS, "name": "best"}
    items: list[Item] = [
        Artifact(key="r1", uri="s3://a", kind="model", **at),
        Artifact(key="r2", uri="s3://b", kind="data", **at),
        Artifact(key="r3", uri="/here.png", kind="image", **at),
        Mark(key="r4", time_ns=STARTED_NS, text="warm"),
        step(5),
    ]
    with pytest.raises(Refused) as refused:
        made.write(items)
    assert (refused.value.reason, refused.value.keys) == ("artifact_kind", {"r2"})
    assert (kept.rows, kept.marks) == (["r3", "r5"], ["r4"])

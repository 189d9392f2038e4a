"""The files of the `timeline` backend over the deaths of its writer."""

from __future__ import annotations

import json
from math import nan
from pathlib import Path
from typing import Any

import pytest
from tests.trace_checker import problems
from tests.unit.backends.timeline.test_trace import ORIGIN, span

from telemetry.backends.backend import RunFacts
from telemetry.backends.items import Item, Live, Step
from telemetry.backends.timeline.backend import TimelineBackend, TimelineOptions
from telemetry.wire.snapshot import MetricsSnapshot, NodeStat


def opened(folder: Path, state: dict[str, Any], **options: Any) -> TimelineBackend:
    (folder / "place").mkdir(exist_ok=True)
    backend = TimelineBackend(TimelineOptions(dir=str(folder / "files"), **options), folder / "place")
    backend.say = lambda line: None
    backend.open(RunFacts("r", "job", ORIGIN, None), state)
    return backend


def write(backend: TimelineBackend, *items: Item) -> dict[str, Any]:
    """Write and flush, as a writer does. Returns its checkpoint."""
    backend.write(items)
    backend.flush()
    return backend.state()


def closed(step: int, us: int) -> Step:
    return Step(key=f"s{step}", time_ns=ORIGIN + us * 1_000, axis="train", step=step, values={})


def names(folder: Path, file: str) -> list[str]:
    data = (folder / "files" / file).read_bytes()
    assert problems(data) == []
    return [event["name"] for event in json.loads(data)["traceEvents"] if event.get("cat") == "span"]


def test_the_next_writer_goes_on_with_the_same_steps(tmp_path: Path) -> None:
    """Spans of a step are in its file, whichever writer took them."""
    state = write(opened(tmp_path, {}), span("a", 0, 5), closed(1, 10), span("waits", 12, 15))
    second = opened(tmp_path, json.loads(json.dumps(state)))
    write(second, span("late", 2, 8), closed(2, 20))
    second.close(final=True)
    assert names(tmp_path, "timeline_step_1.json") == ["a", "late"]
    assert names(tmp_path, "timeline_step_2.json") == ["waits"]
    assert names(tmp_path, "timeline.json") == ["a", "late", "waits"]


def test_a_full_work_file_never_empties_a_file_that_is_there(tmp_path: Path) -> None:
    """The next writer does not know the spans of that step, so it leaves the file alone."""
    state = write(opened(tmp_path, {}, run_mb=0), span("a", 0, 5, step="1"), closed(1, 10))
    assert state["left_out"] == 2
    second = opened(tmp_path, json.loads(json.dumps(state)), run_mb=0)
    write(second, span("late", 2, 8, step="1"), span("b", 12, 15, step="2"), closed(2, 20))
    assert names(tmp_path, "timeline_step_1.json") == ["a"]
    assert names(tmp_path, "timeline_step_2.json") == ["b"]


def test_a_flush_that_failed_is_repeated_without_doubles(tmp_path: Path) -> None:
    """The writer hands over the same items again."""
    backend = opened(tmp_path, {})
    items = [span("a", 0, 5), closed(1, 10)]
    backend.write(items)
    write(backend, *items)
    backend.close(final=True)
    assert names(tmp_path, "timeline_step_1.json") == names(tmp_path, "timeline.json") == ["a"]


def test_values_that_are_not_finite_disturb_no_reading(tmp_path: Path) -> None:
    """The work file has null for them. The next writer and the file of the run read it."""
    step = Step(key="s1", time_ns=ORIGIN + 10_000, axis="train", step=1, values={"loss": nan, "reward": 0.5})
    state = write(opened(tmp_path, {}), span("a", 0, 5), step)
    second = opened(tmp_path, json.loads(json.dumps(state)))
    second.close(final=True)
    assert names(tmp_path, "timeline.json") == ["a"]


def test_the_files_of_the_highest_steps_are_kept(tmp_path: Path) -> None:
    """A span that comes late for a step below them brings its file not back, and costs no newer one."""
    backend = opened(tmp_path, {}, keep=2)
    write(backend, *(closed(step, 10 * step) for step in (1, 2, 3, 4)), span("a", 21, 29, step="3"))
    state = write(backend, span("late", 1, 9, step="1"), span("late", 31, 39, step="4"))
    assert state["kept"] == [3, 4]
    assert sorted(path.name for path in (tmp_path / "files").iterdir()) == [
        "timeline_step_3.json",
        "timeline_step_4.json",
    ]
    write(opened(tmp_path, {**state, "kept": [4, 3]}, keep=2), closed(5, 50))
    assert not (tmp_path / "files" / "timeline_step_3.json").exists()


@pytest.mark.parametrize(
    ("nodes", "advice"),
    [([], "run.span"), ([NodeStat(node="a")], "set upstream.spans = true")],
    ids=["one", "root"],
)
def test_a_run_without_spans_is_told(tmp_path: Path, nodes: list[NodeStat], advice: str) -> None:
    """The files have only steps then, so the writer says where the spans are."""
    lines: list[str] = []
    backend = opened(tmp_path, {})
    backend.say = lines.append
    snapshot = MetricsSnapshot(run_id="r", name="job", nodes=nodes)
    write(backend, closed(1, 10), Live(key="l", time_ns=ORIGIN, snapshot=snapshot))
    backend.close(final=True)
    assert len(lines) == 1
    assert lines[0].startswith("the run has no spans")
    assert advice in lines[0]

"""Items as lines of a file, each once."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from tests.unit.backends.doubles import FACTS, mark, step

from telemetry.backends.backend import NotConfigured
from telemetry.backends.items import KINDS, CounterReading, Live, Reading, Span, Step
from telemetry.backends.jsonl import JsonlBackend, JsonlOptions, line


def opened(place: Path, state: dict[str, Any] | None = None, path: str = "") -> JsonlBackend:
    backend = JsonlBackend(JsonlOptions(path), place)
    backend.open(FACTS, state or {})
    return backend


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(text) for text in path.read_text().splitlines()]


def test_a_line_has_all_of_an_item() -> None:
    """Strict JSON in UTF-8: what is no finite number is null."""
    item = Step(key="r1", time_ns=2, axis="train", step=3, values={"ä": 0.5, "nan": math.nan, "inf": -math.inf})
    found = json.loads(line(item), parse_constant=pytest.fail)
    assert found == {
        "item": "step",
        "key": "r1",
        "time_ns": 2,
        "axis": "train",
        "step": 3,
        "spread": {},
        "closed": "ended",
        "revision": 0,
        "ranks": {},
        "values": {"ä": 0.5, "nan": None, "inf": None},
    }
    reading = Reading(key="t1", time_ns=1, elapsed_s=1, seconds=1, counters=[CounterReading(name="c", value=2)])
    assert json.loads(line(reading))["counters"][0]["value"] == 2.0
    assert b"\n" not in line(Span(key="r", time_ns=0, name="a\nb", end_ns=1))[:-1]
    assert set(JsonlBackend.takes) == set(KINDS) - {Live}


def test_what_was_not_acknowledged_is_taken_back(tmp_path: Path) -> None:
    """Items that were not acknowledged are taken back.

    The next process gets them again, and so does the same one after a failure.
    """
    first = opened(tmp_path)
    first.write([step(0), step(1)])
    first.flush()
    state = first.state()
    first.write([step(2)])
    second = opened(tmp_path, state)
    second.write([step(2)])
    second.write([step(2), step(3)])  # again: it was not flushed
    second.flush()
    second.write([mark(4)])
    second.flush()
    second.close(final=True)
    assert [one["key"] for one in lines(Path(second.where()))] == ["r0", "r1", "r2", "r3", "r4"]


def test_a_first_process_that_was_killed_early_leaves_nothing(tmp_path: Path) -> None:
    """A first process that was killed early leaves nothing. A file in the writer's own folder is ours."""
    first = opened(tmp_path)
    first.write([step(0)])
    second = opened(tmp_path)
    second.write([step(0)])
    second.flush()
    assert len(lines(Path(second.where()))) == 1


def test_a_file_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    """A file of somebody else is left alone. So is a file that has become shorter, and a path that is no file."""
    other = tmp_path / "other.jsonl"
    other.write_text("precious\n")
    for path, state, said in (
        (other, {}, "already exists"),
        (other, {"size": 100}, "was truncated"),
        (tmp_path, {}, "Is a directory"),
        (other / "x", {}, "exists|Not a directory"),
    ):
        with pytest.raises(NotConfigured, match=said):
            opened(tmp_path, state, str(path))
    assert other.read_text() == "precious\n"


def test_a_path_may_be_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders are made; a relative one is meant from the working directory."""
    monkeypatch.chdir(tmp_path)
    backend = opened(tmp_path / "place", path="deep/er/out.jsonl")
    assert backend.where() == str(tmp_path / "deep" / "er" / "out.jsonl")
    assert JsonlBackend(JsonlOptions(), tmp_path).where() == ""


def test_a_file_that_was_taken_away_is_no_delivery(tmp_path: Path) -> None:
    """A file that is gone or replaced is no delivery, at a flush, at the end, or in the next process.

    The error tells what to do, and nothing is made anew.
    """
    path = tmp_path / "run" / "writer" / "data" / "items.jsonl"
    backend = opened(path.parent)
    backend.write([step(0)])
    backend.flush()
    state = backend.state()
    path.rename(tmp_path / "elsewhere")
    backend.write([step(1)])
    with pytest.raises(NotConfigured, match=r"items\.jsonl was removed.*remove .*/writer and repeat the export"):
        backend.flush()
    assert backend.state() == state
    with pytest.raises(NotConfigured, match="was removed"):
        backend.close(final=True)
    backend.close(final=False)
    with pytest.raises(NotConfigured, match="was removed"):
        opened(path.parent, state)
    assert not path.exists()
    path.write_text("")
    with pytest.raises(NotConfigured, match="was truncated"):
        opened(path.parent, state)


def test_a_file_that_another_replaced_or_cut_is_no_delivery(tmp_path: Path) -> None:
    """A file that was replaced or cut is no delivery: its name is there without the written items."""
    for number, change in enumerate((lambda path: path.unlink() or path.touch(), lambda path: path.write_text(""))):
        backend = opened(tmp_path / str(number))
        backend.write([step(0)])
        backend.flush()
        change(Path(backend.where()))
        with pytest.raises(NotConfigured, match=r"another file|was truncated"):
            backend.close(final=True)
        backend.close(final=False)

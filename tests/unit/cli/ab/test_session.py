"""Tests of the cores of a duet, and of the values of a recorded run."""

from __future__ import annotations

import math
import os
from pathlib import Path
from random import Random

import pytest

from telemetry.cli.ab import session
from telemetry.cli.ab.children import EndedChild
from telemetry.cli.ab.session import AbSession, Commands, halves
from telemetry.judge.ab.model import AbResult, AbSettings
from telemetry.judge.compare.figures import FigureKey, FigureValue
from telemetry.wire.report import Report
from telemetry.wire.snapshot import MetricsSnapshot


@pytest.mark.parametrize("threads", [2, 1])
def test_threads_of_a_core_stay_in_one_half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: int) -> None:
    """With the usual numbers, core n and core n + 4 are one physical core. Any four of these are a half."""
    for core in range(8):
        folder = tmp_path / f"cpu{core}" / "topology"
        folder.mkdir(parents=True)
        siblings = f"{core % 4},{core % 4 + 4}" if threads == 2 else f"{core}"
        (folder / "thread_siblings_list").write_text(f"{siblings}\n")
    monkeypatch.setattr(session, "_TOPOLOGY", tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(8)))
    random = Random(1)
    pairs = [halves(random) for _ in range(50)]
    for before, after in pairs:
        assert sorted(before | after) == list(range(8))
        assert len(before) == len(after) == 4
        if threads == 2:
            assert before == {core ^ 4 for core in before}
    assert len(set(pairs)) >= 6


@pytest.mark.parametrize(("allowed", "sizes"), [({0, 4}, [1, 1]), ({0, 1, 2}, [1, 1]), ({0, 4, 1, 2, 6}, [2, 2])])
def test_halves_of_few_cores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, allowed: set[int], sizes: list[int]
) -> None:
    """The threads of the only physical core are halves too. An odd one is left out; the smallest of them."""
    for core in range(8):
        folder = tmp_path / f"cpu{core}" / "topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(f"{core % 4},{core % 4 + 4}\n")
    monkeypatch.setattr(session, "_TOPOLOGY", tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: allowed)
    before, after = halves(Random(1))
    assert [len(before), len(after)] == sizes
    assert not before & after


def test_values_that_are_not_finite_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A loss that ended as NaN has no value in this run: null in the file could not be read again."""
    values = {"loss": math.nan, "rate": math.inf, "latency": 2.0}
    keys = {FigureKey("steps", name, (), "last"): FigureValue(value, "1", 9) for name, value in values.items()}
    snapshot = MetricsSnapshot(run_id="r", name="n", state="COMPLETE", completeness="complete")
    monkeypatch.setattr(session, "result_of", lambda *_: Report(snapshot=snapshot, source="file"))
    monkeypatch.setattr(session, "readings", lambda _report: keys)
    settings = AbSettings(before=["a"], after=["b"], labels=("a", "b"), seed=1, metrics=["*"])
    result = AbResult(settings=settings, most_pairs=1)
    pairs = AbSession(tmp_path, result, Commands(before=["a"], after=["b"]), "/", print)
    run = pairs._read(EndedChild(wall_s=1.0, cpu_s=1.0, code=0), "r")
    assert (list(run.values.values()), run.failure) == ([2.0], "")

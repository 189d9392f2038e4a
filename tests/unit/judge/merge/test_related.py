"""Tests of whether runs belong together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from telemetry.judge.merge.sources import Input, unrelated
from telemetry.store.run_directory import RunDirectory
from telemetry.wire.snapshot import AxisStat, CommandFacts, CounterStat, MetricsSnapshot


def made(run_id: str, *counters: str, name: str = "job", argv: str = "", **more: Any) -> Input:
    snapshot = MetricsSnapshot(
        run_id=run_id,
        name=name,
        state="COMPLETE",
        completeness="complete",
        elapsed_s=1.0,
        counters=[CounterStat(name=one) for one in counters],
        command=CommandFacts(argv=argv.split()) if argv else None,
        **more,
    )
    return Input(directory=RunDirectory(Path("x")), snapshot=snapshot, sources=())


@pytest.mark.parametrize(
    "runs",
    [
        [made("a", "n", name="load-1"), made("b", "n", name="load-2")],
        [
            made("a", "n", name="load-1", argv="python load.py -n 1"),
            made("b", "n", name="l2", argv="python load.py"),
        ],
        [made("a", "n", "m"), made("b", "n"), made("c", "m")],
        [made("a", "n", argv="./bench"), made("b", "n", argv="./other")],
        [made("a", "n", name="job-merged", argv="./bench"), made("b", "n", argv="./other")],
        [made("a"), made("b", "n")],
        [made("a", axes=[AxisStat(name="train")]), made("b", axes=[AxisStat(name="train")])],
        [
            made("a", "n", name="x", argv="/bin/python -m bench"),
            made("b", "n", name="y", argv="python3 -m bench"),
        ],
    ],
)
def test_runs_of_one_thing_are_related(runs: list[Input]) -> None:
    """Related runs share metrics and have one name or one program, whatever its arguments are."""
    assert unrelated(runs) == ""


@pytest.mark.parametrize(
    ("runs", "said"),
    [
        ([made("a", "apples"), made("b", "pears")], "job (a) has no metric in common with the other runs"),
        ([made("a", "n"), made("b", "n"), made("c", "x")], "job (c) has no metric in common with the other runs"),
        (
            [made("a", "n", name="x", argv="python one.py"), made("b", "n", name="y", argv="python -m two")],
            "the runs have different names and programs: one.py, -m two",
        ),
        (
            [made("a", "n", name="x", argv="python -c print(1)"), made("b", "n", name="y", argv="/usr/bin/bench")],
            "the runs have different names and programs: -c print(1), bench",
        ),
    ],
)
def test_others_are_not(runs: list[Input], said: str) -> None:
    """The reason is in words."""
    assert unrelated(runs) == said

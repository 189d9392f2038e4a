"""Tests of the sections of a report about steps."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.golden.report.renderings import stored_report

from telemetry.report.content import facts
from telemetry.report.steps import AXES_SHOWN, steps, values
from telemetry.report.table import Section
from telemetry.wire.pictures import ProducersChange, StepCurve
from telemetry.wire.report import Report, TimeRange
from telemetry.wire.snapshot import AxisStat, MetricsSnapshot

TAIL = "the record log has all steps and the spread between producers: `telemetry tail --records`"


def report(*axes: AxisStat) -> Report:
    return Report(
        snapshot=MetricsSnapshot(run_id="r", name="n", state="COMPLETE", axes=list(axes)),
        source="file",
    )


def sections(*axes: AxisStat) -> list[Section]:
    return [section for section in steps(report(*axes)) if section]


def rows(section: Section) -> list[list[str]]:
    assert section.table is not None
    return section.table.rows


def test_a_run_without_steps_says_nothing_of_them() -> None:
    """A run without steps has no section of them, not even an empty one."""
    assert [section for section in steps(stored_report()) if section] == []


def test_axes_and_their_newest_values() -> None:
    """A value that is not finite is shown as such. Notes explain only the columns that have counts."""
    train = AxisStat(name="train", closed=2_000, newest=1_999, timeouts=3, values={"loss": 0.25, "bad\x1b": None})
    whole, own, empty = sections(train, AxisStat(name="eval", open=1))
    assert rows(whole) == [["train", "2,000", "1,999", "3", "0", "0", "2"], ["eval", "0", "–", "0", "0", "1", "0"]]
    assert whole.notes == ["timeouts: steps closed without the values of all producers", TAIL]
    assert own.title == "Steps: train"
    assert rows(own) == [["loss", "0.25"], [r"bad\x1b", "not finite"]]
    assert own.lines == ["2,000 steps recorded · last step 1,999 · 3 closed without all producers"]
    assert empty.lines == ["0 steps recorded · 1 open"]
    assert sections(AxisStat(name="a", corrections=1))[0].notes[0].startswith("corrections: ")


def test_a_part_of_a_run_has_the_steps_of_the_whole() -> None:
    """The report of a time range says that steps and their values are those of the whole run."""
    part = replace(report(AxisStat(name="a")), time_range=TimeRange(start_s=0.0, end_s=1.0, chosen="given"))
    assert "steps and their values are those of the whole run" in facts(part)


def test_what_is_listed_is_bounded() -> None:
    """The axes with the most steps, in their order, and the first values of each; the rest is counted."""
    axes = [AxisStat(name=f"a{number}", closed=number, values={"v": 1.0}) for number in range(AXES_SHOWN + 5)]
    whole, *listed = sections(*axes)
    assert len(rows(whole)) == AXES_SHOWN + 5
    assert [section.title for section in listed] == [f"Steps: a{number}" for number in range(5, AXES_SHOWN + 5)]
    stat = AxisStat(name="a", values={f"v{number}": 0.0 for number in range(1_000)})
    many = values(report(stat), stat)
    assert (len(rows(many)), many.notes) == (40, ["960 more in the JSON form"])


def curve(name: str, points: list[float | None], **fields: Any) -> StepCurve:
    known = [point for point in points if point is not None]
    made = {
        "steps": list(range(len(points))),
        "values": points,
        "count": len(points),
        "first": points[0],
        "last": points[-1],
        "min": min(known),
        "max": max(known),
        "min_step": points.index(min(known)),
        "max_step": points.index(max(known)),
    }
    return StepCurve(axis="train", name=name, **{**made, **fields})


def test_values_have_their_course_over_the_run() -> None:
    """First, best and last value, and a bar for each group of steps; losses come first. What is neither better high
    nor low has its range."""
    stat = AxisStat(
        name="train",
        closed=4,
        newest=3,
        values={"lr": 0.1, "accuracy": 0.8, "loss": 0.5, "new": 1.0},
        lowest=0,
        highest=3,
        began_ns=10**9,
        ended_ns=10**9 + 320_000_000,
    )
    curves = [
        curve("lr", [0.2, 0.1]),
        curve("loss", [2.0, 1.0, 0.25, 0.5]),
        curve("accuracy", [0.5, None, 0.9, 0.8]),
    ]
    whole = replace(report(stat), curves=curves)
    (section,) = (one for one in steps(whole, full=False) if one)
    assert section.table is not None
    assert [head.title for head in section.table.columns] == [
        *("", "first", "best or range", "at step", "last", "over the run")
    ]
    assert rows(section) == [
        ["loss", "2", "0.25", "2", "0.5", "█▄▁▂"],
        ["accuracy", "0.5", "0.9", "2", "0.8", "▁ █▇"],
        ["lr", "0.2", "0.1 to 0.2", "", "0.1", "█▁"],
        ["new", "–", "–", "–", "1", ""],
    ]
    assert section.lines == ["4 steps recorded · last step 3 · 12.5 steps/s"]


def test_values_of_several_producers_have_their_spread() -> None:
    """The spread of a value is that of the last step. A value of one producer has no spread."""
    stat = AxisStat(name="train", closed=2, values={"loss": 0.5, "lr": 0.1})
    curves = [
        curve("loss", [1.0, 0.5], producers=2, last_low=0.25, last_high=0.75),
        curve("lr", [0.1, 0.1]),
    ]
    (section,) = (one for one in steps(replace(report(stat), curves=curves), full=False) if one)
    assert [row[5] for row in rows(section)] == ["0.25 to 0.75", "–"]


@pytest.mark.parametrize(
    ("changes", "names", "sentence"),
    [
        (1, 2, "all values: 9 producers up to step 140, 6 from step 141 on; sums add up fewer values since"),
        (
            3,
            1,
            "tokens: 9 producers up to step 140, 6 from step 141 on (the last of 3 changes); "
            "sums add up fewer values since",
        ),
        (11, 2, None),
    ],
)
def test_a_change_of_producers_is_told(changes: int, names: int, sentence: str | None) -> None:
    """One sentence tells the last change for all values that share it. With many changes there is none."""
    train = AxisStat(name="train", closed=200, newest=199, values={"tokens": 6.0, "loss": 1.0})
    change = ProducersChange(before=9, last=140, after=6, first=141, changes=changes)
    both = [
        StepCurve(
            axis="train", name=name, steps=[199], values=[1.0], producers_change=change if at < names else None
        )
        for at, name in enumerate(train.values)
    ]
    section = values(replace(report(train), curves=both), train)
    assert section.notes == ([] if sentence is None else [sentence])


def test_a_short_report_has_the_most_telling_values() -> None:
    """The user's choice first, then losses, then the others; the rest is counted."""
    names = [*(f"v{number}" for number in range(20)), "accuracy", "loss", "mine"]
    stat = AxisStat(name="a", closed=1, values=dict.fromkeys(names, 1.0))
    whole = report(stat)
    chosen = replace(whole, snapshot=replace(whole.snapshot, params={"telemetry.headline": '["mine"]'}))
    (section,) = (one for one in steps(chosen, full=False) if one)
    assert [row[0] for row in rows(section)] == ["mine", "loss", "accuracy", "v0", "v1", "v2", "v3", "v4"]
    assert section.notes == ["15 more in the full report"]

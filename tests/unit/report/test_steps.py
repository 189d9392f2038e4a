"""What a report says of steps."""

from __future__ import annotations

from msgspec.structs import replace
from tests.golden.report.renderings import stored_report

from telemetry.report.steps import AXES_SHOWN, steps, values
from telemetry.report.table import Section
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
    """No section, not even an empty one."""
    assert [section for section in steps(stored_report()) if section] == []


def test_axes_and_their_newest_values() -> None:
    """What is no finite number says so; words explain only what there is."""
    train = AxisStat(name="train", closed=2_000, newest=1_999, timeouts=3, values={"loss": 0.25, "bad\x1b": None})
    whole, own = sections(train, AxisStat(name="eval", open=1))
    assert rows(whole) == [["train", "2,000", "1,999", "3", "0", "0", "2"], ["eval", "0", "–", "0", "0", "1", "0"]]
    assert whole.notes == ["timeouts: steps closed without the values of all producers", TAIL]
    assert own.title == "Steps: train"
    assert rows(own) == [["loss", "0.25"], [r"bad\x1b", "not finite"]]
    assert sections(AxisStat(name="a", corrections=1))[0].notes[0].startswith("corrections: ")


def test_a_part_of_a_run_has_the_steps_of_the_whole() -> None:
    """Which is said."""
    part = replace(report(AxisStat(name="a")), time_range=TimeRange(start_s=0.0, end_s=1.0, chosen="given"))
    assert "steps cover the whole run" in next(steps(part)).notes


def test_what_is_listed_is_bounded() -> None:
    """The axes with the most steps, in their order, and the first values of each; the rest is counted."""
    axes = [AxisStat(name=f"a{number}", closed=number, values={"v": 1.0}) for number in range(AXES_SHOWN + 5)]
    whole, *listed = sections(*axes)
    assert len(rows(whole)) == AXES_SHOWN + 5
    assert [section.title for section in listed] == [f"Steps: a{number}" for number in range(5, AXES_SHOWN + 5)]
    many = values(AxisStat(name="a", values={f"v{number}": 0.0 for number in range(1_000)}))
    assert (len(rows(many)), many.notes) == (40, ["960 more are in the JSON form"])

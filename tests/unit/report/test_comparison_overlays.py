"""Both sides of a comparison over time and steps."""

from __future__ import annotations

import json
import re
from typing import Any

from msgspec.structs import replace
from tests.unit.report.test_comparison import sample

from telemetry.judge.compare import Comparison, MetricResult, Overlay, OverlayLine
from telemetry.report import render_as
from telemetry.report.comparison_page import overlay_sections


def line(run_id: str, values: list[float | None], *, after: bool = False, step: float = 1.0) -> OverlayLine:
    ends = [step * (at + 1) for at in range(len(values))]
    return OverlayLine(run_id=run_id, after=after, starts=[end - step for end in ends], ends=ends, values=values)


def steps(*lines: OverlayLine) -> Overlay:
    return Overlay(of="steps", name="<loss>", labels={"axis": "train"}, lines=list(lines))


def data(comparison: Comparison, name: str) -> list[Any]:
    """The blocks of JSON of a section."""
    ((_, _, body),) = [part for part in overlay_sections(comparison) if part[1] == name]
    return [json.loads(block) for block in re.findall(r'<script type="application/json">(.*?)</script>', body)]


def test_each_side_is_a_line_over_time() -> None:
    """Each side has a line of its own, named by its side, at its own points in time."""
    p99 = Overlay(
        of="series",
        name="latency",
        labels={"route": "/a"},
        unit="ms",
        statistic="p99",
        lines=[line("a", [1.0, None]), line("b", [3.0], after=True)],
    )
    (chart,) = data(Comparison(overlays=[p99]), "over-time")
    assert chart["unit"] == "ms"
    assert [(one["name"], one["values"]) for one in chart["lines"]] == [("before", [1, None]), ("after", [3])]
    assert chart["lines"][1]["end"] == [1.0]
    rate = replace(p99, name="llm.latency", labels={}, unit="", statistic="rate")
    ((_, _, body),) = overlay_sections(Comparison(overlays=[rate]))
    assert "llm requests per second" in body


def test_several_runs_of_a_side_are_their_median() -> None:
    """The median has the points of the longest run, with the range of the runs as a band over steps."""
    runs = [line("a", [1.0, 2.0, 3.0, 4.0]), line("b", [10.0, 30.0], step=2.0), line("c", [None, 5.0])]
    (grid,) = data(Comparison(overlays=[steps(*runs)], before=sample().before[:3]), "steps")
    (item,) = grid["items"]
    (before,) = item["lines"]
    assert item["x"] == [1, 2, 3, 4]
    assert before["values"] == [5.5, 5, 16.5, 17]
    assert (before["low"], before["high"]) == ([1, 2, 3, 4], [10, 10, 30, 30])


def test_sides_of_other_lengths_share_an_axis_of_steps() -> None:
    """A side that ended earlier has no values there."""
    (grid,) = data(Comparison(overlays=[steps(line("a", [1.0, 2.0]), line("b", [5.0], after=True))]), "steps")
    (item,) = grid["items"]
    assert [(one["name"], one["values"]) for one in item["lines"]] == [("before", [1, 2]), ("after", [5, None])]


def test_last_values_are_those_of_the_table() -> None:
    """A point of a curve may be a mean of several steps."""
    last = MetricResult(
        of="steps", statistic="last", name="<loss>", labels={"axis": "train"}, before=0.5, after=0.25
    )
    comparison = Comparison(metrics=[last], overlays=[steps(line("a", [0.6]), line("b", [0.3], after=True))])
    (grid,) = data(comparison, "steps")
    assert grid["items"][0]["facts"][0][1].strip() == "0.5 → 0.25"


def test_a_page_has_the_overlays_and_their_script() -> None:
    """Steps first; text from outside is text; without overlays the page is as small as before."""
    overlays = [
        Overlay(
            of="series",
            name="a",
            statistic="p99",
            unit="ms",
            lines=[line("a", [1.0]), line("b", [2.0], after=True)],
        ),
        steps(line("a", [1.0, 2.0]), line("b", [1.0, 3.0], after=True)),
    ]
    page = render_as("comparison", replace(sample(), overlays=overlays), "html")
    assert page.index('id="steps"') < page.index('id="over-time"') < page.index('id="curves"')
    assert "<loss>" not in page
    assert "overlay-grid" in page
    assert "overlay-grid" not in render_as("comparison", sample(), "html")


def test_points_of_several_steps_say_which() -> None:
    """Sides may have points of other lengths: the range holds those of both."""
    single = OverlayLine(run_id="c", after=True, starts=[1.0, 2.0], ends=[1.0, 2.0], values=[1.0, 2.0])
    (grid,) = data(Comparison(overlays=[steps(single, replace(single, after=False))]), "steps")
    assert "means" not in grid["items"][0]
    pairs = OverlayLine(run_id="a", starts=[1.0, 3.0], ends=[2.0, 4.0], values=[1.0, 2.0])
    whole = OverlayLine(run_id="b", after=True, starts=[1.0], ends=[4.0], values=[5.0])
    (grid,) = data(Comparison(overlays=[steps(pairs, whole)]), "steps")
    (item,) = grid["items"]
    assert (item["x"], item["means"], item["ranges"]) == ([2, 4], True, [[1, 4], [1, 4]])

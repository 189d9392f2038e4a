"""The small picture of a run in notebooks."""

from __future__ import annotations

import math
import re
from xml.etree import ElementTree

from msgspec.structs import replace
from tests.golden.report.renderings import stored_report
from tests.unit.report.html.samples import EVIL, llm_report, training_report

from telemetry.report.picture import picture


def lines(svg: str) -> list[list[tuple[float, float]]]:
    """Return the points of each line."""
    found = re.findall(r'<polyline points="(.*?)"', svg)
    return [[(float(x), float(y)) for x, y in (spot.split(",") for spot in points.split())] for points in found]


def test_a_training_run_shows_its_loss() -> None:
    """The picture shows the loss from the first to the last step, with small losses at the bottom."""
    svg = picture(training_report())
    [points] = lines(svg)
    texts = [one.text for one in ElementTree.fromstring(svg).iter() if one.text]
    assert texts[0] == "train/loss"
    assert {"step 10", "1,000"} <= set(texts)
    assert len(points) == 100
    assert points[0][0] < points[-1][0]
    assert points[0][1] < points[-1][1]


def test_requests_show_percentiles_over_time() -> None:
    """The picture shows the percentiles of the first main series, with the names of the lines."""
    svg = picture(llm_report())
    texts = [one.text for one in ElementTree.fromstring(svg).iter() if one.text]
    assert texts[0].startswith("llm.ttft{")
    assert texts[-3:] == ["p50", "p90", "p99"]
    p50, _, p99 = lines(svg)
    assert all(high < low for (_, low), (_, high) in zip(p50, p99, strict=True))


def test_gaps_stay_and_values_that_are_not_finite_are_left_out() -> None:
    """A constant curve is a line, too."""
    report = training_report(["loss"])
    [curve] = report.curves
    values: list[float | None] = [1.0, 1.0, None, 1.0, 1.0, math.inf, 1.0, 1.0]
    own = replace(curve, steps=curve.steps[:8], values=values)
    assert [len(part) for part in lines(picture(replace(report, curves=[own])))] == [2, 2, 2]


def test_no_data_no_picture() -> None:
    """A report without curves and figures over time has no picture."""
    assert picture(replace(stored_report(), over_time=[], curves=[])) == ""
    assert picture(replace(training_report(), curves=[])) == ""


def test_it_is_safe_and_has_no_ground_of_its_own() -> None:
    """Names stay text, nothing runs, and text takes the colour of the page."""
    svg = picture(training_report([EVIL]))
    assert len(ElementTree.fromstring(svg).findall(".//{*}script")) == 0
    assert "<img" not in svg
    assert "style" not in svg
    assert 'fill="currentColor"' in svg

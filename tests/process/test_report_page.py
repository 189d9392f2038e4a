"""The HTML report in a real browser: it sorts, filters, opens and changes its ground; it asks nobody and runs
nothing that came from outside."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace
from tests.golden.report.renderings import requests_report, stored_report
from tests.process.pages import Seen
from tests.unit.report.test_comparison_page import COMPARISON, WORSE

from telemetry import render
from telemetry.common import formatting
from telemetry.judge.compare import BoundedFigure
from telemetry.report.comparison_page import comparison_html
from telemetry.report.html import curves, page
from telemetry.wire.gates import GateResult
from telemetry.wire.report import Report, SeriesBounds, SeriesOverTime
from telemetry.wire.snapshot import MarkStat

if TYPE_CHECKING:
    from playwright.sync_api import Page

PICTURES = Path(__file__).parents[2] / "build"
EVIL = "</script><img src=x onerror=alert(1)>\"'><svg onload=alert(2)>"
FIRST, CHUNK = 12, 100
"""Rows that are made at once."""
LINE = [(0.0, 1.0), (0.5, 2.0), (0.9, 3.0), (0.99, 8.0), (1.0, 9.0)]


def names(browser: Page) -> list[str]:
    return browser.locator(".series .open").all_inner_texts()


def test_requests_are_shown_as_bars(seen: Seen) -> None:
    """The bar of requests is as wide as the page, with a share for each outcome.

    Each share has a colour of its own, light and dark.
    """
    browser = seen.open(render(requests_report(), "html"))
    bar = browser.locator("#requests .outcome").first
    widths = bar.locator("rect").evaluate_all("rects => rects.map(rect => rect.getBoundingClientRect().width)")
    box = bar.bounding_box()
    assert box is not None
    assert sum(widths) == pytest.approx(box["width"], abs=2)
    assert widths[0] > 0.9 * box["width"]
    assert min(widths) > 1
    fill = "rects => rects.map(rect => getComputedStyle(rect).fill)"
    light = bar.locator("rect").evaluate_all(fill)
    browser.locator("#theme").click()
    dark = bar.locator("rect").evaluate_all(fill)
    assert len(set(light)) == len(set(dark)) == 4
    assert set(light).isdisjoint(dark)
    browser.set_viewport_size({"width": 400, "height": 800})
    assert browser.evaluate("document.documentElement.scrollWidth") <= 400
    seen.check_quiet()


def test_how_late_requests_were_stands_above_their_figures(seen: Seen) -> None:
    """The banner on late requests stands right above the kind's first table, on a narrow page too.

    The links at the top name it as well.
    """
    browser = seen.open(render(requests_report(), "html"))
    for width in (1280, 700):
        browser.set_viewport_size({"width": width, "height": 900})
        said = browser.locator("#requests .banner.warn")
        box, table = said.bounding_box(), browser.locator("#requests .banner.warn ~ * table").first.bounding_box()
        assert box is not None
        assert table is not None
        assert box["x"] + box["width"] <= width
        assert 0 < table["y"] - (box["y"] + box["height"]) < 40
        assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert browser.get_by_text("started up to 2.00 s late").count() == 1
    assert browser.get_by_role("link", name="Requests went out late").count() == 1
    seen.check_quiet()


def test_series_are_sorted_and_filtered(seen: Seen) -> None:
    """Series are sorted by any column, both ways, and those without a value come last.

    A filter takes words of the name.
    """
    browser = seen.open(render(stored_report(), "html"))
    told = names(browser)
    assert told[0].startswith("latency{")
    browser.get_by_role("button", name="p99", exact=True).click()
    highest = names(browser)
    assert highest[0].startswith("tokens_out")
    assert highest[-1] == "empty"
    browser.get_by_role("button", name="p99", exact=True).click()
    assert names(browser) == [*reversed(highest[:-1]), "empty"]
    browser.get_by_role("button", name="name", exact=True).click()
    assert names(browser) == sorted(told)
    browser.get_by_role("searchbox").fill("ROUTE latency")
    assert names(browser) == [told[0]]
    assert browser.get_by_role("status").inner_text() == "1 of 4 series"
    seen.check_quiet()


def test_a_series_is_opened(seen: Seen) -> None:
    """An open series has its curve, its distribution and its course.

    The values of all three can be read under the pointer.
    """
    browser = seen.open(render(stored_report(), "html"))
    assert browser.locator(".detail svg").count() == 0
    browser.locator(".open").first.click()
    plots = browser.locator(".detail .plot svg")
    assert plots.count() == 3
    readings = []
    for place, readout in enumerate((".readout >> nth=0", ".readout >> nth=1", ".wide >> nth=1")):
        plots.nth(place).hover()
        readings.append(browser.locator(f".detail {readout}").inner_text())
    assert "99 % values 6.52 ms (6.26 ms – 6.78 ms)" in " ".join(readings[0].split())
    assert "values" in readings[1]
    assert [word for word in ("p50", "p90", "p99", "max") if word not in readings[2]] == []
    lines = browser.locator(".detail .wide .line")
    before = lines.count()
    browser.locator(".detail .wide .legend button", has_text="max").click()
    assert lines.count() < before
    browser.get_by_role("button", name="log scale").first.click()
    browser.locator(".open").first.click()
    assert browser.locator(".detail").is_hidden()
    seen.check_quiet()


def test_light_and_dark(seen: Seen) -> None:
    """The page is light or dark as the system says, until the reader chooses.

    Pictures of both are kept, so that people can look at them.
    """
    PICTURES.mkdir(exist_ok=True)
    browser = seen.open(render(stored_report(), "html"))
    browser.locator(".open").first.click()

    def ground() -> str:
        return str(browser.evaluate("getComputedStyle(document.body).backgroundColor"))

    light = ground()
    browser.screenshot(path=PICTURES / "report-light.png", full_page=True)
    browser.locator("#theme").click()
    dark = ground()
    assert dark != light
    browser.screenshot(path=PICTURES / "report-dark.png", full_page=True)
    browser.emulate_media(color_scheme="dark")
    assert ground() == dark
    browser.locator("#theme").click()
    assert ground() == light
    seen.check_quiet()


def test_nothing_from_outside_runs(seen: Seen) -> None:
    """Names, labels, marks, parameters and gates are shown as they are, and no script in them runs."""
    report = stored_report()
    snapshot = report.snapshot
    stat = replace(snapshot.series[0], name=EVIL, labels={EVIL: EVIL}, unit=EVIL)
    evil = replace(
        snapshot,
        name=EVIL,
        series=[stat],
        marks=[MarkStat(text=EVIL, time_ns=1)],
        params={EVIL: EVIL},
        warnings=[EVIL],
    )
    over = SeriesOverTime(name=EVIL, labels={EVIL: EVIL}, unit=EVIL, points=report.over_time[0].points)
    bounds = SeriesBounds(name=EVIL, labels={EVIL: EVIL}, percentiles=report.bounds[0].percentiles)
    gates = [GateResult(expression=EVIL, outcome="fail", reason=EVIL)]
    browser = seen.open(
        render(replace(report, snapshot=evil, over_time=[over], bounds=[bounds], gates=gates), "html")
    )
    assert browser.locator("#distribution-charts svg").count() == 2
    browser.locator("#distribution-charts svg").first.hover()
    assert browser.locator("h1").inner_text() == EVIL
    assert browser.title() == f"{EVIL} – telemetry report"
    assert browser.locator("img").count() == 0
    seen.check_quiet()


def test_what_gets_in_all_the_same_does_not_run(seen: Seen) -> None:
    """A script from an unescaped name is stopped by the content security policy, which says so."""
    stopped: list[str | None] = []
    seen.page.on("requestfailed", lambda request: stopped.append(request.failure))
    browser = seen.open(page("t", "<script>document.title = 'run'</script><img src='http://127.0.0.1:9/x'>"))
    assert browser.title() == "t"
    assert any("Content Security Policy" in text for text in seen.said)
    assert stopped == ["csp"]


def test_a_thousand_series_are_made_as_they_are_looked_at(seen: Seen) -> None:
    """A few rows at first, more with a click and scrolling; all of them found by the filter, and all on paper."""
    report = stored_report()
    stat, over = report.snapshot.series[0], report.over_time[0]
    many = [replace(stat, name=f"s{number}") for number in range(1_000)]
    run_status = [replace(over, name=one.name) for one in many]
    browser = seen.open(
        render(replace(report, snapshot=replace(report.snapshot, series=many), over_time=run_status), "html")
    )
    rows = browser.locator(".series tbody tr")
    assert rows.count() == FIRST
    browser.get_by_role("button", name=f"{1_000 - FIRST} more series").click()
    browser.locator(".more").scroll_into_view_if_needed()
    rows.nth(FIRST + CHUNK).wait_for()
    browser.get_by_role("searchbox").fill("s999")
    assert rows.count() == 1
    browser.get_by_role("searchbox").fill("")
    browser.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert rows.count() == 1_000
    seen.check_quiet()


def test_empty_states(seen: Seen) -> None:
    """A run without anything is a page all the same, and a series without values says so."""
    report = stored_report()
    nothing = replace(report.snapshot, series=[], counters=[], gauges=[], marks=[], params={}, command=None)
    seen.open(render(Report(snapshot=nothing, source="status"), "html"))
    empty = replace(report.snapshot, series=[report.snapshot.series[3]])
    browser = seen.open(render(Report(snapshot=empty, source="file"), "html"))
    browser.locator(".open").click()
    assert browser.locator(".nothing").all_inner_texts() == ["No values.", "No distribution."]
    seen.check_quiet()


def test_curves_lie_over_each_other(seen: Seen) -> None:
    """A page of its own with two runs: lines are named, turned off, and read at one percentile."""
    browser = seen.open(page("compared", curves("latency", [("before", LINE), ("after", LINE)], "ms")))
    browser.locator(".plot svg").hover()
    assert "before 3.00 ms" in browser.locator(".readout").inner_text()
    browser.get_by_role("button", name="before").click()
    assert browser.locator("path.line").count() == 1
    browser.locator("summary").click()
    assert browser.get_by_role("cell", name="8.00 ms").count() == 2
    seen.check_quiet()


@pytest.mark.parametrize("unit", ["ns", "ms", "s", "B", "MiB", "tokens", ""])
def test_numbers_are_written_as_everywhere(unit: str, seen: Seen) -> None:
    """Numbers that the page formats by itself read as in text reports."""
    browser = seen.open(page("t", ""))
    values = [
        0,
        1,
        5,
        0.001234,
        0.5,
        9.994,
        9.996,
        12.34,
        99.96,
        999.4,
        1_000,
        1_023,
        12_345.6,
        1e6,
        1.5e9,
        7.7e13,
        3e16,
    ]
    shown = browser.evaluate("([values, unit]) => values.map((v) => telemetry.quantity(v, unit))", [values, unit])
    assert shown == [formatting.quantity(value, unit) for value in values]
    assert browser.evaluate("telemetry.quantity(null, 'ms')") == formatting.NOTHING


def test_differences_of_a_comparison_fit_on_a_narrow_screen(seen: Seen) -> None:
    """Verdicts and names take several lines, and the bounds of each side stay away."""
    latency = replace(WORSE, name="latency_corrected", labels={"route": "/search/by/name"})
    within = BoundedFigure(value=10.0, low=9.5, high=10.5)
    judged = replace(latency, verdict="not_shown")
    single = replace(latency, verdict="differs", before_within=within, after_within=within)
    seen.page.set_viewport_size({"width": 400, "height": 900})
    for metric in (judged, single):
        browser = seen.open(comparison_html(replace(COMPARISON, metrics=[metric])))
        head = browser.locator("#figures th, #information th").filter(has_text="difference")
        assert head.evaluate("cell => cell.getBoundingClientRect().right") <= 400

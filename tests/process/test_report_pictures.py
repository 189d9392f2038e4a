"""The pictures of the HTML report in a real browser: visible without a click, read together, and printable."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace
from tests.process.pages import Seen
from tests.unit.report.html.samples import EVIL, LONG, RTL, llm_report, load_report, training_report

from telemetry import render
from telemetry.wire.report import Report, SeriesOverTime, SeriesPoint
from telemetry.wire.snapshot import CommandFacts

if TYPE_CHECKING:
    from playwright.sync_api import Page

REPORTS = {"load": load_report, "llm": llm_report, "training": training_report}
TIME = ":is(#over-time, #more-over-time)"
DRAWN = "all => all.map(svg => svg.querySelectorAll('path, .bar, .heat-cell, .dot').length)"
MARKS = "all => all.map(svg => svg.querySelectorAll('.mark').length)"
HAIRS = "all => all.map(line => line.getAttribute('visibility'))"
TALL = """() => {
  const all = [...document.querySelectorAll('.plot svg')];
  return all.length > 0 && all.every(svg => svg.getBoundingClientRect().height > 40);
}"""
SECTIONS = {
    "load": ["over-time", "distribution", "counters", "gauges"],
    "llm": ["over-time", "distribution"],
    "training": ["steps", "over-time"],
}
"""Sections with pictures, in the order of the page."""
TALLEST_HEAD = 900
"""Height of the window: the first picture begins inside of it."""


def shown(seen: Seen, report: Report) -> Page:
    """Open the HTML form of a report."""
    return seen.report(render(report, "html"))


@pytest.mark.parametrize("kind", REPORTS)
def test_pictures_are_there_without_a_click(kind: str, seen: Seen) -> None:
    """Each section has drawn lines or bars; the first picture is on the first screen."""
    browser = shown(seen, REPORTS[kind]())
    for name in SECTIONS[kind]:
        plots = browser.locator(f"#{name} .plot svg")
        assert plots.count() > 0, name
        drawn = plots.evaluate_all(DRAWN)
        assert min(drawn) > 0, name
    order = browser.locator("section[id]").evaluate_all("all => all.map(one => one.id)")
    assert [name for name in order if name in SECTIONS[kind]] == SECTIONS[kind]
    first = browser.locator(".plot svg").first.bounding_box()
    assert first is not None
    assert first["y"] < TALLEST_HEAD
    assert browser.locator(".tile").count() >= 3
    seen.check_quiet()


@pytest.mark.parametrize("kind", REPORTS)
@pytest.mark.parametrize("ground", ["light", "dark"])
def test_a_narrow_page_does_not_scroll_sideways(kind: str, ground: str, seen: Seen) -> None:
    """A page of 400 pixels does not scroll sideways. Tables scroll by themselves, and every plot fits."""
    seen.page.emulate_media(color_scheme="dark" if ground == "dark" else "light")
    seen.page.set_viewport_size({"width": 400, "height": 900})
    browser = shown(seen, REPORTS[kind]())
    assert browser.evaluate("document.documentElement.scrollWidth") <= 400
    widths = browser.locator(".plot svg").evaluate_all("all => all.map(svg => svg.getBoundingClientRect().right)")
    assert max(widths) <= 400
    seen.check_quiet()


def test_one_crosshair_reads_the_same_moment_everywhere(seen: Seen) -> None:
    """Whichever chart over time the pointer is on, all of them tell the figures of the same step."""
    browser = shown(seen, load_report())
    plots, moments = browser.locator(f"{TIME} .plot svg"), browser.locator(f"{TIME} .moment")
    assert plots.count() == moments.count() > 3
    for place in range(plots.count()):
        plots.nth(place).scroll_into_view_if_needed()
        plots.nth(place).hover()
        told = moments.all_inner_texts()
        assert len(set(told)) == 1, told
        assert 10 <= int(told[0].split()[0]) <= 20
    hairs = browser.locator(f"{TIME} .hair").evaluate_all(HAIRS)
    assert set(hairs) == {"visible"}
    second = int(told[0].split()[0])
    assert f"p50 {second + 1}.0 ms" in browser.locator(f"{TIME} .legend").nth(2).inner_text()
    seen.check_quiet()


def test_arrow_keys_read_values(seen: Seen) -> None:
    """A chart takes the focus, and arrows walk over its steps."""
    browser = shown(seen, load_report())
    browser.locator("#time-charts .plot svg").first.focus()
    moment = browser.locator("#time-charts .moment").first
    for _ in range(3):
        browser.keyboard.press("ArrowRight")
    assert moment.inner_text() == "2 s – 3 s"
    browser.keyboard.press("ArrowLeft")
    assert moment.inner_text() == "1 s – 2 s"
    seen.check_quiet()


def test_marks_are_lines_on_all_charts_over_time(seen: Seen) -> None:
    """The first chart over time has the names of the marks, and all such charts have their lines."""
    browser = shown(seen, load_report(marks=["deploy", "scale up"]))
    marks = browser.locator(f"{TIME} .plot svg").evaluate_all(MARKS)
    assert set(marks) == {2}
    assert browser.locator(f"{TIME} .mark-name").all_text_contents() == ["deploy", "scale up"]
    seen.check_quiet()


def test_names_of_marks_are_whole_on_a_narrow_screen(seen: Seen) -> None:
    """Each stands left or right of its line, or above another; a name that has no room is left out, not cut."""
    seen.page.set_viewport_size({"width": 400, "height": 900})
    marks = ["deploy", "scale up", "rollback", "cache cleared", "replica failover"]
    names = shown(seen, load_report(marks=marks)).locator(f"{TIME} .mark-name")
    drawn = names.all_text_contents()
    assert set(drawn) <= set(marks)
    assert {"deploy", "replica failover"} <= set(drawn)
    boxes = [box for name in names.all() if (box := name.bounding_box()) is not None]
    assert all(box["x"] >= 0 and box["x"] + box["width"] <= 400 for box in boxes)
    rows = sorted((round(box["y"]), box["x"], box["x"] + box["width"]) for box in boxes)
    assert all(row != other or end < start for (row, _, end), (other, start, _) in pairwise(rows))
    seen.check_quiet()


@pytest.mark.parametrize("kind", REPORTS)
def test_print_has_all_pictures_and_no_controls(kind: str, seen: Seen) -> None:
    """The printed page has a light ground, also if the page was dark on the screen."""
    names = [f"group/value {number}" for number in range(40)]
    report = training_report(names) if kind == "training" else REPORTS[kind]()
    browser = shown(seen, report)
    browser.evaluate("document.documentElement.dataset.theme = 'dark'")
    browser.emulate_media(media="print")
    browser.evaluate("dispatchEvent(new Event('beforeprint'))")
    browser.wait_for_function(TALL)  # charts are drawn anew for the width of the paper
    if kind == "training":
        assert browser.locator("#steps .cell").count() == 40
    for control in ("#theme", "nav", ".scale", ".tools", ".more", "select"):
        found = browser.locator(control)
        assert [found.nth(at).is_visible() for at in range(found.count())] == [False] * found.count(), control
    assert browser.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    seen.check_quiet()


def test_steps_are_smoothed_filtered_and_enlarged(seen: Seen) -> None:
    """The raw line stays behind the smooth one, the band of ranks is drawn, and hundreds of names are held back."""
    names = [f"layer/{number}/norm" for number in range(100)] + ["loss"]
    browser = shown(seen, training_report(names))
    cells = browser.locator("#steps .cell")
    assert cells.count() == 24 + 1
    browser.get_by_role("button", name="Show all 100").click()
    assert cells.count() == 101
    first = cells.first
    assert first.locator(".raw").count() == 0
    browser.get_by_role("slider").fill("0.6")
    assert (first.locator(".band").count(), first.locator(".raw").count()) == (1, 1)
    smooth = first.locator(".line:not(.raw)")
    before = smooth.get_attribute("d")
    browser.get_by_role("slider").fill("0.9")
    assert smooth.get_attribute("d") != before
    browser.get_by_role("slider").fill("0")
    assert first.locator(".raw").count() == 0
    height = first.locator("svg").evaluate("svg => svg.getBoundingClientRect().height")
    first.locator(".enlarge").click()
    assert first.locator("svg").evaluate("svg => svg.getBoundingClientRect().height") > 2 * height
    browser.get_by_role("searchbox").fill("loss")
    assert browser.locator("#steps .cell .name").all_inner_texts() == ["loss"]
    assert "first 2.03 · best 0.171 at step 1,000" in cells.first.inner_text()
    seen.check_quiet()


def test_only_rough_curves_are_smoothed_unasked(seen: Seen) -> None:
    """A schedule of the learning rate is drawn as it is; a curve with noise and many points is smoothed."""
    report = training_report(["lr", "loss"])
    lr, loss = (replace(one, low=[], high=[]) for one in report.curves)
    noise = replace(loss, values=[value + at % 2 for at, value in enumerate(loss.values) if value is not None])
    browser = shown(seen, replace(report, curves=[lr, noise]))
    cells = browser.locator("#steps .cell")
    assert [cells.nth(at).locator(".raw").count() for at in (0, 1)] == [0, 1]
    browser = shown(
        seen, replace(report, curves=[lr, replace(noise, steps=loss.steps[:50], values=noise.values[:50])])
    )
    assert browser.locator("#steps .raw").count() == 0
    assert browser.get_by_role("slider").input_value() == "0"
    seen.check_quiet()


def test_values_of_all_steps_are_read_together(seen: Seen) -> None:
    """The pointer on one curve reads the same step in all of them, with the spread between ranks."""
    browser = shown(seen, training_report())
    browser.locator("#steps .plot svg").first.hover()
    told = browser.locator("#steps .moment").all_inner_texts()
    steps = {text.partition(":")[0] for text in told}
    assert len(told) == 4
    assert len(steps) == 1
    assert " to " in told[0]
    seen.check_quiet()


def test_curves_name_their_ends_and_their_strokes(seen: Seen) -> None:
    """The first and the last step have ticks; the legend names only what is drawn."""
    report = training_report()
    browser = shown(seen, report)
    ticks = browser.locator("#steps .cell svg").first.locator(".tick[text-anchor=middle]").all_text_contents()
    assert {"10", "1,000"} <= set(ticks)
    legend = browser.locator("#steps .strokes")
    assert legend.inner_text() == "band: lowest to highest rank"
    browser.get_by_role("slider").fill("0.6")
    assert legend.inner_text() == "line: smoothed · pale: as recorded · band: lowest to highest rank"
    browser.get_by_role("slider").fill("0")
    assert legend.inner_text() == "band: lowest to highest rank"
    browser.locator("#steps .plot svg").first.hover()
    assert "(by rank " in browser.locator("#steps .moment").first.inner_text()
    chosen = browser.locator("#steps .plot svg").evaluate_all(
        "all => all.map(one => getComputedStyle(one).userSelect)"
    )
    assert set(chosen) == {"none"}
    alone = [replace(one, low=[], high=[], steps=one.steps[:9], values=one.values[:9]) for one in report.curves]
    browser = shown(seen, replace(report, curves=alone))
    assert not browser.locator("#steps .strokes").is_visible()
    seen.check_quiet()


def test_twelve_curves_have_a_filter(seen: Seen) -> None:
    """Eleven can be seen at a glance."""
    names = [f"value {number}" for number in range(12)]
    browser = shown(seen, training_report(names[:11]))
    assert browser.get_by_role("searchbox").count() == 0
    browser = shown(seen, training_report(names))
    browser.get_by_role("searchbox").fill("value 7")
    assert browser.locator("#steps .cell .name").all_inner_texts() == ["value 7"]
    seen.check_quiet()


@pytest.mark.parametrize("width", [400, 1_280])
def test_terms_are_explained_on_focus_and_under_the_pointer(width: int, seen: Seen) -> None:
    """Inside of the window, also for keys alone, and never on paper."""
    seen.page.set_viewport_size({"width": width, "height": 900})
    browser = shown(seen, llm_report())
    marks = browser.locator(".help button")
    assert marks.count() > 5
    for at in range(marks.count()):
        text = browser.locator(".help > span").nth(at)
        assert not text.is_visible()
        marks.nth(at).focus()
        assert text.is_visible()
        box = text.bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
        browser.keyboard.press("Escape")
        assert not text.is_visible()
    first = browser.locator(".chart-head .help").first
    first.get_by_role("button").hover()
    assert first.locator("span").is_visible()
    browser.emulate_media(media="print")
    assert browser.locator(".help:visible").count() == 0
    seen.check_quiet()


def test_a_gauge_is_drawn_as_steps(seen: Seen) -> None:
    """Two values are a line with a stair, not two dots."""
    report = load_report()
    pictures = report.pictures
    assert pictures is not None
    values: list[float | None] = [None, 16.0, *([None] * 10), 4.0]
    gauge = replace(pictures.gauges[0], values=[*values, *([None] * (len(pictures.gauges[0].values) - 13))])
    browser = shown(seen, replace(report, pictures=replace(pictures, gauges=[gauge])))
    cell = browser.locator("#gauges .cell")
    assert cell.locator(".dot").count() == 0
    drawn = cell.locator(".line").get_attribute("d") or ""
    spots = [spot.split(",") for spot in drawn[1:].split("L")]
    assert all(one[0] == other[0] or one[1] == other[1] for one, other in pairwise(spots))
    assert len({y for _, y in spots}) == 2
    seen.check_quiet()


@pytest.mark.parametrize("kind", REPORTS)
def test_without_scripts_there_are_no_empty_headings(kind: str, seen: Seen) -> None:
    """Tables are open, and each visible heading and link leads to something."""
    plain = seen.page.context.browser.new_context(java_script_enabled=False).new_page()  # type: ignore[union-attr]
    plain.set_content(render(REPORTS[kind](), "html"))
    sections = plain.locator("main > section:visible")
    for at in range(sections.count()):
        assert len(sections.nth(at).inner_text().splitlines()) > 1, sections.nth(at).inner_text()
    named = {f"#{sections.nth(at).get_attribute('id')}" for at in range(sections.count())}
    links = plain.locator("nav a:visible")
    assert {links.nth(at).get_attribute("href") for at in range(links.count())} == named
    if kind == "training":
        assert plain.locator("#steps details table").first.is_visible()


def test_details_are_open_on_paper_only(seen: Seen) -> None:
    """Details are closed on the screen, before and after printing."""
    browser = shown(seen, training_report())
    table = browser.locator("#steps details table").first
    assert not table.is_visible()
    browser.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert table.is_visible()
    browser.evaluate("dispatchEvent(new Event('afterprint'))")
    assert not table.is_visible()
    seen.check_quiet()


def test_a_failed_command_is_first_and_red(seen: Seen) -> None:
    """The banner of a failed command comes before the verdict, which may still be complete."""
    report = load_report()
    failed = CommandFacts(argv=["bench"], exit_code=3, wall_s=1.0)
    browser = shown(seen, replace(report, snapshot=replace(report.snapshot, command=failed)))
    banners = browser.locator(".banner")
    assert banners.first.inner_text() == "✕ Command failed: exit code 3"
    assert "bad" in (banners.first.get_attribute("class") or "")
    assert browser.locator(".bad-tile").inner_text().split() == ["exit", "code", "3"]
    seen.check_quiet()


@pytest.mark.parametrize("name", [EVIL, RTL, LONG])
def test_names_from_outside_stay_text(name: str, seen: Seen) -> None:
    """Names that look like elements, are written from right to left, or are very long change nothing but text."""
    seen.page.set_viewport_size({"width": 400, "height": 900})
    report = load_report(marks=[name])
    snapshot, pictures = report.snapshot, report.pictures
    assert pictures is not None
    series = [replace(stat, name=name, labels={name: name}) for stat in snapshot.series]
    over = [replace(one, name=name, labels={name: name}) for one in report.over_time]
    drawn = replace(
        pictures,
        counters=[replace(one, name=name, labels={name: name}) for one in pictures.counters],
        gauges=[replace(one, name=name, labels={name: name}) for one in pictures.gauges],
    )
    curves = [replace(one, name=f"{name}/{one.name}", axis=name) for one in training_report().curves]
    browser = shown(
        seen,
        replace(
            report,
            snapshot=replace(snapshot, name=name, series=series),
            over_time=over,
            pictures=drawn,
            curves=curves,
        ),
    )
    assert browser.locator("h1").inner_text() == name
    assert browser.locator("img").count() == 0
    assert browser.locator("#steps .cell").count() == 4
    assert browser.evaluate("document.documentElement.scrollWidth") <= 400
    browser.locator("#time-charts .plot svg").first.hover()
    seen.check_quiet()


def an_hour(over: SeriesOverTime, seed: int) -> list[SeriesPoint]:
    """Return a point for each minute, with values that differ from minute to minute and from seed to seed."""
    points = []
    for minute in range(60):
        point, factor = over.points[minute % len(over.points)], 1 + (seed * minute % 89) / 83
        percentiles = {key: value * factor for key, value in point.percentiles.items()}
        times = {"start_s": 60.0 * minute, "end_s": 60.0 * minute + 60.0}
        points.append(replace(point, **times, max=(point.max or 0.0) * factor, percentiles=percentiles))
    return points


def test_a_large_report_is_drawn_from_compressed_data(seen: Seen) -> None:
    """A hundred series take less than 300 KB with all their figures over time, and can be opened."""
    report = load_report()
    pictures = report.pictures
    assert pictures is not None
    stat, over = report.snapshot.series[0], report.over_time[0]
    noisy = [replace(over, labels={"route": f"/{number}"}, points=an_hour(over, number)) for number in range(100)]
    series = [replace(stat, labels=one.labels) for one in noisy]
    html = render(replace(report, snapshot=replace(report.snapshot, series=series), over_time=noisy), "html")
    assert len(html.encode()) < 300_000
    browser = seen.report(html)
    browser.get_by_role("button", name="88 more series").click()
    browser.locator(".series .open").nth(99).click()
    browser.locator(".detail .plot svg").nth(2).wait_for()
    seen.check_quiet()


def test_a_point_of_several_steps_is_read_as_their_mean(seen: Seen) -> None:
    """The last one also has the last value, which the title names."""
    report = training_report()
    (curve, *_) = report.curves
    pairs = [replace(curve, name=name, count=2 * len(curve.steps), first=9.0) for name in ("loss", "other")]
    browser = shown(seen, replace(report, curves=[*pairs, replace(curve, name="single", count=len(curve.steps))]))
    cells = browser.locator("#steps .cell")
    cells.first.locator("svg").focus()
    browser.keyboard.press("ArrowRight")
    moments = cells.locator(".moment")
    assert moments.nth(0).inner_text().startswith("steps to 10, mean 2.03")
    assert moments.nth(2).inner_text().startswith("step 10: 2.03")
    browser.keyboard.press("ArrowRight")
    assert moments.nth(0).inner_text().startswith("steps 11–20, mean ")
    for _ in range(len(curve.steps)):
        browser.keyboard.press("ArrowRight")
    assert moments.nth(0).inner_text().startswith("steps 991–1,000, mean ")
    assert moments.nth(0).inner_text().endswith(", last 0.171")
    assert moments.nth(2).inner_text().startswith("step 1,000: 0.171")
    seen.check_quiet()

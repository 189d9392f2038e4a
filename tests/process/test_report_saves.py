"""Tests of what a reader takes from the HTML report: pictures, CSV, and links to time ranges.

Tests of the page on telephones.
"""

from __future__ import annotations

import csv
import struct
from base64 import b64encode
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.process.pages import FINISHED, Seen
from tests.process.test_report_zoom import drag, final, ticks
from tests.unit.report.html.samples import llm_report, load_report, training_report

from telemetry import render

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

TIME = ":is(#over-time, #more-over-time) .plot > svg"
CHARTS = {
    "over-time": "#over-time .chart",
    "how values spread": "#more-over-time .chart:has(.heat-cell)",
    "distribution": "#distribution .chart >> nth=0",
    "percentiles": "#distribution .chart >> nth=1",
    "counters": "#counters .cell",
}
"""Kind of chart → its place on the page."""
BOXES = "all => all.map(one => one.getBoundingClientRect())"
PIXELS = """async data => {
  const image = new Image();
  image.src = data;
  await image.decode();
  const canvas = document.createElement("canvas"), context = canvas.getContext("2d");
  [canvas.width, canvas.height] = [image.width, image.height];
  context.drawImage(image, 0, 0);
  const {data: bytes} = context.getImageData(0, 0, canvas.width, canvas.height);
  const colours = new Set();
  for (let at = 0; at < bytes.length; at += 4) colours.add(bytes.slice(at, at + 3).join());
  return [bytes.slice(0, 3).join(), colours.size];
}"""


def are_apart(box: dict[str, float], other: dict[str, float]) -> bool:
    """Return whether two labels don't overlap. Lines of text may share the blank above and below their letters."""
    return (
        box["right"] <= other["left"]
        or other["right"] <= box["left"]
        or box["bottom"] <= other["top"] + 3
        or other["bottom"] <= box["top"] + 3
    )


def saved(browser: Page, chart: Locator, what: str, folder: Path, by: str = "click") -> Path:
    """Press a button of a chart, and return the file that the browser has saved."""
    button = chart.get_by_role("button", name=what)
    with browser.expect_download() as download:
        if by == "click":
            button.click()
        else:
            button.focus()
            browser.keyboard.press(by)
    path = folder / download.value.suggested_filename
    download.value.save_as(path)
    return path


def address(browser: Page) -> str:
    """Return the address as the page itself sees it, which is not behind."""
    return str(browser.evaluate("location.href"))


def rows(path: Path) -> list[list[str]]:
    with path.open(newline="") as text:
        return list(csv.reader(text))


@pytest.mark.parametrize("kind", CHARTS)
def test_every_kind_of_chart_is_saved(kind: str, seen: Seen, tmp_path: Path) -> None:
    """Every kind of chart is saved from a page that is a file, by click and by keyboard.

    A picture has twice the size, and a CSV file has the figures.
    """
    browser = seen.report(render(load_report(), "html"))
    chart = browser.locator(CHARTS[kind]).first
    picture = saved(browser, chart, "Save as a picture", tmp_path)
    head = picture.read_bytes()[:24]
    width, height = struct.unpack(">II", head[16:24])
    box = chart.locator(".plot").bounding_box()
    assert box is not None
    assert head[1:4] == b"PNG"
    assert width >= 2 * box["width"]
    assert height > 2 * box["height"]
    table = rows(saved(browser, chart, "Save the figures as CSV", tmp_path, by="Enter"))
    assert len(table) >= 5
    assert {len(row) for row in table} == {len(table[0])}
    assert all(float(cell) >= 0 for cell in table[1] if cell)
    seen.check_quiet()


def test_the_picture_is_drawn(seen: Seen, tmp_path: Path) -> None:
    """The picture has the ground of the page, in the dark too, and more than a few colours.

    The file is named after run and chart.
    """
    seen.page.emulate_media(color_scheme="dark")
    browser = seen.report(render(load_report(), "html"))
    path = saved(browser, browser.locator("#over-time .chart"), "Save as a picture", tmp_path)
    assert path.name == "load-test-Requests-per-second-failures-and-p99.png"
    blank = browser.context.new_page()  # the policy of the report forbids to look into it
    ground, colours = blank.evaluate(PIXELS, f"data:image/png;base64,{b64encode(path.read_bytes()).decode()}")
    assert ground == "18,22,28"
    assert colours > 50


def test_csv_has_the_figures_that_are_shown(seen: Seen, tmp_path: Path) -> None:
    """Lines by their names with units, of the time range; a line that is switched off is left out."""
    browser = seen.report(render(final(load_report()), "html"))
    chart = browser.locator("#more-over-time .chart", has_text="latency{route=a}: percentiles")
    whole = rows(saved(browser, chart, "Save the figures as CSV", tmp_path))
    assert whole[0] == ["start_s", "end_s", "p50 (ms)", "p90 (ms)", "p99 (ms)", "max (ms)"]
    assert len(whole) == 31
    chart.get_by_role("button", name="p90").click()
    drag(browser, browser.locator(TIME).first, 0.4, 0.7)
    part = rows(saved(browser, chart, "Save the figures as CSV", tmp_path))
    assert part[0] == ["start_s", "end_s", "p50 (ms)", "p99 (ms)", "max (ms)"]
    assert 5 < len(part) < 20
    assert [row[:3] for row in part[1:]] == [row[:3] for row in whole if row[:2] in [one[:2] for one in part[1:]]]
    seen.check_quiet()


def test_a_zoom_is_in_the_address(seen: Seen) -> None:
    """A link opens the same range; the back button goes to the range before, then to all; a section leaves it."""
    browser = seen.report(render(final(load_report()), "html"))
    plain, before = address(browser), ticks(browser, TIME)
    drag(browser, browser.locator(TIME).first, 0.4, 0.7)
    first, link = ticks(browser, TIME), address(browser)
    assert link.startswith(f"{plain}#time=")
    drag(browser, browser.locator(TIME).first, 0.4, 0.7)
    assert address(browser) != link
    browser.go_back()
    assert address(browser) == link
    assert ticks(browser, TIME) == first
    browser.locator("nav a").last.click()
    assert ticks(browser, TIME) == first
    browser.go_back()
    browser.go_back()
    assert address(browser) == plain
    assert ticks(browser, TIME) == before
    browser.go_forward()
    assert ticks(browser, TIME) == first
    other = browser.context.new_page()
    other.goto(link)
    other.locator(FINISHED).wait_for(state="attached")
    assert ticks(other, TIME) == first
    other.get_by_role("button", name="Show all").click()
    assert ticks(other, TIME) == before
    assert "time=" not in address(other)
    for wrong in ("#time=9,2", "#time=x", "#time=", "#time=900,1000", "#%", "#other=1,2"):
        other.goto(plain + wrong)
        assert ticks(other, TIME) == before
    seen.check_quiet()


def test_steps_have_a_range_of_their_own_in_the_address(seen: Seen) -> None:
    """The address has a range of steps under the name of the axis, beside the range of time.

    Charts of steps name the axis.
    """
    browser = seen.report(render(final(training_report()), "html"))
    steps = "#steps .plot > svg"
    assert browser.locator(f"{steps} .word").first.text_content() == "step"
    drag(browser, browser.locator(steps).nth(1), 0.4, 0.7)
    drag(browser, browser.locator(TIME).first, 0.4, 0.7)
    assert "#time=" in address(browser)
    assert "&steps.train=" in address(browser)
    shown, link = ticks(browser, steps), address(browser)
    other = browser.context.new_page()
    other.goto(link)
    other.locator(FINISHED).wait_for(state="attached")
    assert ticks(other, steps) == shown
    seen.check_quiet()


@pytest.mark.parametrize("table", ["#series-table table", "#requests table:has-text('p99')"])
def test_a_telephone_has_names_and_p99_in_view(table: str, seen: Seen) -> None:
    """The name stays while the table is scrolled, p99 stands beside it; a wide screen has the usual order."""
    seen.page.set_viewport_size({"width": 400, "height": 900})
    browser = seen.report(render(llm_report(), "html"))
    shown = browser.locator(table).first
    texts = shown.locator("thead th").all_text_contents()
    assert texts[1] == "p99"
    name, row = shown.locator("tbody tr > :first-child").first, shown.locator("tbody tr").first
    beside = row.locator("td, th").nth(1)
    before, number = name.bounding_box(), beside.bounding_box()
    assert before is not None
    assert number is not None
    assert number["x"] + number["width"] <= 400
    shown.evaluate("table => { table.parentElement.scrollLeft = 200; }")
    after = name.bounding_box()
    assert after is not None
    assert abs(after["x"] - before["x"]) < 2
    value = beside.inner_text().split()[0]
    seen.page.set_viewport_size({"width": 1_280, "height": 900})
    shown.locator("thead th:nth-child(2):not(:text-is('p99'))").wait_for()  # the page hears of its width later
    wide = shown.locator("thead th").all_text_contents()
    assert sorted(wide) == sorted(texts)
    assert row.locator("td, th").nth(wide.index("p99")).inner_text().split()[0] == value
    seen.check_quiet()


def test_labels_of_axes_do_not_overlap(seen: Seen) -> None:
    """Labels of axes do not overlap on a telephone, in charts of all kinds, zoomed or not."""
    seen.page.set_viewport_size({"width": 400, "height": 900})
    for report in (load_report(), llm_report(), training_report()):
        browser = seen.report(render(report, "html"))
        for _ in range(2):
            plots = browser.locator(".plot > svg:visible")
            for at in range(plots.count()):
                boxes = plots.nth(at).locator(".tick").evaluate_all(BOXES)
                overlapping = [pair for pair in combinations(boxes, 2) if not are_apart(*pair)]
                assert overlapping == [], at
            drag(browser, plots.first, 0.4, 0.7)
    seen.check_quiet()
